"""The model of memwell[minilm]: the fused graph gives the vectors of the packaged one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from memwell.embed import minilm
from memwell.embed.minilm import WINDOW, MiniLM
from memwell.embed.onnx_format import MICROSOFT, Graph, read_weights
from memwell.embed.wordpiece import UNCASED
from memwell.errors import ProviderUnavailable
from tests.conftest import EXAMPLES

TEXTS = [
    "The cat is named Miso.",
    "a",
    "Cats, dogs & 3.5 hamsters; naïve café — ERR_NGX_502",
    *(file.read_text(encoding="utf-8") for file in sorted(EXAMPLES.glob("garden/*.md"))),
]


@pytest.fixture(scope="module")
def model() -> MiniLM:
    return MiniLM()


def test_the_fused_graph_gives_the_vectors_of_the_packaged_one(model: MiniLM) -> None:
    packaged = onnxruntime.InferenceSession(
        minilm._packaged_model(), providers=["CPUExecutionProvider"]
    )
    for text in TEXTS:
        begin, end = UNCASED.marks
        pieces = np.array([[begin, *UNCASED.encode(text)[:WINDOW], end]])
        inputs = {
            "input_ids": pieces,
            "attention_mask": pieces * 0 + 1,
            "token_type_ids": pieces * 0,
        }
        states = packaged.run(None, inputs)[0][0].mean(axis=0)
        expected = states / np.linalg.norm(states)
        np.testing.assert_allclose(model.embed_query(text)[0], expected, atol=1e-5)


def test_a_vector_does_not_depend_on_what_is_embedded_beside_it(model: MiniLM) -> None:
    together = model.embed_documents(TEXTS)
    for text, rows in zip(TEXTS, together, strict=True):
        np.testing.assert_array_equal(model.embed_documents([text])[0], rows)


def test_a_long_text_is_read_to_its_end(model: MiniLM) -> None:
    words = "river boat salmon road wheel motor " * 200
    pieces = len(UNCASED.encode(words))
    (rows,) = model.embed_documents([words])
    stride = WINDOW - WINDOW // 4
    assert len(rows) == -(-(pieces - WINDOW) // stride) + 1
    (with_end,) = model.embed_documents([words + " an elephant"])
    assert not np.allclose(rows[-1], with_end[-1])


def test_it_says_nothing_of_what_it_does_not_understand(model: MiniLM) -> None:
    chinese = "下午的会议改到三点，地点换到七楼的小会议室。"
    tokens = UNCASED.encode(chinese)
    unknown = tokens.count(UNCASED.unknown) / len(tokens)
    assert unknown > 0.2
    assert model.embed_query(chinese).shape == (0, 384)
    assert model.embed_query("the word 会议 is Chinese for meeting").shape == (1, 384)
    assert [rows.shape for rows in model.embed_documents([chinese, "", "a cat"])] == [
        (0, 384),
        (0, 384),
        (1, 384),
    ]


def test_the_file_is_made_once_and_used_again(tmp_path: Path) -> None:
    first = MiniLM(tmp_path / "models").embed_query("a cat")
    (file,) = (tmp_path / "models").iterdir()
    made = file.stat().st_mtime_ns
    np.testing.assert_array_equal(MiniLM(tmp_path / "models").embed_query("a cat"), first)
    assert file.stat().st_mtime_ns == made
    assert oct(file.stat().st_mode)[-3:] == "600"


def test_another_model_than_the_packaged_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "SHA256", "0" * 64)
    with pytest.raises(ProviderUnavailable, match="its digest is not the expected one"):
        MiniLM().embed_query("a cat")


def test_a_graph_that_was_written_runs_and_reads_back() -> None:
    graph = Graph()
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    looked_up = graph.node("Gather", graph.constant(table), "which")
    bias = graph.constant(np.array([1, 2, 3], dtype=np.float32))
    model = graph.model(
        ("which", 7, (1, "length")), graph.node("BiasGelu", looked_up, bias, domain=MICROSOFT)
    )
    assert [values.tolist() for values in read_weights(model).values()] == [
        table.tolist(),
        [1, 2, 3],
    ]
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (given,) = session.run(None, {"which": np.array([[3, 1]])})
    # Far from zero, Gelu leaves a number as it is.
    np.testing.assert_allclose(
        given[0], [[9 + 1, 10 + 2, 11 + 3], [3 + 1, 4 + 2, 5 + 3]], rtol=1e-3
    )
