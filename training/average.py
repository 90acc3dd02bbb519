"""Average a model with what `training.distil` made of it: it forgets less of what it knew.

``python -m training.average --model model.onnx --student run/student.pt --text packed --out mean``
writes `student.pt`, which `training.export` takes. Words of other languages are mostly in the token
embeddings, and English is mostly in the layers, so each has a share of its own. So have tokens that
English texts use more than others do. The ranges of inputs are read anew; nothing is trained.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor
from training.calibrate import calibrate, mark_tokens, read_batches
from training.evaluate import load, save_student
from training.lines import SYNTHETIC, read_lines
from training.network import Encoder

SHARES = 0.85, 0.65, 1.0
"""The shares of the tuned student, in layers, English tokens and other tokens."""
_COUNTED = 0.3, 0.1
"""The shares of English and other texts whose tokens are counted."""


def average(
    model: Encoder,
    tuned: Encoder,
    shares: tuple[float, float, float],
    is_english: Tensor,
    texts: Iterable[tuple[Tensor, Tensor]],
) -> Encoder:
    """Return the mean of two students, to whose parts the second adds its shares."""
    layers, *tokens = shares
    of_tokens = torch.where(is_english, *tokens)[:, None]
    weights = dict(model.named_parameters())
    with torch.no_grad():
        for name, weight in tuned.named_parameters():
            share = of_tokens if name == "tokens.weight" else layers
            weight.copy_(weights[name] + share * (weight - weights[name]))
    calibrate(tuned, texts)
    tuned.quantise()
    return tuned


def find_english(folder: Path, tokens: int) -> Tensor:
    """Return which tokens have a larger share of English texts than of translations."""
    chance = random.Random(1)
    mono = (line[2] for line in read_lines(folder / "mono.txt.xz") if line[1] == "en")
    files = (folder / f"{kind}.txt.xz" for kind in (SYNTHETIC, "parallel"))
    foreign = (line[3] for file in files for line in read_lines(file))
    counts = torch.zeros(2, tokens)
    for side, share, texts in zip(counts, _COUNTED, (mono, foreign), strict=True):
        for text in texts:
            if chance.random() < share:
                side += torch.bincount(torch.tensor(mark_tokens(text)), minlength=tokens)
    english, others = counts / counts.sum(1, keepdim=True)
    return english > others


def main() -> None:
    """Write the average of a model and a student."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="model.onnx")
    parser.add_argument("--student", type=Path, required=True, help="student.pt or model.onnx")
    parser.add_argument("--shares", type=float, nargs=3, default=SHARES, help="of the student")
    parser.add_argument("--text", type=Path, required=True, help="the packed text")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    model, tuned = load(arguments.model), load(arguments.student)
    is_english = find_english(arguments.text, len(model.tokens.weight))
    texts = read_batches(arguments.text)
    save_student(average(model, tuned, arguments.shares, is_english, texts), arguments.out)


if __name__ == "__main__":
    main()
