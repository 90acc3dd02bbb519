"""Random edits of notes, each followed by a search: no answer is stale without saying so."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from memwell import Memory
from memwell.surfaces.background import SERVER_SETTINGS, Background
from tests.soak.conftest import print_figures, sizes

MOST_NOTES = 60
NO_VECTORS = {"embedding.chain": ()}


class Notebook:
    """A folder of notes, each with one word that no other note has, or ever had."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.words: dict[Path, str] = {}
        self.gone: list[str] = []
        self.chance = random.Random(11)
        self.count = 0
        self.edits: Counter[str] = Counter()
        for _ in range(MOST_NOTES // 2):
            self.create()

    def edit(self) -> None:
        """Change something, as editors and other programs do."""
        choices: list[Callable[[], None]] = [
            self.create,
            self.overwrite,
            self.overwrite_with_the_same_times,
            self.replace,
            self.append_in_two_steps,
            self.rename,
            self.delete,
            self.move_folder,
            self.delete_folder,
            self.recreate_folder,
        ]
        weights = [3, 3, 3, 3, 2, 2, 3, 1, 1, 1]
        (change,) = self.chance.choices(choices, weights)
        if not self.words:
            change = self.create
        change()
        self.edits[change.__name__] += 1

    def create(self) -> None:
        folder = self.root / self.chance.choice(["", "a", "b", "a/c", "b/d/e"])
        folder.mkdir(parents=True, exist_ok=True)
        if len(self.words) < MOST_NOTES:
            self._write(folder / f"note{self.count}.md")

    def overwrite(self) -> None:
        self._write(self._any())

    def overwrite_with_the_same_times(self) -> None:
        path = self._any()
        before = path.stat()
        self._write(path)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def replace(self) -> None:
        path = self._any()
        part = path.with_suffix(".part")
        self._forget(path)
        self.words[path] = self._text(part)
        part.replace(path)

    def append_in_two_steps(self) -> None:
        path = self._any()
        self._forget(path)
        with path.open("w") as file:
            file.write("# Note\n")
            file.flush()
            self.words[path] = self._new_word()
            file.write(f"{self.words[path]}\n")

    def rename(self) -> None:
        path = self._any()
        self.count += 1
        self.words[path.rename(path.with_name(f"note{self.count}.md"))] = self.words.pop(path)

    def delete(self) -> None:
        path = self._any()
        path.unlink()
        self._forget(path)

    def move_folder(self) -> None:
        source = self.root / "a"
        if source.is_dir():
            self.count += 1
            target = source.rename(self.root / f"f{self.count}")
            self.words = {
                target / path.relative_to(source) if source in path.parents else path: word
                for path, word in self.words.items()
            }

    def delete_folder(self) -> None:
        folders = [path for path in self.root.iterdir() if path.is_dir()]
        if folders:
            folder = self.chance.choice(folders)
            shutil.rmtree(folder)
            for path in [path for path in self.words if folder in path.parents]:
                self._forget(path)

    def recreate_folder(self) -> None:
        folder = self.root / "b"
        shutil.rmtree(folder, ignore_errors=True)
        for path in [path for path in self.words if folder in path.parents]:
            self._forget(path)
        folder.mkdir()
        self._write(folder / "again.md")

    def _any(self) -> Path:
        return self.chance.choice([*self.words])

    def _write(self, path: Path) -> None:
        self._forget(path)
        self.words[path] = self._text(path)

    def _text(self, path: Path) -> str:
        word = self._new_word()
        path.write_text(f"# Note\n\nThe word of this note is {word}.\n")
        return word

    def _new_word(self) -> str:
        self.count += 1
        return f"zq{self.count:07}x"  # of one length, so that the size of a note does not change

    def _forget(self, path: Path) -> None:
        if word := self.words.pop(path, None):
            self.gone.append(word)


def check(memory: Memory, notebook: Notebook) -> bool:
    """Search a word that exists and one that is gone; return whether the answer may be stale."""
    stale = False
    if notebook.words:
        path, word = notebook.chance.choice([*notebook.words.items()])
        result = memory.search(word, mode="words")
        stale = bool(result.freshness.pending or result.freshness.note)
        found = [hit.path for hit in result.hits if word in hit.text]
        assert stale or found == [path.relative_to(notebook.root).as_posix()]
    if notebook.gone:
        gone = notebook.chance.choice(notebook.gone[-5:])
        again = memory.search(gone, mode="words")
        late = again.freshness.pending or again.freshness.note
        assert late or not [hit for hit in again.hits if gone in hit.text]
    return stale


@sizes(150, 10_000)
def test_no_answer_is_stale(tmp_path: Path, size: int) -> None:
    notebook = Notebook(_folder(tmp_path))
    stale = 0
    with Memory(tmp_path / "home", settings=NO_VECTORS) as memory:
        memory.index(notebook.root)
        for turn in range(size):
            notebook.edit()
            if turn % 10:
                stale += check(memory, notebook)
                continue
            with Memory(tmp_path / "home", settings=NO_VECTORS) as other:
                stale += check(other, notebook)
    assert stale == 0
    print_figures("edits", edits=dict(notebook.edits), stale=stale)


@pytest.mark.skipif(SERVER_SETTINGS["sync.on_search"] is False, reason="only Linux has its events")
def test_a_server_finds_a_note_that_was_written_a_moment_ago(tmp_path: Path) -> None:
    notebook = Notebook(_folder(tmp_path))
    with Memory(tmp_path / "home", settings={**SERVER_SETTINGS, **NO_VECTORS}) as memory:
        memory.index(notebook.root)
        with Background(memory, lambda _: None):
            for _ in range(60):
                notebook.edit()
                check(memory, notebook)


def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder
