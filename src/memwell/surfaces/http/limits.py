"""What a request may take: bytes, seconds, and one place among so many."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memwell.surfaces.http.errors import error_response, log

_OVERREAD_FACTOR = 5
"""Times the largest body that is read of one that is too large."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How much of everything."""

    body_bytes: int = 20_000_000
    seconds: float = 30.0
    at_once: int = 128


LIMITS = RequestLimits()


@dataclass(slots=True)
class RunningRequests:
    """The requests that are being carried out, also those that nobody waits for any more."""

    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def wait_until_done(self) -> None:
        """Wait until all of them are: what was begun is finished."""
        while self.tasks:
            await asyncio.wait(self.tasks)


class LimitsMiddleware:
    """Keeps requests within limits; what fails inside becomes an answer that reveals nothing."""

    def __init__(self, app: ASGIApp, limits: RequestLimits, running: RunningRequests) -> None:
        self._app = app
        self._limits = limits
        self._tasks = running.tasks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or say which limit it meets."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if len(self._tasks) >= self._limits.at_once:
            busy = error_response(
                503, "Too many requests at once. Try again", headers={"retry-after": "1"}
            )
            await busy(scope, receive, send)
            return
        answer = _ResponseSender(send)
        task = asyncio.create_task(self._answer(scope, self._limit_body(scope, receive), answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.wait({task}, timeout=self._limits.seconds)
        if answer.has_begun:
            await task
        elif not task.done():
            # A thread cannot be stopped: what it does is finished, but its answer comes too late.
            answer.is_late = True
            said = (
                f"No answer within {self._limits.seconds:g} s. What was asked for may still be done"
            )
            await error_response(503, said)(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, answer: _ResponseSender) -> None:
        try:
            await self._app(scope, receive, answer)
        except Exception:
            log.exception("A request failed")
            if not answer.has_begun:
                await error_response(500, "Something went wrong here; the server's log says what")(
                    scope, receive, answer
                )

    def _limit_body(self, scope: Scope, receive: Receive) -> Receive:
        """Return what gives the parts of a body, up to the limit."""
        most, so_far = self._limits.body_bytes, 0
        length = Request(scope).headers.get("content-length", "")
        announced = int(length) if length.isdecimal() else 0

        async def measured() -> Message:
            nonlocal so_far
            # One who is cut off while sending does not see why: somewhat more is listened to.
            while max(so_far, announced) <= most * _OVERREAD_FACTOR:
                message = await receive()
                so_far += len(message.get("body", b""))
                if max(so_far, announced) <= most:
                    return message
                if not message.get("more_body"):
                    break
            said = f"A request may have {most:,} bytes"
            raise HTTPException(413, said, {"connection": "close"})

        return measured


class _ResponseSender:
    """Passes an answer on, unless another was given meanwhile."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False
        self.is_late = False

    async def __call__(self, message: Message) -> None:
        if not self.is_late:
            self.has_begun = True
            await self._send(message)
