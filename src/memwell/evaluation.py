"""Evaluate memwell itself on a labelled set: the set becomes notes, its queries searches.

A document is a note in a workspace of its group; its score is that of its best chunk. Vectors are
kept in the home between evaluations: embedding is what takes long.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from memwell.config import Config
from memwell.embed.providers import Factory
from memwell.errors import MemwellError
from memwell.evaluate.dataset import Dataset, Document, Question
from memwell.evaluate.report import Evaluation, Ranking, evaluate
from memwell.ingest.read import parse_note
from memwell.ingest.recipe import Recipe
from memwell.ingest.sync import Progress, unwatched
from memwell.meaning import Meaning
from memwell.reports import FillReport
from memwell.search.parse import parse
from memwell.search.pipeline import WORDS, Options, rank, within
from memwell.store.index import Index
from memwell.store.notes import NoteFile

_PER_DOCUMENT = 5
"""Chunks fetched for each document wanted, since several may be of the same one."""


def evaluate_memory(
    dataset: Dataset,
    settings: Config,
    mode: str,
    cache: Path,
    progress: Progress = unwatched,
    embedding: Progress = unwatched,
    embedders: Mapping[str, Factory] | None = None,
) -> Evaluation:
    """Index the set in a temporary place and ask all its questions."""
    recipe = Recipe(settings["chunk.size"], settings["chunk.overlap"])
    with tempfile.TemporaryDirectory(prefix="memwell-eval-") as folder:
        index = Index(Path(folder) / "index.db")
        meaning = Meaning(index, cache.parent, settings, embedders, cache)
        try:
            asked = _Asked(index, meaning, mode, dataset.documents, recipe)
            if mode != WORDS:
                _check(meaning.fill(embedding))
            return evaluate(dataset, asked, progress)
        finally:
            meaning.close()
            index.close()


def _check(done: FillReport) -> None:
    """A figure over half of the vectors would mislead."""
    if done.left:
        raise MemwellError(f"{done.left} passages have no vector: {'; '.join(done.notes)}",
                           "Use --mode words, or mend the provider")  # fmt: skip


class _Asked:
    """A search over the documents of a set."""

    def __init__(
        self, index: Index, meaning: Meaning, mode: str, documents: Sequence[Document],
        recipe: Recipe,
    ) -> None:  # fmt: skip
        self._index = index
        self._meaning = meaning
        self._mode = mode
        self._groups: dict[str, int] = {}
        self._documents: dict[int, str] = {}
        with index.writing() as notes:
            for number, document in enumerate(documents):
                group = self._groups.get(document.group)
                if group is None:
                    group = self._groups[document.group] = notes.workspace(document.group)
                path = f"{_letters(number)}.md"
                note, _ = parse_note(path, _as_note(document), recipe)
                digest = hashlib.blake2b(document.text.encode()).hexdigest()
                note_id, _ = notes.put(group, NoteFile(path, 0, 0, 0, digest, str(recipe)), note)
                self._documents[note_id] = document.id

    def __call__(self, question: Question, k: int) -> Ranking:
        options = Options(k=k * _PER_DOCUMENT, mode=self._mode)
        workspaces = (self._groups.get(question.group, -1),) if question.group else None
        best: dict[str, float] = {}
        with self._index.reading() as reader:
            parsed = parse(question.text)
            parsed = replace(parsed, query=within(parsed.query, workspaces))
            for chunk_id, score in rank(parsed, options, reader, self._meaning.ask).chunks:
                best.setdefault(self._documents[reader.notes.note_of(chunk_id)], score)
        return [*best.items()][:k]


def _letters(number: int) -> str:
    """Spell a number in letters, so that no query with a number finds a note by its name."""
    return "document" + "".join("qwxzjkvbhf"[int(digit)] for digit in str(number))


def _as_note(document: Document) -> str:
    """Write a document as a person would keep it: its title as front matter."""
    return (
        f"---\ntitle: {json.dumps(document.title)}\n---\n{document.text}"
        if document.title
        else document.text
    )
