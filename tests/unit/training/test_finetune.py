"""Training of the last layer: its targets, what it changes, and what is exported."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.training.students import make_batches, make_student, torch

calibrate, evaluate, export, finetune = (
    pytest.importorskip(f"training.{name}", reason="torch or zstandard is not installed")
    for name in ("calibrate", "evaluate", "export", "finetune")
)


def unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def make_tuner() -> Any:
    """Return a tuner of a small student: 256 texts, the second half of which are translations."""

    student, batches = make_student(), make_batches()
    calibrate.calibrate(student, batches)
    student.quantise()
    half = torch.randn(128, 12, 24)
    states = list(torch.cat([half, half + 0.1 * torch.randn_like(half)]))
    targets = torch.nn.functional.normalize(half[:, 0] @ torch.randn(24, 24), dim=1)
    return finetune.Tuner(student, states, torch.cat([targets, targets]), np.arange(256) < 128)


def test_a_text_is_cut_to_some_of_its_sentences() -> None:
    text = "One two three. Four five six. Seven eight nine."
    cuts = {finetune.cut_text(text, random.Random(seed)) for seed in range(40)}
    assert text in cuts
    assert "Seven eight nine." in cuts
    assert all(cut in text for cut in cuts)


def test_targets_are_near_the_own_vectors_and_have_the_similarities_of_both() -> None:
    chance = np.random.default_rng(1)
    own, other = (
        unit(chance.normal(size=(400, 8)) @ chance.normal(size=(8, 24))).astype(np.float32)
        for _ in range(2)
    )
    other[:50] = 0
    targets = finetune.join_teachers(own, other, 0.5)
    np.testing.assert_array_equal(targets[:50], own[:50])
    np.testing.assert_allclose(np.linalg.norm(targets, axis=1), 1, atol=1e-5)
    turned = targets[50:] @ np.linalg.qr(chance.normal(size=(24, 24)))[0]
    nearness = [float((near * own[50:]).sum(1).mean()) for near in (targets[50:], turned)]
    assert nearness[0] > 0.8 > nearness[1]
    similarities = [(v[50:] @ v[50:].T)[np.triu_indices(350, 1)] for v in (own, other, targets)]
    agreement = np.corrcoef(similarities)
    assert agreement[0, 1] < 0.1 < agreement[1, 2] < agreement[0, 2]


def test_only_the_last_layer_learns_and_the_same_seed_gives_the_same() -> None:
    texts = np.arange(256)
    weights = []
    for _ in range(2):
        tuner = make_tuner()
        before = {name: value.clone() for name, value in tuner.student.state_dict().items()}
        start = tuner.nearness(texts)
        losses = [loss for _, loss in tuner.train(texts, 5, 1e-2, 1)]
        weights.append(tuner.student.state_dict())
        assert losses[-1] < losses[0]
        assert tuner.nearness(texts) > start + 0.05
        changed = {name for name in before if not torch.equal(before[name], weights[-1][name])}
        assert {name.split(".")[0] for name in changed} == {"layers", "rotation"}
        assert {name.split(".")[1] for name in changed if "layers" in name} == {"1"}
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_the_export_is_the_student_and_so_are_its_parts(tmp_path: Path) -> None:
    student = make_tuner().student
    student.centre.copy_(0.1 * torch.randn(24))
    evaluate.save_student(student, tmp_path)
    weights = export.pack_weights(evaluate.load_student(tmp_path / "student.pt"))
    (tmp_path / "model.onnx").write_bytes(export.build_model(weights))
    tokens = torch.tensor([[2, 7, 8, 9, 3]])
    mask = torch.ones_like(tokens, dtype=torch.bool)
    (lower,) = finetune.embed(export.build_lower_layers(weights), tokens.tolist())
    with torch.no_grad():
        whole = student(tokens, mask)
        last = student.layers[-1](torch.tensor(lower)[None], mask[:, None, None], first=True)
        in_parts = student.vector(last[:, 0])
        again = evaluate.load_exported(tmp_path / "model.onnx")(tokens, mask)
    (exported,) = finetune.embed(str(tmp_path / "model.onnx"), tokens.tolist())
    for vector in (in_parts, again, torch.tensor(unit(exported))):
        assert float((whole * vector).sum()) > 0.995
