"""The training text as tokens, and random pieces of it as batches.

Texts are cut into segments: sentences of a document, or lines of a translation. The segments of a
text follow each other in one flat array of tokens, so that several of them together are one slice
of it. A batch takes slices of random lengths, and hardly any text is seen twice.
"""

from __future__ import annotations

import multiprocessing
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

LONGEST = 480
"""Tokens of the longest slice."""
STEP = 16
"""Lengths are rounded up to this many tokens: few shapes, which the device computes faster."""
_SENTENCE_ANYWHERE = re.compile(r"(?<=[。！？])|(?<=[.!?])\s+|\n+")
_SHORTEST_CLOZE, _SHORTEST_REST = 8, 40
_CHUNK = 32_768
_TEXTS_A_JOB = 20_000
_job: tuple[Tokenizer, Sequence[str]]
"""What the processes of `encode` work on; they inherit it."""
os.environ["TOKENIZERS_PARALLELISM"] = "false"  # Processes are, and threads would not survive them.


def separate_sentence(text: str) -> tuple[str, str] | None:
    """Return a sentence from the middle of a text, and the rest; nothing if the text is short."""
    parts = [part for part in _SENTENCE_ANYWHERE.split(text) if part and part.strip()]
    if len(parts) < 3:
        return None
    middle = max(range(1, len(parts) - 1), key=lambda number: len(parts[number]))
    rest = " ".join(part.strip() for part in (*parts[:middle], *parts[middle + 1 :]))
    sentence = parts[middle].strip()
    long_enough = len(sentence) >= _SHORTEST_CLOZE and len(rest) >= _SHORTEST_REST
    return (sentence, rest) if long_enough else None


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[Any, Any]:
    """Return the tokens of all texts in one array, where each begins, and where the last ends."""
    global _job
    tokenizer.no_padding()
    tokenizer.no_truncation()
    _job = (tokenizer, texts)
    with multiprocessing.get_context("fork").Pool() as pool:
        parts = pool.map(_encode_part, range(0, len(texts), _TEXTS_A_JOB), chunksize=1)
    starts = np.concatenate(([0], np.cumsum(np.concatenate([lengths for _, lengths in parts]))))
    return np.concatenate([tokens for tokens, _ in parts]), starts.astype(np.int64)


def _encode_part(start: int) -> tuple[Any, Any]:
    tokenizer, texts = _job
    batch = tokenizer.encode_batch_fast(
        texts[start : start + _TEXTS_A_JOB], add_special_tokens=False
    )
    found = [np.array(encoding.ids[:LONGEST], dtype=np.int32) for encoding in batch]
    return np.concatenate(found), np.array([len(tokens) for tokens in found])


@dataclass
class Tokens:
    """All tokens of a kind of text on the device."""

    tokens: Tensor
    starts: Any
    """Where each segment begins, on the host."""
    begin: int
    end: int
    pad: int

    @classmethod
    def place(
        cls, device: torch.device, encoded: tuple[Any, Any], begin: int, end: int, pad: int
    ) -> Tokens:
        """Move what `encode` returned to the device."""
        return cls(torch.from_numpy(encoded[0]).to(device), encoded[1], begin, end, pad)

    def take(self, first: Any, last: Any, limit: int = 510) -> tuple[Tensor, Tensor]:
        """Return the tokens from segment `first` to before `last`, padded, and their mask."""
        device = self.tokens.device
        start = self.starts[first]
        length = np.minimum(self.starts[last] - start, limit)
        starts = torch.from_numpy(start).to(device, non_blocking=True)[:, None]
        lengths = torch.from_numpy(length).to(device, non_blocking=True)[:, None]
        place = torch.arange(-(-(int(length.max()) + 2) // STEP) * STEP, device=device)[None]
        index = (starts + place - 1).clamp(0, len(self.tokens) - 1)
        tokens = self.tokens[index].long()
        tokens = torch.where(place == 0, self.begin, tokens)
        tokens = torch.where(place == lengths + 1, self.end, tokens)
        mask = place <= lengths + 1
        return torch.where(mask, tokens, self.pad), mask


def slices(
    starts: Any, ends: Any, random: np.random.Generator, single: float, weights: Any = None
) -> Iterator[tuple[Any, Any]]:
    """Yield slices without end, a chunk at a time: the first segment, and the one after the last.

    `ends` is, for each segment, the segment after its text. A share of `single` of the slices is
    one segment. The others have between 8 and LONGEST tokens, with as many short ones as long
    ones. With `weights`, a segment begins a slice as often as its weight says.
    """
    count = len(starts) - 1
    while True:
        if weights is None:
            order = random.permutation(count)
        else:
            order = random.choice(count, count, p=weights / weights.sum())
        for at in range(0, count, _CHUNK):
            first = order[at : at + _CHUNK]
            wanted = np.exp(random.uniform(np.log(8), np.log(LONGEST), len(first)))
            wanted[random.random(len(first)) < single] = 0
            last = np.searchsorted(starts, starts[first] + wanted, side="right") - 1
            yield first, np.minimum(np.maximum(last, first + 1), ends[first])


def batches(
    chunks: Iterator[tuple[Any, Any]],
    sides: Sequence[Any],
    budget: int,
    random: np.random.Generator,
    groups: Any = None,
) -> Iterator[tuple[Any, Any]]:
    """Yield slices of about equal lengths, together at most `budget` tokens with their padding.

    The length of a slice is that of its longest side: the text, and its translation or its answer.
    With `groups`, the first segments of a batch are all of one group.
    """
    for first, last in chunks:
        longest = np.max([starts[last] - starts[first] for starts in sides], axis=0)
        size = -(-(longest + 2) // STEP) * STEP
        group = np.zeros_like(first) if groups is None else groups[first]
        order = np.lexsort((size, group))
        first, last, size, group = first[order], last[order], size[order], group[order]
        cuts, at = [], 0
        while at < len(first):
            same = int(np.searchsorted(group, group[at], side="right"))
            end = min(same, at + max(1, budget // int(size[at])))
            while end > at + 1 and (end - at) * int(size[end - 1]) > budget:
                end = at + max(1, budget // int(size[end - 1]))
            if end - at > 1:
                cuts.append((at, end))
            at = end
        for number in random.permutation(len(cuts)):
            start, end = cuts[number]
            yield first[start:end], last[start:end]
