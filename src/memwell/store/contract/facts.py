"""The contract of facts and of the list of workspaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from memwell.errors import MemwellError, NotFoundError
from memwell.files import digest_of
from memwell.store.contract.values import FactFilter

if TYPE_CHECKING:
    import datetime as dt

    from memwell.model import Fact, FactEvent, Viewer
    from memwell.store.contract.index import Index, Reader
    from memwell.store.contract.values import BackupReport, RestoreReport, StoredBackup, Workspace

T = TypeVar("T")


class Facts(Protocol):
    """Facts, as one viewer sees them.

    No statement sees facts outside the viewer's scopes: an id of another scope is unknown, a text
    of another scope is not a duplicate.
    """

    viewer: Viewer

    def find(self, which: FactFilter, limit: int = -1) -> list[Fact]:
        """Return facts, newest first."""

    def get(self, fact_id: str) -> Fact:
        """Return a fact; raise `NotFoundError` if the viewer sees no fact with that id."""
        facts = self.find(FactFilter(ids=(fact_id,), superseded=True))
        if not facts:
            raise NotFoundError(
                f"There is no fact {fact_id!r}", "`memwell facts list` shows the facts there are"
            )
        return facts[0]

    def history(self, fact_id: str) -> list[FactEvent]:
        """Return the events of a fact and of those it superseded, oldest first."""

    def changed_since(self, revision: int) -> tuple[list[Fact], list[str]]:
        """Return the facts that changed after a revision, and the ids that were deleted."""

    def add(self, fact: Fact, folded: str) -> None:
        """Insert a new fact."""

    def _update(self, fact: Fact, folded: str) -> None:
        """Update the row of a fact."""

    def change(self, fact: Fact, folded: str, what: str, at: str, detail: str = "") -> None:
        """Update a visible fact and record an event."""
        self.get(fact.id)
        self._update(fact, folded)
        self.note(fact.id, at, what, detail)

    def note(self, fact_id: str, at: str, what: str, detail: str = "") -> None:
        """Record an event of a fact."""

    def delete(self, ids: Iterable[str]) -> int:
        """Delete visible facts with their events; return how many there were."""
        count = 0
        for fact_id in ids:
            self.get(fact_id)
            self._remove(fact_id)
            self._mark_forgotten(fact_id)
            count += 1
        return count

    def _remove(self, fact_id: str) -> None:
        """Delete the row of a fact with its events."""

    def _mark_forgotten(self, fact_id: str, forgotten: bool = True) -> None:
        """Record that a fact was deleted, or that it is there again."""

    def record_pending_erasure(self, facts: Iterable[Fact]) -> None:
        """Record that deleted facts may still have traces in an index, a cache or a log."""

    def events(self) -> dict[str, list[FactEvent]]:
        """Return the events of each fact, in the order in which they were recorded."""

    def put(self, fact: Fact, folded: str, events: Iterable[FactEvent]) -> None:
        """Write a fact with its events, in place of the visible fact with that id.

        Raises `IdTakenError` if the id belongs to a fact that the viewer does not see.
        """
        if (fact.scope, fact.target) not in self.viewer.scopes:
            raise NotFoundError(f"There is no scope {fact.scope} {fact.target}".rstrip())
        with self._unless_taken(fact.id):
            if self.find(FactFilter(ids=(fact.id,), superseded=True)):
                self._remove(fact.id)
            self.add(fact, folded)
            for event in events:
                self.note(fact.id, event.at, event.what, event.detail)
            self._mark_forgotten(fact.id, False)

    def _unless_taken(self, fact_id: str) -> AbstractContextManager[None]:
        """Undo the whole block if it raises; raise `IdTakenError` if a row exists already."""


_EDITED = " edited "


def trace_of_edit(fact: Fact) -> Fact:
    """Return a fact whose old text is to be erased, for `Facts.record_pending_erasure`.

    Its id differs from that of the fact, which stays.
    """
    return replace(fact, id=f"{fact.id}{_EDITED}{digest_of(fact.text).hex()[:16]}")


def split_trace(trace: str) -> tuple[str, bool]:
    """Return the id of the fact that a pending erasure is about, and whether it was edited."""
    fact_id, edited, _ = trace.partition(_EDITED)
    return fact_id, bool(edited)


class FactFile(Protocol):
    """The file that facts are stored in: it can be copied, restored and overwritten."""

    path: Path

    def scrub(self) -> bool:
        """Overwrite all deleted facts; False while a reader still sees them."""

    def erase_from_backups(self, traces: Mapping[str, bytes]) -> bool:
        """Erase facts from the backups in the home; False if one could not be written."""

    def copies(self) -> list[Path]:
        """Return the backups and the replaced versions of the file that still exist."""

    def remove_leftovers(self) -> bool:
        """Remove unfinished copies that killed commands left; False while one is being written."""

    def backup(self, target: Path, *, force: bool = False) -> BackupReport:
        """Copy the file as it is at one moment, while others write; check the copy."""

    def list_backups(self) -> list[StoredBackup]:
        """Return the automatic backups, the newest first."""

    def offer_backup(self) -> str:
        """Return which command restores the newest automatic backup; "" if there is none."""

    def restore(self, backup: str | Path, now: dt.datetime) -> RestoreReport:
        """Replace all facts by those of a backup, in one transaction; keep the old ones beside.

        The backup is a path, the name of an automatic backup, or "latest".
        """

    def set_aside_if_damaged(self, now: dt.datetime) -> Path | None:
        """Rename the file if it is damaged, and return its new name."""


class FactStore(Protocol):
    """All facts, of every scope."""

    location: str
    """The file or server, as messages name it; never with a password."""
    file: FactFile | None
    """The file that the facts are stored in; None on a server."""
    home: Path
    """The folder that contains the files of agents."""

    def require_file(self) -> FactFile:
        """Return the file that the facts are stored in; raise an error if it is a server."""
        if self.file is None:
            raise MemwellError(
                f"The facts are stored by {self.location}, not in a file",
                "Use `memwell export` and `memwell import`, or PostgreSQL's own pg_dump",
            )
        return self.file

    @property
    def exists(self) -> bool:
        """Whether anything can have been remembered yet."""

    def for_viewer(self, viewer: Viewer) -> AbstractContextManager[Facts]:
        """Yield one unchanging state of the facts, as a viewer sees them."""

    def for_viewer_of(self, viewer: Viewer, reader: Reader) -> AbstractContextManager[Facts]:
        """Yield the facts while a reader of the index is open for the same viewer.

        A store with both on one server reads them by the connection of the reader.
        """
        return self.for_viewer(viewer)

    def change(self, viewer: Viewer) -> AbstractContextManager[Facts]:
        """Yield the facts of a viewer for changes, inside one transaction that survives a crash."""

    def retrying(self, operation: Callable[[], T]) -> T:
        """Run an operation; a server that interrupts it runs it again."""
        return operation()

    def revision(self, reader: Reader | None = None) -> int:
        """Return a number that grows with every change.

        A store with facts and index on one server reads it by the connection of an open reader.
        """

    def identity(self) -> str:
        """Return what tells this file apart from any other; "" on a server."""
        return ""

    def renew_identity(self) -> None:
        """Give the file another identity."""
        return

    def pending_erasures(self) -> dict[str, bytes]:
        """Return the deleted facts that may still have traces: the digest of each text, by id."""

    def clear_pending(self, ids: Iterable[str]) -> None:
        """Record that no trace of deleted facts is left."""

    def vacuum(self) -> str:
        """Remove deleted texts from the files of a server; return what remains, as a sentence."""
        return ""

    def indexes(self) -> Iterator[Index]:
        """Yield the index of every agent, each open until the next."""

    def close(self) -> None:
        """Close every connection."""


class WorkspaceList(Protocol):
    """The list of one agent's workspaces."""

    def list_all(self) -> list[Workspace]:
        """Return the workspaces; an empty list if nothing was registered yet."""

    def put(self, workspace: Workspace) -> None:
        """Add a workspace, or replace the one with the same folder."""

    def remove(self, root: str) -> None:
        """Remove a workspace from the list."""
