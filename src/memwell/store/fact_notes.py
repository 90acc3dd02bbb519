"""Facts in the index, beside the notes, so that the same search finds them.

A fact is a note of one chunk. Each scope is a workspace of its own, and every statement names the
workspaces that it searches: a viewer never searches a scope that they must not see. Superseded
facts are in another workspace, which is searched only on request. Expired facts are not in the
index. The fact store is the truth: the index syncs to its revisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memwell.model import Chunk, Fact, Note, Viewer
from memwell.store.contract.facts import FactStore
from memwell.store.contract.index import Index, Notes
from memwell.store.contract.values import (
    FACT_RECIPE,
    FACT_WORKSPACE,
    SUPERSEDED_PREFIX,
    FactFilter,
    SourceFile,
)


def scope_workspace(scope: str, target: str, *, superseded: bool = False) -> str:
    """Return the name of the workspace that has the facts of a scope, or its superseded facts."""
    return f"{FACT_WORKSPACE}{SUPERSEDED_PREFIX if superseded else ''}{scope}:{target}"


@dataclass(frozen=True, slots=True)
class FactState:
    """The state of a viewer's facts: their last revision, and whether any has expired."""

    revision: int = 0
    has_expired: bool = False

    def is_synced(self, notes: Notes, viewer: Viewer) -> bool:
        """Whether an index shows exactly these facts."""
        return not self.has_expired and self.revision <= _synced_revision(notes, viewer)


def read_fact_state(store: FactStore, viewer: Viewer, now: str) -> FactState:
    """Return the state of the facts that a viewer sees."""
    revision = store.revision() if store.exists else 0
    if not revision:
        return FactState()
    with store.for_viewer(viewer) as facts:
        expired = facts.find(FactFilter(expired_before=now, superseded=True), 1)
    return FactState(revision, bool(expired))


def sync_facts(index: Index, store: FactStore, viewer: Viewer, now: str) -> None:
    """Bring the facts that a viewer sees up to date in an index."""
    last = store.revision()
    if not last:
        return
    with index.reading() as reader:
        behind = _synced_revision(reader.notes, viewer)
    with store.for_viewer(viewer) as facts:
        changed, gone = facts.changed_since(behind) if behind < last else ([], [])
        expired = facts.find(FactFilter(expired_before=now, superseded=True))
    if behind == last and not expired:
        return
    with index.writing() as notes:
        for scope in viewer.scopes:
            notes.workspace(scope_workspace(*scope))
        visible = [fact for fact in changed if fact.expires_at is None or fact.expires_at > now]
        _remove(notes, [*gone, *(fact.id for fact in (*changed, *expired))], visible)
        for fact in visible:
            _put(notes, fact)
        notes.set_facts_revision([scope_workspace(*scope) for scope in viewer.scopes], last)


def _synced_revision(notes: Notes, viewer: Viewer) -> int:
    """Return the fact revision that the facts of a viewer were last synced to."""
    return min(notes.facts_revision(scope_workspace(*scope)) for scope in viewer.scopes)


def remove_facts(index: Index, ids: Sequence[str]) -> None:
    """Remove facts from an index, of every scope."""
    with index.writing() as notes:
        _remove(notes, ids, [])


def _put(notes: Notes, fact: Fact) -> None:
    lines = fact.text.count("\n") + 1
    chunk = Chunk(fact.text, 1, lines)
    validity = {"from": fact.valid_from or fact.created_at}
    validity |= {"until": fact.valid_until} if fact.valid_until else {}
    note = Note("", fact.confirmed_at[:10], fact.tags, (fact.category,), (), validity, (chunk,))
    file = SourceFile(fact.id, len(fact.text), 0, 0, "", FACT_RECIPE)
    notes.put(notes.workspace(_workspace(fact)), file, note)


def _workspace(fact: Fact) -> str:
    return scope_workspace(fact.scope, fact.target, superseded=fact.superseded_by is not None)


def _remove(notes: Notes, ids: Sequence[str], visible: Sequence[Fact]) -> None:
    """Delete the notes of facts, except those that are written again."""
    kept = {(fact.id, _workspace(fact)) for fact in visible}
    rows = notes.find_facts(ids)
    notes.delete([key for key, path, root in rows if (path, root) not in kept])
