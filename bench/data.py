"""Where the benchmarks' data lies, and how it is read: workspaces as notes, sets as texts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from memwell.evaluate.dataset import Dataset, load
from memwell.ingest.chunk_settings import ChunkSettings
from memwell.ingest.parse_note import decode, parse_note
from memwell.ingest.scan import Selection, scan
from memwell.model import Note

PUBLIC_SETS = (
    "anthropic-docs",
    "cranfield",
    "medline",
    "locomo-turn-a",
    "scifact",
    "cosqa-code",
    "xquad-en",
)
"""The sets that the ranking was fitted on."""
VARIABLE = "MEMWELL_BENCH_DATA"
_BESIDE = Path(__file__).resolve().parent.parent.parent / "shared" / "bench"


class MissingData(Exception):
    """The data of a benchmark is not on this machine; the message says which."""


def find(name: str) -> Path:
    """Return a folder of the data, by its name there."""
    folder = Path(os.environ.get(VARIABLE, _BESIDE)) / name
    if not folder.is_dir():
        raise MissingData(f"no folder {name} in the data (set {VARIABLE} to where it lies)")
    return folder.resolve()


def workspace(name: str) -> Path:
    """Return a tree of real Markdown."""
    return find(f"workspaces/{name}")


def labelled_set(name: str) -> Dataset:
    """Read a labelled set."""
    return load(find(name))


def note_paths(root: Path) -> list[str]:
    """Return the notes of a workspace, as memwell finds them."""
    return [*scan(Selection(root)).files]


def read_note(root: Path, path: str, recipe: ChunkSettings) -> Note:
    """Read one note of a workspace, as memwell does."""
    note, _ = parse_note(path, read_text(root / path), recipe)
    return note


def read_text(file: Path) -> str:
    """Read a file, as memwell does."""
    text, _ = decode(file.read_bytes())
    return text


def notes(root: Path, recipe: ChunkSettings) -> Iterator[tuple[str, Note]]:
    """Yield the path of every note of a workspace, and the note."""
    for path in note_paths(root):
        yield path, read_note(root, path, recipe)
