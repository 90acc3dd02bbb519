"""The default model: its vectors, the languages that it reads, and the arithmetic behind them."""

from __future__ import annotations

from functools import cache
from math import erf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memwell.embed import multilingual
from memwell.embed.multilingual import WINDOW, Multilingual, readable_tokens
from memwell.embed.onnx_format import read_weights
from memwell.embed.wordpiece import MULTILINGUAL
from memwell.errors import ProviderUnavailable
from tests.conftest import EXAMPLES

TEXTS = [
    "The cat is named Miso.",
    "a",
    "Cats, dogs & 3.5 hamsters; naïve café — ERR_NGX_502",
    "下午的会议改到三点，地点换到七楼的小会议室。",
    "Der Zug nach Hamburg fährt um halb neun von Gleis vier ab.",
    *(file.read_text(encoding="utf-8") for file in sorted(EXAMPLES.glob("garden/*.md"))),
]
HEADS = 12


@pytest.fixture(scope="module")
def model() -> Multilingual:
    return Multilingual()


def test_a_vector_does_not_depend_on_what_is_embedded_beside_it(model: Multilingual) -> None:
    together = model.embed_documents(TEXTS)
    for text, rows in zip(TEXTS, together, strict=True):
        np.testing.assert_array_equal(model.embed_documents([text])[0], rows)
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)


def test_a_long_text_is_read_to_its_end(model: Multilingual) -> None:
    words = "river boat salmon road wheel motor " * 300
    tokens = len(MULTILINGUAL.encode(words))
    (rows,) = model.embed_documents([words])
    stride = WINDOW - WINDOW // 4
    assert len(rows) == -(-(tokens - WINDOW) // stride) + 1
    (with_end,) = model.embed_documents([words + " an elephant"])
    assert not np.allclose(rows[-1], with_end[-1])


@pytest.mark.parametrize(
    "text",
    [
        "Who feeds the cat while we are away?",
        "Wer füttert die Katze, während wir verreist sind?",
        "¿Quién da de comer al gato mientras estamos fuera?",
        "Кто кормит кота, пока нас нет дома?",
        "我们不在家的时候谁来喂猫？",
        "留守の間、誰が猫に餌をやりますか。",
        "우리가 없는 동안 누가 고양이에게 밥을 주나요?",
        "C++ vs Go",
        "fzf",
        "the word שלום is Hebrew for peace, and it is also a greeting",
    ],
)
def test_it_reads_the_languages_that_it_was_trained_on(model: Multilingual, text: str) -> None:
    assert model.embed_query(text).shape == (1, 384)


@pytest.mark.parametrize(
    "text",
    [
        "הילדים משחקים כדורגל במגרש כל יום אחרי בית הספר",
        "เด็กๆ เล่นฟุตบอลในสนามทุกวันหลังเลิกเรียน",
        "குழந்தைகள் தினமும் பள்ளிக்குப் பிறகு கால்பந்து விளையாடுகிறார்கள்",
        "ბავშვები ყოველდღე თამაშობენ ფეხბურთს სკოლის შემდეგ",
        "Երեխաներն ամեն օր դպրոցից հետո ֆուտբոլ են խաղում",
        "Хүүхдүүд өдөр бүр хичээлийн дараа талбай дээр хөл бөмбөг тоглодог",
    ],
)
def test_it_is_silent_in_languages_that_it_does_not_know(model: Multilingual, text: str) -> None:
    assert model.embed_query(text).shape == (0, 384)
    assert [rows.shape for rows in model.embed_documents([text, "", "a cat"])] == [
        (0, 384),
        (0, 384),
        (1, 384),
    ]


def test_a_damaged_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multilingual, "SHA256", "0" * 64)
    with pytest.raises(ProviderUnavailable, match="its digest is not the expected one"):
        Multilingual().embed_query("a cat")


# -- the same arithmetic in NumPy -----------------------------------------------------------------


@cache
def weights() -> dict[str, Any]:
    folder = Path(multilingual.__file__).parent
    return read_weights((folder / "data/model.onnx").read_bytes())


def multiply_saturating(inputs: Any, matrix: Any) -> Any:
    """Multiply as processors without VNNI do: the sum of two products is cut to 16 bits."""
    products = inputs.astype(np.int32)[:, :, None] * matrix.astype(np.int32)[None]
    pairs = products[:, 0::2] + products[:, 1::2]
    return np.clip(pairs, -32_768, 32_767).sum(axis=1)


def dense(values: Any, name: str, source: str = "") -> Any:
    known, source = weights(), source or name
    scale, zero = (known[f"{source}.{part}"].item() for part in ("scale", "zero"))
    even = values * known.get(f"{source}.factor", 1)
    whole = np.clip(np.rint(even / scale) + zero, 0, 255)
    matrix = known[f"{name}.q"]
    total = multiply_saturating(whole, matrix) - zero * matrix.sum(axis=0, dtype=np.int32)
    return total * (scale * known[f"{name}.s"]) + known[f"{name}.bias"]


def normalise(values: Any, name: str) -> Any:
    centred = values - values.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
    return centred / deviation * weights()[f"{name}.weight"] + weights()[f"{name}.bias"]


def attend(values: Any, layer: str) -> Any:
    query, key, value = (
        dense(values, f"{layer}.{kind}", f"{layer}.qkv")
        .reshape(len(values), HEADS, -1)
        .transpose(1, 0, 2)
        for kind in ("query", "key", "value")
    )
    scores = query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1])
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return (shares @ value).transpose(1, 0, 2).reshape(values.shape)


def vector_by_numpy(text: str) -> Any:
    known = weights()
    begin, end = MULTILINGUAL.marks
    tokens = [begin, *readable_tokens(text)[:WINDOW], end]
    rows = known["tokens.q"][tokens] * known["tokens.s"][tokens]
    state = normalise(rows + known["positions"][: len(tokens)], "norm")
    layers = {name.split(".")[1] for name in known if name.startswith("layers.")}
    for layer in (f"layers.{number}" for number in range(len(layers))):
        state = normalise(state + dense(attend(state, layer), f"{layer}.out"), f"{layer}.norm1")
        inner = dense(state, f"{layer}.up")
        inner = inner * 0.5 * (1 + np.vectorize(erf)(inner / np.sqrt(2)))
        state = normalise(state + dense(inner, f"{layer}.down"), f"{layer}.norm2")
    vector = state[0] @ known["rotation"]
    centred = vector / np.linalg.norm(vector) - known["centre"]
    return centred / np.linalg.norm(centred)


def test_processors_that_saturate_give_the_same_vectors(model: Multilingual) -> None:
    """An input on the edge between two whole numbers falls to either side, so none is exact."""
    cosines = [float(model.embed_query(text)[0] @ vector_by_numpy(text)) for text in TEXTS[:5]]
    assert np.mean(cosines) >= 0.999
    assert min(cosines) >= 0.99


def test_no_sum_of_two_products_can_saturate() -> None:
    for name, values in weights().items():
        if name.endswith(".q") and name != "tokens.q":
            assert 255 * 2 * int(np.abs(values.astype(int)).max()) < 2**15, name
