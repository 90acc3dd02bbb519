"""Limits of a request: its bytes, its seconds, and how many run at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memwell.surfaces.http.errors import error_response, log
from memwell.surfaces.http.tenant_requests import TenantRequests

HEALTH = "/health"
_AGAIN = {"retry-after": "1"}
_OVERREAD_FACTOR = 5
"""How many times the limit is read of a body that is too large, before the connection closes."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The limits of every request."""

    body_bytes: int = 20_000_000
    body_seconds: float = 10.0
    """How long a client may take to send a body."""
    seconds: float = 30.0
    at_once: int = 128
    """Requests that run, and as many whose body has not arrived yet."""


LIMITS = RequestLimits()


@dataclass(slots=True)
class RunningRequests:
    """The requests that are running, also those that were answered with a timeout."""

    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    receiving: set[asyncio.Task[None]] = field(default_factory=set)
    """Those whose body has not arrived: slow clients do not keep out the others."""

    async def wait_until_done(self) -> None:
        """Wait until all of them have ended."""
        while self.tasks:
            await asyncio.wait(self.tasks)


@dataclass(slots=True)
class LimitsMiddleware:
    """Enforces the limits; an unexpected exception becomes a response without details."""

    app: ASGIApp
    limits: RequestLimits
    running: RunningRequests
    tenants: TenantRequests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or say which limit it exceeds."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        has_body = _has_body(scope)
        tenant = viewer.tenant if (viewer := scope.get("viewer")) else ""
        refusal = self._busy_response(scope, has_body=has_body) or self._tenant_response(tenant)
        if refusal:
            await refusal(scope, receive, send)
            return
        sender = _ResponseSender(send)
        task = asyncio.create_task(self._answer(scope, self._limit_body(scope, receive), sender))
        self.running.tasks.add(task)
        task.add_done_callback(self.running.tasks.discard)
        if tenant:
            task.add_done_callback(lambda _: self.tenants.end(tenant))
        if has_body:
            self.running.receiving.add(task)
            task.add_done_callback(self.running.receiving.discard)
        await asyncio.wait({task}, timeout=self.limits.seconds)
        if sender.has_begun:
            await task
        elif not task.done():
            # A thread cannot be stopped: it finishes its work, but its response is dropped.
            sender.is_late = True
            message = (
                f"No answer within {self.limits.seconds:g} s. The server may still finish the"
                " request"
            )
            await error_response(503, message)(scope, receive, send)

    def _busy_response(self, scope: Scope, *, has_body: bool) -> Response | None:
        """Return the response to a request that comes while too many others run."""
        if scope.get("path") != HEALTH and self._is_busy(has_body=has_body):
            return error_response(503, "Too many requests are running. Try again", headers=_AGAIN)
        return None

    def _tenant_response(self, tenant: str) -> Response | None:
        """Count a request that begins; return the response if too many of its tenant run."""
        if not tenant or self.tenants.try_to_begin(tenant):
            return None
        message = "Too many requests of the tenant are running. Try again"
        return error_response(429, message, code="rate_limit_exceeded", headers=_AGAIN)

    def _is_busy(self, *, has_body: bool) -> bool:
        """Whether too many requests run, or too many bodies have not arrived yet."""
        receiving = len(self.running.receiving)
        running = len(self.running.tasks) - receiving
        return running >= self.limits.at_once or (has_body and receiving >= self.limits.at_once)

    async def _answer(self, scope: Scope, receive: Receive, sender: _ResponseSender) -> None:
        try:
            await self.app(scope, receive, sender)
        except Exception:
            log.exception("A request failed")
            if not sender.has_begun:
                message = "The request failed. The server's log has the details"
                await error_response(500, message)(scope, receive, sender)

    def _limit_body(self, scope: Scope, receive: Receive) -> Receive:
        """Return a `receive` that raises an error if the body is too large or too slow."""
        most, received = self.limits.body_bytes, 0
        length = Request(scope).headers.get("content-length", "")
        announced = int(length) if length.isdecimal() else 0
        last = asyncio.get_running_loop().time() + self.limits.body_seconds
        has_arrived = not _has_body(scope)

        async def receive_in_time() -> Message:
            nonlocal has_arrived
            if has_arrived:
                return await receive()
            try:
                async with asyncio.timeout_at(last):
                    message = await receive()
            except TimeoutError as error:
                problem = f"The body did not arrive within {self.limits.body_seconds:g} s"
                raise HTTPException(408, problem, {"connection": "close"}) from error
            if not message.get("more_body"):
                has_arrived = True
                task = asyncio.current_task()
                self.running.receiving -= {task} if task else set()
            return message

        async def receive_limited() -> Message:
            nonlocal received
            # A client that is cut off while it sends does not see the error: read somewhat more.
            while max(received, announced) <= most * _OVERREAD_FACTOR:
                message = await receive_in_time()
                received += len(message.get("body", b""))
                if max(received, announced) <= most:
                    return message
                if not message.get("more_body"):
                    break
            problem = f"The request is larger than {most:,} bytes"
            raise HTTPException(413, problem, {"connection": "close"})

        return receive_limited


def _has_body(scope: Scope) -> bool:
    """Whether a client announces a body."""
    headers = Request(scope).headers if scope["type"] == "http" else {}
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


@dataclass(slots=True)
class _ResponseSender:
    """Sends a response, unless another one was sent because of a timeout."""

    send: Send
    has_begun: bool = False
    is_late: bool = False

    async def __call__(self, message: Message) -> None:
        if not self.is_late:
            self.has_begun = True
            await self.send(message)
