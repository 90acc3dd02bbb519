"""The client over real HTTP, through the remote providers: servers misbehave on demand."""

from __future__ import annotations

import base64
import contextlib
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from memwell.errors import BatchRefused, ProviderFailing, ProviderUnavailable, WrongAnswer
from memwell.net import client
from memwell.net.client import JsonClient
from memwell.net.responses import SettingNames
from memwell.net.vendors import GEMINI, OPENAI
from tests.support.remote_embedders import KEY, Kind, fails
from tests.support.servers import (
    Act,
    Server,
    cut_short,
    dripping,
    hung_up,
    raw,
    serving,
    silent,
    status,
)

VENDORS = {vendor.variable: vendor for vendor in (OPENAI, GEMINI)}

# Keys and addresses.


def test_the_vendor_demands_a_key(kind: Kind) -> None:
    with pytest.raises(ProviderUnavailable, match=f"{kind.variable} or {kind.section}.key"):
        kind.at(VENDORS[kind.variable].address, key="")
    kind.at(VENDORS[kind.variable].address)


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
        kind.at(url, key="")
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
def test_a_base_url_that_is_not_an_address_is_refused(kind: Kind, url: str) -> None:
    with pytest.raises(ProviderUnavailable, match=f"{kind.section}.base_url"):
        kind.at(url)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_takes_no_key_other_server(
    server: Server, other_server: Server, kind: Kind, code: int
) -> None:
    server.usually = status(code, Location=f"{other_server.url}/embeddings")
    fails(kind.at(server.url), ProviderUnavailable, f"{kind.section}.base_url", str(code))
    assert not other_server.requests


# Errors, and what they mean to the caller.


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


def test_retry_after_is_a_number_or_a_date(server: Server, kind: Kind) -> None:
    waits = [
        asked_to_wait(server, kind, status(429, Retry_After=text))
        for text in ("7", " 1.5 ", "0", "soon", "-1", "nan", "")
    ]
    assert waits == [7, 1.5, 0, None, None, None, None]
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    server.date = format_datetime(now, usegmt=True)
    later, earlier = (
        format_datetime(now + timedelta(seconds=seconds), usegmt=True) for seconds in (30, -30)
    )
    assert asked_to_wait(server, kind, status(429, Retry_After=later)) == 30
    assert asked_to_wait(server, kind, status(503, Retry_After=earlier)) == 0


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
    [
        b"HTTP/1.1 200 ",
        b"HTTP/1.1 200 OK\r\nX: ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n",
    ],
    ids=["status", "header", "body"],
)
def test_a_dripping_server_is_given_up(server: Server, kind: Kind, before: bytes) -> None:
    server.usually = dripping(before)
    fails(kind.at(server.url, timeout=0.15), ProviderFailing, "within 0.15 seconds")
    assert server.client_left.wait(60), "the connection is still open"


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
def test_an_answer_that_is_not_json_is_wrong(server: Server, kind: Kind, content: bytes) -> None:
    server.usually = raw(content)
    fails(kind.at(server.url), WrongAnswer, "JSON")


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

    def read(limit: int) -> Any:
        settings = SettingNames("embedding.openai", "OPENAI_API_KEY")
        return JsonClient(server.url, KEY, OPENAI, settings, timeout=5, max_bytes=limit).post(
            "", {}
        )

    assert len(read(2_003)) == 1_001
    with pytest.raises(WrongAnswer, match="over 2002 bytes"):
        read(2_002)


# Proxies and certificates.


def test_a_proxy_is_used_but_not_to_this_machine(
    server: Server, other_server: Server, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = f"http://me:pass%40word@127.0.0.1:{other_server.server_port}"
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("https_proxy", proxy)
    kind.at(server.url).embed_query("a")
    assert not other_server.requests

    kind.at("http://embeddings.invalid/v1").embed_query("a")
    request = other_server.requests.pop()
    assert request.path.startswith("http://embeddings.invalid/v1/")
    assert request.headers["host"] == "embeddings.invalid"
    expected = base64.b64encode(b"me:pass@word").decode()
    assert request.headers["proxy-authorization"] == f"Basic {expected}"

    fails(kind.at("https://embeddings.invalid/v1"), ProviderFailing, "embeddings.invalid")
    tunnel = other_server.requests.pop()
    assert tunnel.path == "embeddings.invalid:443"
    assert KEY not in str(tunnel.headers)

    monkeypatch.setenv("no_proxy", "embeddings.invalid")
    fails(kind.at("http://embeddings.invalid/v1", timeout=0.3), ProviderFailing)
    assert not other_server.requests


def test_an_invalid_proxy_is_not_shown(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://me:{KEY}@host:port")
    fails(kind.at("http://embeddings.invalid/v1"), ProviderFailing, "embeddings.invalid")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for this machine, with its key in the same file."""
    if not shutil.which("openssl"):
        pytest.skip("makes a certificate with openssl")
    file, curve = tmp_path / "certificate.pem", "ec_paramgen_curve:prime256v1"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", curve, "-nodes"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        [*command, *names, "-keyout", file, "-out", tmp_path / "public.pem"],
        check=True,
        capture_output=True,
    )
    file.write_bytes(file.read_bytes() + (tmp_path / "public.pem").read_bytes())
    return file


@contextlib.contextmanager
def serving_tls(certificate: Path) -> Iterator[tuple[Server, str]]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serving(context) as server:
        yield server, server.url.replace("http:", "https:")


@pytest.mark.process
def test_an_unknown_certificate_is_refused(kind: Kind, certificate: Path) -> None:
    with serving_tls(certificate) as (server, url):
        fails(kind.at(url), ProviderUnavailable, "certificate", f"{kind.section}.base_url")
        assert not server.requests


@pytest.mark.process
def test_a_trusted_certificate_is_accepted(
    kind: Kind, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    client._tls_context.cache_clear()
    try:
        with serving_tls(certificate) as (server, url):
            assert kind.at(url).embed_query("a").shape == (1, 4)
            server.usually = dripping(b"HTTP/1.1 200 OK\r\nX: ")
            fails(kind.at(url, timeout=0.3), ProviderFailing, "within 0.3 seconds")
            assert server.client_left.wait(60), "the connection is still open"
    finally:
        client._tls_context.cache_clear()
