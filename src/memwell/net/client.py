"""JSON to a provider's server and back, within a time, on the standard library alone.

Redirects are not followed, so that a key never reaches another host. The environment's proxies are
used, except to this machine.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import ipaddress
import json
import re
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from memwell.errors import EmbeddingError, ProviderFailing, ProviderUnavailable
from memwell.net.responses import ApiKey, Reply, ServerName, SettingNames, error_for

T = TypeVar("T")
ErrorMapper = Callable[[ServerName, Reply], EmbeddingError]

MOST_BYTES = 256 * 1024 * 1024
"""Of an answer; the vectors of a full batch are a tenth of it."""
INTERACTIVE_SECONDS = 10.0
_PIECE = 64 * 1024
_PORTS = {"http": 80, "https": 443}


class JsonClient:
    """A server that takes JSON and answers with JSON."""

    def __init__(
        self,
        base_url: str,
        key: str,
        *,
        vendor: str,
        header: str,
        scheme: str = "",
        settings: SettingNames,
        timeout: float,
        most_bytes: int = MOST_BYTES,
        meaning: ErrorMapper = error_for,
    ) -> None:
        """Send the key as `header`, after `scheme`; only the `vendor`'s own address demands one.

        `meaning` makes an error of an answer other than success.
        """
        self._address = _parse_address(base_url, settings)
        self.server = ServerName(self._address.netloc, _check_key(key, settings), settings)
        self._header = header
        self._scheme = scheme
        self._timeout = timeout
        self._most_bytes = most_bytes
        self._meaning = meaning
        if not key and self._address.hostname == urlsplit(vendor).hostname:
            raise ProviderUnavailable(f"{self.server.host} asks for a key", settings.check_key)

    def post(
        self, path: str, body: object, *, hurry: bool = False, within: float | None = None
    ) -> Any:
        """Send `body` as JSON to a path below the base URL and return the JSON of the answer.

        Somebody waits for a query: in a `hurry` a slow server is given up sooner. So it is where
        no more than the seconds `within` are left.
        """
        seconds = min(self._timeout, INTERACTIVE_SECONDS) if hurry else self._timeout
        seconds = seconds if within is None else min(seconds, within)
        reply = self._reply(path, json.dumps(body).encode(), seconds)
        if not 200 <= reply.status < 300:
            raise self._meaning(self.server, reply)
        try:
            return json.loads(reply.body)
        except (ValueError, RecursionError):
            raise self.server.wrong_answer("did not answer with JSON") from None

    def _reply(self, path: str, body: bytes, seconds: float) -> Reply:
        exchange = _Request(self._address, seconds, self._most_bytes)
        try:
            return _with_deadline(lambda: exchange.run(path, body, self._headers()), seconds)
        except (OSError, HTTPException, UnicodeError, _TooLong) as error:
            exchange.abort()
            raise self._broken(error, seconds) from None

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "User-Agent": "memwell"}
        if self.server.key:
            headers[self._header] = self._scheme + self.server.key.reveal()
        return headers

    def _broken(self, error: Exception, seconds: float) -> EmbeddingError:
        """Return what a fault on the line means; an error's own words may hold anything."""
        host, settings = self.server.host, self.server.settings
        if isinstance(error, TimeoutError):
            late = f"{host} did not answer within {seconds:g} seconds"
            return ProviderFailing(late, "Try again later")
        if isinstance(error, ConnectionRefusedError):
            start = f"Start the server there, or check {settings.section}.base_url"
            return ProviderFailing(f"Nothing answers at {host}", start)
        if isinstance(error, (socket.gaierror, UnicodeError)):
            return ProviderFailing(f"No address is known for {host}", settings.check("base_url"))
        if isinstance(error, ssl.SSLCertVerificationError):
            forged = f"{host} has no certificate that this machine trusts"
            return ProviderUnavailable(forged, settings.check("base_url"))
        if isinstance(error, _TooLong):
            return self.server.wrong_answer(f"answered with over {self._most_bytes} bytes")
        broken = f"The connection to {host} broke ({type(error).__name__})"
        return ProviderFailing(broken, "Try again later")


