"""memwell: memory for AI agents that runs on one machine.

>>> from memwell import Memory
>>> with Memory() as memory:
...     memory.index("notes")
...     for hit in memory.search("what is the name of the cat").hits:
...         print(hit.path, hit.start_line, hit.text)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "AsyncMemory",
    "BackupReport",
    "Check",
    "EraseReport",
    "Excerpt",
    "Fact",
    "FactEvent",
    "FactFilter",
    "FactService",
    "FillReport",
    "Finding",
    "Hit",
    "ImportReport",
    "IndexReport",
    "IngestReport",
    "Memory",
    "MemwellError",
    "NoteBrowser",
    "Recall",
    "RememberResult",
    "RestoreReport",
    "SearchResult",
    "Settings",
    "Sources",
    "SpaceStatus",
    "Status",
    "Why",
    "__version__",
]

if TYPE_CHECKING:
    from memwell.config.settings import Settings
    from memwell.errors import MemwellError
    from memwell.extract.files import IngestReport
    from memwell.facts.erase import EraseReport
    from memwell.facts.export_import import ImportReport
    from memwell.facts.recall import Recall
    from memwell.facts.service import FactService, RememberResult
    from memwell.memory import Memory
    from memwell.memory.async_memory import AsyncMemory
    from memwell.memory.sources import Sources
    from memwell.model import Excerpt, Fact, FactEvent, Hit, IndexReport, SearchResult
    from memwell.reports import Check, FillReport, SpaceStatus, Status
    from memwell.search.why import Why
    from memwell.store.browse import NoteBrowser
    from memwell.store.contract.values import BackupReport, FactFilter, RestoreReport
    from memwell.store.sqlite.verify import Finding

_MODULES = {
    "memwell.config.settings": ("Settings",),
    "memwell.errors": ("MemwellError",),
    "memwell.extract.files": ("IngestReport",),
    "memwell.facts.erase": ("EraseReport",),
    "memwell.facts.export_import": ("ImportReport",),
    "memwell.facts.recall": ("Recall",),
    "memwell.facts.service": ("FactService", "RememberResult"),
    "memwell.memory": ("Memory",),
    "memwell.memory.sources": ("Sources",),
    "memwell.memory.async_memory": ("AsyncMemory",),
    "memwell.model": ("Excerpt", "Fact", "FactEvent", "Hit", "IndexReport", "SearchResult"),
    "memwell.reports": ("Check", "FillReport", "SpaceStatus", "Status"),
    "memwell.search.why": ("Why",),
    "memwell.store.browse": ("NoteBrowser",),
    "memwell.store.contract.values": ("BackupReport", "FactFilter", "RestoreReport"),
    "memwell.store.sqlite.verify": ("Finding",),
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use: `import memwell` alone loads nothing."""
    from importlib import import_module

    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
