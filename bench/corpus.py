"""An index of 100,000 chunks: real notes, and generated ones made of sentences of real texts.

It is built once and kept in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import platformdirs

import memwell
from bench import data
from bench.sentences import Collection
from memwell.ingest.chunk_settings import ChunkSettings
from memwell.model import Chunk, Note
from memwell.store.contract.values import SourceFile
from memwell.store.sqlite.index import SqliteIndex

CHUNKS = 100_000
WORKSPACES = ("k8s-en", "til")
SETS = ("scifact", "cranfield", "medline", "anthropic-docs", "locomo-turn-a")

_SEED = 1
_CHUNKS_PER_NOTE = 20
_NOTES_PER_TRANSACTION = 200
_SYNCED_AT = "2000-01-01T00:00:00+00:00"


def kept_index() -> Path:
    """Return the file of the index, built if it is not there."""
    folder = Path(platformdirs.user_cache_dir("memwell-bench", appauthor=False))
    file = folder / f"corpus-{_fingerprint()}.db"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for outdated in folder.glob("corpus-*"):
            outdated.unlink()
        unfinished = file.with_suffix(".unfinished")
        _build(unfinished)
        os.replace(unfinished, file)
    return file


def _fingerprint() -> str:
    """Name everything that decides what is in the index: the code that fills it, and the data."""
    here, package = Path(__file__).parent, Path(memwell.__file__).parent
    files = [here / "corpus.py", here / "sentences.py"]
    files += sorted([*(package / "ingest").glob("*.py"), *(package / "store").glob("*.py")])
    sizes = [(name, (data.find(name) / "corpus.jsonl").stat().st_size) for name in SETS]
    paths = [data.note_paths(data.workspace(name)) for name in WORKSPACES]
    everything = repr(([file.read_bytes() for file in files], sizes, paths))
    return hashlib.blake2b(everything.encode(), digest_size=8).hexdigest()


def _build(file: Path) -> None:
    index = SqliteIndex(file)
    try:
        written = 0
        for name in WORKSPACES:
            written += write_notes(index, name, data.notes(data.workspace(name), ChunkSettings()))
        write_notes(index, "generated", generated(CHUNKS - written))
    finally:
        index.close()


def write_notes(index: SqliteIndex, workspace: str, notes: Iterable[tuple[str, Note]]) -> int:
    """Write notes in batches and end as a sync does; return how many chunks they have."""
    with index.writing() as tables:
        workspace_id = tables.workspace(workspace)
    remaining, written = iter(notes), 0
    while batch := [*islice(remaining, _NOTES_PER_TRANSACTION)]:
        with index.writing() as tables:
            for path, note in batch:
                tables.put(workspace_id, SourceFile(path, 0, 0, 0, "", str(ChunkSettings())), note)
                written += len(note.chunks)
    with index.writing() as tables:
        tables.mark_synced(workspace_id, _SYNCED_AT)
    return written


def generated(chunks: int) -> Iterator[tuple[str, Note]]:
    """Yield notes of generated chunks; the chunks of a note are of the same collection."""
    chance = random.Random(_SEED)
    collections = [*_collections()]
    sizes = [collection.size for collection in collections]
    for number, start in enumerate(range(0, chunks, _CHUNKS_PER_NOTE)):
        (collection,) = chance.choices(collections, sizes)
        count = min(_CHUNKS_PER_NOTE, chunks - start)
        texts = [collection.sample(chance) for _ in range(count)]
        yield f"generated/{number:05}.md", _note(texts)


def _collections() -> Iterator[Collection]:
    for name in WORKSPACES:
        root = data.workspace(name)
        yield Collection(data.read_text(root / path) for path in data.note_paths(root))
    for name in SETS:
        yield Collection(document.text for document in data.labelled_set(name).documents)


def _note(texts: list[str]) -> Note:
    """Make a note of texts, with the first words of the first for a title."""
    chunks = tuple(Chunk(text, line, line) for line, text in enumerate(texts, 1))
    title = " ".join(texts[0].split()[:6])
    return Note(title, date=None, tags=(), aliases=(), links=(), meta={}, chunks=chunks)
