"""Average a model with what `training.finetune` made of it: it forgets less of what it knew.

``python -m training.average --model model.onnx --student run/student.pt --text packed --out mean``
writes `student.pt`, which `training.export` takes. Words of other languages are mostly in the token
embeddings, and English is mostly in the layers, so each has a share of its own. The ranges of
inputs are read anew; nothing is trained.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor
from training.calibrate import calibrate, read_batches
from training.evaluate import load_exported, load_student, save_student
from training.network import Encoder

LAYERS, TOKENS = 0.3, 0.7
"""The shares of the tuned student. docs/model.md compares others."""


def average(
    model: Encoder,
    tuned: Encoder,
    shares: tuple[float, float],
    texts: Iterable[tuple[Tensor, Tensor]],
) -> Encoder:
    """Return the mean of two students, to whose layers and tokens the second adds its shares."""
    weights = dict(model.named_parameters())
    with torch.no_grad():
        for name, weight in tuned.named_parameters():
            weight.lerp_(weights[name], 1 - shares[name == "tokens.weight"])
    calibrate(tuned, texts)
    tuned.quantise()
    return tuned


def main() -> None:
    """Write the average of a model and a student."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="model.onnx")
    parser.add_argument("--student", type=Path, required=True, help="student.pt")
    parser.add_argument("--layers", type=float, default=LAYERS, help="the student's share of them")
    parser.add_argument("--tokens", type=float, default=TOKENS, help="the student's share of them")
    parser.add_argument("--text", type=Path, required=True, help="the packed text")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    students = load_exported(arguments.model), load_student(arguments.student)
    shares = arguments.layers, arguments.tokens
    save_student(average(*students, shares, read_batches(arguments.text)), arguments.out)


if __name__ == "__main__":
    main()
