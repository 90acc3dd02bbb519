"""The protocol at /mcp of `memwell serve`, with the memory of each request's viewer.

There are no sessions: every request stands alone, so that any worker can answer it. A token that
may only read sees only the tools that read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from mcp.server.transport_security import TransportSecuritySettings
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from memwell.errors import NotAllowedError
from memwell.surfaces.http.viewer import memory_of, viewer_of, wake_background
from memwell.surfaces.mcp.server import create_server

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from memwell.memory import Memory

PATH = "/mcp"
_request: ContextVar[Request] = ContextVar("request")
_UNCHECKED = TransportSecuritySettings(enable_dns_rebinding_protection=False)
"""The guard in front of every route has checked host and origin."""


class _MemoryOfRequest:
    """Stands for the memory of the request that is answered."""

    def __getattr__(self, name: str) -> Any:
        return getattr(memory_of(_request.get()), name)


class McpEndpoint:
    """Answers requests of the protocol while `run` runs."""

    def __init__(self) -> None:
        self._writing, self._reading = self._create(writes=True), self._create(writes=False)
        self._apps: dict[bool, ASGIApp] = {
            writes: server.streamable_http_app(
                streamable_http_path=PATH,
                stateless_http=True,
                json_response=True,
                transport_security=_UNCHECKED,
            )
            for writes, server in ((True, self._writing), (False, self._reading))
        }

    @staticmethod
    def _create(*, writes: bool) -> MCPServer:
        memory = cast("Memory", _MemoryOfRequest())
        return create_server(memory, lambda: wake_background(_request.get()), writes=writes)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Answer requests until the block ends."""
        async with AsyncExitStack() as stack:
            for server in (self._writing, self._reading):
                await stack.enter_async_context(server.session_manager.run())
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with the memory of its viewer."""
        request = Request({**scope})  # the protocol's application puts itself into the scope
        _request.set(request)
        may_write = await run_in_threadpool(_may_write, request)  # it may ask the database
        await self._apps[may_write](scope, receive, send)


def _may_write(request: Request) -> bool:
    """Whether the token of a request may write, and its tenant has space left."""
    if not request.scope.get("may_write", True):
        return False
    if tenant := viewer_of(request).tenant:
        try:
            request.app.state.tenants.require_space(tenant)
        except NotAllowedError:
            return False
    return True
