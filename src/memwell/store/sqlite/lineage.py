"""Whether memory.db is the file that an index followed.

memory.db has a random identity, and a revision that grows with every change. Each index remembers
both. If the identity differs or the revision is smaller, memory.db was deleted, emptied, or
replaced by another or an older file. The index then has the only copy of some facts, so nothing in
it is overwritten until the user decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import apsw

from memwell.errors import UNWRITABLE, MemwellError
from memwell.store.contract.facts import FactStore
from memwell.store.contract.index import Index, Notes

_IDENTITY, _UNFAMILIAR = "facts_identity", "unfamiliar_facts"
_UNKNOWN = "unknown"
"""The identity of a file that an index followed before files had one, once it is gone."""


@dataclass(frozen=True, slots=True)
class Unfamiliar:
    """Another memory.db that an index shows beside the facts of the one that it followed."""

    identity: str = ""
    revisions: dict[str, int] = field(default_factory=dict)
    """The revision that each workspace of facts is synced to."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """The memory.db that an index followed: its identity, and the last revision."""

    identity: str
    revision: int
    unfamiliar: Unfamiliar

    def find_mismatch(self, store: FactStore) -> str:
        """Return why the facts are not those that the index followed; "" if they are.

        The lineage has to be read before this is called: both may grow meanwhile.
        """
        if not self.revision:
            return ""
        if not store.exists:
            return _is_missing(store)
        if self.identity not in ("", store.identity()):
            return (
                f"{store.location} is not the file that the index followed, but another one or an"
                " older copy"
            )
        if (revision := store.revision()) < self.revision:
            return (
                f"{store.location} is older than the index: it has revision {revision}, and the"
                f" index followed it up to {self.revision}"
            )
        return ""

    def may_differ(self, identity: str, revision: int) -> bool:
        """Whether a state of the facts, read before the lineage, may not be what it followed."""
        return bool(self.revision) and (identity != self.identity or revision < self.revision)

    def synced_revision(self, identity: str, roots: Iterable[str]) -> int:
        """Return the revision that workspaces are synced to, of a file that is not familiar."""
        if self.unfamiliar.identity != identity:
            return 0
        return min(self.unfamiliar.revisions.get(root, 0) for root in roots)


def read_lineage(notes: Notes) -> Lineage:
    """Return which memory.db an index followed."""
    revisions = [notes.facts_revision(root) for root in notes.fact_workspaces()]
    unfamiliar = json.loads(notes.get_mark(_UNFAMILIAR) or "{}")
    return Lineage(notes.get_mark(_IDENTITY), max(revisions, default=0), Unfamiliar(**unfamiliar))


def record_lineage(notes: Notes, identity: str) -> None:
    """Record which memory.db an index follows."""
    notes.set_mark(_IDENTITY, identity)


def record_unfamiliar(
    notes: Notes, lineage: Lineage, identity: str, roots: Iterable[str], revision: int
) -> None:
    """Record that an index also shows the facts of another memory.db, up to a revision."""
    known = lineage.unfamiliar.revisions if lineage.unfamiliar.identity == identity else {}
    revisions = {**known, **dict.fromkeys(roots, revision)}
    notes.set_mark(_UNFAMILIAR, json.dumps({"identity": identity, "revisions": revisions}))
    if not lineage.identity:
        notes.set_mark(_IDENTITY, _UNKNOWN)


def forget_lineage(notes: Notes) -> None:
    """Let an index follow whichever memory.db there is; its facts are removed."""
    for workspace in notes.fact_workspaces().values():
        notes.remove_workspace(workspace)
    notes.set_mark(_IDENTITY, "")
    notes.set_mark(_UNFAMILIAR, "")


def find_mismatch(index: Index, store: FactStore) -> str:
    """Return why memory.db is not the file that an index followed; "" if it is.

    An older copy gets a new identity. Otherwise nobody could tell it apart once it has grown.
    """
    if store.file is None:
        return ""
    if not store.exists and store.file.offer_backup():  # also if no index ever followed it
        return _is_missing(store)
    if not index.exists:
        return ""
    with index.reading() as reader:
        lineage = read_lineage(reader.notes)
    mismatch = lineage.find_mismatch(store)
    if mismatch and store.exists and store.identity() == lineage.identity:
        with suppress(*UNWRITABLE):  # a home that cannot be written does not grow either
            store.renew_identity()
    return mismatch


def find_mismatches(store: FactStore) -> list[str]:
    """Return why memory.db is not the file that the indexes of a home followed."""
    found = set()
    if store.file and not store.exists and store.file.offer_backup():
        found.add(_is_missing(store))
    for index in store.indexes():
        with suppress(MemwellError):  # a damaged index is rebuilt at the next search
            found.add(find_mismatch(index, store))
    return sorted(found - {""})


def _is_missing(store: FactStore) -> str:
    return f"{store.location}, which contains all facts, is missing or empty"


def remedy_for_mismatch(store: FactStore) -> str:
    """Return how to get facts back that memory.db lacks."""
    latest = store.file.offer_backup() if store.file else ""
    return (
        "`memwell facts rescue` writes back the facts that the index still has. If they are not"
        f" enough, {latest or '`memwell restore FILE` restores a backup'}, without what was"
        " remembered after it. `memwell reset` continues without the facts"
    )


def describe_mismatch(index: Index, store: FactStore) -> str:
    """Return the mismatch of an index with its remedy; "" if there is none or it cannot be read."""
    try:
        mismatch = find_mismatch(index, store)
    except (MemwellError, apsw.Error, OSError):  # the command itself says why it cannot be read
        return ""
    return f"{mismatch}. {remedy_for_mismatch(store)}" if mismatch else ""
