"""Facts in the index, beside the notes: found by the same search.

Each scope is a workspace of its own, so that whoever may not see a scope does not search it: the
ids of the workspaces are in every statement. What was superseded is in another one, searched only
where it is asked for; what has expired is in none. A fact is a note of one passage. memory.db is
the truth: the index follows its revisions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from memwell.model import Chunk, Fact, Note, Viewer
from memwell.store.facts import FactStore, Which
from memwell.store.filters import FACT
from memwell.store.index import Index
from memwell.store.notes import FACTS, NoteFile, Notes

_FORMER = "former:"


def root_of(scope: str, target: str, *, former: bool = False) -> str:
    """Return what the workspace of a scope is called; `former` is what is no longer held true."""
    return f"{FACTS}{_FORMER if former else ''}{scope}:{target}"


def follow(index: Index, store: FactStore, viewer: Viewer, now: str) -> None:
    """Bring the facts that a viewer sees up to date in the index."""
    last = store.revision()
    with index.reading() as reader:
        behind = min(_followed(reader.notes, root_of(*scope)) for scope in viewer.scopes)
    if not last:
        return
    with store.seen_by(viewer) as facts:
        changed, gone = facts.since(behind) if behind < last else ([], [])
        expired = facts.find(Which(expired_before=now, superseded=True))
    if behind == last and not expired:
        return
    with index.writing() as notes:
        notes.connection.pragma("secure_delete", True)  # what goes is overwritten
        for scope in viewer.scopes:
            notes.workspace(root_of(*scope))
        shown = [fact for fact in changed if fact.expires_at is None or fact.expires_at > now]
        _remove(notes, [*gone, *(fact.id for fact in (*changed, *expired))], shown)
        for fact in shown:
            _put(notes, fact)
        roots = [(str(last), root_of(*scope)) for scope in viewer.scopes]
        notes.connection.executemany("UPDATE workspaces SET synced_at = ? WHERE root = ?", roots)


def withdraw(index: Index, ids: Sequence[str]) -> None:
    """Take facts out of an index, whoever may see them."""
    with index.writing() as notes:
        notes.connection.pragma("secure_delete", True)
        _remove(notes, ids, [])


def _put(notes: Notes, fact: Fact) -> None:
    lines = fact.text.count("\n") + 1
    chunk = Chunk(fact.text, 1, lines)
    held = {"from": fact.valid_from or fact.created_at}
    held |= {"until": fact.valid_until} if fact.valid_until else {}
    note = Note("", fact.confirmed_at[:10], fact.tags, (fact.category,), (), held, (chunk,))
    file = NoteFile(fact.id, len(fact.text), 0, 0, "", FACT)
    notes.put(notes.workspace(_root(fact)), file, note)


def _root(fact: Fact) -> str:
    return root_of(fact.scope, fact.target, former=fact.superseded_by is not None)


def _followed(notes: Notes, root: str) -> int:
    """Return up to which revision the facts of a workspace are as they are."""
    asked = "SELECT synced_at FROM workspaces WHERE root = ?"
    found: Any = notes.connection.execute(asked, (root,)).get
    return int(f"{found or 0}")


def _remove(notes: Notes, ids: Sequence[str], shown: Sequence[Fact]) -> None:
    """Take facts out that are gone, but not what is about to be written over."""
    stays = {(fact.id, _root(fact)) for fact in shown}
    rows: Any = notes.connection.execute(
        """
        SELECT n.id, n.path, w.root FROM notes n JOIN workspaces w ON w.id = n.workspace_id
        WHERE w.root GLOB ? AND n.path IN (SELECT value FROM json_each(?))
        """,
        (f"{FACTS}*", json.dumps([*dict.fromkeys(ids)])),
    ).fetchall()
    notes.delete([key for key, path, root in rows if (path, root) not in stays])
