"""Small students and texts for the tests of training; they need torch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
network = pytest.importorskip("training.network")
torch.set_num_threads(1)  # sums of two threads may differ in their last bit from run to run


def make_student(positions: int = 16) -> Any:
    """Return a small student, one of whose channels reaches ten times as far as the others."""
    torch.manual_seed(1)
    shape = network.Shape(60, layers=2, width=24, heads=12, inner=48, positions=positions)
    student = network.Encoder(shape, rotated=True).eval()
    with torch.no_grad():
        student.norm.weight[3] = 10
    return student


def make_batches() -> list[Any]:
    """Return texts of random tokens, a few at a time, with their masks."""
    tokens = torch.randint(4, 60, (8, 16, 12))
    return [(batch, torch.ones_like(batch, dtype=torch.bool)) for batch in tokens]
