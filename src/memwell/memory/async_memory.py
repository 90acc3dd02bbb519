"""`AsyncMemory`: the methods of `Memory`, `FactService` and `NoteBrowser`, to be awaited.

Each call runs in a thread, as a memory waits for files, databases and models. async_memory.pyi
declares the methods with their types; a test generates it from the classes and compares both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import wraps
from inspect import isfunction
from typing import Any, Self

from memwell.facts.service import FactService
from memwell.memory import Memory
from memwell.store.browse import NoteBrowser


class _Threaded:
    """An object whose methods run in a thread."""

    _resolve: Callable[[], Any]
    """Returns the object with the methods that block; it is called in the thread, too."""

    def __init_subclass__(cls, of: type) -> None:
        for name, method in vars(of).items():
            if isfunction(method) and not name.startswith("_") and name not in vars(cls):
                setattr(cls, name, _in_thread(method))


def _in_thread(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    async def call(self: _Threaded, *values: Any, **named: Any) -> Any:
        return await asyncio.to_thread(lambda: method(self._resolve(), *values, **named))

    return call


class AsyncFactService(_Threaded, of=FactService):
    """The facts as the viewer sees them."""

    def __init__(self, memory: Memory) -> None:
        self._resolve = lambda: memory.facts


class AsyncNoteBrowser(_Threaded, of=NoteBrowser):
    """The notes and facts that the viewer can find, as lists."""

    def __init__(self, memory: Memory) -> None:
        self._resolve = lambda: memory.contents


class AsyncMemory(_Threaded, of=Memory):
    """An agent's memory for programs with an event loop; `memory` is the one that blocks."""

    def __init__(self, *values: Any, **named: Any) -> None:
        self._wrap(Memory(*values, **named))

    def _wrap(self, memory: Memory) -> None:
        self.memory = memory
        self._resolve = lambda: memory

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.memory.close)

    @property
    def facts(self) -> AsyncFactService:
        """The facts as the viewer sees them."""
        return AsyncFactService(self.memory)

    @property
    def contents(self) -> AsyncNoteBrowser:
        """The notes and facts that the viewer can find, as lists."""
        return AsyncNoteBrowser(self.memory)

    def as_viewer(self, *values: Any, **named: Any) -> Self:
        """Return the same memory for another viewer; it shares the connections."""
        other = type(self).__new__(type(self))
        other._wrap(self.memory.as_viewer(*values, **named))
        return other
