"""Facts in the index, beside the notes, so that the same search finds them.

A fact is a note of one chunk. Each scope is a workspace of its own, and every statement names the
workspaces that it searches: a viewer never searches a scope that they must not see. Superseded
facts are in another workspace, which is searched only on request. Expired facts are not in the
index. The fact store is the truth: the index syncs to its revisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from memwell.files import digest_of
from memwell.model import GLOBAL, Chunk, Fact, Note, Viewer
from memwell.store.contract.facts import FactStore
from memwell.store.contract.index import Index, Notes, Reader
from memwell.store.contract.values import (
    FACT_RECIPE,
    FACT_WORKSPACE,
    SUPERSEDED_PREFIX,
    ExportedNote,
    FactFilter,
    SourceFile,
)
from memwell.store.sqlite.lineage import (
    find_mismatch,
    read_lineage,
    record_lineage,
    record_unfamiliar,
)

DETAILS = (
    *("category", "source", "origin", "importance", "confidence", "decay_class", "created_at"),
    *("confirmed_at", "expires_at", "valid_from", "valid_until", "superseded_by"),
)
"""The fields of a fact that only its metadata in the index has."""
_UNKNOWN_ID = "unknown"
_MOST_ATTEMPTS = 100
"""How often a sync starts again if others sync meanwhile; the next search does the rest."""


def scope_workspace(scope: str, target: str, *, superseded: bool = False) -> str:
    """Return the name of the workspace that has the facts of a scope, or its superseded facts."""
    return f"{FACT_WORKSPACE}{SUPERSEDED_PREFIX if superseded else ''}{scope}:{target}"


@dataclass(frozen=True, slots=True)
class FactState:
    """The state of a viewer's facts: their last revision, and whether any has expired."""

    revision: int = 0
    has_expired: bool = False
    identity: str = ""

    def is_synced(self, notes: Notes, viewer: Viewer) -> bool:
        """Whether an index shows exactly these facts."""
        if self.has_expired:
            return False
        if self.identity and self.is_suspicious(notes):
            lineage, roots = read_lineage(notes), _roots(viewer)
            return self.revision <= lineage.synced_revision(self.identity, roots)
        return self.revision <= _synced_revision(notes, viewer)

    def is_suspicious(self, notes: Notes) -> bool:
        """Whether these may not be the facts that an index followed."""
        return read_lineage(notes).may_differ(self.identity, self.revision)


def read_fact_state(store: FactStore, viewer: Viewer, now: str, reader: Reader) -> FactState:
    """Return the state of the facts that a viewer sees, beside an open reader of the index."""
    revision = store.revision(reader) if store.exists else 0
    if not revision:
        return FactState()
    with store.for_viewer_of(viewer, reader) as facts:
        expired = facts.find(FactFilter(expired_before=now, superseded=True), 1)
    return FactState(revision, bool(expired), store.identity())


def sync_facts(index: Index, store: FactStore, viewer: Viewer, now: str) -> None:
    """Bring the facts that a viewer sees up to date in an index."""
    for _ in range(_MOST_ATTEMPTS):
        if _sync_facts(index, store, viewer, now):
            return


def _sync_facts(index: Index, store: FactStore, viewer: Viewer, now: str) -> bool:
    """Sync the facts; return False if another process has done so meanwhile.

    The facts are read before the index is written: a transaction that waits for a second connection
    would keep others from ending theirs if all connections of a pooler are in use.
    """
    # The index is read first: its revision must not come from a change after that of the store.
    with index.reading() as reader:
        lineage = read_lineage(reader.notes) if store.file else None
        revisions = _revisions(reader.notes, viewer)
    if not store.revision():
        return True
    if lineage and find_mismatch(index, store):
        _sync_unfamiliar(index, store, viewer, now)
        return True
    identity = store.identity()
    changes = _read_changes(store, viewer, min(revisions), now)
    is_recorded = lineage is None or lineage.identity == identity
    if changes.is_empty and is_recorded:
        return True
    with index.writing() as notes:
        # A fact that was read above may have been forgotten, and erased here, since then.
        if _revisions(notes, viewer) != revisions:
            return False
        _apply(notes, viewer, changes.changed, changes.gone, now)
        notes.set_facts_revision(_roots(viewer), changes.last)
        if not is_recorded:
            record_lineage(notes, identity)
    return True


@dataclass(frozen=True, slots=True)
class _Changes:
    """The facts that changed or are gone since a revision, and the last revision."""

    changed: Sequence[Fact]
    gone: Sequence[str]
    since: int
    last: int

    @property
    def is_empty(self) -> bool:
        return self.since == self.last and not self.gone


def _read_changes(store: FactStore, viewer: Viewer, since: int, now: str) -> _Changes:
    """Return what changed; the last revision is read first, so that no change is missed."""
    last = store.revision()
    with store.for_viewer(viewer) as facts:
        changed, gone = facts.changed_since(since) if since < last else ([], [])
        expired = facts.find(FactFilter(expired_before=now, superseded=True))
    return _Changes(changed, [*gone, *(fact.id for fact in expired)], since, last)


