"""The stored frequencies of common words."""

from __future__ import annotations

from pathlib import Path

import pytest

from memwell import Memory
from memwell.store.sqlite.index import SqliteIndex
from tests.conftest import Write
from tests.support.states import index_file


def test_common_words_of_a_large_index_are_counted_ahead(
    memory: Memory, workspace: Path, write: Write, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memwell.store.sqlite.keywords._LARGE", 30)

    def counted() -> dict[str, int]:
        with SqliteIndex(index_file(home)).database.reading() as connection:
            rows = connection.execute("SELECT term, rows FROM common_words")
            return {str(term): int(str(count)) for term, count in rows}

    for number in range(29):
        write(f"{number}.md", f"apple unique{number}\n")
    memory.index(workspace)
    assert counted() == {}
    write("29.md", "apple pear\n")
    memory.index(workspace)
    assert counted()["appl"] == 30
    write("30.md", "apple\n")
    memory.index(workspace)
    assert counted()["appl"] == 30  # about as large as before: not counted again
    for number in range(31, 45):
        write(f"{number}.md", "apple\n")
    memory.index(workspace)
    assert counted()["appl"] == 45
