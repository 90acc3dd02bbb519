"""The guard before everything: whose address, whose page, whose token.

1. The Host must be a name of this server: a foreign name that leads here is a trick (rebinding).
2. The Origin, where a browser sends one, must be this server: other pages have no business here.
3. Where there are tokens, or others can reach, one must be given; it decides what is seen.

Every answer, also a refusal, carries the headers that keep a browser from doing harm with it.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memwell.errors import MemwellError
from memwell.model import Viewer
from memwell.surfaces.http.errors import error_response
from memwell.surfaces.http.tokens import Tokens

COOKIE = "memwell_token"
LOGIN = "/login"
PUBLIC_PATHS = ("/health", LOGIN, "/static/memwell.css", "/static/memwell.svg", "/favicon.ico")
"""What answers without a token: it says nothing private."""

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class GuardMiddleware:
    """Lets through only requests that are meant for this server, from those who may ask.

    Args:
        names: the names and addresses that the server is asked by, without a port.
        reachable: whether other machines can ask: then there is no answer without a token, even
            if there are none (any more).

    """

    def __init__(
        self, app: ASGIApp, tokens: Tokens, names: frozenset[str], reachable: bool
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._names = names
        self._reachable = reachable

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        answer = self._rejection(Request(scope)) or self._app
        await answer(scope, receive, guarded)

    def _rejection(self, request: Request) -> Response | None:
        """Return why a request is not answered; if it is, note who asks."""
        host = request.headers.get("host", "").lower()
        if _host_name(host) not in self._names:
            return error_response(403, "This server is not known by that name (Host)", code="host")
        origin = request.headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
            return error_response(403, "Pages of other servers may not ask (Origin)", code="origin")
        if request.scope["path"] in PUBLIC_PATHS:
            return None
        return self._token_rejection(request)

    def _token_rejection(self, request: Request) -> Response | None:
        try:
            known = self._tokens.list_all()
        except MemwellError:
            return error_response(
                503, "The list of tokens cannot be read. The server's owner can mend it"
            )
        if not known and not self._reachable:
            return None
        token = self._tokens.find(_given_token(request))
        if token:
            request.scope["viewer"] = Viewer(token.user, "", token.session)
            return None
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(LOGIN, 303)
        said = "A token is needed, as `Authorization: Bearer TOKEN`; `memwell serve token add NAME`"
        headers = {"www-authenticate": "Bearer"}
        return error_response(401, f"{said} makes one", code="invalid_api_key", headers=headers)


def _host_name(host: str) -> str | None:
    """Return the name that a Host header gives, without the port."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _given_token(request: Request) -> str:
    """Return the token of a request: a program's in a header, a browser's in a cookie."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else request.cookies.get(COOKIE, "")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def host_names(*more: str) -> frozenset[str]:
    """Return the names that a server answers to: those of this machine to itself, and `more`."""
    return frozenset(name.lower() for name in ("localhost", "127.0.0.1", "::1", *more))
