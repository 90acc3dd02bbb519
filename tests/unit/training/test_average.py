"""A model and what tuning made of it become one."""

from __future__ import annotations

import pytest

from tests.unit.training.students import make_batches, make_student, torch

training = pytest.importorskip("training.average")


def test_layers_and_tokens_have_shares_of_their_own() -> None:
    model, tuned = make_student(), make_student()
    with torch.no_grad():
        for weight in tuned.parameters():
            weight.add_(1.0)
    training.average(model, tuned, (0.25, 0.75), make_batches())
    for name, weight in model.named_parameters():
        moved = dict(tuned.named_parameters())[name] - weight
        share = 0.75 if name == "tokens.weight" else 0.25
        assert torch.allclose(moved, torch.full_like(moved, share), atol=1e-5), name


def test_no_share_is_the_model_with_new_ranges() -> None:
    model, tuned, batches = make_student(), make_student(), make_batches()
    with torch.no_grad():
        before = torch.cat([model(*batch) for batch in batches])
        for weight in tuned.parameters():
            weight.add_(1.0)
        training.average(model, tuned, (0, 0), batches)
        after = torch.cat([tuned(*batch) for batch in batches])
    assert tuned.quantised
    assert (before * after).sum(1).min() > 0.99
