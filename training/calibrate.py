"""Give an exported model new ranges and factors for its inputs, without training.

``python -m training.calibrate --model model.onnx --text FOLDER --out FOLDER`` writes `student.pt`,
which `training.export` takes. The weights are rounded again, because they undo the factors.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor
from training.evaluate import load_exported, save_student
from training.lines import read_lines
from training.network import BEGIN, END, PAD, Encoder

from memwell.embed.wordpiece import MULTILINGUAL

_TEXTS = 400
"""Texts that the ranges of inputs are read from, of each kind."""
_WINDOW, _BATCH = 200, 20


def read_batches(folder: Path) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield texts of about equal lengths, English and others, with their masks."""
    english = [line[2] for line in read_lines(folder / "mono.txt.xz") if line[1] == "en"]
    foreign = [line[3] for line in read_lines(folder / "parallel.txt.xz")]
    texts = [text for kind in (english, foreign) for text in kind[:: len(kind) // _TEXTS][:_TEXTS]]
    return batch_tokens(texts)


def mark_tokens(text: str) -> list[int]:
    """Return the tokens of the beginning of a text, between the two that mark it."""
    return [BEGIN, *MULTILINGUAL.encode(text)[:_WINDOW], END]


def batch_tokens(texts: Iterable[str]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the tokens of texts of about equal lengths, padded, with their masks."""
    tokens = sorted(map(mark_tokens, texts), key=len)
    for at in range(0, len(tokens), _BATCH):
        rows = tokens[at : at + _BATCH]
        batch = torch.full((len(rows), len(rows[-1])), PAD)
        for number, row in enumerate(rows):
            batch[number, : len(row)] = torch.tensor(row)
        yield batch, batch != PAD


@torch.no_grad()
def calibrate(student: Encoder, batches: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """Read the ranges of a student's inputs anew from some texts; return the states of these."""
    student.quantise(False)
    student.watch_ranges(True)
    states = torch.cat([student.state(*batch) for batch in batches])
    student.watch_ranges(False)
    return states


def main() -> None:
    """Write the calibrated student."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="model.onnx")
    parser.add_argument("--text", type=Path, required=True, help="the packed text")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    student = load_exported(arguments.model)
    calibrate(student, read_batches(arguments.text))
    save_student(student, arguments.out)


if __name__ == "__main__":
    main()
