"""`Memory`: the one door to everything memwell does.

The command line and every server call this class, so that they cannot disagree. It is
synchronous and may be shared between threads.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memwell import config
from memwell.config.settings import Value
from memwell.errors import MemwellError, NotFoundError
from memwell.ingest.sync import Progress, no_progress
from memwell.memory.opened import Opened
from memwell.memory.searcher import SearchTarget
from memwell.model import Excerpt, IndexReport, SearchResult
from memwell.search.options import search_options

if TYPE_CHECKING:
    from memwell.facts.erase import EraseReport
    from memwell.facts.recall import Recall
    from memwell.facts.service import FactService, RememberResult
    from memwell.reports import Check, FillReport, SpaceStatus, Status
    from memwell.search.why import Why
    from memwell.store.browse import NoteBrowser


class Memory(Opened):
    """An agent's memory.

    Args:
        home: where the data lives; default ``MEMWELL_HOME``, else the platform's data folder.
        workspace: the folder (or one inside it) that searches are about; None is all the
            agent's workspaces together.
        near: the same, but where no workspace is there, all of them are meant.
        agent: whose memory; default the setting ``agent``.
        user, session: whose facts are seen besides those of the agent and those that are global.
        embedders: providers of vectors of your own, by the name ``embedding.chain`` gives them.
        settings: values that go before those of files and the environment.

    """

    def index(
        self, *paths: str | Path, embed: bool = True, progress: Progress = no_progress
    ) -> tuple[IndexReport, ...]:
        """Make or refresh the index of folders and single files; of the workspace if none is named.

        A named folder is taken whole. Without a name, what agents keep by convention is taken
        (MEMORY.md, memory/ and so on) and what ``scan.extra`` adds. Unless `embed` is False the
        vectors follow (see `fill`, which tells more about them).
        """
        reports = self._with_repair(lambda: self._index_paths(paths, progress))
        if embed:
            self.notices += self.fill().notes
        return reports

    def fill(
        self, progress: Progress = no_progress, stop: threading.Event | None = None
    ) -> FillReport:
        """Embed the passages that have no vector yet; what was done stays, whatever happens."""
        return self._with_repair(lambda: self._fill(progress, stop, again=True))

    def spaces(self) -> tuple[SpaceStatus, ...]:
        """Return the vector spaces, the one that answers first."""
        return self._with_repair(self._vectors.spaces)

    def switch_space(self, number: int) -> SpaceStatus:
        """Let another space answer, until ``embedding.chain`` is changed."""
        return self._vectors.switch(number)

    def drop_space(self, number: int) -> None:
        """Delete a space that does not answer."""
        self._vectors.drop(number)

    def search(
        self,
        query: str,
        *,
        k: int | None = None,
        min_score: float | None = None,
        mode: str | None = None,
        fusion: str | None = None,
        diversity: str | None = None,
        context: str | None = None,
        kind: str | None = None,
        include_superseded: bool = False,
        as_of: str | None = None,
        paths: Iterable[str] | None = None,
        passage: str = "",
        explain: bool = False,
        today: dt.date | None = None,
        progress: Progress = no_progress,
    ) -> SearchResult:
        """Find the passages that answer `query`, best first.

        `mode` is "hybrid" (words and meaning), "words" or "meaning"; default ``search.mode``.
        `fusion` is "standard", "rrf" or "weighted"; default ``search.fusion``. `diversity` is
        "off", "mmr" or "cluster"; default ``search.diversity``. `context` "neighbours" or "section"
        gives hits what stands around them. `kind` "note" or "fact" leaves the others out. Facts
        that were superseded are found only if `include_superseded`, or as of a time `as_of` at
        which they held. Of notes only `paths` are searched, if any are named. The meaning of a
        `passage` is searched in place of the query's, if one is given. With `explain` hits say how
        their scores came about. `today` is what notes are old by; default the clock.
        """
        options = search_options(
            self.settings,
            k=k,
            min_score=min_score,
            mode=mode,
            fusion=fusion,
            diversity=diversity,
            context=context,
            explain=explain,
            today=today or config.today(),
        )
        only = None if paths is None else frozenset(paths)
        wanted = SearchTarget(kind, include_superseded, as_of, only)
        asking, entries = self._searcher(passage), self._target_workspaces(remember=True)
        return self._with_repair(lambda: asking.search(query, options, entries, progress, wanted))

    def search_with(
        self, query: str, changes: Sequence[Mapping[str, Value]], *, k: int | None = None
    ) -> tuple[SearchResult, ...]:
        """Search as if other settings held, once for each of `changes`: for less than as many."""
        held, today = self.settings, config.today()
        many = [
            search_options(held.with_overrides(changed), k=k, today=today) for changed in changes
        ]
        asking, entries = self._searcher(), self._target_workspaces(remember=True)
        return self._with_repair(lambda: asking.search_each(query, many, entries))

    def why(self, query: str, path: str, **asked: Any) -> Why:
        """Say at which place a note is among the hits of a query, or why it is not.

        What else is asked for (`k`, `mode`, `today`) is as for `search`.
        """
        options = search_options(self.settings, **{"today": config.today(), **asked})
        asking, entries = self._searcher(), self._target_workspaces(remember=True)
        return self._with_repair(lambda: asking.why(query, path, options, entries))

    @property
    def facts(self) -> FactService:
        """What was remembered, as the viewer sees it, and all that can be done with it."""
        from memwell.facts.lifetimes import parse_lifetimes
        from memwell.facts.service import FactService

        lifetimes = parse_lifetimes(self.settings["facts.lifetimes"])
        return FactService(self._store, self.viewer, config.now(), lifetimes)

    def remember(self, text: str, **details: Any) -> RememberResult:
        """Keep a fact, or reinforce the one that says the same; `details` are `Telling`'s."""
        from memwell.facts.service import NewFact

        telling = NewFact(text, **details)
        if near := self._with_repair(lambda: self._searcher().find_near_fact(telling)):
            return self.facts.reinforce(near)
        return self._publish_fact(self.facts.remember(telling))

    def supersede(self, old: str, text: str, **details: Any) -> RememberResult:
        """Keep a fact in place of the one with the id `old`, which is no longer held true."""
        from memwell.facts.service import NewFact

        return self._publish_fact(self.facts.supersede(old, NewFact(text, **details)))

    def _publish_fact(self, told: RememberResult) -> RememberResult:
        """Take what was told into an index that others read, of whom some cannot write it."""
        if self._index.shared:
            with suppress(MemwellError):  # then the next search does
                self._searcher().sync_facts()
        return told

    def forget(self, *ids: str) -> EraseReport:
        """Remove facts, and their texts from every file of the home."""
        from memwell.facts.erase import forget

        return forget(ids, self.facts)

    def recall(
        self,
        message: str,
        *,
        budget: int | None = None,
        include_superseded: bool = False,
        as_of: str | None = None,
    ) -> Recall:
        """Return what is remembered of a message, as a block for an agent's prompt.

        A session is not told again what it was told shortly before.
        """
        from memwell.facts.recall import recall

        wanted = {"include_superseded": include_superseded, "as_of": as_of}
        found = recall(message, self, self._agent_folder, budget, **wanted)
        self.facts.renew_on_read([hit.path for hit in found.hits if hit.kind == "fact"])
        return found

    def reset_recall_history(self) -> None:
        """Let the session be told again what it was told: its context was emptied, say."""
        from memwell.facts.recall_history import RecallHistory

        minutes = self.settings["recall.again_after"]
        RecallHistory(self._agent_folder, self.viewer.session, minutes).clear()

    @property
    def contents(self) -> NoteBrowser:
        """What there is to find, listed, as the viewer sees it."""
        from memwell.store.browse import NoteBrowser
        from memwell.store.fact_notes import scope_workspace

        roots = [entry.root for entry in self._target_workspaces()]
        index = self._index.for_viewer(self.viewer)
        return NoteBrowser(index, [*roots, *(scope_workspace(*one) for one in self.viewer.scopes)])

    def get(self, reference: str) -> Excerpt:
        """Read a note, or the lines of it that ``PATH#L3-L9`` names, as the file is now."""
        from memwell.memory.note_files import read_excerpt

        return read_excerpt(reference, [entry.path for entry in self._target_workspaces()])

    def note(self, text: str, *, now: dt.datetime | None = None) -> Excerpt:
        """Append `text` to today's log of the workspace and take it into the index."""
        from memwell.memory.note_files import append_note

        entry = self._current_workspace()
        if entry is None:
            raise NotFoundError(
                "There is no workspace here to keep the note in",
                "Name one with --workspace, or run `memwell index .` to make this folder one",
            )
        now = now or dt.datetime.now().astimezone()
        passage = append_note(text, entry.path, self.settings["note.folder"], now)
        try:
            self._with_repair(
                lambda: self._workspaces.sync(self._workspaces.ensure_registered(entry))
            )
        except MemwellError as error:
            self.notices.append(f"The note is written; the index will follow ({error.what})")
        return passage

    def status(self, *, deep: bool = False) -> Status:
        """Return what the index holds; `deep` also checks every page of it."""
        from memwell.memory import status

        return self._with_repair(
            lambda: status.status(
                self.home,
                self.agent,
                self._index,
                self._workspaces.registry,
                self._vectors,
                deep=deep,
            )
        )

    def doctor(self) -> list[Check]:
        """Look for anything that is wrong or will go wrong, each with its remedy."""
        from memwell.memory import status

        registry = self._workspaces.registry
        return status.run_checks(
            self.home, self._index, registry, lambda: self._vectors, self._place
        )

    def reset(self, workspace: str | Path | None = None) -> None:
        """Delete the index, which comes back by itself, or forget one workspace; no note goes."""
        if workspace is not None:
            root = Path(workspace).expanduser().absolute()
            self._with_repair(lambda: self._workspaces.forget(root))
            return
        self._index.delete()

    def watch(
        self,
        report: Callable[[IndexReport | str], None],
        stop: threading.Event | None = None,
        something_new: threading.Event | None = None,
    ) -> None:
        """Keep the workspaces in step with their files until `stop` is set.

        `report` is given each sync that changed something, and sentences about what happens. Set
        `something_new` to have embedded at once what was written otherwise: facts.
        """
        stop = stop or threading.Event()
        entries = self._target_workspaces(remember=True)
        if not entries:
            raise NotFoundError("There is no workspace to watch", "Run `memwell index PATH` first")
        self._workspaces.watch(
            entries,
            lambda entry: self._with_repair(lambda: self._workspaces.sync(entry)),
            lambda: self._with_repair(lambda: self._fill(stop=stop)),
            report,
            stop,
            something_new or threading.Event(),
        )

    # -- how they do it ------------------------------------------------------------------------

    def _index_paths(
        self, paths: Sequence[str | Path], progress: Progress
    ) -> tuple[IndexReport, ...]:
        resolved = [Path(path).expanduser().resolve() for path in paths]
        entries = self._workspaces.register_all(resolved, self._place)
        return tuple(self._workspaces.sync(entry, progress) for entry in entries)

    def _fill(
        self, progress: Progress = no_progress, stop: threading.Event | None = None, **how: bool
    ) -> FillReport:
        self._searcher().sync_facts()
        return self._vectors.fill(progress, stop, **how)
