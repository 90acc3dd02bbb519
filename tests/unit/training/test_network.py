"""The network on a processor: its own attention and rounding are those of PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.training.students import network, torch


def gradients(values: list[Any], result: Any) -> list[Any]:
    (result * torch.linspace(0, 1, result.numel()).view_as(result)).sum().backward()
    found = [value.grad for value in values]
    for value in values:
        value.grad = None
    return found


def test_attention_is_that_of_pytorch() -> None:
    torch.manual_seed(1)
    query, key, value = (torch.randn(3, 2, 5, 4, requires_grad=True) for _ in range(3))
    mask = torch.ones(3, 1, 1, 5, dtype=torch.bool)
    mask[1, ..., 3:] = False
    own = network.attend(query, key, value, mask)
    theirs = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    assert torch.allclose(own, theirs, atol=1e-6)
    sides = [gradients([query, key, value], result) for result in (own, theirs)]
    for one, other in zip(*sides, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("levels", [63, 127])
def test_rounded_rows_are_those_of_pytorch(levels: int) -> None:
    torch.manual_seed(1)
    rows = torch.randn(6, 9, requires_grad=True)
    own = network.quantise_rows(rows, levels)
    scale = rows.detach().abs().amax(-1) / levels
    theirs = torch.fake_quantize_per_channel_affine(
        rows, scale, torch.zeros(6, dtype=torch.int32), 0, -levels, levels
    )
    assert torch.allclose(own, theirs, atol=1e-6)
    assert torch.equal(*(gradients([rows], result)[0] for result in (own, theirs)))


def test_inputs_outside_of_their_range_are_cut_and_do_not_learn() -> None:
    values = torch.tensor([-9.0, 0.3, 9.0], requires_grad=True)
    matrix = network.QuantisedLinear(3, 1)
    matrix.low.fill_(-1)
    matrix.high.fill_(2)
    matrix.weight.data.fill_(1)
    matrix.bias.data.zero_()
    matrix.quantised = True
    result = matrix(values)
    assert float(result.detach()) == pytest.approx(-1 + 0.3 + 2, abs=0.02)
    result.sum().backward()
    assert values.grad.tolist() == [0, 1, 0]
