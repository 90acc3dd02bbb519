"""Training without a GPU: what is learnt, in which batches, and what is exported."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memwell.embed.onnx_embedder import open_session
from tests.unit.training.students import make_batches, make_student, torch

calibrate, evaluate, export, finetune, lines = (
    pytest.importorskip(f"training.{name}", reason="torch or zstandard is not installed")
    for name in ("calibrate", "evaluate", "export", "finetune", "lines")
)


def unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def make_tuner() -> Any:
    """Return a tuner of a small student: 256 texts, the second half of which are translations.

    The targets are the student's own vectors, turned.
    """
    student = make_student()
    calibrate.calibrate(student, make_batches())
    student.quantise()
    student.train()
    random = np.random.default_rng(1)
    texts = finetune.Texts()
    for number in range(256):
        tokens = [2, *random.integers(4, 60, random.integers(1, 12)).tolist(), 3]
        texts.tokens.append(tokens if number < 128 else [*texts.tokens[number - 128][:-1], 5, 3])
        texts.targets.append(number % 128)
        texts.translated.append(number >= 128)
    tuner = finetune.Tuner(student, texts, np.zeros((128, 24), dtype=np.float32))
    with torch.no_grad():
        own = torch.cat([tuner.vectors(np.array([number])).float() for number in range(128)])
    turn = np.linalg.qr(random.normal(size=(24, 24)))[0].astype(np.float32)
    tuner.targets = own @ torch.from_numpy(turn)
    return tuner


def test_a_text_is_cut_to_some_of_its_sentences() -> None:
    text = "One two three. Four five six. Seven eight nine."
    cuts = {finetune.cut_text(text, random.Random(seed)) for seed in range(40)}
    assert text in cuts
    assert "Seven eight nine." in cuts
    assert all(cut in text for cut in cuts)


def test_a_translation_learns_its_english_and_other_text_what_it_is(tmp_path: Path) -> None:
    written = {
        "mono": [
            ("handbook", "en", "Pay the rent."),
            ("handbook", "fr", "Payer le loyer."),
            ("handbook", "zh", "我每天都唱歌。"),
        ],
        "parallel": [("tatoeba", "ja", "Pay the rent.", "家賃を払う。")],
        "dictionaries": [("ding", "de", "rent", "Miete")],
        "synthetic": [("synthetic", "fr", "I sing.", "Je chante.")],
    }
    for name, rows in written.items():
        lines.write_lines(tmp_path / f"{name}.txt.xz", rows)
    texts = finetune.choose_texts(tmp_path, random.Random(1), 1.0, finetune.MIXES["learn"])
    teachers = list(texts.teachers)
    learnt = {
        (tuple(tokens), teachers[target], translated)
        for tokens, target, translated in zip(
            texts.tokens, texts.targets, texts.translated, strict=True
        )
    }
    by_chance = {
        (tuple(calibrate.mark_tokens("Miete")), "rent", True),
        (tuple(calibrate.mark_tokens("I sing.")), "I sing.", False),
    }
    assert learnt - by_chance == {
        (tuple(calibrate.mark_tokens(text)), teacher, text != teacher)
        for text, teacher in (
            ("家賃を払う。", "Pay the rent."),
            ("Je chante.", "I sing."),
            ("Pay the rent.", "Pay the rent."),
            ("我每天都唱歌。", "我每天都唱歌。"),
        )
    }


def test_words_of_dictionaries_are_no_english_sentences() -> None:
    texts = finetune.Texts()
    texts.add("家賃を払う。", "Pay the rent.", english=True)
    texts.add("Miete", "rent", english=False)
    texts.add("Pay the rent.", "Pay the rent.", english=True)
    assert texts.teachers == {"Pay the rent.": 0, "rent": 1}
    assert [*texts.english] == [0]
    assert texts.translated == [True, True, False]


def test_a_second_teacher_is_turned_into_the_space_of_the_first() -> None:
    random = np.random.default_rng(1)
    own = unit(random.normal(size=(200, 8)))
    turn = np.linalg.qr(random.normal(size=(8, 8)))[0]
    others = own @ turn + 0.5  # the same vectors, but turned and moved
    read = np.arange(100)
    targets = finetune.add_second(own, read, others[read], 0.8)
    assert (targets * own).sum(1).min() > 0.98
    assert np.allclose(finetune.add_second(own, read, others[read], 0), own)
    foreign = unit(random.normal(size=(100, 8)))
    targets = finetune.add_second(own, read, foreign, 0.8)
    assert (targets * own).sum(1)[read].mean() < 0.95, "an own opinion of the second is heard"


def test_texts_are_embedded_in_their_order() -> None:
    student = make_student()
    tokens = [[2, *range(4, 4 + length), 3] for length in (7, 1, 4)]
    vectors = finetune.embed(student, tokens)
    for row, vector in zip(tokens, vectors, strict=True):
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            alone = student(*finetune.pad([row]))[0]
        assert float((alone * torch.from_numpy(vector)).sum()) > 0.99


def test_batches_have_each_text_once_and_few_tokens() -> None:
    tuner = make_tuner()
    batches = tuner.batches(np.arange(256), 60, np.random.default_rng(1))
    assert sorted(np.concatenate(batches)) == list(range(256))
    for batch in batches:
        assert len(set(tuner.translated[batch])) == 1
        assert len(batch) * tuner.lengths[batch].max() <= 60


def test_all_layers_learn_and_the_same_seed_gives_the_same() -> None:
    texts = np.arange(256)
    weights = []
    for _ in range(2):
        tuner = make_tuner()
        before = {name: value.clone() for name, value in tuner.student.state_dict().items()}
        start = tuner.nearness(texts)
        for seed in range(5):
            for _ in tuner.train(texts, 300, (1e-2, 1e-2), seed):
                pass
        weights.append(tuner.student.state_dict())
        assert tuner.nearness(texts) > start + 0.1
        changed = {name for name in before if not torch.equal(before[name], weights[-1][name])}
        assert {"tokens.weight", "rotation.weight"} < changed
        assert {name.split(".")[1] for name in changed if "layers" in name} == {"0", "1"}
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_the_export_is_the_student(tmp_path: Path) -> None:
    student = make_tuner().student.eval()
    student.centre.copy_(0.1 * torch.randn(24))
    evaluate.save_student(student, tmp_path)
    weights = export.pack_weights(evaluate.load_student(tmp_path / "student.pt"))
    (tmp_path / "model.onnx").write_bytes(export.build_model(weights))
    text = "Zebra"
    tokens = torch.tensor([calibrate.mark_tokens(text)]) % 60
    mask = torch.ones_like(tokens, dtype=torch.bool)
    session = open_session(str(tmp_path / "model.onnx"))
    exported = session.run(None, {"tokens": tokens.numpy()})[0][0]
    with torch.no_grad():
        whole = student(tokens, mask)
        again = evaluate.load_exported(tmp_path / "model.onnx")(tokens, mask)
    for vector in (again, torch.tensor(unit(exported))):
        assert float((whole * vector).sum()) > 0.995
