"""Searching a memory: what has to be fresh is refreshed, what is broken is mended, then asked."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from memwell.config.load import Config, now
from memwell.errors import UNWRITABLE, MemwellError
from memwell.ingest.sync import Progress, no_progress
from memwell.memory.workspaces import RefreshedWorkspaces, Workspaces
from memwell.model import SearchResult, Viewer
from memwell.search.fuse import WORDS
from memwell.search.pipeline import Options, search
from memwell.search.remote_merge import RemoteSearch, no_remote
from memwell.search.retrieve import EmbedQuery, QueryEmbedding, no_vectors
from memwell.store.contract.facts import FactStore
from memwell.store.contract.index import Index, Reader
from memwell.store.contract.query import Filters, WordQuery
from memwell.store.contract.values import Workspace
from memwell.store.fact_notes import scope_workspace, sync_facts

if TYPE_CHECKING:
    from memwell.facts.service import NewFact
    from memwell.memory.vectors import VectorIndex
    from memwell.search.why import Why


NOTE, FACT = "note", "fact"
_NEAREST_FACTS = 5
"""Facts that are looked at: the nearest may be of another scope."""


@dataclass(frozen=True, slots=True)
class SearchTarget:
    """What may be found: all of the viewer's, unless it says otherwise."""

    kind: str | None = None
    """NOTE or FACT; None is both."""
    superseded: bool = False
    """Whether facts that are no longer held true may be found, too."""
    as_of: str | None = None
    """A time: of facts, those that were held true then."""
    paths: frozenset[str] | None = None
    """Only these notes, as hits name them; None is any."""

    def __post_init__(self) -> None:
        if self.kind not in (None, NOTE, FACT):
            raise MemwellError(f"{self.kind!r} is no kind of hit", f"Use {NOTE} or {FACT}")


ANY_TARGET = SearchTarget()


