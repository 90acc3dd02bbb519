"""memwell: a memory for AI agents that lives on one machine.

>>> from memwell import Memory
>>> with Memory() as memory:
...     memory.index("notes")
...     for hit in memory.search("what is the name of the cat").hits:
...         print(hit.path, hit.start_line, hit.text)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = ["Hit", "IndexReport", "Memory", "MemwellError", "SearchResult", "__version__"]

if TYPE_CHECKING:
    from memwell.errors import MemwellError
    from memwell.memory import Memory
    from memwell.model import Hit, IndexReport, SearchResult

_HOMES = {
    "Memory": "memwell.memory",
    "MemwellError": "memwell.errors",
    "Hit": "memwell.model",
    "IndexReport": "memwell.model",
    "SearchResult": "memwell.model",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: `import memwell` alone costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
