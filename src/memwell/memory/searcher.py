"""Searching a memory: refresh what is cheap to refresh, then search one state of the index."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from memwell.errors import UNWRITABLE, HomeError, MemwellError
from memwell.memory.changes import Changes
from memwell.memory.refresh import Refresh, WorkspaceSync
from memwell.memory.scope import Scope
from memwell.model import SearchResult
from memwell.progress import Progress, no_progress
from memwell.search.fuse import WORDS
from memwell.search.links import LinkFilters, split_links
from memwell.search.parse import split_kind
from memwell.search.pipeline import Options, search
from memwell.search.remote_merge import RemoteSearch, no_remote
from memwell.search.retrieve import EmbedQuery, QueryEmbedding, no_vectors
from memwell.store.contract.facts import FactStore
from memwell.store.contract.index import Index, Reader
from memwell.store.contract.query import Filters, WordQuery
from memwell.store.contract.values import FactFilter, Workspace
from memwell.store.fact_notes import FactState, read_fact_state, scope_workspace, sync_facts
from memwell.store.sqlite.lineage import describe_mismatch

if TYPE_CHECKING:
    from memwell.facts.service import NewFact
    from memwell.memory.vectors import VectorIndex
    from memwell.search.why import Why


T = TypeVar("T")
NOTE, FACT, TRANSCRIPT = "note", "fact", "transcript"
_NEAREST_FACTS = 5
"""Facts that are compared with a new one: the nearest may be of another scope."""


@dataclass(frozen=True, slots=True)
class SearchTarget:
    """A restriction of what a search may find; the default allows all that the viewer sees."""

    kind: str | None = None
    """NOTE, FACT or TRANSCRIPT; None allows all."""
    superseded: bool = False
    """Whether superseded facts may be found, too."""
    as_of: str | None = None
    """A time: facts that were valid then."""
    paths: frozenset[str] | None = None
    """Only these notes, as hits name them; None allows any."""
    transcripts: bool = True
    """Whether transcripts may be found."""
    links: LinkFilters = field(default_factory=LinkFilters)
    """Only notes that are linked with these."""

    def __post_init__(self) -> None:
        if self.kind not in (None, NOTE, FACT, TRANSCRIPT):
            raise MemwellError(
                f"{self.kind!r} is not a kind of hit", f"Use {NOTE}, {FACT} or {TRANSCRIPT}"
            )

    def with_filters_of(self, query: str) -> tuple[str, SearchTarget]:
        """Return a query without ``kind:``, ``links:`` and ``backlinks:``, and the target."""
        words, kind = split_kind(query)
        words, links = split_links(words)
        return words, replace(self, kind=self.kind or kind, links=links)

    def allows_workspace(self, is_transcripts: bool) -> bool:
        """Whether the notes of a workspace may be found."""
        if is_transcripts:
            return self.transcripts and self.kind in (None, TRANSCRIPT)
        return self.kind in (None, NOTE)


ANY_TARGET = SearchTarget()


@dataclass(frozen=True, slots=True)
class Searcher:
    """Searches an index that it first brings in step with its workspaces and facts."""

    index: Index
    """The index as the viewer of the scope reads it."""
    facts: FactStore
    """The facts, which the index follows."""
    vectors: Callable[[], VectorIndex]
    """Makes the vector index; a keyword search goes without."""
    scope: Scope
    notify: Callable[[str], None]
    """Takes sentences that the user should read."""
    changes: Changes
    """Which workspaces are in step with the index."""
    states: Path
    """The folder for the states of large workspaces."""

    @property
    def workspace_sync(self) -> WorkspaceSync:
        """Brings the index in step with the workspaces."""
        return WorkspaceSync(self.index, self.scope.settings_for, self.changes, self.states)

    def search(
        self,
        query: str,
        options: Options,
        target: SearchTarget = ANY_TARGET,
        passage: str = "",
        progress: Progress = no_progress,
    ) -> SearchResult:
        """Find the passages and facts that answer a query.

        With a `passage`, the vector search looks for its embedding instead of the query's.
        """
        words, target = target.with_filters_of(query)
        notices: list[str] = []

        def run(reader: Reader, refresh: Refresh) -> SearchResult:
            notices.clear()
            return search(
                words,
                options,
                reader,
                refresh.freshness(reader),
                self._link_filters(reader, self._filters(reader, refresh, target), target, notices),
                self._query_embedder(options, passage),
                self._remote_search(target),
                partial(self._find_successors, reader) if target.superseded else None,
            )

        result = self._refresh_and(run, options, progress)
        broken = any(leg.name == WORDS and not leg.answered for leg in result.legs)
        if broken and self._rebuild_keyword_index() and not result.hits:
            result = self._refresh_and(run, options, progress)
        result = replace(result, query=query, notices=(*result.notices, *notices))
        return self._with_kinds(result)

    def _with_kinds(self, result: SearchResult) -> SearchResult:
        """Return a result whose hits say which of them are of a transcript."""
        root = self.scope.transcripts
        if not any(hit.workspace == root for hit in result.hits):
            return result
        hits = (
            replace(hit, kind=TRANSCRIPT) if hit.workspace == root else hit for hit in result.hits
        )
        return replace(result, hits=tuple(hits))

    def search_each(self, query: str, many: Sequence[Options]) -> tuple[SearchResult, ...]:
        """Search with each of several options; the query is embedded once."""
        if not many:
            return ()
        first = next((options for options in many if options.mode != WORDS), many[0])
        embed = _embed_once(self._query_embedder(first))

        def run(reader: Reader, refresh: Refresh) -> tuple[SearchResult, ...]:
            freshness = refresh.freshness(reader)
            filters = self._filters(reader, refresh, ANY_TARGET)
            return tuple(
                search(query, options, reader, freshness, filters, embed) for options in many
            )

        return self._refresh_and(run, first, no_progress)

    def why(self, query: str, path: str, options: Options) -> Why:
        """Explain at which rank a note is among the hits of a query, or why it is not."""
        from memwell.search.why import NOT_INDEXED, Why, why

        def run(reader: Reader, refresh: Refresh) -> Why:
            ids = refresh.workspace_ids(reader)
            for key, root, _, _ in reader.notes.workspaces():
                inside = _path_in_workspace(path, Path(root))
                note = reader.notes.note_id(key, inside)
                if note is not None and (ids is None or key in ids):
                    chunks = reader.notes.chunk_ids(note)
                    embed = self._query_embedder(options)
                    filters = Filters(workspaces=ids)
                    return why(query, inside, chunks, options, reader, filters, embed)
            return Why(query, path, NOT_INDEXED, *_explain_missing(path, self.scope.workspaces))

        return self._refresh_and(run, options, no_progress)

    def sync_facts(self) -> None:
        """Bring the facts that the viewer sees up to date in the index."""
        if self.facts.exists:
            sync_facts(self.index, self.facts, self.scope.viewer, self.scope.timestamp)

    def find_near_fact(self, fact: NewFact) -> tuple[str, bool] | None:
        """Return the id of the nearest fact of the same scope, if its vector is nearly equal.

        The second value says whether it is the same fact. A fact that says the same comes first.
        """
        from memwell.facts.comparison import says_the_same

        least = self.scope.settings.facts.duplicate_similarity
        if not self.facts.exists or least > 1 or not self.vectors().chain:
            return None
        self.sync_facts()
        vectors, viewer = self.vectors(), self.scope.viewer
        vectors.catch_up(self.scope.settings.embedding.on_search)
        scope = fact.scope or viewer.narrowest
        root = scope_workspace(scope, dict(viewer.scopes).get(scope, ""))
        with self.index.reading() as reader:
            embedded = vectors.embed_passage(fact.text, reader)
            workspace = reader.notes.fact_workspaces().get(root)
            if embedded is None or workspace is None:
                return None
            in_scope = Filters(workspaces=(workspace,))
            anything = WordQuery(filters=self._filters(reader, None, SearchTarget(kind=FACT)))
            nearest: tuple[str, bool] | None = None
            for match in reader.vectors.nearest(
                embedded.space, embedded.vector, anything, _NEAREST_FACTS
            ):
                (hit,) = reader.chunks.hits([(match.chunk_id, 0.0)])
                near = match.score >= least
                if near and reader.chunks.has_allowed(in_scope, [match.chunk_id]):
                    if says_the_same(fact.text, hit.text):
                        return hit.path, True
                    nearest = nearest or (hit.path, False)
        return nearest

    # -- before the search -------------------------------------------------------------------------

    def _refresh_and(
        self, run: Callable[[Reader, Refresh], T], options: Options, progress: Progress
    ) -> T:
        """Bring the index in step, then run a search in one read transaction.

        If there is nothing to do, the transaction that found this out also serves the search.
        """
        viewer, now = self.scope.viewer, self.scope.timestamp
        with self.index.reading() as reader:
            try:
                facts, damage = read_fact_state(self.facts, viewer, now, reader), ""
            except HomeError as error:  # notes and the facts in the index can still be found
                facts, damage = FactState(), str(error)
            refresh = self.workspace_sync.plan_refresh(self.scope.workspaces, reader)
            vectors = self.vectors() if options.mode != WORDS else None
            embeds = vectors is not None and bool(vectors.chain)
            unembedded = vectors.count_unembedded(reader) if vectors and embeds else 0
            slow = vectors.find_slow_space(reader) if vectors and embeds else None
            facts_synced = facts.is_synced(reader.notes, viewer)
            suspicious = bool(self.facts.file) and facts.is_suspicious(reader.notes)
            cheap = unembedded <= self.scope.settings.embedding.on_search
            broken = reader.keywords.problem()
            current = not (damage or suspicious or refresh.is_needed or broken) and facts_synced
            if current and not (unembedded and cheap) and not slow:
                return run(reader, replace(refresh, unembedded=unembedded))
        problem = "" if facts_synced else self._try_sync_facts()
        if suspicious:
            mismatch = describe_mismatch(self.index, self.facts)
            problem = "; ".join(filter(None, [damage, mismatch, problem]))
        refresh = self.workspace_sync.refresh(refresh, progress)
        self.index.ensure_keyword_index()
        if vectors and embeds:
            vectors.catch_up(self.scope.settings.embedding.on_search)
        with self.index.reading() as reader:
            unembedded = vectors.count_unembedded(reader) if vectors and embeds else 0
            return run(reader, replace(refresh, unembedded=unembedded, problem=problem))

    def _try_sync_facts(self) -> str:
        """Sync the facts; return why that failed where nothing can be written."""
        try:
            self.sync_facts()
        except UNWRITABLE as error:  # the search answers from the index as it is
            return error.what
        return ""

    def _rebuild_keyword_index(self) -> bool:
        """Build the keyword index again; return whether it can be searched now."""
        try:
            self.index.rebuild_keyword_index()
            with self.index.reading() as reader:
                return not reader.keywords.problem()
        except MemwellError as error:
            self.notify(f"The keyword index could not be rebuilt: {error}")
            return False

    # -- the search --------------------------------------------------------------------------------

    def _filters(self, reader: Reader, refresh: Refresh | None, target: SearchTarget) -> Filters:
        """Return where to search: in workspaces of notes, and in those of the viewer's facts."""
        notes = self._note_workspaces(reader, refresh, target)
        valid_at = _parse_as_of(target.as_of) if target.as_of else None
        everywhere = Filters(exact_paths=target.paths, valid_at=valid_at)
        known = reader.notes.fact_workspaces()
        if target.kind in (NOTE, TRANSCRIPT) or (target.kind is None and not known):
            return replace(everywhere, workspaces=notes)
        scopes = self.scope.viewer.scopes
        roots = [scope_workspace(*scope) for scope in scopes]
        if target.superseded or valid_at:
            roots += [scope_workspace(*scope, superseded=True) for scope in scopes]
        facts = tuple(known[root] for root in roots if root in known)
        chosen = facts if target.kind == FACT else (*(notes or ()), *facts)
        if {*chosen} == {*(key for key, *_ in reader.notes.workspaces()), *known.values()}:
            return everywhere  # no filter is needed when every workspace is searched
        return replace(everywhere, workspaces=chosen)

    def _link_filters(
        self, reader: Reader, filters: Filters, target: SearchTarget, notices: list[str]
    ) -> Filters:
        """Return filters that also allow only the notes that ``links:`` and ``backlinks:`` ask."""
        if target.links.is_empty:
            return filters
        from memwell.search.links import LinkGraph

        roots = [workspace.root for workspace in self.scope.workspaces]
        paths, unknown = LinkGraph(reader.listing.linked_notes(roots)).select(target.links)
        notices += unknown
        known = filters.exact_paths
        return replace(filters, exact_paths=paths if known is None else paths & known)

    def _note_workspaces(
        self, reader: Reader, refresh: Refresh | None, target: SearchTarget
    ) -> tuple[int, ...] | None:
        """Return the workspaces of notes to search; None means everything."""
        chosen = refresh.workspace_ids(reader) if refresh else None
        roots = {key: root for key, root, _, _ in reader.notes.workspaces()}
        if target.kind != TRANSCRIPT and self.scope.transcripts not in roots.values():
            return chosen
        searched = tuple(roots) if chosen is None else chosen
        allowed = tuple(
            key
            for key in searched
            if target.allows_workspace(roots.get(key) == self.scope.transcripts)
        )
        return chosen if allowed == searched else allowed

    def _find_successors(self, reader: Reader, paths: Sequence[str]) -> dict[str, str]:
        """Return the ids of the facts that superseded those of some paths."""
        wanted = FactFilter(ids=tuple(paths), superseded=True)
        with suppress(HomeError), self.facts.for_viewer_of(self.scope.viewer, reader) as facts:
            found = facts.find(wanted)
            return {fact.id: fact.superseded_by for fact in found if fact.superseded_by}
        return {}

    def _query_embedder(self, options: Options, passage: str = "") -> EmbedQuery:
        if options.mode == WORDS:
            return no_vectors
        vectors = self.vectors()
        return partial(vectors.embed_query_as, passage) if passage else vectors.embed_query

    def _remote_search(self, target: SearchTarget) -> RemoteSearch:
        """Return how the remote store is searched, if the settings name one and it can filter."""
        settings = self.scope.settings
        if not settings.remote.base_url or target.kind == FACT or target.paths is not None:
            return no_remote
        from memwell.search.remote import remote_store

        store = remote_store(settings.remote)
        return store.begin if store else no_remote


def _parse_as_of(as_of: str) -> str:
    from memwell.facts.service import parse_time

    return parse_time("as_of", as_of)


def _embed_once(embed: EmbedQuery) -> EmbedQuery:
    """Return an `EmbedQuery` that embeds each text once, however often it is called."""
    begun: dict[str, Callable[[], QueryEmbedding]] = {}

    def embed_text(text: str, reader: Reader) -> Callable[[], QueryEmbedding]:
        if text not in begun:
            begun[text] = cache(embed(text, reader))
        return begun[text]

    return embed_text


def _path_in_workspace(path: str, root: Path) -> str:
    """Return a path as the index has it, whether it is relative to the workspace or absolute."""
    named = Path(path).expanduser()
    if named.is_absolute():
        return named.relative_to(root).as_posix() if root in named.parents else ""
    return Path(path).as_posix()


def _explain_missing(path: str, workspaces: Sequence[Workspace]) -> tuple[str, str]:
    """Return why a note is not in the index, and the remedy."""
    files = [workspace.path / Path(path).expanduser() for workspace in workspaces]
    file = next((file for file in files if os.path.isfile(file)), None)  # also too long a name
    if file is None:
        where = ", ".join(workspace.root for workspace in workspaces) or "any workspace"
        return f"there is no such file in {where}", "Use a path as `memwell search` shows it"
    return (
        "the file exists, but is not a note of this workspace: it is ignored, hidden, empty, too"
        " large, has another suffix, or lies outside the folders that are indexed",
        f"memwell index {file}",
    )
