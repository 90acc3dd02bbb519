"""Chunks without a vector are handed out newest first, each once, whatever changes meanwhile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from memwell.model import Chunk, Note
from memwell.store.contract.values import FILLING, SourceFile, Space, WaitingChunk
from memwell.store.sqlite import waiting
from memwell.store.sqlite.index import SqliteIndex
from memwell.store.sqlite.waiting import WaitingQueue


class Home:
    """An index with an empty space."""

    def __init__(self, folder: Path) -> None:
        self.index = SqliteIndex(folder / "index.db")
        with self.index.writing() as notes:
            self.workspace = notes.workspace("w")
        with self.index.writing_spaces() as spaces:
            spaces.open(Space(0, "f", "test", "m", 2, "{}", FILLING, "2026-01-01"))
            found = spaces.find("f")
        assert found is not None
        self.space = found
        self.index.move_vectors(found)
        self.queue = WaitingQueue(self.index)

    def write(self, name: str, day: int, *texts: str) -> int:
        chunks = tuple(Chunk(text, line, line) for line, text in enumerate(texts, 1))
        file = SourceFile(name, 0, day, 0, name, "r")
        with self.index.writing() as notes:
            key, _ = notes.put(self.workspace, file, Note("", None, (), (), (), {}, chunks))
        return key

    def take(self, limit: int) -> list[str]:
        """Embed the next chunks; return their texts."""
        chunks = self.queue.take(self.space, limit)
        self.embed(chunks)
        return [chunk.text for chunk in chunks]

    def embed(self, chunks: list[WaitingChunk]) -> None:
        vector = np.array([[1, 0]], dtype=np.float32)
        self.index.put_vectors(self.space, [(chunk.chunk_id, vector) for chunk in chunks])


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_the_newest_notes_come_first_and_each_chunk_once(home: Home) -> None:
    home.write("old.md", 1, "a", "b")
    home.write("new.md", 2, "c", "d")
    assert [home.take(3), home.take(3), home.take(3)] == [["c", "d", "a"], ["b"], []]


def test_a_note_that_was_written_meanwhile_comes_next(home: Home) -> None:
    home.write("old.md", 1, "a", "b")
    assert home.take(1) == ["a"]
    home.write("new.md", 2, "c")
    assert [home.take(1), home.take(1), home.take(1)] == [["c"], ["b"], []]


def test_chunks_that_were_deleted_or_embedded_meanwhile_are_passed_over(home: Home) -> None:
    gone = home.write("gone.md", 2, "a", "b")
    home.write("kept.md", 1, "c", "d")
    assert home.take(1) == ["a"]
    with home.index.writing() as notes:
        notes.delete([gone])
    by_another = WaitingQueue(home.index).take(home.space, 1)
    assert [chunk.text for chunk in by_another] == ["c"]
    home.embed(by_another)
    assert [home.take(1), home.take(1)] == [["d"], []]


def test_chunks_of_a_large_index_are_sorted_some_at_a_time(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_SORTED", 4)
    for day in range(5):
        home.write(f"{day}.md", day, f"{day} one", f"{day} two")
    taken = [home.take(3) for _ in range(5)]
    assert [len(texts) for texts in taken] == [3, 1, 3, 1, 2]
    assert [text[0] for texts in taken for text in texts] == [*"4433221100"]
