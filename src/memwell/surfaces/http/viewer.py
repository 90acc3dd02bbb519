"""Who asks: the memory as the one sees it whose token was given."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from memwell.memory import Memory
from memwell.model import Viewer


def viewer_of(request: Request) -> Viewer:
    """Return who asks: the guard found out by the token, else the one the server is run for."""
    viewer: Viewer = request.scope.get("viewer") or request.app.state.memory.viewer
    return viewer


def memory_of(request: Request) -> Memory:
    """Return the memory as the one who asks sees it."""
    memory: Memory = request.app.state.memory
    viewer = viewer_of(request)
    return memory.as_viewer(viewer.user, viewer.session)


ViewerMemory = Annotated[Memory, Depends(memory_of)]
