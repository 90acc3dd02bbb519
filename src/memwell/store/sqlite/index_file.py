"""The file that an index is, and what lies beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import apsw

from memwell.reports import Check
from memwell.store.sqlite.database import Database
from memwell.store.sqlite.filesystem import unsafe_for_wal

if TYPE_CHECKING:
    from memwell.store.sqlite.cache import VectorCache

T = TypeVar("T")


class IndexFile:
    """An index as a file in an agent's folder."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return self.database.path

    @property
    def bytes(self) -> int:
        """How much room it takes, its log included."""
        files = [Path(f"{self.path}{suffix}") for suffix in ("", "-wal", "-shm")]
        return sum(file.stat().st_size for file in files if file.exists())

    @property
    def exists(self) -> bool:
        """Whether anything can have been indexed yet."""
        return self.path.exists()

    @property
    def location(self) -> str:
        """Where it is, as people are told."""
        return str(self.path)

    @property
    def shared(self) -> bool:
        """Whether other machines write it, too."""
        return False

    def cache(self, most_bytes: int) -> VectorCache:
        """Return the vectors by text that are kept beside it."""
        from memwell.store.sqlite.cache import VectorCache

        return VectorCache(self.path.with_name("embeddings.db"), most_bytes)

    def retrying(self, operation: Callable[[], T]) -> T:
        """Run an operation: no server interrupts it."""
        return operation()

    def run_checks(self) -> Iterator[Check]:
        """Look at what keeps it."""
        yield Check("SQLite", True, f"{apsw.sqlite_lib_version()} (APSW {apsw.apsw_version()})")
        folder = self.path.parent
        if unsafe := unsafe_for_wal(folder):
            local = "set MEMWELL_HOME to a folder on a local disk"
            yield Check("warning", False, f"{folder} is {unsafe}: {local}")
        for aside in sorted(folder.glob("*.corrupt-????????-??????")):
            kept = "is a damaged index that was set aside"
            yield Check("warning", False, f"{aside} {kept}: delete it when you no longer want it")

    def quarantine(self) -> Path | None:
        """Put a damaged file out of the way and return its new name."""
        return self.database.quarantine()

    def close(self) -> None:
        """Close every connection."""
        self.database.close()