def _parse_address(base_url: str, settings: SettingNames) -> SplitResult:
    """Divide a base URL, which is not shown where it is wrong: it may hold a key."""
    url = base_url.strip().rstrip("/")
    address = _split_address(url)
    if address is not None and "@" in address.netloc:
        raise ProviderUnavailable(
            f"{settings.section}.base_url holds a user or a password",
            f"Take them out. {settings.check_key}",
        )
    if address is None or address.query or address.fragment or not _is_plain(url):
        raise ProviderUnavailable(
            f"{settings.section}.base_url is not an address such as https://host/v1",
            settings.check("base_url"),
        )
    return address


def _split_address(url: str) -> SplitResult | None:
    """Divide an address of the web; anything else is none."""
    try:
        address = urlsplit(url)
        usable = address.scheme in _PORTS and bool(address.hostname) and address.port != 0
    except ValueError:
        return None
    return address if usable else None


def _check_key(key: str, settings: SettingNames) -> ApiKey:
    # The standard library repeats a header that it cannot send in its error, key and all.
    if not _is_plain(key):
        raise ProviderUnavailable(
            "The key holds a space, a line break or a letter that no key has", settings.check_key
        )
    return ApiKey(key)


def _is_plain(text: str) -> bool:
    return re.fullmatch(r"[!-~]*", text) is not None


class _TooLong(Exception):
    """An answer longer than any that was asked for."""


class _Request:
    """One request and its answer, which can be cut short from another thread."""

    def __init__(self, address: SplitResult, timeout: float, most_bytes: int) -> None:
        self._address = address
        self._timeout = timeout
        self._most_bytes = most_bytes
        self._line: socket.socket | None = None
        self._late = False

    def run(self, path: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Connect, ask and read."""
        connection, before, more = _route(self._address, self._timeout)
        with contextlib.closing(connection):
            connection.connect()
            self._line = connection.sock
            if self._late:
                raise TimeoutError
            target = before + self._address.path + path
            connection.request("POST", target, body, {**headers, **more})
            with connection.getresponse() as response:
                return Reply(response.status, response.headers, self._read(response))

    def abort(self) -> None:
        """End it now, wherever it is."""
        self._late = True
        if self._line is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self._line, socket.SHUT_RDWR)

    def _read(self, response: HTTPResponse) -> bytes:
        body = bytearray()
        while piece := response.read(_PIECE):
            body += piece
            if len(body) > self._most_bytes:
                raise _TooLong
        return bytes(body)


def _with_deadline(work: Callable[[], T], seconds: float) -> T:
    """Run `work` in a thread of its own and wait for it no longer than this.

    A socket's timeout begins anew with every byte, and a resolver has none.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="memwell-http", daemon=True).start()
    return outcome.result(seconds)


def _route(address: SplitResult, timeout: float) -> tuple[HTTPConnection, str, dict[str, str]]:
    """Return a line to a server, what goes before the path on it, and headers for the way."""
    host, port = str(address.hostname), address.port or _PORTS[address.scheme]
    proxy = _proxy(address)
    if proxy is None:
        return _connection(address.scheme, host, port, timeout), "", {}
    near = _connection(address.scheme, str(proxy.hostname), proxy.port or 80, timeout)
    if address.scheme == "http":
        return near, f"http://{address.netloc}", _proxy_authorization(proxy)
    near.set_tunnel(host, port, _proxy_authorization(proxy))
    return near, "", {}


def _connection(scheme: str, host: str, port: int, timeout: float) -> HTTPConnection:
    if scheme == "http":
        return HTTPConnection(host, port, timeout=timeout)
    return HTTPSConnection(host, port, timeout=timeout, context=_verifying())


@functools.cache
def _verifying() -> ssl.SSLContext:
    return ssl.create_default_context()


def _proxy(address: SplitResult) -> SplitResult | None:
    """Return the proxy that the environment names for an address."""
    proxy = getproxies().get(address.scheme, "")
    if not proxy or _is_loopback(str(address.hostname)) or proxy_bypass(address.netloc):
        return None
    divided = _split_address(proxy if "://" in proxy else f"http://{proxy}")
    if divided is None:
        raise HTTPException("the proxy's address is not one")
    return divided


def _proxy_authorization(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": "Basic " + base64.b64encode(user.encode()).decode()}


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
