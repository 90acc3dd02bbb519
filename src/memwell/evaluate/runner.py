"""Evaluate memwell itself: on a labelled dataset, or on a user's own cases.

The documents of a dataset become notes in a temporary index, and its queries become searches. A
document is one note, in a workspace for its group; the documents of a session are the chunks of
one note. The score of a document is that of its best chunk. Vectors are cached in the home folder
between evaluations, because embedding takes most of the time. A user's own cases are searched in
the memory as it is.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

from memwell.config.fields import Value, parse_env
from memwell.config.settings import Settings, setting_named
from memwell.embed.providers import Factory
from memwell.errors import ConfigError, MemwellError
from memwell.evaluate.dataset import Dataset, Document, Question
from memwell.evaluate.report import FIRST, Evaluation, Ranking, evaluate
from memwell.evaluate.tune import Overrides
from memwell.facts.guard import redact
from memwell.facts.recall_subject import least_relevance
from memwell.ingest.chunk_settings import ChunkSettings
from memwell.ingest.parse_note import parse_note
from memwell.llm.log import budget_of
from memwell.memory import Memory
from memwell.memory.vectors import VectorIndex
from memwell.model import HYPOTHETICAL, Freshness, Hit, Leg, SearchResult
from memwell.progress import Progress, no_progress
from memwell.reports import FillReport
from memwell.search import hyde
from memwell.search.fuse import WORDS
from memwell.search.options import search_options
from memwell.search.pipeline import Options, parse_query, rank
from memwell.store.contract import index as contract
from memwell.store.contract.query import Filters
from memwell.store.contract.values import SourceFile
from memwell.store.sqlite.index import SqliteIndex

_PER_DOCUMENT = 5
"""Chunks to fetch for each document, since several may belong to the same one."""


def evaluate_memory(
    dataset: Dataset,
    settings: Settings,
    mode: str,
    cache: Path,
    progress: Progress = no_progress,
    embedding: Progress = no_progress,
    embedders: Mapping[str, Factory] | None = None,
    k: int = FIRST,
    recall: RecallRun | None = None,
    index: contract.Index | None = None,
) -> Evaluation:
    """Index a dataset in a temporary folder and search for all its questions.

    With `recall`, search as `memwell recall` does. With `index`, an empty one, use that index.
    """
    recipe = ChunkSettings(settings.chunk.size, settings.chunk.overlap)
    agent = cache.parent / "agents" / settings.agent
    with (
        tempfile.TemporaryDirectory(prefix="memwell-eval-") as folder,
        closing(index or SqliteIndex(Path(folder) / "index.db")) as used,
        closing(VectorIndex(used, cache.parent, settings, embedders, cache)) as vectors,
        closing(SqliteIndex(agent / "index.db")) as cooldowns,
    ):
        options = search_options(settings.search, mode=mode)
        corpus = CorpusSearch(used, vectors, options, dataset.documents, recipe)
        if mode != WORDS:
            check_complete(vectors.fill(embedding))
        search = RecallSearch(corpus, settings, recall, agent, cooldowns) if recall else corpus
        return evaluate(dataset, search, progress, k=k)


def check_complete(report: FillReport) -> None:
    """Raise an error if a passage has no vector: figures without it would mislead."""
    if report.left:
        raise MemwellError(
            f"{report.left} passages have no vector: {'; '.join(report.notes)}",
            "Use --mode words, or check the embedding provider",
        )


class CorpusSearch:
    """Searches the documents of a dataset."""

    def __init__(
        self,
        index: contract.Index,
        vectors: VectorIndex,
        options: Options,
        documents: Sequence[Document],
        recipe: ChunkSettings,
    ) -> None:
        self._index = index
        self._vectors = vectors
        self._options = options
        self._groups: dict[str, int] = {}
        self._documents: dict[int, str] = {}
        with index.writing() as notes:
            for number, (_, together) in enumerate(groupby(enumerate(documents), _session)):
                self._add_documents([document for _, document in together], number, notes, recipe)

    def _add_documents(
        self,
        documents: Sequence[Document],
        number: int,
        notes: contract.Notes,
        recipe: ChunkSettings,
    ) -> None:
        """Write a document as a note, or the documents of a session as the chunks of one note."""
        name = documents[0].group
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = notes.workspace(name)
        path = f"{_unsearchable_name(number)}.md"
        parsed = [parse_note(path, _note_text(document), recipe)[0] for document in documents]
        note = replace(parsed[0], chunks=tuple(part for one in parsed for part in one.chunks))
        text = "\n".join(document.text for document in documents)
        digest = hashlib.blake2b(text.encode()).hexdigest()
        note_id, _ = notes.put(group, SourceFile(path, 0, 0, 0, digest, str(recipe)), note)
        owners = [
            document.id for document, one in zip(documents, parsed, strict=True) for _ in one.chunks
        ]
        self._documents.update(zip(notes.chunk_ids(note_id), owners, strict=True))

    def __call__(self, question: Question, k: int) -> Ranking:
        """Return the first `k` documents for a question."""
        return self.document_ids(question, replace(self._options, k=k))[0]

    def document_ids(
        self, question: Question, options: Options, passage: str = ""
    ) -> tuple[Ranking, tuple[Leg, ...]]:
        """Return the documents found and the legs; vector search uses `passage` if it is given."""
        chunks = replace(options, k=options.k * _PER_DOCUMENT)
        workspaces = (self._groups.get(question.group, -1),) if question.group else None
        parsed = parse_query(question.text, Filters(workspaces=workspaces))
        best: dict[str, float] = {}
        with self._index.reading() as reader:
            vectors = self._vectors
            embed = partial(vectors.embed_query_as, passage) if passage else vectors.embed_query
            ranked = rank(parsed, chunks, reader, embed)
        for candidate in ranked.candidates:
            best.setdefault(self._documents[candidate.chunk_id], candidate.relevance)
        return [*best.items()][: options.k], ranked.legs


def _session(numbered: tuple[int, Document]) -> tuple[str, str, int]:
    """Return a key that only neighbours share; a document without a session has no neighbours."""
    number, document = numbered
    return document.group, document.session, 0 if document.session else number


def _unsearchable_name(number: int) -> str:
    """Spell a number in letters, so that a query with a number does not match a note's name."""
    return "document" + "".join("qwxzjkvbhf"[int(digit)] for digit in str(number))


