"""Average two students that began with the same teacher, layers and tokens.

``python -m training.average --first model.onnx --second model.onnx --text FOLDER --out FOLDER``
writes `student.pt`, which `training.export` takes. The weights of both are averaged, and the
inner products of both spaces are added. Ranges of inputs are read anew; nothing is trained.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor
from training.corpus import read_lines
from training.evaluate import load_exported
from training.network import BEGIN, END, PAD, Encoder

_TEXTS = 400
"""Texts that the ranges of inputs are read from, of each kind."""
_WINDOW, _BATCH = 200, 20
_COMMON = 0.8
"""The share of the mean state that is taken away before the last matrix."""


def read_batches(folder: Path) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield texts of about equal lengths, English and others, with their masks."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(_WINDOW)
    english = [line[2] for line in read_lines(folder / "mono.txt.xz") if line[1] == "en"]
    foreign = [line[3] for line in read_lines(folder / "parallel.txt.xz")]
    texts = [text for kind in (english, foreign) for text in kind[:: len(kind) // _TEXTS][:_TEXTS]]
    tokens = sorted(([BEGIN, *tokenizer.encode(text).ids, END] for text in texts), key=len)
    for at in range(0, len(tokens), _BATCH):
        rows = tokens[at : at + _BATCH]
        batch = torch.full((len(rows), len(rows[-1])), PAD)
        for number, row in enumerate(rows):
            batch[number, : len(row)] = torch.tensor(row)
        yield batch, batch != PAD


@torch.no_grad()
def average(
    first: Encoder, second: Encoder, share: float, batches: Iterator[tuple[Tensor, Tensor]]
) -> Encoder:
    """Return the mean of two students, to which the second adds its share."""
    shares = (1 - share, share)
    rotations = [student.rotation.weight.clone() for student in (first, second)]
    weights, others = first.state_dict(), second.state_dict()
    second.load_state_dict(
        {name: shares[0] * weights[name] + shares[1] * others[name] for name in weights}
    )
    second.quantise(False)
    second.watch_ranges(True)
    states = torch.cat([second.state(*batch) for batch in batches])
    second.watch_ranges(False)
    vectors = [states @ rotation.T for rotation in rotations]
    spreads = [(v - v.mean(0)).norm(dim=1).mean() for v in vectors]
    both = torch.cat(
        [
            part**0.5 * rotation / spread
            for part, rotation, spread in zip(shares, rotations, spreads, strict=True)
        ]
    )
    _, strength, directions = torch.linalg.svd(both, full_matrices=False)
    second.rotation.weight.copy_(strength[:, None] * directions)
    second.layers[-1].norm2.bias.sub_(_COMMON * states.mean(0))
    return second


def main() -> None:
    """Write the average of two exported models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=Path, required=True)
    parser.add_argument("--second", type=Path, required=True)
    parser.add_argument("--share", type=float, default=0.5, help="of the second")
    parser.add_argument("--text", type=Path, required=True, help="the packed text")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    students = (load_exported(file) for file in (arguments.first, arguments.second))
    student = average(*students, arguments.share, read_batches(arguments.text))
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.save({"state": student.state_dict()}, arguments.out / "student.pt")


if __name__ == "__main__":
    main()
