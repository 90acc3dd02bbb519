"""The contents of an index in a form that can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

from memwell import Memory


def index_file(home: Path) -> Path:
    return home / "agents" / "main" / "index.db"


def contents(file: Path) -> dict[str, Any]:
    """Notes, chunks, labels and every posting, without ids and times of reading."""
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)
    query = connection.execute
    names = {
        key: (path, seq)
        for key, path, seq in query(
            "SELECT c.id, n.path, c.seq FROM chunks c JOIN notes n ON n.id = c.note_id"
        )
    }
    query("CREATE VIRTUAL TABLE temp.postings USING fts5vocab('main', 'words', 'instance')")
    found = {
        "notes": sorted(
            query("SELECT path, size, hash, title, names, date, meta, recipe FROM notes"), key=str
        ),
        "chunks": sorted(
            query(
                "SELECT n.path, c.seq, c.start_line, c.end_line, c.heading, c.overlap, c.text"
                " FROM chunks c JOIN notes n ON n.id = c.note_id"
            ),
            key=str,
        ),
        "tags": sorted(query("SELECT n.path, t.tag FROM tags t JOIN notes n ON n.id = t.note_id")),
        "links": sorted(
            query("SELECT n.path, l.target FROM links l JOIN notes n ON n.id = l.note_id")
        ),
        "postings": sorted(
            (term, names.get(doc, ("orphan", doc)), col, offset)
            for term, doc, col, offset in query("SELECT term, doc, col, offset FROM temp.postings")
        ),
    }
    connection.close()
    return found


def fresh_contents(workspace: Path, home: Path) -> dict[str, Any]:
    """The contents that a new index of the workspace would have."""
    with Memory(home) as memory:
        memory.index(workspace)
    return contents(index_file(home))
