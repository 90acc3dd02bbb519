"""The viewer of a request, and the memory as this viewer sees it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from memwell.memory import Memory
from memwell.model import Viewer
from memwell.surfaces.http.security import needed_right
from memwell.surfaces.http.tenants import TenantMemories
from memwell.surfaces.http.tokens import READ


def viewer_of(request: Request) -> Viewer:
    """Return the viewer of the token, which the guard found, or else the server's own viewer."""
    viewer: Viewer = request.scope.get("viewer") or request.app.state.memory.viewer
    return viewer


def memory_of(request: Request) -> Memory:
    """Return the memory of the request's tenant, as the viewer of the request sees it."""
    memory: Memory = request.app.state.memory
    viewer = viewer_of(request)
    if viewer.tenant:
        tenants: TenantMemories = request.app.state.tenants
        if needed_right(request.method, request.scope["path"]) != READ:
            tenants.require_space(viewer.tenant)
        memory = tenants.get(viewer.tenant)
    return memory.as_viewer(viewer.user, viewer.session, is_admin=viewer.is_admin)


def wake_background(request: Request) -> None:
    """Start embedding the new texts of the request's tenant in the background."""
    if tenant := viewer_of(request).tenant:
        request.app.state.tenants.wake(tenant)
    else:
        request.app.state.background.wake()


ViewerMemory = Annotated[Memory, Depends(memory_of)]
