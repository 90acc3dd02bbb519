"""Evaluate memwell itself: on a labelled set, or on a user's own cases.

A labelled set becomes notes, its queries searches. A document is a note in a workspace of its
group, or one of several passages of a note if it is part of a session; its score is that of its
best chunk. Vectors are kept in the home between evaluations:
embedding is what takes long. Cases are asked of a memory as it is.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path

from memwell.config.settings import Settings, setting_named
from memwell.embed.providers import Factory
from memwell.errors import ConfigError, MemwellError
from memwell.evaluate.dataset import Dataset, Document, Question
from memwell.evaluate.report import FIRST, Evaluation, Ranking, evaluate
from memwell.evaluate.tune import Overrides
from memwell.facts.guard import redact
from memwell.ingest.chunk_settings import ChunkSettings
from memwell.ingest.parse_note import parse_note
from memwell.ingest.sync import Progress, no_progress
from memwell.llm.log import budget_of
from memwell.memory import Memory
from memwell.memory.vectors import VectorIndex
from memwell.model import HYPOTHETICAL, Freshness, Hit, Leg, SearchResult
from memwell.reports import FillReport
from memwell.search import hyde
from memwell.search.fuse import WORDS
from memwell.search.options import search_options
from memwell.search.pipeline import Options, rank, read_text
from memwell.store.contract import index as contract
from memwell.store.contract.query import Filters
from memwell.store.contract.values import SourceFile
from memwell.store.sqlite.index import SqliteIndex

_PER_DOCUMENT = 5
"""Chunks fetched for each document wanted, since several may be of the same one."""


def evaluate_memory(
    dataset: Dataset,
    settings: Settings,
    mode: str,
    cache: Path,
    progress: Progress = no_progress,
    embedding: Progress = no_progress,
    embedders: Mapping[str, Factory] | None = None,
    k: int = FIRST,
    recalling: RecallSettings | None = None,
    index: contract.Index | None = None,
) -> Evaluation:
    """Index the set in a temporary place and ask all its questions, as `recall` would if told.

    With an `index`, an empty one, it is indexed there.
    """
    recipe = ChunkSettings(settings.chunk.size, settings.chunk.overlap)
    with tempfile.TemporaryDirectory(prefix="memwell-eval-") as folder:
        index = index or SqliteIndex(Path(folder) / "index.db")
        meaning = VectorIndex(index, cache.parent, settings, embedders, cache)
        try:
            options = search_options(settings.search, mode=mode)
            asked = CorpusSearch(index, meaning, options, dataset.documents, recipe)
            if mode != WORDS:
                _check_settings(meaning.fill(embedding))
            agent = cache.parent / "agents" / settings.agent
            with closing(SqliteIndex(agent / "index.db")) as kept:
                search = (
                    RecallSearch(asked, settings, recalling, agent, kept) if recalling else asked
                )
                return evaluate(dataset, search, progress, k=k)
        finally:
            meaning.close()
            index.close()


def _check_settings(done: FillReport) -> None:
    """A figure over half of the vectors would mislead."""
    if done.left:
        raise MemwellError(
            f"{done.left} passages have no vector: {'; '.join(done.notes)}",
            "Use --mode words, or mend the provider",
        )


class CorpusSearch:
    """A search over the documents of a set."""

    def __init__(
        self,
        index: contract.Index,
        meaning: VectorIndex,
        options: Options,
        documents: Sequence[Document],
        recipe: ChunkSettings,
    ) -> None:
        self._index = index
        self._meaning = meaning
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
        """Write a document as a note, or those of a session as the passages of one."""
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
        return self.document_ids(question, replace(self._options, k=k))[0]

    def document_ids(
        self, question: Question, options: Options, passage: str = ""
    ) -> tuple[Ranking, tuple[Leg, ...]]:
        """Return the documents found, by the meaning of a passage if one is given, and the legs."""
        chunks = replace(options, k=options.k * _PER_DOCUMENT)
        workspaces = (self._groups.get(question.group, -1),) if question.group else None
        parsed = read_text(question.text, Filters(workspaces=workspaces))
        best: dict[str, float] = {}
        with self._index.reading() as reader:
            ask = (
                partial(self._meaning.embed_query_as, passage)
                if passage
                else self._meaning.embed_query
            )
            ranked = rank(parsed, chunks, reader, ask)
        for found in ranked.candidates:
            best.setdefault(self._documents[found.chunk_id], found.relevance)
        return [*best.items()][: options.k], ranked.legs


def _session(numbered: tuple[int, Document]) -> tuple[str, str, int]:
    """What neighbours have in common; a document of no session has no neighbours."""
    number, document = numbered
    return document.group, document.session, 0 if document.session else number


def _unsearchable_name(number: int) -> str:
    """Spell a number in letters, so that no query with a number finds a note by its name."""
    return "document" + "".join("qwxzjkvbhf"[int(digit)] for digit in str(number))


def _note_text(document: Document) -> str:
    """Write a document as a person would keep it: its title and date as front matter."""
    known = {"title": json.dumps(document.title), "date": document.date}
    lines = [f"{name}: {value}" for name, value in known.items() if value and value != '""']
    return "\n".join(["---", *lines, "---", document.text]) if lines else document.text


# -- as `recall` does ------------------------------------------------------------------------------


class RecallSettings:
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


WAYS: Mapping[str, Mapping[str, str]] = {
    "plain": {"search.hyde_enabled": "false"},
    "add": {"search.hyde_enabled": "true", "search.hyde_mode": "add"},
    "replace": {"search.hyde_enabled": "true", "search.hyde_mode": "replace"},
}
"""To search for a message, by the settings that do it."""


class RecallSearch:
    """A search over the documents of a set as `recall` does it."""

    def __init__(
        self,
        search: CorpusSearch,
        settings: Settings,
        recalling: RecallSettings,
        folder: Path,
        index: contract.Index,
    ) -> None:
        self._search = search
        self._settings = settings
        self._recalling = recalling
        self._folder = folder
        self._index = index

    def __call__(self, question: Question, k: int) -> Ranking:
        """Return the documents found; their number is ``recall.k``, as in a recall."""
        settings, passage = self._settings, ""
        if hyde.is_enabled(settings):
            passage = hyde.find_hypothetical_answer(
                redact(question.text),
                settings,
                self._folder,
                self._index,
                self._recalling.notify,
                self._recalling.budget,
            )
        plan = hyde.plan_searches(passage, self._settings.search.hyde_mode)
        results = [self._run(question, search) for search in plan]
        result = self._recalling.count(question.text, hyde.merge_results(results))
        return [(hit.path, hit.score) for hit in result.hits]

    def _run(self, question: Question, search: hyde.HydeSearch) -> SearchResult:
        """Return documents as hits: each is a place and a text of its own."""
        options = search_options(self._settings.search, k=self._settings.recall.k, mode=search.mode)
        ranking, legs = self._search.document_ids(question, options, search.passage)
        hits = [Hit(name, "", 1, 1, score, score, text=name) for name, score in ranking]
        return SearchResult(question.text, tuple(hits), legs, Freshness(checked=True))


# -- a user's own cases ----------------------------------------------------------------------------

SearchMemory = Callable[[str, int], SearchResult]
"""Asks a memory a query for so many passages."""
SearchEach = Callable[[str, int, Sequence[Overrides]], Sequence[SearchResult]]
"""The same once with each of several settings."""

_LISTED = 100_000
_AT_ONCE = 100
"""SQLite refuses conditions of more than a thousand parts."""


def evaluate_cases(
    dataset: Dataset, asked: NoteSearch, progress: Progress = no_progress, k: int = FIRST
) -> Evaluation:
    """Ask a memory all the cases of a set made by `as_dataset`."""
    return evaluate(dataset, asked, progress, k=k, depth=k, by_note=True)


class NoteSearch:
    """The notes a memory finds, each once, by the path of its best passage."""

    def __init__(self, search: SearchMemory) -> None:
        self._search = search
        self.passages: dict[tuple[str, str], str] = {}
        """For the id of a question and a path, the passage that was found."""
        self.caveats: Counter[str] = Counter()
        """What kept answers from being complete, and how many of them."""

    def __call__(self, question: Question, k: int) -> Ranking:
        """Ask for `k` passages, and return the notes they are of."""
        result = self._search(question.text, k)
        notes = _notes(result)
        self.passages |= {(question.id, path): hit.text for path, hit in notes.items()}
        self.caveats.update(_caveats(result))
        return _ranking(notes)


class NoteSearchEach:
    """The notes a memory finds with each of several settings."""

    def __init__(self, search: SearchEach) -> None:
        self._search = search
        self.caveats: Counter[str] = Counter()
        """What kept answers from being complete, and of how many questions."""

    def __call__(self, question: Question, k: int, ways: Sequence[Overrides]) -> list[Ranking]:
        """Ask for `k` passages in each way, and return the notes they are of."""
        results = self._search(question.text, k, ways)
        self.caveats.update({caveat for result in results for caveat in _caveats(result)})
        return [_ranking(_notes(result)) for result in results]


def _notes(result: SearchResult) -> dict[str, Hit]:
    """Return the notes that were found, best first, each with its best passage."""
    best: dict[str, Hit] = {}
    for hit in result.hits:
        for path in _paths(hit):
            best.setdefault(path, hit)
    return best


def _ranking(notes: Mapping[str, Hit]) -> Ranking:
    return [(path, hit.score) for path, hit in notes.items()]


def _caveats(result: SearchResult) -> Iterator[str]:
    """Yield what kept an answer from being complete."""
    for leg in result.legs:
        if not leg.answered:
            yield f"{leg.name} did not answer: {leg.reason}"
    if result.freshness.pending:
        yield "changed notes are not indexed yet: run `memwell index`"


def find_known_notes(paths: Iterable[str], search: SearchMemory) -> set[str]:
    """Return which of the paths are notes of the index, as filters alone list them."""
    wanted = [*paths]
    found: set[str] = set()
    for start in range(0, len(wanted), _AT_ONCE):
        filters = " ".join(f'path:"{_glob(path)}"' for path in wanted[start : start + _AT_ONCE])
        found |= {path for hit in search(filters, _LISTED).hits for path in _paths(hit)}
    return found & set(wanted)


def _paths(hit: Hit) -> list[str]:
    """Return the note a hit is of, and those that hold the same passage."""
    return [hit.path, *(place.rpartition(":")[0] for place in hit.also)]


def _glob(path: str) -> str:
    """A pattern for one path: what is no plain letter may be any sign, so none is misread."""
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
"""Settings, or beginnings of their names, that no evaluation depends on."""
_OF_THE_INDEX = ("chunk.", "embedding.")


def parse_settings(text: str) -> dict[str, str]:
    """Read ``NAME=VALUE,NAME=VALUE``; a part without = goes on with a list before it."""
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
                f"{text!r} sets nothing", "Write NAME=VALUE, for example search.mode=words"
            )
    return found


def check_comparable(settings: Iterable[str], *, of_a_memory: bool) -> None:
    """Raise an error for a setting that would change nothing, or only in another index."""
    for name in settings:
        if _matches_any(name, _WITHOUT_EFFECT):
            raise ConfigError(f"{name} changes no figure", "Compare what changes a ranking")
        if of_a_memory and _matches_any(name, _OF_THE_INDEX):
            raise ConfigError(
                f"{name} decides how notes are indexed, and cases are asked of the index as it is",
                "Compare settings of the search, or use a labelled set, which is indexed anew",
            )


def _matches_any(name: str, names: Iterable[str]) -> bool:
    return any(name == one or (one.endswith((".", "_")) and name.startswith(one)) for one in names)


def environment_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings as variables of the environment, which are stronger than any file."""
    return {setting_named(name).variable: value for name, value in settings.items()}
