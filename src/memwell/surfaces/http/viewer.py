"""The viewer of a request, and the memory as this viewer sees it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from memwell.memory import Memory
from memwell.model import Viewer
from memwell.surfaces.http.security import needed_right
from memwell.surfaces.http.tenants import TenantMemories
from memwell.surfaces.http.tokens import READ

_FREES = re.compile(r"DELETE .*|POST (/api/forget|/api/facts/prune|.*/forget|.*/cancel)")
"""Requests that write and store nothing more."""


SEARCH_THREADS = 2
"""Threads for searches that only compute: one of them computes, while another search is begun or
answered. More threads would disturb it."""


def viewer_of(request: Request) -> Viewer:
    """Return the viewer of the token, which the guard found, or else the server's own viewer."""
    viewer: Viewer = request.scope.get("viewer") or request.app.state.memory.viewer
    return viewer


def memory_of(request: Request) -> Memory:
    """Return the memory of the request's tenant, as the viewer of the request sees it."""
    memory: Memory = request.app.state.memory
    viewer = viewer_of(request)
    if viewer.tenant:
        require_space(request)
        tenants: TenantMemories = request.app.state.tenants
        memory = tenants.get(viewer.tenant)
    return memory.as_viewer(viewer.user, viewer.session, is_admin=viewer.is_admin)


async def _depend_on_memory(request: Request) -> Memory:
    """Return the memory of a request; only that of a tenant may have to wait in a thread."""
    if viewer_of(request).tenant:
        return await run_in_threadpool(memory_of, request)
    return memory_of(request)


async def run_search(request: Request, memory: Memory, search: Callable[[], Response]) -> Response:
    """Run a search in a thread, and wait for a thread without having one."""
    threads: CapacityLimiter = request.app.state.search_threads
    limiter = threads if memory.shared.only_computes else None
    return await to_thread.run_sync(search, limiter=limiter)


def require_space(request: Request) -> None:
    """Refuse a request that stores more for a tenant that stores too much."""
    method, path = request.method, request.scope["path"]
    is_storing = needed_right(method, path) != READ and not _FREES.fullmatch(f"{method} {path}")
    if is_storing and (tenant := viewer_of(request).tenant):
        request.app.state.tenants.require_space(tenant)


def wake_background(request: Request) -> None:
    """Start embedding the new texts of the request's tenant in the background."""
    if tenant := viewer_of(request).tenant:
        request.app.state.tenants.wake(tenant)
    else:
        request.app.state.background.wake()


ViewerMemory = Annotated[Memory, Depends(_depend_on_memory)]
