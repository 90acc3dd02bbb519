"""The remote providers over real HTTP, against servers of our own that can be told to misbehave."""

from __future__ import annotations

import base64
import json
import math
import random
import shutil
import socket
import ssl
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from memwell.embed.base import Embedder
from memwell.embed.batch import PROBE_TEXT, RefusedText, RetryPolicy, embed_batch
from memwell.embed.gemini import Gemini
from memwell.embed.openai import OpenAI
from memwell.embed.windows import text_windows
from memwell.errors import (
    BatchRefused,
    EmbeddingError,
    ProviderFailing,
    ProviderUnavailable,
    WrongAnswer,
)
from memwell.net.client import JsonClient
from memwell.net.responses import SettingNames
from tests.support.servers import (
    Act,
    Handler,
    Request,
    Server,
    altered,
    answered,
    cut_short,
    dripping,
    hung_up,
    raw,
    serving,
    silent,
    status,
    unit,
    unless,
    vector,
    well,
    without_proxies,
)

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

KEY = "sk-not-for-anybodys-eyes-7Q"
PRIVATE = "a note that is nobody's business"
DIMENSIONS = 4


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as started:
        yield started


@pytest.fixture
def elsewhere() -> Iterator[Server]:
    """Another host, which must see no key."""
    with serving() as started:
        yield started


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    without_proxies(monkeypatch)


Make = Callable[..., OpenAI | Gemini]


@dataclass(frozen=True)
class Kind:
    """A provider under test."""

    make: Make
    section: str
    variable: str

    def at(
        self, url: str, key: str = KEY, dimensions: int = DIMENSIONS, timeout: float = 5.0
    ) -> Any:
        return self.make(base_url=url, key=key, dimensions=dimensions, timeout=timeout)


KINDS = [
    Kind(OpenAI, "embedding.openai", "OPENAI_API_KEY"),
    Kind(Gemini, "embedding.gemini", "GEMINI_API_KEY"),
]


@pytest.fixture(params=KINDS, ids=["openai", "gemini"])
def kind(request: pytest.FixtureRequest) -> Kind:
    found = request.param
    assert isinstance(found, Kind)
    return found


def fails(provider: Embedder, expected: type[EmbeddingError], *says: str) -> EmbeddingError:
    """What a provider raises, which says what it should and gives no key away."""
    with pytest.raises(expected) as caught:
        provider.embed_documents([PRIVATE, "bb"])
    assert PRIVATE not in repr(caught.value)
    assert type(caught.value) in (expected, WrongAnswer)
    for words in says:
        assert words in str(caught.value)
    assert_keeps_the_key(caught.value)
    return caught.value


def assert_keeps_the_key(error: BaseException) -> None:
    lines = traceback.TracebackException.from_exception(error, capture_locals=True).format()
    for text in (str(error), repr(error), "".join(lines), *map(str, vars(error).values())):
        assert KEY not in text
        assert KEY[3:] not in text


@dataclass
class Naps:
    """A sleep that takes no time."""

    slept: list[float] = field(default_factory=list)

    def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


def same(matrix: Matrix, rows: list[list[float]]) -> bool:
    assert matrix.dtype == np.float32
    return matrix.shape == (len(rows), DIMENSIONS) and np.allclose(matrix, rows, atol=1e-6)


# What is sent, and what comes of a right answer.


def test_what_openai_is_sent(server: Server) -> None:
    # https://platform.openai.com/docs/api-reference/embeddings/create
    # (also https://developers.openai.com/api/reference/resources/embeddings)
    OpenAI(key=KEY, base_url=server.url, dimensions=DIMENSIONS).embed_documents(["a", "bb"])
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
    gemini = Gemini(key=KEY, base_url=server.url, dimensions=DIMENSIONS)
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
    assert [each["taskType"] for each in query.body["requests"]] == ["RETRIEVAL_QUERY"]


def test_only_models_that_document_it_are_asked_for_dimensions(server: Server) -> None:
    OpenAI(model="nomic-embed-text", base_url=server.url, dimensions=4).embed_query("a")
    (request,) = server.requests
    assert request.body == {
        "model": "nomic-embed-text",
        "input": ["a"],
        "encoding_format": "base64",
    }


