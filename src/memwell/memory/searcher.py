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
from memwell.ingest.sync import Progress, unwatched
from memwell.memory.workspaces import Scope, Workspaces
from memwell.model import SearchResult, Viewer
from memwell.search.fuse import WORDS
from memwell.search.pipeline import Options, search
from memwell.search.remote_merge import Elsewhere, nowhere
from memwell.search.retrieve import Answer, Ask, wordlessly
from memwell.store.contract.facts import FactStore
from memwell.store.contract.index import Index, Reader
from memwell.store.contract.query import Filters, WordQuery
from memwell.store.fact_notes import follow, root_of
from memwell.store.sqlite.workspace_list import Entry

if TYPE_CHECKING:
    from memwell.facts.service import Telling
    from memwell.memory.vectors import Meaning
    from memwell.search.why import Why


NOTE, FACT = "note", "fact"
_NEAR = 5
"""Facts that are looked at: the nearest may be of another scope."""


@dataclass(frozen=True, slots=True)
class Wanted:
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


ANYTHING = Wanted()


class Asking:
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
        meaning: Callable[[], Meaning],
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
        entries: Sequence[Entry],
        progress: Progress,
        wanted: Wanted = ANYTHING,
    ) -> SearchResult:
        """Find the passages of some workspaces, and the facts, that answer a query."""
        scope = self._refreshed(options, entries, progress)
        result = self._ask(query, options, scope, wanted)
        broken = any(leg.name == WORDS and not leg.answered for leg in result.legs)
        if broken and self._repaired() and not result.hits:
            return self._ask(query, options, scope, wanted)
        return result

    def search_each(
        self, query: str, many: Sequence[Options], entries: Sequence[Entry]
    ) -> tuple[SearchResult, ...]:
        """Find them in several ways; the query is embedded once."""
        if not many:
            return ()
        most = next((one for one in many if one.mode != WORDS), many[0])
        scope = self._refreshed(most, entries, unwatched)
        ask = _once(self._leg(most))
        with self.index.reading() as reader:
            within = self._within(reader, scope.ids, ANYTHING)
            return tuple(search(query, one, reader, scope.freshness, within, ask) for one in many)

    def why(self, query: str, path: str, options: Options, entries: Sequence[Entry]) -> Why:
        """Say at which place a note is among the hits of a query, or why it is not."""
        from memwell.search.why import NOT_INDEXED, Why, why

        scope = self._workspaces.refreshed(entries, unwatched)
        self.index.ensure_words()
        with self.index.reading() as reader:
            for key, root, _, _ in reader.notes.workspaces():
                inside = _relative(path, Path(root))
                note = reader.notes.note_id(key, inside)
                if note is not None and (scope.ids is None or key in scope.ids):
                    chunks = reader.notes.chunk_ids(note)
                    asked = (options, reader, Filters(workspaces=scope.ids), self._leg(options))
                    return why(query, inside, chunks, *asked)
        return Why(query, path, NOT_INDEXED, *_missing(path, entries))

    def _refreshed(self, options: Options, entries: Sequence[Entry], progress: Progress) -> Scope:
        """Bring the index in step; return how fresh it is, and which workspaces are searched."""
        behind = self._why_behind()
        scope = self._workspaces.refreshed(entries, progress)
        freshness = scope.freshness
        if behind and behind not in freshness.note:
            note = "; ".join(filter(None, (freshness.note, behind)))
            freshness = replace(freshness, note=note)
        self.index.ensure_words()
        if options.mode != WORDS and self._meaning().chain:
            left = self._meaning().catch_up(self._settings["embedding.on_search"])
            freshness = replace(freshness, unembedded=left)
        return replace(scope, freshness=freshness)

    def _why_behind(self) -> str:
        """Bring the facts up to date; return why that cannot be, where nothing can be written."""
        try:
            self.follow_facts()
        except UNWRITABLE as error:  # the search answers from what it has
            return error.what
        return ""

    def follow_facts(self) -> None:
        """Bring the facts that the viewer sees up to date in the index."""
        if self._store.is_there:
            at = now().astimezone(dt.UTC).isoformat(timespec="milliseconds")
            follow(self.index, self._store, self._viewer, at)

    def near_fact(self, telling: Telling) -> str | None:
        """Return the fact of the same scope that says nearly the same as a text, by its vector."""
        from memwell.facts.service import says_the_same

        meaning, least = self._meaning(), self._settings["facts.duplicate_similarity"]
        if not meaning.chain or not self._store.is_there or least > 1:
            return None
        self.follow_facts()
        meaning.catch_up(self._settings["embedding.on_search"])
        scope = telling.scope or self._viewer.narrowest
        root = root_of(scope, dict(self._viewer.scopes).get(scope, ""))
        with self.index.reading() as reader:
            asked = meaning.embedded(telling.text, reader)
            if asked is None or root not in reader.notes.fact_workspaces():
                return None
            anything = WordQuery(filters=self._within(reader, None, Wanted(kind=FACT)))
            for match in reader.nearest(asked.space, asked.vector, anything, _NEAR):
                (hit,) = reader.hits([(match.chunk_id, 0.0)])
                same = match.score >= least and says_the_same(telling.text, hit.text)
                if same and reader.notes.root_of(match.chunk_id) == root:
                    return hit.path
        return None

    def _within(self, reader: Reader, notes: tuple[int, ...] | None, wanted: Wanted) -> Filters:
        """Return where to search: in workspaces of notes, and in those of the viewer's facts."""
        held_at = _moment(wanted.as_of) if wanted.as_of else None
        everywhere = Filters(only=wanted.paths, held_at=held_at)
        known = reader.notes.fact_workspaces()
        of_notes = [key for key, *_ in reader.notes.workspaces()]
        if wanted.kind == NOTE or (wanted.kind is None and not known):
            return replace(everywhere, workspaces=notes)
        roots = [root_of(*scope) for scope in self._viewer.scopes]
        if wanted.superseded or held_at:
            roots += [root_of(*scope, former=True) for scope in self._viewer.scopes]
        facts = tuple(known[root] for root in roots if root in known)
        chosen = facts if wanted.kind == FACT else (*(notes or ()), *facts)
        if {*chosen} == {*of_notes, *known.values()}:
            return everywhere  # all there is need not be told apart from the rest
        return replace(everywhere, workspaces=chosen)

    def _ask(self, query: str, options: Options, scope: Scope, wanted: Wanted) -> SearchResult:
        with self.index.reading() as reader:
            return search(
                query,
                options,
                reader,
                scope.freshness,
                self._within(reader, scope.ids, wanted),
                self._leg(options),
                self._elsewhere(wanted),
            )

    def _leg(self, options: Options) -> Ask:
        if options.mode == WORDS:
            return wordlessly
        meaning = self._meaning()
        return partial(meaning.ask_by, self._passage) if self._passage else meaning.ask

    def _elsewhere(self, wanted: Wanted) -> Elsewhere:
        """Return how another store is asked, where the settings name one and it can tell."""
        if not self._settings["remote.base_url"] or wanted.kind == FACT or wanted.paths is not None:
            return nowhere
        from memwell.search.remote import remote_store

        store = remote_store(self._settings)
        return store.begin if store else nowhere

    def _repaired(self) -> bool:
        """Build the keyword index anew; True if that can be had."""
        try:
            self.index.rebuild_words()
            with self.index.reading() as reader:
                return not reader.words_unusable()
        except MemwellError as error:
            self._say(f"The keyword index could not be rebuilt: {error}")
            return False


def _moment(as_of: str) -> str:
    from memwell.facts.service import moment

    return moment("as_of", as_of)


def _once(ask: Ask) -> Ask:
    """Return an `Ask` that embeds a text once, however often it is asked."""
    begun: dict[str, Callable[[], Answer]] = {}

    def asked(text: str, reader: Reader) -> Callable[[], Answer]:
        if text not in begun:
            begun[text] = cache(ask(text, reader))
        return begun[text]

    return asked


def _relative(path: str, root: Path) -> str:
    """Return a path as the index has it, whether it was named from the workspace or in full."""
    named = Path(path).expanduser()
    if named.is_absolute():
        return named.relative_to(root).as_posix() if root in named.parents else ""
    return Path(path).as_posix()


def _missing(path: str, entries: Sequence[Entry]) -> tuple[str, str]:
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
