"""A model and what tuning made of it become one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.training.students import make_batches, make_student, torch

training, calibrate, lines = (
    pytest.importorskip(f"training.{name}", reason="torch or zstandard is not installed")
    for name in ("average", "calibrate", "lines")
)


def test_layers_and_tokens_have_shares_of_their_own() -> None:
    model, tuned = make_student(), make_student()
    with torch.no_grad():
        for weight in tuned.parameters():
            weight.add_(1.0)
    is_english = torch.arange(len(model.tokens.weight)) < 10
    training.average(model, tuned, (0.25, 0.5, 0.75), is_english, make_batches())
    for name, weight in model.named_parameters():
        moved = dict(tuned.named_parameters())[name] - weight
        shares = torch.full_like(moved, 0.25)
        if name == "tokens.weight":
            shares[:10], shares[10:] = 0.5, 0.75
        assert torch.allclose(moved, shares, atol=1e-5), name


def test_a_token_is_english_if_more_of_english_text_is_that_token(tmp_path: Path) -> None:
    lines.write_lines(
        tmp_path / "mono.txt.xz", [("a", "en", "the rent"), ("a", "fr", "loyer")] * 50
    )
    lines.write_lines(tmp_path / "parallel.txt.xz", [("a", "fr", "rent", "le loyer")] * 50)
    lines.write_lines(tmp_path / "synthetic.txt.xz", [("a", "de", "rent", "die miete")] * 50)
    is_english = training.find_english(tmp_path, 57_000)
    (the, rent), (le, *_) = (calibrate.mark_tokens(text)[1:-1] for text in ("the rent", "le"))
    assert is_english[[the, rent, le]].tolist() == [True, True, False]


def test_no_share_is_the_model_with_new_ranges() -> None:
    model, tuned, batches = make_student(), make_student(), make_batches()
    with torch.no_grad():
        before = torch.cat([model(*batch) for batch in batches])
        for weight in tuned.parameters():
            weight.add_(1.0)
        training.average(
            model,
            tuned,
            (0, 0, 0),
            torch.zeros(len(model.tokens.weight), dtype=torch.bool),
            batches,
        )
        after = torch.cat([tuned(*batch) for batch in batches])
    assert tuned.quantised
    assert (before * after).sum(1).min() > 0.99
