"""Average two students that began with the same teacher, layers and tokens.

``python -m training.average --first model.onnx --second model.onnx --text FOLDER --out FOLDER``
writes `student.pt`, which `training.export` takes. The weights of both are averaged, and the
inner products of both spaces are added. Ranges of inputs are read anew; nothing is trained.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor
from training.calibrate import calibrate, read_batches
from training.evaluate import load_exported, save_student
from training.network import Encoder

_COMMON = 0.8
"""The share of the mean state that is taken away before the last matrix."""


@torch.no_grad()
def average(
    first: Encoder, second: Encoder, share: float, batches: Iterable[tuple[Tensor, Tensor]]
) -> Encoder:
    """Return the mean of two students, to which the second adds its share."""
    shares = (1 - share, share)
    rotations = [student.rotation.weight.clone() for student in (first, second)]
    weights, others = first.state_dict(), second.state_dict()
    second.load_state_dict(
        {name: shares[0] * weights[name] + shares[1] * others[name] for name in weights}
    )
    states = calibrate(second, batches)
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
    student.centre.zero_()  # the export finds another one
    save_student(student, arguments.out)


if __name__ == "__main__":
    main()