def test_a_server_of_ones_own_needs_no_key(server: Server, kind: Kind) -> None:
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
    assert same(KINDS[0].at(server.url).embed_query("ab"), [unit("ab")])


def test_openai_out_of_order_is_sorted(server: Server) -> None:
    def shuffled(handler: Handler, request: Request) -> None:
        answer = json.loads(answered(request, [vector(text) for text in request.texts]))
        answer["data"] = [answer["data"][at] for at in (2, 0, 1)]
        handler.answer(200, json.dumps(answer).encode())

    server.usually = shuffled
    rows = KINDS[0].at(server.url).embed_documents(["a", "bb", "ccc"])
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
    fails(KINDS[0].at(server.url), WrongAnswer, "numbered")


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
    rows = KINDS[1].at(server.url).embed_documents(texts)
    assert [len(asked) for asked in server.asked] == [100, 100, 50]
    assert same(np.concatenate(rows), [unit(text) for text in texts])


def test_a_fingerprint_names_what_changes_a_vector(kind: Kind) -> None:
    here, there = kind.at("http://127.0.0.1:1/v1"), kind.at("http://127.0.0.1:2/v1", key="other")
    assert here.fingerprint == there.fingerprint
    assert here.fingerprint == f"{here.name} {here.model} 4 windows of {here.window}"
    assert here.fingerprint != kind.at("http://127.0.0.1:1/v1", dimensions=5).fingerprint
    other = kind.make(base_url="http://127.0.0.1:1", model="other", dimensions=4)
    assert here.fingerprint != other.fingerprint
    assert here.remote


def test_a_batch_of_full_size_is_understood_whole(server: Server, kind: Kind) -> None:
    provider = kind.at(server.url, dimensions=768)
    server.usually = altered(
        lambda vectors: [[float(at + 1)] * 768 for at, _ in enumerate(vectors)]
    )
    rows = np.concatenate(provider.embed_documents(["a"] * 256))
    assert np.allclose(rows, 1 / math.sqrt(768))


# Keys and addresses.


def test_the_vendor_demands_a_key(kind: Kind) -> None:
    with pytest.raises(ProviderUnavailable, match=f"{kind.variable} or {kind.section}.key"):
        kind.make()
    kind.make(key=KEY)


def test_a_provider_does_not_show_its_key(server: Server, kind: Kind) -> None:
    provider = kind.at(server.url)
    provider.embed_query("a")
    seen = [provider, vars(provider), *vars(provider).values()]
    seen += [vars(part) for part in vars(provider).values() if hasattr(part, "__dict__")]
    assert provider.model in repr(provider)
    assert not [shown for shown in map(repr, seen) if KEY in shown]


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY} x", f"{KEY}é", f"\x00{KEY}"])
def test_a_key_that_cannot_be_one_is_refused_unseen(kind: Kind, key: str) -> None:
    with pytest.raises(ProviderUnavailable, match=kind.variable) as caught:
        kind.at("http://127.0.0.1:1/v1", key=key)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("url", [f"https://user:{KEY}@host/v1", f"https://{KEY}@host/v1"])
def test_a_password_in_the_address_is_refused_unseen(kind: Kind, url: str) -> None:
    with pytest.raises(ProviderUnavailable, match=f"{kind.section}.key") as caught:
        kind.make(base_url=url)
    assert KEY not in str(caught.value)
    assert "user:" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host/v1",
        "ftp://host",
        "https://",
        "http://h:x/",
        "http://h:99999",
        "http://[::1/v1",
        "http://h/v1?key=x",
        "http://h/v1#x",
        "http://h/v 1",
        "http://h/\r\nv1",
        "http://hé/v1",
    ],
)
def test_what_is_no_address_is_refused(kind: Kind, url: str) -> None:
    with pytest.raises(ProviderUnavailable, match=f"{kind.section}.base_url"):
        kind.make(base_url=url, key=KEY)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_takes_no_key_elsewhere(
    server: Server, elsewhere: Server, kind: Kind, code: int
) -> None:
    server.usually = status(code, Location=f"{elsewhere.url}/embeddings")
    fails(kind.at(server.url), ProviderUnavailable, f"{kind.section}.base_url", str(code))
    assert not elsewhere.requests


