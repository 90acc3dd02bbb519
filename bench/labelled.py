"""A labelled set in an index of its own, with vectors of the default model, asked step by step.

Vectors are kept between runs: embedding is what takes long.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.windows import CACHE
from memwell import config
from memwell.config.settings import Settings
from memwell.evaluate.dataset import Dataset
from memwell.evaluate.runner import CorpusSearch, check_complete
from memwell.ingest.chunk_settings import ChunkSettings
from memwell.memory.vectors import VectorIndex
from memwell.search.options import search_options
from memwell.search.pipeline import Options, Ranked, parse_query, rank
from memwell.store.contract.query import Filters
from memwell.store.sqlite.index import SqliteIndex
from memwell.store.sqlite.reader import SqliteReader


def default_settings() -> Settings:
    """Return the settings as they are by default, but for room to keep all vectors."""
    kept = {"MEMWELL_CONFIG": str(CACHE.parent), "MEMWELL_EMBEDDING_CACHE_MB": "2000"}
    return config.load(None, kept)


class Indexed:
    """One state of an index of a set."""

    def __init__(self, reader: SqliteReader, meaning: VectorIndex, asked: CorpusSearch) -> None:
        self.reader = reader
        self._meaning = meaning
        self._groups = asked._groups
        self._documents = asked._documents

    @property
    def groups(self) -> list[str]:
        """The groups of documents; a single one without a name where there are none."""
        return [*self._groups]

    def ranked(self, text: str, group: str, options: Options) -> Ranked:
        """Ask for the documents of a group, or of all of them."""
        workspaces = (self._groups[group],) if group else None
        parsed = parse_query(text, Filters(workspaces=workspaces))
        return rank(parsed, options, self.reader, self._meaning.embed_query)

    def document(self, chunk: int) -> str:
        """Return the document that a chunk is of."""
        return self._documents[chunk]


@contextmanager
def indexed(dataset: Dataset) -> Iterator[Indexed]:
    """Index a set in a temporary place."""
    settings = default_settings()
    recipe = ChunkSettings(settings.chunk.size, settings.chunk.overlap)
    with tempfile.TemporaryDirectory(prefix="memwell-labelled-") as folder:
        index = SqliteIndex(Path(folder) / "index.db")
        meaning = VectorIndex(index, CACHE.parent, settings, None, CACHE)
        try:
            asked = CorpusSearch(
                index, meaning, search_options(settings.search), dataset.documents, recipe
            )
            check_complete(meaning.fill())
            with index.reading() as reader:
                yield Indexed(reader, meaning, asked)
        finally:
            meaning.close()
            index.close()