def _note_text(document: Document) -> str:
    """Return a document as a person would write it: title and date in the front matter."""
    fields = {"title": json.dumps(document.title), "date": document.date}
    lines = [f"{name}: {value}" for name, value in fields.items() if value and value != '""']
    return "\n".join(["---", *lines, "---", document.text]) if lines else document.text


# -- as `recall` does ------------------------------------------------------------------------------


class RecallRun:
    """The language model and budget that all recalls of an evaluation share."""

    def __init__(self, settings: Settings) -> None:
        self.notices: list[str] = []
        self.model = hyde.describe_model(settings)
        self.budget = budget_of(settings, self.notices.append)
        self.answered: set[str] = set()
        """Queries for which a hypothetical answer was found."""

    def search(self, query: str, memory: Memory) -> SearchResult:
        """Search a memory as `recall` does."""
        return self.count(query, memory.search_for_recall(query, budget=self.budget))

    def count(self, query: str, result: SearchResult) -> SearchResult:
        """Record whether a hypothetical answer took part in a result, and return the result."""
        if any(leg.detail == HYPOTHETICAL for leg in result.legs):
            self.answered.add(query)
        return result

    def notify(self, notice: str) -> None:
        """Keep a sentence for the user, once."""
        if notice not in self.notices:
            self.notices.append(notice)


WAYS: Mapping[str, Mapping[str, Value]] = {
    "plain": {"search.hyde_enabled": False},
    "add": {"search.hyde_enabled": True, "search.hyde_mode": "add"},
    "replace": {"search.hyde_enabled": True, "search.hyde_mode": "replace"},
}
"""The ways to search for a message, each with its settings."""


@dataclass(frozen=True, slots=True)
class RecallSearch:
    """Searches the documents of a dataset as `recall` does."""

    search: CorpusSearch
    settings: Settings
    recall: RecallRun
    folder: Path
    cooldowns: contract.Index

    def __call__(self, question: Question, k: int) -> Ranking:
        """Return the first `k` documents of a recall, which finds about ``recall.k``."""
        settings, recall, passage = self.settings, self.recall, ""
        if hyde.is_enabled(settings):
            passage = hyde.find_hypothetical_answer(
                redact(question.text),
                settings,
                self.folder,
                self.cooldowns,
                recall.notify,
                recall.budget,
            )
        plan = hyde.plan_searches(passage, settings.search.hyde_mode)
        results = [self._run(question, search) for search in plan]
        result = recall.count(question.text, hyde.merge_results(results))
        return [(hit.path, hit.score) for hit in result.hits[:k]]

    def _run(self, question: Question, search: hyde.HydeSearch) -> SearchResult:
        """Return documents as hits, each with its own path and text."""
        recall = self.settings.recall
        least = least_relevance(question.text, recall.min_score)
        options = search_options(
            self.settings.search, k=recall.k, min_score=least, mode=search.mode
        )
        ranking, legs = self.search.document_ids(question, options, search.passage)
        hits = [Hit(name, "", 1, 1, score, score, text=name) for name, score in ranking]
        return SearchResult(question.text, tuple(hits), legs, Freshness(checked=True))


# -- a user's own cases ----------------------------------------------------------------------------