def _sync_unfamiliar(index: Index, store: FactStore, viewer: Viewer, now: str) -> None:
    """Show the facts of another memory.db beside those that the index has.

    At first only unknown facts are added: the index may have a newer version of the others.
    """
    roots = _roots(viewer)
    with index.reading() as reader:
        lineage = read_lineage(reader.notes)
    identity, last = store.identity(), store.revision()
    behind = lineage.synced_revision(identity, roots)
    if behind == last:
        return
    with store.for_viewer(viewer) as facts:
        changed, gone = facts.changed_since(behind)
    with index.writing() as notes:
        if not behind:
            known = {path for _, path, _ in notes.find_facts(fact.id for fact in changed)}
            changed, gone = [fact for fact in changed if fact.id not in known], []
        _apply(notes, viewer, changed, gone, now)
        record_unfamiliar(notes, lineage, identity, roots, last)


def _apply(
    notes: Notes, viewer: Viewer, changed: Sequence[Fact], gone: Sequence[str], now: str
) -> None:
    """Write the changed facts that have not expired, and remove those that are gone."""
    for root in _roots(viewer):
        notes.workspace(root)
    visible = [fact for fact in changed if fact.expires_at is None or fact.expires_at > now]
    _remove(notes, [*gone, *(fact.id for fact in changed)], visible)
    for fact in visible:
        _put(notes, fact)


def _roots(viewer: Viewer) -> list[str]:
    """Return the workspaces of the facts that a viewer sees."""
    return [scope_workspace(*scope) for scope in viewer.scopes]


def _synced_revision(notes: Notes, viewer: Viewer) -> int:
    """Return the fact revision that the facts of a viewer were last synced to."""
    return min(_revisions(notes, viewer))


def _revisions(notes: Notes, viewer: Viewer) -> list[int]:
    return [notes.facts_revision(root) for root in _roots(viewer)]


def remove_facts(index: Index, ids: Sequence[str]) -> None:
    """Remove facts from an index, of every scope."""
    with index.writing() as notes:
        _remove(notes, ids, [])
        _refuse_older_syncs(notes)


def _refuse_older_syncs(notes: Notes) -> None:
    """Let a sync that read the facts before an erasure read them again, and not write them back.

    It compares the revisions, and the global one, which every viewer has, goes back by one.
    """
    root = scope_workspace(GLOBAL, "")
    notes.workspace(root)
    notes.set_facts_revision([root], notes.facts_revision(root) - 1)


def remove_old_texts(index: Index, edits: Iterable[tuple[str, bytes]]) -> None:
    """Remove facts that an index has with a text that was replaced, by id and digest of the text.

    The next sync writes them again.
    """
    old = {*edits}
    with index.writing() as notes, index.reading_beside(notes) as reader:
        notes.delete(
            [
                note_id
                for note_id, fact_id, root in notes.find_facts(fact_id for fact_id, _ in old)
                for chunk in reader.listing.chunks([root], fact_id, root)
                if (fact_id, digest_of(chunk.text)) in old
            ]
        )
        _refuse_older_syncs(notes)


def _put(notes: Notes, fact: Fact) -> None:
    lines = fact.text.count("\n") + 1
    chunk = Chunk(fact.text, 1, lines)
    validity = {"from": fact.valid_from or fact.created_at}
    validity |= {"until": fact.valid_until} if fact.valid_until else {}
    # The details are for `memwell facts rescue`, if memory.db is lost.
    details = {name: getattr(fact, name) for name in DETAILS}
    meta = {**validity, "fact": details}
    note = Note("", fact.confirmed_at[:10], fact.tags, (fact.category,), (), meta, (chunk,))
    file = SourceFile(fact.id, len(fact.text), 0, 0, "", FACT_RECIPE)
    notes.put(notes.workspace(_workspace(fact)), file, note)


def fact_from_note(exported: ExportedNote) -> Fact:
    """Return the fact that a note of an index stands for.

    Notes of an older memwell have no details; they get the defaults.
    """
    note, place = exported.note, exported.workspace.removeprefix(FACT_WORKSPACE)
    is_superseded = place.startswith(SUPERSEDED_PREFIX)
    scope, _, target = place.removeprefix(SUPERSEDED_PREFIX).partition(":")
    since = str(note.meta["from"])
    details: dict[str, Any] = {
        "category": next((name for name in note.names if name not in note.tags), "fact"),
        "source": "rescue",
        "origin": "",
        "importance": 0.5,
        "confidence": 1.0,
        "decay_class": "permanent",
        "created_at": since,
        "confirmed_at": since,
        "expires_at": None,
        "valid_from": None,
        "valid_until": note.meta.get("until"),
        "superseded_by": _UNKNOWN_ID if is_superseded else None,
        **note.meta.get("fact", {}),
    }
    text = "".join(chunk.text for chunk in note.chunks)
    return Fact(
        id=exported.file.path, text=text, scope=scope, target=target, tags=note.tags, **details
    )


def _workspace(fact: Fact) -> str:
    return scope_workspace(fact.scope, fact.target, superseded=fact.superseded_by is not None)


def _remove(notes: Notes, ids: Sequence[str], visible: Sequence[Fact]) -> None:
    """Delete the notes of facts, except those that are written again."""
    kept = {(fact.id, _workspace(fact)) for fact in visible}
    rows = notes.find_facts(ids)
    notes.delete([key for key, path, root in rows if (path, root) not in kept])