# Each fault, and what it is to the caller.


@pytest.mark.parametrize("code", [401, 403])
def test_a_refused_key_is_unavailable(server: Server, kind: Kind, code: int) -> None:
    host = server.url.split("/")[2]
    server.usually = status(code, {"message": f"Incorrect API key provided: {KEY}."})
    error = fails(kind.at(server.url), ProviderUnavailable, host, kind.variable)
    assert f"answered {code}: Incorrect API key provided: ***. Set" in str(error)


def test_a_refused_key_of_gemini_comes_as_400(server: Server, kind: Kind) -> None:
    # https://github.com/cequence-io/openai-scala-client/issues/109 shows the whole answer.
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
    server.usually = status(
        400,
        {
            "code": 400,
            "message": "API key not valid. Please pass a valid API key.",
            "status": "INVALID_ARGUMENT",
            "details": details,
        },
    )
    fails(kind.at(server.url), ProviderUnavailable, kind.variable, "API key not valid")


@pytest.mark.parametrize("code", [404, 405, 410])
def test_a_wrong_address_or_model_is_unavailable(server: Server, kind: Kind, code: int) -> None:
    server.usually = status(code)
    section = kind.section
    fails(kind.at(server.url), ProviderUnavailable, f"{section}.model and {section}.base_url")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        # https://platform.openai.com/docs/guides/error-codes
        (429, {"message": "Quota.", "type": "insufficient_quota", "code": "insufficient_quota"}),
        (
            429,
            {"message": "Quota.", "type": "insufficient_quota", "code": "credit_balance_exhausted"},
        ),
        # https://ai.google.dev/gemini-api/docs/generate-content/api-errors
        (400, {"code": 400, "message": "Billing.", "status": "FAILED_PRECONDITION"}),
        (402, {"code": 402, "message": "Billing.", "status": "RESOURCE_EXHAUSTED"}),
    ],
)
def test_an_unpaid_account_is_unavailable(
    server: Server, kind: Kind, code: int, error: object
) -> None:
    server.usually = status(code, error, Retry_After="1")
    fails(kind.at(server.url), ProviderUnavailable, "plan")


def test_a_wrong_setting_is_not_blamed_on_the_texts(server: Server, kind: Kind) -> None:
    server.usually = status(400, {"message": "Too many.", "param": "dimensions"})
    fails(kind.at(server.url), ProviderUnavailable, f"{kind.section}.dimensions")


@pytest.mark.parametrize("code", [400, 413, 422])
def test_a_refused_batch(server: Server, kind: Kind, code: int) -> None:
    server.usually = status(code, {"message": "too long"})
    fails(kind.at(server.url), BatchRefused, f"{code}: too long")


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504, 529])
def test_an_overloaded_server_is_failing(server: Server, kind: Kind, code: int) -> None:
    server.usually = status(code)
    error = fails(kind.at(server.url), ProviderFailing, str(code))
    assert isinstance(error, ProviderFailing)
    assert error.retry_after is None


def asked_to_wait(server: Server, kind: Kind, act: Act) -> float | None:
    server.usually = act
    error = fails(kind.at(server.url), ProviderFailing)
    assert isinstance(error, ProviderFailing)
    return error.retry_after


def test_retry_after_is_told(server: Server, kind: Kind) -> None:
    now = time.time()
    date = partial(_http_date, now)
    waits = [
        asked_to_wait(server, kind, status(429, Retry_After=text))
        for text in ("7", " 1.5 ", "0", "soon", "-1", "nan", "")
    ]
    assert waits == [7, 1.5, 0, None, None, None, None]
    later = asked_to_wait(server, kind, status(429, Retry_After=date(30)))
    assert later is not None
    assert 27 < later <= 30
    assert asked_to_wait(server, kind, status(503, Retry_After=date(-30))) == 0