class Searcher:
    """Asks an index, in step with the files of its workspaces.

    Args:
        meaning: makes the vectors' half, which a search by words goes without.
        say: is told what happened on the way that the user should hear of.
        passage: what is searched by its meaning in place of the query.

    """

    def __init__(
        self,
        index: Index,
        workspaces: Workspaces,
        meaning: Callable[[], VectorIndex],
        settings: Config,
        say: Callable[[str], None],
        store: FactStore,
        viewer: Viewer,
        passage: str = "",
    ) -> None:
        self.index = index
        self._workspaces = workspaces
        self._meaning = meaning
        self._settings = settings
        self._say = say
        self._store = store
        self._viewer = viewer
        self._passage = passage

    def search(
        self,
        query: str,
        options: Options,
        entries: Sequence[Workspace],
        progress: Progress,
        wanted: SearchTarget = ANY_TARGET,
    ) -> SearchResult:
        """Find the passages of some workspaces, and the facts, that answer a query."""
        scope = self._refresh(options, entries, progress)
        result = self._search_index(query, options, scope, wanted)
        broken = any(leg.name == WORDS and not leg.answered for leg in result.legs)
        if broken and self._rebuild_keyword_index() and not result.hits:
            return self._search_index(query, options, scope, wanted)
        return result

    def search_each(
        self, query: str, many: Sequence[Options], entries: Sequence[Workspace]
    ) -> tuple[SearchResult, ...]:
        """Find them in several ways; the query is embedded once."""
        if not many:
            return ()
        most = next((one for one in many if one.mode != WORDS), many[0])
        scope = self._refresh(most, entries, no_progress)
        ask = _embed_once(self._query_embedder(most))
        with self.index.reading() as reader:
            within = self._filters(reader, scope.ids, ANY_TARGET)
            return tuple(search(query, one, reader, scope.freshness, within, ask) for one in many)

    def why(self, query: str, path: str, options: Options, entries: Sequence[Workspace]) -> Why:
        """Say at which place a note is among the hits of a query, or why it is not."""
        from memwell.search.why import NOT_INDEXED, Why, why

        scope = self._workspaces.refresh(entries, no_progress)
        self.index.ensure_keyword_index()
        with self.index.reading() as reader:
            for key, root, _, _ in reader.notes.workspaces():
                inside = _path_in_workspace(path, Path(root))
                note = reader.notes.note_id(key, inside)
                if note is not None and (scope.ids is None or key in scope.ids):
                    chunks = reader.notes.chunk_ids(note)
                    asked = (
                        options,
                        reader,
                        Filters(workspaces=scope.ids),
                        self._query_embedder(options),
                    )
                    return why(query, inside, chunks, *asked)
        return Why(query, path, NOT_INDEXED, *_explain_missing(path, entries))

    def _refresh(
        self, options: Options, entries: Sequence[Workspace], progress: Progress
    ) -> RefreshedWorkspaces:
        """Bring the index in step; return how fresh it is, and which workspaces are searched."""
        behind = self._sync_facts()
        scope = self._workspaces.refresh(entries, progress)
        freshness = scope.freshness
        if behind and behind not in freshness.note:
            note = "; ".join(filter(None, (freshness.note, behind)))
            freshness = replace(freshness, note=note)
        self.index.ensure_keyword_index()
        if options.mode != WORDS and self._meaning().chain:
            left = self._meaning().catch_up(self._settings["embedding.on_search"])
            freshness = replace(freshness, unembedded=left)
        return replace(scope, freshness=freshness)

    def _sync_facts(self) -> str:
        """Bring the facts up to date; return why that cannot be, where nothing can be written."""
        try:
            self.sync_facts()
        except UNWRITABLE as error:  # the search answers from what it has
            return error.what
        return ""

    def sync_facts(self) -> None:
        """Bring the facts that the viewer sees up to date in the index."""
        if self._store.exists:
            at = now().astimezone(dt.UTC).isoformat(timespec="milliseconds")
            sync_facts(self.index, self._store, self._viewer, at)

    def find_near_fact(self, telling: NewFact) -> str | None:
        """Return the fact of the same scope that says nearly the same as a text, by its vector."""
        from memwell.facts.service import says_the_same

        meaning, least = self._meaning(), self._settings["facts.duplicate_similarity"]
        if not meaning.chain or not self._store.exists or least > 1:
            return None
        self.sync_facts()
        meaning.catch_up(self._settings["embedding.on_search"])
        scope = telling.scope or self._viewer.narrowest
        root = scope_workspace(scope, dict(self._viewer.scopes).get(scope, ""))
        with self.index.reading() as reader:
            asked = meaning.embed_passage(telling.text, reader)
            if asked is None or root not in reader.notes.fact_workspaces():
                return None
            anything = WordQuery(filters=self._filters(reader, None, SearchTarget(kind=FACT)))
            for match in reader.vectors.nearest(
                asked.space, asked.vector, anything, _NEAREST_FACTS
            ):
                (hit,) = reader.chunks.hits([(match.chunk_id, 0.0)])
                same = match.score >= least and says_the_same(telling.text, hit.text)
                if same and reader.notes.workspace_root(match.chunk_id) == root:
                    return hit.path
        return None

    def _filters(
        self, reader: Reader, notes: tuple[int, ...] | None, wanted: SearchTarget
    ) -> Filters:
        """Return where to search: in workspaces of notes, and in those of the viewer's facts."""
        held_at = _parse_as_of(wanted.as_of) if wanted.as_of else None
        everywhere = Filters(exact_paths=wanted.paths, valid_at=held_at)
        known = reader.notes.fact_workspaces()
        of_notes = [key for key, *_ in reader.notes.workspaces()]
        if wanted.kind == NOTE or (wanted.kind is None and not known):
            return replace(everywhere, workspaces=notes)
        roots = [scope_workspace(*scope) for scope in self._viewer.scopes]
        if wanted.superseded or held_at:
            roots += [scope_workspace(*scope, former=True) for scope in self._viewer.scopes]
        facts = tuple(known[root] for root in roots if root in known)
        chosen = facts if wanted.kind == FACT else (*(notes or ()), *facts)
        if {*chosen} == {*of_notes, *known.values()}:
            return everywhere  # all there is need not be told apart from the rest
        return replace(everywhere, workspaces=chosen)

    def _search_index(
        self, query: str, options: Options, scope: RefreshedWorkspaces, wanted: SearchTarget
    ) -> SearchResult:
        with self.index.reading() as reader:
            return search(
                query,
                options,
                reader,
                scope.freshness,
                self._filters(reader, scope.ids, wanted),
                self._query_embedder(options),
                self._remote_search(wanted),
            )

    def _query_embedder(self, options: Options) -> EmbedQuery:
        if options.mode == WORDS:
            return no_vectors
        meaning = self._meaning()
        return (
            partial(meaning.embed_query_as, self._passage) if self._passage else meaning.embed_query
        )

    def _remote_search(self, wanted: SearchTarget) -> RemoteSearch:
        """Return how another store is asked, where the settings name one and it can tell."""
        if not self._settings["remote.base_url"] or wanted.kind == FACT or wanted.paths is not None:
            return no_remote
        from memwell.search.remote import remote_store

        store = remote_store(self._settings)
        return store.begin if store else no_remote

    def _rebuild_keyword_index(self) -> bool:
        """Build the keyword index anew; True if that can be had."""
        try:
            self.index.rebuild_keyword_index()
            with self.index.reading() as reader:
                return not reader.keywords.problem()
        except MemwellError as error:
            self._say(f"The keyword index could not be rebuilt: {error}")
            return False


def _parse_as_of(as_of: str) -> str:
    from memwell.facts.service import parse_time

    return parse_time("as_of", as_of)


def _embed_once(ask: EmbedQuery) -> EmbedQuery:
    """Return an `Ask` that embeds a text once, however often it is asked."""
    begun: dict[str, Callable[[], QueryEmbedding]] = {}

    def asked(text: str, reader: Reader) -> Callable[[], QueryEmbedding]:
        if text not in begun:
            begun[text] = cache(ask(text, reader))
        return begun[text]

    return asked


def _path_in_workspace(path: str, root: Path) -> str:
    """Return a path as the index has it, whether it was named from the workspace or in full."""
    named = Path(path).expanduser()
    if named.is_absolute():
        return named.relative_to(root).as_posix() if root in named.parents else ""
    return Path(path).as_posix()


def _explain_missing(path: str, entries: Sequence[Workspace]) -> tuple[str, str]:
    """Say why a note is not in the index, and what to do."""
    places = [entry.path / Path(path).expanduser() for entry in entries]
    file = next((place for place in places if os.path.isfile(place)), None)  # also too long a name
    if file is None:
        where = ", ".join(str(entry.path) for entry in entries) or "no workspace"
        return f"there is no such file in {where}", "Name it as `memwell search` shows it"
    return (
        "the file is there, but not among the notes: it is ignored, hidden, empty, too large, has"
        " another ending, or lies outside of the folders that are taken",
        f"memwell index {file}",
    )