SearchMemory = Callable[[str, int], SearchResult]
"""Searches a memory for a query and a number of passages."""
SearchEach = Callable[[str, int, Sequence[Overrides]], Sequence[SearchResult]]
"""The same, once with each of several overrides."""

_LISTED = 100_000
_AT_ONCE = 100
"""SQLite refuses conditions with more than a thousand parts."""


class NoteSearch:
    """Searches a memory and returns notes instead of passages, each note once."""

    def __init__(self, search: SearchEach) -> None:
        self._search = search
        self.passages: dict[tuple[str, str], str] = {}
        """The passage found last, by the id of the question and the path of the note."""
        self.caveats: Counter[str] = Counter()
        """Reasons why results may be incomplete, and for how many questions."""

    def __call__(self, question: Question, k: int) -> Ranking:
        """Search for `k` passages and return their notes."""
        return self.search_each(question, k, [{}])[0]

    def search_each(self, question: Question, k: int, ways: Sequence[Overrides]) -> list[Ranking]:
        """Search for `k` passages with each of several overrides and return their notes."""
        results = self._search(question.text, k, ways)
        self.caveats.update({caveat for result in results for caveat in _caveats(result)})
        found = [_notes(result) for result in results]
        for notes in found:
            self.passages |= {(question.id, path): hit.text for path, hit in notes.items()}
        return [[(path, hit.score) for path, hit in notes.items()] for notes in found]


def _notes(result: SearchResult) -> dict[str, Hit]:
    """Return the notes of a result, best first, each with its best hit."""
    best: dict[str, Hit] = {}
    for hit in result.hits:
        for path in _paths(hit):
            best.setdefault(path, hit)
    return best


def _caveats(result: SearchResult) -> Iterator[str]:
    """Yield the reasons why a result may be incomplete."""
    for leg in result.legs:
        if not leg.answered:
            yield f"{leg.name} did not answer: {leg.reason}"
    if result.freshness.pending:
        yield "changed notes are not indexed yet: run `memwell index`"


def find_known_notes(paths: Iterable[str], search: SearchMemory) -> set[str]:
    """Return the paths that are notes of the index; a query of path filters alone lists them."""
    wanted = [*paths]
    found: set[str] = set()
    for start in range(0, len(wanted), _AT_ONCE):
        filters = " ".join(f'path:"{_glob(path)}"' for path in wanted[start : start + _AT_ONCE])
        found |= {path for hit in search(filters, _LISTED).hits for path in _paths(hit)}
    return found & set(wanted)


def _paths(hit: Hit) -> list[str]:
    """Return the paths of a hit's note and of the notes that hold the same passage."""
    return [hit.path, *(place.rpartition(":")[0] for place in hit.also)]


def _glob(path: str) -> str:
    """Return a pattern for a path: ? replaces every character that could have a meaning."""
    return re.sub(r"[^A-Za-z0-9/_-]", "?", path)


# -- a second configuration ------------------------------------------------------------------------

_WITHOUT_EFFECT = (
    "agent",
    "facts.",
    "ingest.",
    "llm.",
    "note.",
    "recall.",
    "scan.",
    "search.hyde_",
    "search.k",
    "sync.",
    "vectors.",
)
"""Settings, or prefixes of their names, that do not change any figure."""
_OF_THE_INDEX = ("chunk.", "embedding.")


def parse_settings(text: str) -> dict[str, str]:
    """Parse ``NAME=VALUE,NAME=VALUE``; a part without = continues the list before it."""
    found: dict[str, str] = {}
    name = ""
    for part in text.split(","):
        before, equals, value = part.partition("=")
        if equals:
            name = setting_named(before.strip()).name
            found[name] = value.strip()
        elif name:
            found[name] += f",{part.strip()}"
        else:
            raise ConfigError(
                f"{text!r} does not set anything", "Write NAME=VALUE, for example search.mode=words"
            )
    return found


def check_comparable(settings: Iterable[str], *, of_a_memory: bool) -> None:
    """Raise an error for a setting that would change no figure, or only those of a new index."""
    for name in settings:
        if _matches_any(name, _WITHOUT_EFFECT):
            raise ConfigError(
                f"{name} does not change any figure", "Compare settings that change a ranking"
            )
        if of_a_memory and _matches_any(name, _OF_THE_INDEX):
            raise ConfigError(
                f"{name} decides how notes are indexed, but cases search the index as it is",
                "Compare settings of the search, or use a labelled dataset, which is indexed anew",
            )


def _matches_any(name: str, names: Iterable[str]) -> bool:
    return any(name == one or (one.endswith((".", "_")) and name.startswith(one)) for one in names)


def to_overrides(settings: Mapping[str, str], origin: str) -> dict[str, Value]:
    """Return the values of settings that were written as text; an error names the `origin`."""
    return {name: parse_env(setting_named(name), text, origin) for name, text in settings.items()}