def _http_date(now: float, seconds: int) -> str:
    from datetime import UTC, datetime

    return format_datetime(datetime.fromtimestamp(now + seconds, UTC), usegmt=True)


def test_retry_after_as_gemini_says_it(server: Server, kind: Kind) -> None:
    # In the body, without a header: https://github.com/dcdpr/jp/pull/1061
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "38.25s"}]
    error = {"code": 429, "message": "Quota.", "status": "RESOURCE_EXHAUSTED", "details": details}
    assert asked_to_wait(server, kind, status(429, error)) == 38.25


def test_silence_is_failing(server: Server, kind: Kind) -> None:
    server.usually = silent
    fails(kind.at(server.url, timeout=0.1), ProviderFailing, "within 0.1 seconds")


@pytest.mark.parametrize(
    "before",
    [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"],
    ids=["nothing", "a header", "a body"],
)
def test_a_dripping_server_holds_nobody(server: Server, kind: Kind, before: bytes) -> None:
    server.usually = dripping(before)
    begun = time.monotonic()
    fails(kind.at(server.url, timeout=0.15), ProviderFailing, "within 0.15 seconds")
    assert time.monotonic() - begun < 2
    for thread in [each for each in threading.enumerate() if each.name == "memwell-http"]:
        thread.join(2)
        assert not thread.is_alive(), "the line is still open"


@pytest.mark.parametrize("act", [cut_short, hung_up])
def test_a_cut_connection_is_failing(server: Server, kind: Kind, act: Act) -> None:
    server.usually = act
    fails(kind.at(server.url), ProviderFailing)


def test_a_server_that_is_not_started_is_failing(kind: Kind) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        url = f"http://127.0.0.1:{port}/v1"
        error = fails(kind.at(url), ProviderFailing, f"127.0.0.1:{port}", "Start the server")
    assert f"{kind.section}.base_url" in error.remedy


@pytest.mark.parametrize("host", ["no-such-host.invalid", f"{'x' * 70}.invalid"])
def test_an_unknown_host_is_failing(kind: Kind, host: str) -> None:
    fails(kind.at(f"http://{host}/v1", timeout=0.3), ProviderFailing, host)


@pytest.mark.parametrize(
    "content", [b"", b"<html>Sign in</html>", b'{"data": [', b"\xff\xfe", b"[" * 200_000]
)
def test_what_is_no_json_is_failing(server: Server, kind: Kind, content: bytes) -> None:
    server.usually = raw(content)
    fails(kind.at(server.url), WrongAnswer, "JSON")


@pytest.mark.parametrize(
    "answer",
    [None, [], {}, "x", 1, {"data": None, "embeddings": None}, {"data": [1], "embeddings": [1]}],
)
def test_json_of_another_shape_is_failing(server: Server, kind: Kind, answer: object) -> None:
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
def test_vectors_that_are_none_are_failing(
    server: Server, kind: Kind, change: Callable[[list[Any]], list[Any]]
) -> None:
    server.usually = altered(change)
    fails(kind.at(server.url), WrongAnswer, server.url.split("/")[2])


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_a_vector_of_any_length_is_made_a_unit(server: Server, size: float) -> None:
    server.usually = altered(lambda vectors: [[3 * size, 0.0, 4 * size, 0.0] for _ in vectors])
    assert same(KINDS[1].at(server.url).embed_query("a"), [[3 / 5, 0, 4 / 5, 0]])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": "model is \x1b[31mloading"}', ""),
        (b'{"error": "no \\u001b[31m model"}', ": no [31m model"),
        (b'{"message": "no model"}', ": no model"),
        (b'{"detail": [{"input": "a"}]}', ""),
        (b'[{"error": {"message": "x"}}]', ""),
        (b'{"error": {"message": 5, "details": "x", "code": 3}}', ""),
        (b"<html>", ""),
        (b"[" * 200_000, ""),
    ],
)
def test_a_complaint_of_any_shape_is_understood_or_left_out(
    server: Server, kind: Kind, body: bytes, said: str
) -> None:
    server.usually = lambda handler, request: handler.answer(422, body)
    error = fails(kind.at(server.url), BatchRefused)
    assert error.what == f"{server.url.split('/')[2]} answered 422{said}"


