"""Facts in the index, beside the notes: found by the same search.

Each scope is a workspace of its own, so that whoever may not see a scope does not search it: the
ids of the workspaces are in every statement. What was superseded is in another one, searched only
where it is asked for; what has expired is in none. A fact is a note of one passage. memory.db is
the truth: the index follows its revisions.
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


def scope_workspace(scope: str, target: str, *, former: bool = False) -> str:
    """Return what the workspace of a scope is called; `former` is what is no longer held true."""
    return f"{FACT_WORKSPACE}{SUPERSEDED_PREFIX if former else ''}{scope}:{target}"


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
        shown = [fact for fact in changed if fact.expires_at is None or fact.expires_at > now]
        _remove(notes, [*gone, *(fact.id for fact in (*changed, *expired))], shown)
        for fact in shown:
            _put(notes, fact)
        notes.set_facts_revision([scope_workspace(*scope) for scope in viewer.scopes], last)


def _synced_revision(notes: Notes, viewer: Viewer) -> int:
    """Return the fact revision that the facts of a viewer were last synced to."""
    return min(notes.facts_revision(scope_workspace(*scope)) for scope in viewer.scopes)


def remove_facts(index: Index, ids: Sequence[str]) -> None:
    """Take facts out of an index, whoever may see them."""
    with index.writing() as notes:
        _remove(notes, ids, [])


def _put(notes: Notes, fact: Fact) -> None:
    lines = fact.text.count("\n") + 1
    chunk = Chunk(fact.text, 1, lines)
    held = {"from": fact.valid_from or fact.created_at}
    held |= {"until": fact.valid_until} if fact.valid_until else {}
    note = Note("", fact.confirmed_at[:10], fact.tags, (fact.category,), (), held, (chunk,))
    file = SourceFile(fact.id, len(fact.text), 0, 0, "", FACT_RECIPE)
    notes.put(notes.workspace(_root(fact)), file, note)


def _root(fact: Fact) -> str:
    return scope_workspace(fact.scope, fact.target, former=fact.superseded_by is not None)


def _remove(notes: Notes, ids: Sequence[str], shown: Sequence[Fact]) -> None:
    """Take facts out that are gone, but not what is about to be written over."""
    stays = {(fact.id, _root(fact)) for fact in shown}
    rows = notes.find_facts(ids)
    notes.delete([key for key, path, root in rows if (path, root) not in stays])
