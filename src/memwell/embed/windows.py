"""Windows: what one vector covers of a text that is longer than its model reads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

from memwell.token_estimate import count_tokens

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

T = TypeVar("T", bound=Sequence[object])

_REPEATED = 4
"""One part in four of a window is in the next one too, so that no sentence is cut in both."""


def windows(items: T, length: int) -> list[T]:
    """Cut a sequence into windows of at most `length`, each repeating the end of the one before."""
    stride = length - length // _REPEATED
    starts = range(0, max(1, len(items) - length + stride), stride)
    return [items[start : start + length] for start in starts]  # type: ignore[misc]


def text_windows(text: str, tokens: int) -> list[str]:
    """Cut a text into windows of about `tokens`, for a model whose tokenizer is not at hand."""
    estimate = count_tokens(text)
    if estimate <= tokens:
        return [text]
    return windows(text, max(1, len(text) * tokens // estimate))


def split_rows(rows: Matrix, counts: Sequence[int]) -> list[Matrix]:
    """Divide the vectors of many windows among the texts that they are of."""
    ends = accumulate(counts)
    return [rows[end - count : end] for end, count in zip(ends, counts, strict=True)]
