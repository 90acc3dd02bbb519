"""The remote providers over real HTTP: their requests, and the vectors in the answers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from memwell.config.settings import SETTINGS
from memwell.embed.base import Embedder
from memwell.embed.gemini import Gemini
from memwell.embed.openai import OpenAI
from memwell.embed.windows import text_windows
from memwell.errors import ProviderUnavailable, WrongAnswer
from tests.support.remote_embedders import (
    DIMENSIONS,
    GEMINI_KIND,
    KEY,
    OPENAI_KIND,
    Kind,
    fails,
    same,
)
from tests.support.servers import (
    Handler,
    Request,
    Server,
    altered,
    answered,
    raw,
    unit,
    vector,
    well,
)


def test_what_openai_is_sent(server: Server) -> None:
    # https://platform.openai.com/docs/api-reference/embeddings/create
    # (also https://developers.openai.com/api/reference/resources/embeddings)
    OPENAI_KIND.at(server.url).embed_documents(["a", "bb"])
    (request,) = server.requests
    assert request.path == "/v1/embeddings"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert request.body == {
        "model": "text-embedding-3-small",
        "input": ["a", "bb"],
        "encoding_format": "base64",
        "dimensions": 4,
    }


def test_what_gemini_is_sent(server: Server) -> None:
    # https://ai.google.dev/api/embeddings#method:-models.batchembedcontents
    # The key: https://ai.google.dev/gemini-api/docs/api-key
    gemini = GEMINI_KIND.at(server.url)
    gemini.embed_documents(["a", "bb"])
    gemini.embed_query("ccc")
    documents, query = server.requests
    assert documents.path == "/v1/models/gemini-embedding-001:batchEmbedContents"
    assert documents.headers["x-goog-api-key"] == KEY
    assert documents.headers["content-type"] == "application/json"
    assert "authorization" not in documents.headers
    assert documents.body == {
        "requests": [
            {
                "model": "models/gemini-embedding-001",
                "content": {"parts": [{"text": text}]},
                "taskType": "RETRIEVAL_DOCUMENT",
                "outputDimensionality": 4,
            }
            for text in ("a", "bb")
        ]
    }
    assert [request["taskType"] for request in query.body["requests"]] == ["RETRIEVAL_QUERY"]


def test_only_models_that_document_it_are_asked_for_dimensions(server: Server) -> None:
    OpenAI(model="nomic-embed-text", base_url=server.url, dimensions=4).embed_query("a")
    (request,) = server.requests
    assert request.body == {
        "model": "nomic-embed-text",
        "input": ["a"],
        "encoding_format": "base64",
    }


def test_a_local_server_does_not_need_a_key(server: Server, kind: Kind) -> None:
    kind.at(server.url, key="").embed_query("a")
    (request,) = server.requests
    assert not {"authorization", "x-goog-api-key"} & {*request.headers}


def test_vectors_are_normalised_and_in_order(server: Server, kind: Kind) -> None:
    provider: Embedder = kind.at(server.url)
    first, second = provider.embed_documents(["one", "second"])
    assert same(first, [[0, 3 / math.sqrt(10), 0, -1 / math.sqrt(10)]])
    assert same(second, [[0, 6 / math.sqrt(37), 0, -1 / math.sqrt(37)]])
    assert same(provider.embed_query("ab"), [[0, 2 / math.sqrt(5), 0, -1 / math.sqrt(5)]])


def test_openai_in_decimals_is_understood(server: Server) -> None:
    def decimals(handler: Handler, request: Request) -> None:
        request.body["encoding_format"] = "float"
        well(handler, request)

    server.usually = decimals
    assert same(OPENAI_KIND.at(server.url).embed_query("ab"), [unit("ab")])


def test_openai_out_of_order_is_sorted(server: Server) -> None:
    def shuffled(handler: Handler, request: Request) -> None:
        answer = json.loads(answered(request, [vector(text) for text in request.texts]))
        answer["data"] = [answer["data"][at] for at in (2, 0, 1)]
        handler.answer(200, json.dumps(answer).encode())

    server.usually = shuffled
    rows = OPENAI_KIND.at(server.url).embed_documents(["a", "bb", "ccc"])
    assert same(np.concatenate(rows), [unit("a"), unit("bb"), unit("ccc")])


@pytest.mark.parametrize("indexes", [(0, 0), (0, 2), (1, 2), (0, None), (0, "1"), (0, True)])
def test_openai_numbered_wrongly_is_a_wrong_answer(
    server: Server, indexes: tuple[Any, Any]
) -> None:
    def misnumbered(handler: Handler, request: Request) -> None:
        answer = json.loads(answered(request, [vector(text) for text in request.texts]))
        for entry, index in zip(answer["data"], indexes, strict=True):
            entry["index"] = index
        handler.answer(200, json.dumps(answer).encode())

    server.usually = misnumbered
    fails(OPENAI_KIND.at(server.url), WrongAnswer, "numbered")


def test_blank_texts_are_not_sent(server: Server, kind: Kind) -> None:
    provider = kind.at(server.url)
    rows = provider.embed_documents(["", "a", " \n\t", "bb"])
    assert [len(matrix) for matrix in rows] == [0, 1, 0, 1]
    assert server.asked == [["a", "bb"]]
    assert provider.embed_query(" ").shape == (0, DIMENSIONS)
    assert [matrix.shape for matrix in provider.embed_documents(["", " "])] == [(0, DIMENSIONS)] * 2
    assert provider.embed_documents([]) == []
    assert len(server.requests) == 1


def test_a_long_text_has_a_row_for_each_window(server: Server, kind: Kind) -> None:
    provider = kind.at(server.url)
    long = "x" * (4 * provider.window * 2)
    windows = text_windows(long, provider.window)
    rows = provider.embed_documents(["a", long, "bb"])
    assert [len(matrix) for matrix in rows] == [1, len(windows), 1]
    assert len(windows) > 1
    assert server.asked == [["a", *windows, "bb"]]
    assert same(rows[1], [unit(window) for window in windows])
    assert same(provider.embed_query(long), [unit(windows[0])])


def test_gemini_takes_a_hundred_texts_a_request(server: Server) -> None:
    # "at most 100 requests can be in one batch": https://github.com/geldata/gel/issues/9032
    assert Gemini.limits.texts == 100
    texts = ["x" * size for size in range(1, 251)]
    rows = GEMINI_KIND.at(server.url).embed_documents(texts)
    assert [len(asked) for asked in server.asked] == [100, 100, 50]
    assert same(np.concatenate(rows), [unit(text) for text in texts])


def test_a_fingerprint_names_what_changes_a_vector(kind: Kind) -> None:
    here, there = kind.at("http://127.0.0.1:1/v1"), kind.at("http://127.0.0.1:2/v1", key="other")
    assert here.fingerprint == there.fingerprint
    assert here.fingerprint == f"{here.name} {here.model} 4 windows of {here.window}"
    assert here.fingerprint != kind.at("http://127.0.0.1:1/v1", dimensions=5).fingerprint
    other = kind.provider(base_url="http://127.0.0.1:1", model="other", dimensions=4)
    assert here.fingerprint != other.fingerprint
    assert here.remote


def test_a_batch_of_full_size_is_understood_whole(server: Server, kind: Kind) -> None:
    provider = kind.at(server.url, dimensions=768)
    server.usually = altered(
        lambda vectors: [[float(at + 1)] * 768 for at, _ in enumerate(vectors)]
    )
    rows = np.concatenate(provider.embed_documents(["a"] * 256))
    assert np.allclose(rows, 1 / math.sqrt(768))


@pytest.mark.parametrize(
    "answer",
    [None, [], {}, "x", 1, {"data": None, "embeddings": None}, {"data": [1], "embeddings": [1]}],
)
def test_json_of_another_shape_is_a_wrong_answer(
    server: Server, kind: Kind, answer: object
) -> None:
    server.usually = raw(json.dumps(answer).encode())
    fails(kind.at(server.url), WrongAnswer)


def test_other_dimensions_are_unavailable(server: Server, kind: Kind) -> None:
    server.usually = altered(lambda vectors: [[1.0] * 7 for _ in vectors])
    fails(
        kind.at(server.url),
        ProviderUnavailable,
        "7 numbers, not of 4",
        f"{kind.section}.dimensions to 7",
    )


def first(value: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda vectors: [value, *vectors[1:]]


@pytest.mark.parametrize(
    "change",
    [
        first([math.nan, 1.0, 1.0, 1.0]),
        first([math.inf, 1.0, 1.0, 1.0]),
        first([-math.inf, 1.0, 1.0, 1.0]),
        first([0.0, 0.0, 0.0, 0.0]),
        first([None, 1.0, 1.0, 1.0]),
        first(["1", "1", "1", "1"]),
        first([True, True, True, True]),
        first([10**400, 1, 1, 1]),
        first(None),
        first("not base64"),
        first("AAAA"),
        first({"0": 1.0}),
        first([]),
        first([1.0]),
        lambda vectors: vectors[1:],
        lambda vectors: [*vectors, vectors[0]],
        lambda vectors: [],
    ],
)
def test_an_invalid_vector_is_a_wrong_answer(
    server: Server, kind: Kind, change: Callable[[list[Any]], list[Any]]
) -> None:
    server.usually = altered(change)
    fails(kind.at(server.url), WrongAnswer, server.url.split("/")[2])


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_a_vector_of_any_length_is_made_a_unit(server: Server, size: float) -> None:
    server.usually = altered(lambda vectors: [[3 * size, 0.0, 4 * size, 0.0] for _ in vectors])
    assert same(GEMINI_KIND.at(server.url).embed_query("a"), [[3 / 5, 0, 4 / 5, 0]])


def test_the_settings_hold_the_defaults(kind: Kind) -> None:
    defaults = {
        setting.name.removeprefix(f"{kind.section}."): setting.default
        for setting in SETTINGS
        if setting.name.startswith(f"{kind.section}.")
    }
    provider = kind.provider(**{**defaults, "key": KEY})
    assert provider.model == kind.model
    assert defaults["base_url"] == provider.vendor.address
