"""The guard in front of every route: host, origin, token.

1. The Host header must be a name of this server. Otherwise a foreign name that resolves to this
   machine (DNS rebinding) could reach it.
2. The Origin header, if a browser sends one, must be this server: other sites get no answer.
3. A token is required, unless the server was told to go without and there are none, and only this
   machine can reach it. It decides whose facts are seen.

Every response, also an error, has the headers that protect browsers.
"""

from __future__ import annotations

import ipaddress
import math
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memwell.errors import MemwellError
from memwell.model import Viewer
from memwell.surfaces.http.errors import error_response
from memwell.surfaces.http.tenant_requests import TenantRequests
from memwell.surfaces.http.tenants import TENANT_HEADER, USER_HEADER, is_signed
from memwell.surfaces.http.tokens import ADMIN, READ, WRITE, Tokens

COOKIE = "memwell_token"
LOGIN = "/login"
PUBLIC_PATHS = ("/health", LOGIN, "/static/memwell.css", "/static/memwell.svg", "/favicon.ico")
"""Paths that need no token: their responses contain nothing private."""

_ADMINISTERS = re.compile(r"(POST|DELETE|PUT|PATCH) /api/(spaces/|facts/prune\b)")
_READS = re.compile(r"/api/(search|why|recall)|/v1/embeddings|/v1/vector_stores/[^/]+/search|/mcp")
"""Paths to which a token that may only read can send a body; /mcp then has only such tools."""

_NOT_IN_HOST = re.compile(r"[@/\\?#\s]")
"""Separators of an address: a Host header has neither user information nor a path."""

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


@dataclass(slots=True)
class GuardMiddleware:
    """Rejects requests for another host, from another site, or without a valid token.

    Args:
        names: the names and addresses that the server answers to, without a port.
        reachable: whether other machines can reach the server: then a token is required even
            after the last one was removed.
        tenants: counts the requests of each tenant.
        proxy_secret: the key by which a trusted proxy signs the tenant of a request.

    """

    app: ASGIApp
    tokens: Tokens
    names: frozenset[str]
    reachable: bool
    tenants: TenantRequests | None = None
    proxy_secret: str = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or reject a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        answer = self._rejection(Request(scope)) or self.app
        await answer(scope, receive, send_with_headers)

    def _rejection(self, request: Request) -> Response | None:
        """Return the response to a request that is rejected; set the viewer of one that is not."""
        if {"content-length", "transfer-encoding"} <= {*request.headers}:
            # A proxy in front may see two requests where this server sees one, or the reverse.
            message = "Content-Length and Transfer-Encoding exclude each other. Send one of them"
            return error_response(400, message, headers={"connection": "close"})
        hosts = request.headers.getlist("host")
        if len(hosts) != 1:
            return error_response(400, f"A request has one Host header, and this has {len(hosts)}")
        host = hosts[0].lower()
        if _host_name(host) not in self.names:
            return error_response(
                403, "This server does not answer to this name (Host)", code="host"
            )
        origin = request.headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
            return error_response(403, "Pages of other sites get no answer (Origin)", code="origin")
        if request.scope["path"] in PUBLIC_PATHS:
            return None
        return self._token_rejection(request)

    def _admit(self, request: Request, viewer: Viewer) -> Response | None:
        """Set the viewer of a request, unless the tenant has sent too many."""
        request.scope["viewer"] = viewer
        wait = self.tenants.seconds_to_wait(viewer.tenant) if self.tenants and viewer.tenant else 0
        if wait:
            message = f"The tenant has sent too many requests. Try again in {math.ceil(wait)} s"
            headers = {"retry-after": str(math.ceil(wait))}
            return error_response(429, message, code="rate_limit_exceeded", headers=headers)
        return None

    def _proxy_rejection(self, request: Request) -> Response | None:
        """Return the response to a request that names a tenant without a valid signature."""
        target = request.scope["path"]
        if query := request.scope["query_string"].decode("latin-1"):
            target += f"?{query}"
        headers = {name.lower(): value for name, value in request.headers.items()}
        if not (
            self.proxy_secret and is_signed(self.proxy_secret, headers, request.method, target)
        ):
            message = "The signature of the proxy is missing, wrong or too old"
            return error_response(401, message, code="invalid_signature")
        user, tenant = headers.get(USER_HEADER, ""), headers[TENANT_HEADER]
        if needed_right(request.method, request.scope["path"]) == ADMIN:
            return error_response(403, "A proxy has no right to administer", code="rights")
        return self._admit(request, Viewer(user, "", "", is_admin=False, tenant=tenant))

    def _token_rejection(self, request: Request) -> Response | None:
        if TENANT_HEADER in request.headers:
            return self._proxy_rejection(request)
        try:
            known = self.tokens.list_all()
        except MemwellError:
            message = "The list of tokens cannot be read. The owner of the server can correct it"
            return error_response(503, message)
        if not known and not self.reachable:
            return None
        token = self.tokens.find(_given_token(request))
        if token:
            needed = needed_right(request.method, request.scope["path"])
            if not token.allows(needed):
                message = (
                    f"The token {token.name} has the right to {token.rights}, and this needs"
                    f" {needed}. `memwell serve token add NAME --rights {needed}` creates one"
                )
                return error_response(403, message, code="rights")
            request.scope["may_write"] = token.allows(WRITE)
            is_admin = token.allows(ADMIN)
            viewer = Viewer(token.user, "", token.session, is_admin, token.tenant)
            return self._admit(request, viewer)
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(LOGIN, 303)
        message = (
            "A token is required: send `Authorization: Bearer TOKEN`. `memwell serve token local`"
            " prints that of the server's owner, `memwell serve token add NAME` creates others"
        )
        headers = {"www-authenticate": "Bearer"}
        return error_response(401, message, code="invalid_api_key", headers=headers)


def needed_right(method: str, path: str) -> str:
    """Return the right that a request needs."""
    if _ADMINISTERS.match(f"{method} {path}"):
        return ADMIN
    return READ if method in ("GET", "HEAD", "OPTIONS") or _READS.fullmatch(path) else WRITE


def _host_name(host: str) -> str | None:
    """Return the name in a Host header, without the port; None if it has more than these."""
    if _NOT_IN_HOST.search(host):
        return None
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _given_token(request: Request) -> str:
    """Return the token of a request: programs send a header, browsers a cookie."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else request.cookies.get(COOKIE, "")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def host_names(*more: str) -> frozenset[str]:
    """Return the names that a server answers to: those of the loopback, and `more`."""
    return frozenset(name.lower() for name in ("localhost", "127.0.0.1", "::1", *more))
