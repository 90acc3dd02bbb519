"""A small student learns from two small teachers, and the same seed gives the same student."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.training.students import make_batches, make_student, torch

calibrate, distil, export, lines, network, teachers = (
    pytest.importorskip(f"training.{name}", reason="torch or zstandard is not installed")
    for name in ("calibrate", "distil", "export", "lines", "network", "teachers")
)
WORDS = [f"w{number}" for number in range(56)]


def make_teacher(seed: int) -> Any:
    torch.manual_seed(seed)
    shape = network.Shape(60, layers=1, width=96, heads=12, inner=96, positions=512)
    return network.Encoder(shape, averaged=True).requires_grad_(False).eval()


def make_teachers(granite: None, minilm: None, device: Any) -> Any:
    """Return two teachers of random weights, which read the student's tokens."""
    both = teachers.Teachers.__new__(teachers.Teachers)
    both.device = device
    both.all = tuple(
        teachers.Teacher(make_teacher(seed), make_tokenizer(), 2, 3, 0, weight)
        for seed, weight in ((2, 1.0), (3, 0.7))
    )
    return both


def make_tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {word: number for number, word in enumerate(["P", "U", "B", "E", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="U"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Write the packed text: random words, and "translations" with every word moved by one."""
    random = np.random.default_rng(1)

    def say(length: int = 6) -> list[int]:
        return [int(number) for number in random.integers(0, 56, length)]

    def write(numbers: list[int], by: int = 0) -> str:
        return " ".join(WORDS[(number + by) % 56] for number in numbers)

    said = [say() for _ in range(60)]
    translated: list[tuple[str, ...]] = [
        ("tatoeba", "de", write(numbers), write(numbers, 1)) for numbers in said
    ]
    written: dict[str, list[tuple[str, ...]]] = {
        "mono": [("science", "en", write(say(20))) for _ in range(60)],
        "english": [("terms", "en", write(say())) for _ in range(20)],
        "pairs": [("selqa", "en", write(numbers[:3]), write(numbers)) for numbers in said],
        "parallel": translated,
        "dictionaries": [("ding", *line[1:]) for line in translated[:9]],
        "synthetic": [("synthetic", *line[1:]) for line in translated[:9]],
    }
    for name, rows in written.items():
        lines.write_lines(tmp_path / f"{name}.txt.xz", rows)
    make_tokenizer().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "pieces.json").write_text("{}")
    return tmp_path


def test_a_student_comes_nearer_to_its_teachers(
    text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    student = make_student(positions=512)
    calibrate.calibrate(student, make_batches())
    student.centre.copy_(0.01 * torch.randn(24))
    (text / "model.onnx").write_bytes(export.build_model(export.pack_weights(student)))
    monkeypatch.setattr(distil, "Teachers", make_teachers)
    monkeypatch.setattr(teachers, "WIDTH", 24)
    losses, saved = [], []
    for out in ("first", "again"):
        arguments = argparse.Namespace(
            text=text,
            teacher=None,
            minilm=None,
            start=text / "model.onnx",
            out=text / out,
            steps=100,
            budget=512,
            english=3.0,
            rate=1e-2,
            rate_tokens=5e-2,
            quantise=0.5,
            share=1.0,
            fitted=4,
            seed=1,
        )
        trainer = distil.Trainer(arguments)
        trainer.read()
        trainer.begin()
        batch = next(trainer.stream(trainer.english, 512, 0.3))
        target = trainer.teach(trainer.english, *batch)
        for _ in range(2):
            with torch.no_grad():
                vectors = trainer.learn(trainer.english.student, *batch)
                losses.append(float(trainer.distance(vectors, target)))
            if len(losses) % 2:
                trainer.train()
                trainer.save()
        saved.append(torch.load(text / out / "student.pt", weights_only=True)["state"])
    assert losses[1] < 0.8 * losses[0]
    assert losses[2:] == losses[:2]
    assert all(torch.equal(saved[0][name], saved[1][name]) for name in saved[0])
    assert float(saved[0]["layers.0.qkv.high"]) > 0, "it was trained as whole numbers"
