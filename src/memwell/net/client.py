"""A client that sends JSON to a provider's server and reads JSON, within a total time.

It uses httpx2, which the first request imports. It adds what httpx2 does not have: a deadline for
the whole request, a limit on the size of a response, and errors that never show a key. It does not
follow redirects, so that a key never reaches another host. It uses the proxies that the environment
names, except for this machine.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import json
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from memwell.errors import EmbeddingError, ProviderFailing, ProviderUnavailable
from memwell.net.background import call_in_thread
from memwell.net.responses import ApiKey, Endpoint, Reply, SettingNames, error_for
from memwell.net.vendors import Vendor

if TYPE_CHECKING:
    import httpx2

ErrorMapper = Callable[[Endpoint, Reply], EmbeddingError]

MAX_BYTES = 256 * 1024 * 1024
"""The largest response that is read; the vectors of a full batch are a tenth of it."""
INTERACTIVE_SECONDS = 10.0


class JsonClient:
    """A server that takes JSON and answers with JSON."""

    def __init__(
        self,
        base_url: str,
        key: str,
        vendor: Vendor,
        settings: SettingNames,
        *,
        timeout: float,
        max_bytes: int = MAX_BYTES,
        to_error: ErrorMapper = error_for,
    ) -> None:
        """Speak the `vendor`'s protocol at `base_url`; only the vendor's own address needs a key.

        `to_error` makes an error of a response without success.
        """
        address = _parse_address(base_url, settings)
        self.endpoint = Endpoint(address.netloc, _check_key(key, settings), settings)
        self._address = address
        self._vendor = vendor
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._to_error = to_error
        if not key and address.hostname == urlsplit(vendor.address).hostname:
            raise ProviderUnavailable(f"{address.netloc} requires a key", settings.key_remedy)

    def post(
        self, path: str, body: object, *, interactive: bool = False, seconds: float | None = None
    ) -> Any:
        """Send `body` as JSON to a path below the base URL and return the JSON of the response.

        A request that is `interactive`, because somebody waits for a search, gives up a slow
        server sooner. `seconds` can shorten the time further.
        """
        limits = (self._timeout, INTERACTIVE_SECONDS if interactive else None, seconds)
        reply = self._send(path, json.dumps(body).encode(), min(s for s in limits if s is not None))
        if not 200 <= reply.status < 300:
            raise self._to_error(self.endpoint, reply)
        try:
            return json.loads(reply.body)
        except (ValueError, RecursionError):
            raise self.endpoint.wrong_answer("did not answer with JSON") from None

    def _send(self, path: str, body: bytes, seconds: float) -> Reply:
        import httpx2

        request = _Request(self._address, seconds, self._max_bytes)
        try:
            # The timeout of a socket begins anew with every byte, and a look-up of a host has none.
            return call_in_thread(lambda: request.send(path, body, self._headers())).result(seconds)
        except (OSError, UnicodeError, httpx2.HTTPError, httpx2.InvalidURL, _TooLong) as error:
            request.abort()
            raise self._connection_error(_root_cause(error), seconds) from None

    def _headers(self) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "memwell",
            "Accept-Encoding": "identity",
        }
        if self.endpoint.key:
            headers[self._vendor.header] = self._vendor.scheme + self.endpoint.key.reveal()
        return headers

    def _connection_error(self, error: BaseException, seconds: float) -> EmbeddingError:
        """Return the error to report. It never quotes the original, which may hold a key."""
        host, settings = self.endpoint.host, self.endpoint.settings
        if isinstance(error, TimeoutError):
            late = f"{host} did not answer within {seconds:g} seconds"
            return ProviderFailing(late, "Try again later")
        if isinstance(error, ConnectionRefusedError):
            start = f"Start the server there, or check {settings.section}.base_url"
            return ProviderFailing(f"No server answers at {host}", start)
        if isinstance(error, (socket.gaierror, UnicodeError)):
            return ProviderFailing(f"The host {host} is unknown", settings.remedy("base_url"))
        if isinstance(error, ssl.SSLCertVerificationError):
            forged = f"This machine does not trust the certificate of {host}"
            return ProviderUnavailable(forged, settings.remedy("base_url"))
        if isinstance(error, _TooLong):
            return self.endpoint.wrong_answer(f"answered with over {self._max_bytes} bytes")
        broken = f"The connection to {host} broke ({type(error).__name__})"
        return ProviderFailing(broken, "Try again later")


def _parse_address(base_url: str, settings: SettingNames) -> SplitResult:
    """Split a base URL. An error does not show it, since it may hold a key."""
    url = base_url.strip().rstrip("/")
    address = _split_address(url)
    if address is not None and "@" in address.netloc:
        raise ProviderUnavailable(
            f"{settings.section}.base_url holds a user or a password",
            f"Remove them. {settings.key_remedy}",
        )
    if address is None or address.query or address.fragment or not _is_plain(url):
        raise ProviderUnavailable(
            f"{settings.section}.base_url is not an address such as https://host/v1",
            settings.remedy("base_url"),
        )
    return address


def _split_address(url: str) -> SplitResult | None:
    """Split an address of the web; return None for anything else."""
    try:
        address = urlsplit(url)
        usable = address.scheme in ("http", "https") and address.hostname and address.port != 0
    except ValueError:
        return None
    return address if usable else None


def _check_key(key: str, settings: SettingNames) -> ApiKey:
    # A header that cannot be sent appears in the error of the HTTP library, with the key in it.
    if not _is_plain(key):
        raise ProviderUnavailable(
            "The key holds a space, a line break or a character that keys do not have",
            settings.key_remedy,
        )
    return ApiKey(key)


def _is_plain(text: str) -> bool:
    return re.fullmatch(r"[!-~]*", text) is not None


class _TooLong(Exception):
    """The response is larger than the limit."""


class _Request:
    """One request and its response; another thread can abort it."""

    def __init__(self, address: SplitResult, timeout: float, max_bytes: int) -> None:
        self._address = address
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._socket: socket.socket | None = None
        self._aborted = False

    def send(self, path: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Connect, send and read, on a connection that serves this request only."""
        import httpx2

        url, watch = self._address.geturl() + path, {"trace": self._watch_connection}
        with (
            httpx2.Client(
                proxy=_proxy(self._address),
                verify=_tls_context(),
                trust_env=False,
                timeout=self._timeout,
            ) as client,
            client.stream("POST", url, content=body, headers=headers, extensions=watch) as response,
        ):
            return Reply(response.status_code, response.headers, self._read(response))

    def abort(self) -> None:
        """End the request now, at whatever step it is."""
        self._aborted = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _watch_connection(self, event: str, info: Mapping[str, Any]) -> None:
        """Keep the socket of a new connection, so that `abort` can shut it down."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            self._socket = info["return_value"].get_extra_info("socket")
            if self._aborted:
                raise TimeoutError

    def _read(self, response: httpx2.Response) -> bytes:
        body = bytearray()
        for part in response.iter_raw():
            body += part
            if len(body) > self._max_bytes:
                raise _TooLong
        return bytes(body)


def _root_cause(error: BaseException) -> BaseException:
    """Return the error of the operating system that the HTTP library wrapped, if there is one."""
    # httpcore2 raises some errors "from None", which hides the cause but keeps the context.
    inner = error.__cause__ or error.__context__
    return error if inner is None else _root_cause(inner)


@functools.cache
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()


def _proxy(address: SplitResult) -> str | None:
    """Return the proxy that the environment names for an address."""
    import httpx2

    url = getproxies().get(address.scheme, "")
    if not url or _is_loopback(str(address.hostname)) or proxy_bypass(address.netloc):
        return None
    proxy = _split_address(url if "://" in url else f"http://{url}")
    if proxy is None:
        raise httpx2.UnsupportedProtocol("the proxy is not an HTTP address")
    return f"http://{proxy.netloc}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
