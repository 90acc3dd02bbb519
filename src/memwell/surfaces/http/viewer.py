"""The viewer of a request, and the memory as this viewer sees it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from memwell.memory import Memory
from memwell.model import Viewer


def viewer_of(request: Request) -> Viewer:
    """Return the viewer of the token, which the guard found, or else the server's own viewer."""
    viewer: Viewer = request.scope.get("viewer") or request.app.state.memory.viewer
    return viewer


def memory_of(request: Request) -> Memory:
    """Return the memory as the viewer of the request sees it."""
    memory: Memory = request.app.state.memory
    viewer = viewer_of(request)
    return memory.as_viewer(viewer.user, viewer.session, is_admin=viewer.is_admin)


ViewerMemory = Annotated[Memory, Depends(memory_of)]
