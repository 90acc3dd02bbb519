"""New ranges and factors for the inputs of a model, without training."""

from __future__ import annotations

import pytest

from tests.unit.training.students import make_batches, make_student, network, torch

training = pytest.importorskip("training.calibrate")


def test_factors_make_the_channels_of_inputs_even() -> None:

    student, batches = make_student(), make_batches()
    with torch.no_grad():
        before = torch.cat([student(*batch) for batch in batches])
        training.calibrate(student, batches)
        student.quantise()
        after = torch.cat([student(*batch) for batch in batches])
    assert student.layers[0].qkv.factor.argmin() == 3
    assert (before * after).sum(1).min() > 0.99


def test_calibrating_twice_gives_the_same_model() -> None:

    student, batches = make_student(), make_batches()
    states = []
    for _ in range(2):
        torch.manual_seed(1)
        training.calibrate(student, batches)
        states.append({name: value.clone() for name, value in student.state_dict().items()})
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_texts_become_batches_of_about_equal_lengths() -> None:
    short, long = training.mark_tokens("cats"), training.mark_tokens("a cat sleeps")
    ((tokens, mask),) = training.batch_tokens(["a cat sleeps", "cats"])
    padding = [network.PAD] * (len(long) - len(short))
    assert tokens.tolist() == [short + padding, long]
    assert mask.sum(1).tolist() == [len(short), len(long)]
