"""What the teachers say, in the space of a student."""

from __future__ import annotations

import pytest

from tests.unit.training.students import torch

teachers = pytest.importorskip("training.teachers", reason="torch or tokenizers is not installed")


def test_targets_turn_to_the_vectors_of_a_student() -> None:
    torch.manual_seed(1)
    one = teachers.Teachers.__new__(teachers.Teachers)
    one.basis = torch.linalg.qr(torch.randn(32, 16))[0]
    both = torch.randn(200, 32)
    targets = torch.nn.functional.normalize(both @ one.basis, dim=1)
    turn = torch.linalg.qr(torch.randn(16, 16))[0]
    vectors = torch.nn.functional.normalize(targets @ turn + 0.05 * torch.randn(200, 16), dim=1)
    cosine = one.turn(targets, vectors)
    turned = torch.nn.functional.normalize(both @ one.basis, dim=1)
    assert cosine == pytest.approx(float((turned * vectors).sum(1).mean()), abs=1e-5)
    assert cosine > 0.97 > float((targets * vectors).sum(1).mean())
