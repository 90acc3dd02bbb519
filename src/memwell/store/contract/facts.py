"""What keeps facts, and the list of workspaces: the verbs, whichever store answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from memwell.model import Fact, FactEvent, Viewer
    from memwell.store.contract.index import Index
    from memwell.store.sqlite.database import Database
    from memwell.store.sqlite.facts import FactFilter
    from memwell.store.sqlite.workspace_list import Workspace

T = TypeVar("T")


class Facts(Protocol):
    """Facts, as one viewer sees them."""

    @property
    def viewer(self) -> Viewer:
        """Who looks."""

    def find(self, which: FactFilter, limit: int = -1) -> list[Fact]:
        """Return facts, the newest first."""

    def get(self, fact_id: str) -> Fact:
        """Return a fact, or say that there is none of that id."""

    def history(self, fact_id: str) -> list[FactEvent]:
        """Return what happened to a fact, and to those it superseded, the oldest first."""

    def changed_since(self, revision: int) -> tuple[list[Fact], list[str]]:
        """Return what changed after a revision: facts as they are now, and ids that are gone."""

    def add(self, fact: Fact, folded: str) -> None:
        """Write a new fact."""

    def change(self, fact: Fact, folded: str, what: str, at: str, detail: str = "") -> None:
        """Write a fact over what it was, and note what happened."""

    def note(self, fact_id: str, at: str, what: str, detail: str = "") -> None:
        """Record what happened to a fact."""

    def delete(self, ids: Iterable[str]) -> int:
        """Remove facts, and with them what is known of them; return how many there were."""

    def record_pending_erasure(self, facts: Iterable[Fact]) -> None:
        """Note what may still be in an index, a cache or a log of facts that are forgotten."""

    def events(self) -> dict[str, list[FactEvent]]:
        """Return what happened to each fact, in the order in which it was noted."""

    def put(self, fact: Fact, folded: str, events: Iterable[FactEvent]) -> None:
        """Write a fact with its history as they are, in place of the visible one of that id.

        Raises `IdTaken` where the id is that of a fact which is not visible.
        """


class FactStore(Protocol):
    """All that was remembered."""

    @property
    def database(self) -> Database:
        """The file it is; an error that says what else to do where it is none."""

    @property
    def home(self) -> Path:
        """The folder that files of agents lie in."""

    @property
    def exists(self) -> bool:
        """Whether anything can have been remembered yet."""

    def for_viewer(self, viewer: Viewer) -> AbstractContextManager[Facts]:
        """Lend one unchanging state, as a viewer sees it."""

    def change(self, viewer: Viewer) -> AbstractContextManager[Facts]:
        """Lend the facts of a viewer for changes, inside one transaction that outlives a crash."""

    def retrying(self, operation: Callable[[], T]) -> T:
        """Run an operation, and again where a server interrupted it."""

    def revision(self) -> int:
        """Return a number that grows with every change."""

    def pending_erasures(self) -> dict[str, bytes]:
        """Return what was forgotten and may have left traces: ids, and the digests of texts."""

    def clear_pending(self, ids: Iterable[str]) -> None:
        """Note that nothing is left of what was forgotten."""

    def indexes(self) -> Iterator[Index]:
        """Yield the index of every agent, each open until the next."""

    def scrub(self) -> bool:
        """Let nothing of what was deleted stay; False while a reader still holds it."""

    def copies(self) -> list[Path]:
        """Return where copies of the memory were written that are still there."""

    def close(self) -> None:
        """Let go of every connection."""


class WorkspaceList(Protocol):
    """The list of workspaces of one agent."""

    def list_all(self) -> list[Workspace]:
        """Return the workspaces; none if there is no list yet."""

    def find_around(self, path: Path) -> Workspace | None:
        """Return the innermost workspace that contains `path`."""

    def put(self, entry: Workspace) -> Workspace:
        """Add a workspace, or replace the one with the same folder."""

    def remove(self, root: str) -> None:
        """Take a workspace off the list."""
