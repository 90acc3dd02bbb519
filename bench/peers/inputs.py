"""Writes the passages, questions and vectors of a labelled set, once, for all peers.

memwell indexes the set with its default model, and the vector of every text that it embeds is kept:
one for a text (its first window), also where memwell alone would keep several.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench import data
from bench.measure import temporary_home
from memwell import Memory
from memwell.embed.multilingual import Multilingual
from memwell.evaluate.dataset import Dataset
from memwell.evaluate.runner import _note_text, _unsearchable_name
from memwell.ingest.chunk_settings import ChunkSettings
from memwell.store.rows import with_headings

_QUESTIONS, _DOCUMENTS = 100, 2_000
"""At most so many of a set: some stores need seconds for a question."""


class Recorder(Multilingual):
    """The default model, which remembers the texts that it has embedded."""

    name = "recorder"
    fingerprint = f"{Multilingual.fingerprint} recorded"

    def __init__(self) -> None:
        super().__init__()
        self.vectors: dict[str, Any] = {}

    def embed_documents(self, texts: Sequence[str]) -> list[Any]:
        """Embed texts and keep the first vector of each."""
        found = [rows[:1] for rows in super().embed_documents(texts)]
        self._keep(texts, found)
        return found

    def embed_query(self, text: str) -> Any:
        """Embed a question and keep its vector."""
        rows = super().embed_query(text)
        self._keep([text], [rows])
        return rows

    def _keep(self, texts: Sequence[str], found: Sequence[Any]) -> None:
        for text, rows in zip(texts, found, strict=True):
            self.vectors[text] = rows[0] if len(rows) else np.zeros(self.dimensions, np.float32)


def sample(dataset: Dataset) -> Dataset:
    """Return some questions, the documents that answer them, and other documents."""
    questions = dataset.questions[:: max(1, len(dataset.questions) // _QUESTIONS)][:_QUESTIONS]
    needed = {document for question in questions for document in dataset.relevant[question.id]}
    others = [one.id for one in dataset.documents if one.id not in needed]
    kept = needed.union(others[: max(0, _DOCUMENTS - len(needed))])
    documents = tuple(one for one in dataset.documents if one.id in kept)
    return replace(dataset, documents=documents, questions=questions)


def write_set(dataset: Dataset, parent: Path) -> tuple[Path, dict[str, str]]:
    """Write a set unless it is there; return its folder, and the document of each note."""
    recipe = (Multilingual.fingerprint, ChunkSettings(), dataset)
    folder = parent / f"{dataset.name}-{hashlib.blake2b(repr(recipe).encode()).hexdigest()[:12]}"
    names = [f"{_unsearchable_name(number)}.md" for number in range(len(dataset.documents))]
    done = folder / "questions.json"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        notes = folder / "notes"
        notes.mkdir(parents=True)
        for name, document in zip(names, dataset.documents, strict=True):
            (notes / name).write_text(_note_text(document), encoding="utf-8")
        recorder = _embed(notes, [question.text for question in dataset.questions])
        rows = {text: row for row, text in enumerate(recorder.vectors)}
        np.array([*recorder.vectors.values()], dtype="<f4").tofile(folder / "vectors.f32")
        _write(folder / "texts.json", [*rows])
        _write(folder / "chunks.json", _chunks(notes, rows))
        _write(done, [[one.id, one.text, rows[one.text]] for one in dataset.questions])
    return folder, dict(zip(names, (one.id for one in dataset.documents), strict=True))


def _embed(notes: Path, questions: Sequence[str]) -> Recorder:
    recorder = Recorder()
    with temporary_home("recorder"), Memory(embedders={"recorder": lambda: recorder}) as memory:
        memory.index(notes)
    for question in questions:
        recorder.embed_query(question)
    return recorder


def _chunks(notes: Path, rows: dict[str, int]) -> list[tuple[str, str, int]]:
    """Return the passages that memwell makes of the notes, each with the headings above it."""
    found = []
    for path, note in data.notes(notes, ChunkSettings()):
        title = str(note.meta.get("title") or "")
        for number, chunk in enumerate(note.chunks):
            text = with_headings(title, "\n".join(chunk.heading), chunk.text)
            found.append((f"{path}#{number}", text, rows[text]))
    return found


def _write(file: Path, rows: object) -> None:
    file.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