def test_a_complaint_is_shortened_after_the_key_is_taken_out(server: Server, kind: Kind) -> None:
    server.usually = status(422, {"message": "x" * 190 + KEY + "y" * 500})
    error = fails(kind.at(server.url), BatchRefused)
    assert error.what.endswith(": " + "x" * 190 + "***" + "y" * 7)


def test_an_endless_answer_is_not_read(server: Server) -> None:
    server.usually = raw(b"[" + b"1," * 1_000 + b"1]")

    def read(most: int) -> Any:
        settings = SettingNames("embedding.openai", "OPENAI_API_KEY")
        service = JsonClient(
            server.url, KEY, vendor="", header="X", settings=settings, timeout=5, most_bytes=most
        )
        return service.post("", {})

    assert len(read(2_003)) == 1_001
    with pytest.raises(WrongAnswer, match="over 2002 bytes"):
        read(2_002)


# The way there.


def test_a_proxy_is_used_but_not_to_this_machine(
    server: Server, elsewhere: Server, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = f"http://me:pass%40word@127.0.0.1:{elsewhere.server_port}"
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("https_proxy", proxy)
    kind.at(server.url).embed_query("a")
    assert not elsewhere.requests

    kind.at("http://embeddings.invalid/v1").embed_query("a")
    request = elsewhere.requests.pop()
    assert request.path.startswith("http://embeddings.invalid/v1/")
    assert request.headers["host"] == "embeddings.invalid"
    expected = base64.b64encode(b"me:pass@word").decode()
    assert request.headers["proxy-authorization"] == f"Basic {expected}"

    fails(kind.at("https://embeddings.invalid/v1"), ProviderFailing, "embeddings.invalid")
    tunnel = elsewhere.requests.pop()
    assert tunnel.path == "embeddings.invalid:443"
    assert KEY not in str(tunnel.headers)

    monkeypatch.setenv("no_proxy", "embeddings.invalid")
    fails(kind.at("http://embeddings.invalid/v1", timeout=0.3), ProviderFailing)
    assert not elsewhere.requests


def test_a_proxy_that_is_none_is_not_shown(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://me:{KEY}@host:port")
    fails(kind.at("http://embeddings.invalid/v1"), ProviderFailing, "embeddings.invalid")


@pytest.mark.skipif(not shutil.which("openssl"), reason="makes a certificate with openssl")
def test_a_certificate_is_verified(kind: Kind, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-keyout",
            key,
            "-out",
            certificate,
            "-subj",
            "/CN=127.0.0.1",
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(context) as server:
        url = server.url.replace("http:", "https:")
        fails(kind.at(url), ProviderUnavailable, "certificate", f"{kind.section}.base_url")
        assert not server.requests


# Patience.


def test_a_failing_provider_is_tried_again(server: Server, kind: Kind) -> None:
    naps = Naps()
    server.script = [status(500), hung_up, cut_short, raw(b"{")]
    rows = embed_batch(kind.at(server.url), ["a"], sleep=naps, jitter=random.Random(1))
    assert rows_of(rows) == [[unit("a")]]
    assert len(server.requests) == 5
    chance = random.Random(1)
    assert naps.slept == [chance.uniform(0, longest) for longest in (1, 2, 4, 8)]


def rows_of(outcomes: list[Matrix | RefusedText]) -> list[Any]:
    """Each text's rows as lists, rounded like the expected ones; a refusal as itself."""
    return [
        outcome
        if isinstance(outcome, RefusedText)
        else [unit_like(row) for row in outcome.astype(float).tolist()]
        for outcome in outcomes
    ]


def unit_like(row: list[float]) -> list[float]:
    """The exact unit vector that a row stands for, where it is one of the server's."""
    length = round(-row[1] / row[3])
    assert np.allclose(row, unit("x" * length), atol=1e-6)
    return unit("x" * length)


def test_pauses_grow_up_to_the_longest(server: Server, kind: Kind) -> None:
    class Longest(random.Random):
        def uniform(self, a: float, b: float) -> float:
            return b

    naps = Naps()
    server.usually = status(503)
    with pytest.raises(ProviderFailing, match="503"):
        embed_batch(
            kind.at(server.url),
            ["a", "bb"],
            sleep=naps,
            jitter=Longest(),
            patience=RetryPolicy(attempts=6, first=1.0, longest=5.0),
        )
    assert naps.slept == [1, 2, 4, 5, 5]
    assert len(server.requests) == 6


def test_the_pause_that_was_asked_for_is_kept(server: Server, kind: Kind) -> None:
    naps = Naps()
    server.script = [status(429, Retry_After="7"), status(503, Retry_After="120")]
    assert rows_of(embed_batch(kind.at(server.url), ["a"], sleep=naps)) == [[unit("a")]]
    assert naps.slept == [7, 120]


def test_too_long_a_pause_is_not_waited_for(server: Server, kind: Kind) -> None:
    naps = Naps()
    server.usually = status(429, Retry_After="121")
    with pytest.raises(ProviderFailing, match="429") as caught:
        embed_batch(kind.at(server.url), ["a", "bb"], sleep=naps)
    assert caught.value.retry_after == 121
    assert naps.slept == []
    assert len(server.requests) == 1


def test_work_that_is_stopped_ends_at_once(server: Server, kind: Kind) -> None:
    stop = threading.Event()
    stop.set()
    for act in (status(503), status(500), raw(b"{")):
        server.requests.clear()
        server.usually = act
        with pytest.raises(ProviderFailing, match="Stopped") as caught:
            embed_batch(kind.at(server.url), ["a", "bb"], sleep=stop.wait)
        assert len(server.requests) == 1
        assert_keeps_the_key(caught.value)


@pytest.mark.parametrize("act", [status(401), status(404), status(302, Location="http://x")])
def test_an_unavailable_provider_is_not_tried_again(server: Server, kind: Kind, act: Act) -> None:
    server.usually = act
    with pytest.raises(ProviderUnavailable):
        embed_batch(kind.at(server.url), ["a", "bb"], sleep=Naps())
    assert len(server.requests) == 1


def test_nothing_is_asked_about_nothing(server: Server, kind: Kind) -> None:
    assert embed_batch(kind.at(server.url), []) == []
    assert not server.requests


def test_too_large_a_batch_is_halved(server: Server, kind: Kind) -> None:
    texts = ["x" * size for size in (1, 2, 3, 4, 5)]
    server.usually = unless(lambda sent: len(sent) > 2, status(413))
    naps = Naps()
    assert rows_of(embed_batch(kind.at(server.url), texts, sleep=naps)) == [
        [unit(t)] for t in texts
    ]
    assert server.asked == [texts, texts[:2], texts[2:], texts[2:3], texts[3:]]
    assert naps.slept == []


@pytest.mark.parametrize("code", [400, 413, 422])
def test_one_text_that_is_refused_does_not_sink_the_others(
    server: Server, kind: Kind, code: int
) -> None:
    texts = ["a", "bb", "ccc", "bad", "eeeee"]
    server.usually = unless(lambda sent: "bad" in sent, status(code, {"message": "not this"}))
    *good, bad, last = rows_of(embed_batch(kind.at(server.url), texts, sleep=Naps()))
    assert [*good, last] == [[unit("a")], [unit("bb")], [unit("ccc")], [unit("eeeee")]]
    assert isinstance(bad, RefusedText)
    assert bad.reason == f"{server.url.split('/')[2]} answered {code}: not this"


def nan_for(bad: str) -> Act:
    """Answer with NaN for one text, and well for the others of its batch."""

    def act(handler: Handler, request: Request) -> None:
        vectors = [[math.nan] * 4 if text == bad else vector(text) for text in request.texts]
        handler.answer(200, answered(request, vectors))

    return act


@pytest.mark.parametrize(
    "act", [nan_for("bad"), unless(lambda sent: "bad" in sent, status(500))], ids=["nan", "500"]
)
def test_one_text_that_is_answered_wrongly_does_not_sink_the_others(
    server: Server, kind: Kind, act: Act
) -> None:
    texts = ["a", "bb", "bad", "dddd"]
    server.usually = act
    outcomes = rows_of(embed_batch(kind.at(server.url), texts, sleep=Naps()))
    assert [outcomes[at] for at in (0, 1, 3)] == [[unit("a")], [unit("bb")], [unit("dddd")]]
    assert isinstance(outcomes[2], RefusedText)
    halves = [["a", "bb"], ["bad", "dddd"], ["bad", "dddd"], ["bad"], ["bad"], ["dddd"]]
    assert server.asked == [texts] * 5 + [[PROBE_TEXT]] + halves


def test_a_lone_text_is_blamed_only_if_a_plain_one_is_taken(server: Server, kind: Kind) -> None:
    server.usually = nan_for("bad")
    (outcome,) = embed_batch(kind.at(server.url), ["bad"], sleep=Naps())
    assert isinstance(outcome, RefusedText)
    server.usually = altered(lambda vectors: [[0.0] * 4 for _ in vectors])
    with pytest.raises(ProviderFailing, match="zeros"):
        embed_batch(kind.at(server.url), ["bad"], sleep=Naps())


@pytest.mark.parametrize("act", [status(500), raw(b"{"), altered(lambda vectors: [])])
def test_a_provider_that_answers_everything_wrongly_is_at_fault(
    server: Server, kind: Kind, act: Act
) -> None:
    server.usually = act
    with pytest.raises(ProviderFailing) as caught:
        embed_batch(kind.at(server.url), ["a", "bb", "ccc", "dddd"], sleep=Naps())
    assert len(server.requests) == 5 + 1
    assert_keeps_the_key(caught.value)


def test_if_every_text_is_answered_wrongly_the_provider_is_at_fault(
    server: Server, kind: Kind
) -> None:
    server.usually = unless(lambda sent: sent != [PROBE_TEXT], status(500))
    with pytest.raises(ProviderFailing, match="every text"):
        embed_batch(kind.at(server.url), ["a", "bb", "ccc", "dddd"], sleep=Naps())
    assert len(server.requests) == 5 + 1 + 2 * (2 * 4 - 2)


def test_a_provider_that_refuses_everything_is_unavailable(server: Server, kind: Kind) -> None:
    server.usually = status(400, {"message": "no"})
    with pytest.raises(ProviderUnavailable, match="no text at all") as caught:
        embed_batch(kind.at(server.url), ["a", "bb", "ccc", "dddd"], sleep=Naps())
    assert server.asked[-1] == [PROBE_TEXT]
    assert_keeps_the_key(caught.value)


def test_texts_that_are_all_refused_are_each_refused(server: Server, kind: Kind) -> None:
    server.usually = unless(lambda sent: sent != [PROBE_TEXT], status(400))
    outcomes = embed_batch(kind.at(server.url), ["a", "bb", "ccc", "dddd"], sleep=Naps())
    assert [type(outcome) for outcome in outcomes] == [RefusedText] * 4
    assert len(server.requests) == (2 * 4 - 1) + 1


@pytest.mark.parametrize("count", [1, 2, 7, 16])
def test_the_number_of_requests_is_bounded(server: Server, kind: Kind, count: int) -> None:
    """The worst that can be: every batch fails until its last attempt, which is refused."""
    attempts = 3
    seen: dict[str, int] = {}

    def worst(handler: Handler, request: Request) -> None:
        batch = repr(request.texts)
        seen[batch] = seen.get(batch, 0) + 1
        refused = seen[batch] % attempts == 0
        act = well if request.texts == [PROBE_TEXT] else status(413 if refused else 503)
        act(handler, request)

    server.usually = worst
    texts = ["x" * size for size in range(1, count + 1)]
    outcomes = embed_batch(
        kind.at(server.url), texts, sleep=Naps(), patience=RetryPolicy(attempts=attempts)
    )
    assert [type(outcome) for outcome in outcomes] == [RefusedText] * count
    assert len(server.requests) == attempts * (2 * count - 1) + 1
