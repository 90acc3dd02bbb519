"""`Memory`: the one door to everything memwell does.

The command line and every server call this class, so that they cannot disagree. It is
synchronous and may be shared between threads.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from memwell import config
from memwell.asking import Asking, Wanted
from memwell.errors import CorruptIndexError, MemwellError, NotFoundError
from memwell.ingest.scan import find_workspace
from memwell.ingest.sync import Progress, unwatched
from memwell.model import IndexReport, Passage, SearchResult, Viewer
from memwell.options import search_options
from memwell.settings import Value
from memwell.store.facts import FactStore
from memwell.store.index import Index
from memwell.store.registry import Entry, Registry
from memwell.workspaces import Workspaces

if TYPE_CHECKING:
    from memwell.embed.providers import Factory
    from memwell.facts.forgetting import Forgotten
    from memwell.facts.keeping import Keeper, Remembered
    from memwell.facts.recall import Recall
    from memwell.meaning import Meaning
    from memwell.reports import Check, FillReport, SpaceStatus, Status
    from memwell.search.why import Why

T = TypeVar("T")


class Memory:
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

    def __init__(
        self,
        home: str | Path | None = None,
        *,
        workspace: str | Path | None = None,
        near: str | Path | None = None,
        agent: str | None = None,
        user: str = "",
        session: str = "",
        embedders: Mapping[str, Factory] | None = None,
        settings: Mapping[str, Value] | None = None,
    ) -> None:
        self.home = Path(home).expanduser().absolute() if home else config.home_folder()
        place = workspace or near
        self._place = Path(place).expanduser().resolve() if place else None
        self._only_there = workspace is not None
        if self._place and not self._place.is_dir():
            raise NotFoundError(
                f"The workspace {self._place} does not exist", "Name an existing folder"
            )
        self._own = settings or {}
        around = find_workspace(self._place) if self._place else None
        held = config.load(around).but(self._own)
        self.agent = agent or held["agent"]
        config.check_agent(self.agent)
        folder = self.home / "agents" / self.agent
        by_sql = held["vectors.backend"] == "sqlite-vec"
        self._index = Index(folder / "index.db", vectors_by_sql=by_sql)
        self._workspaces = Workspaces(Registry(folder), self._index)
        self._embedders = embedders
        self.viewer = Viewer(user, self.agent, session)
        self._store = FactStore(self.home / "memory.db")
        self.notices: list[str] = []
        """What happened on the way that the user should hear of."""

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the index; the next call opens it again."""
        self._index.close()
        self._store.close()
        if "_meaning" in self.__dict__:
            self._meaning.close()

    @cached_property
    def _meaning(self) -> Meaning:
        from memwell.meaning import Meaning  # a search by words goes without

        return Meaning(self._index, self.home, self.settings, self._embedders)

    @property
    def workspace(self) -> Path | None:
        """The folder of the workspace that searches are about, if they are about one."""
        entry = self._entry()
        return entry.path if entry else None

    @property
    def settings(self) -> config.Config:
        """The settings that hold here."""
        return config.load(self.workspace).but(self._own)

    def seen_by(self, user: str = "", session: str = "") -> Memory:
        """Return the same memory as somebody else sees it; it shares this one's connections."""
        shared = self._meaning  # made now, so that there is one for all
        other = copy(self)
        other.__dict__["_meaning"] = shared
        other.viewer, other.notices = Viewer(user, self.agent, session), []
        return other

    def folders(self) -> tuple[Path, ...]:
        """Return the folders of the workspaces that searches are about, those that are there."""
        return tuple(entry.path for entry in self._searched() if entry.path.is_dir())

    # -- the verbs -----------------------------------------------------------------------------

    def index(
        self, *paths: str | Path, embed: bool = True, progress: Progress = unwatched
    ) -> tuple[IndexReport, ...]:
        """Make or refresh the index of folders and single files; of the workspace if none is named.

        A named folder is taken whole. Without a name, what agents keep by convention is taken
        (MEMORY.md, memory/ and so on) and what ``scan.extra`` adds. Unless `embed` is False the
        vectors follow (see `fill`, which tells more about them).
        """
        reports = self._mended(lambda: self._index_paths(paths, progress))
        if embed:
            self.notices += self.fill().notes
        return reports

    def fill(
        self, progress: Progress = unwatched, stop: threading.Event | None = None
    ) -> FillReport:
        """Embed the passages that have no vector yet; what was done stays, whatever happens."""
        return self._mended(lambda: self._fill(progress, stop, again=True))

    def spaces(self) -> tuple[SpaceStatus, ...]:
        """Return the vector spaces, the one that answers first."""
        return self._mended(self._meaning.spaces)

    def switch_space(self, number: int) -> SpaceStatus:
        """Let another space answer, until ``embedding.chain`` is changed."""
        return self._meaning.switch(number)

    def drop_space(self, number: int) -> None:
        """Delete a space that does not answer."""
        self._meaning.drop(number)

    def search(
        self, query: str, *, k: int | None = None, min_score: float | None = None,
        mode: str | None = None, fusion: str | None = None, diversity: str | None = None,
        context: str | None = None, kind: str | None = None, include_superseded: bool = False,
        as_of: str | None = None, paths: Iterable[str] | None = None, passage: str = "",
        explain: bool = False, today: dt.date | None = None, progress: Progress = unwatched,
    ) -> SearchResult:  # fmt: skip
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
            self.settings, k=k, min_score=min_score, mode=mode, fusion=fusion,
            diversity=diversity, context=context, explain=explain, today=today or config.today(),
        )  # fmt: skip
        only = None if paths is None else frozenset(paths)
        wanted = Wanted(kind, include_superseded, as_of, only)
        asking, entries = self._asking(passage), self._searched(remember=True)
        return self._mended(lambda: asking.search(query, options, entries, progress, wanted))

    def search_each(
        self, query: str, changes: Sequence[Mapping[str, Value]], *, k: int | None = None
    ) -> tuple[SearchResult, ...]:
        """Search as if other settings held, once for each of `changes`: for less than as many."""
        held, today = self.settings, config.today()
        many = [search_options(held.but(changed), k=k, today=today) for changed in changes]
        asking, entries = self._asking(), self._searched(remember=True)
        return self._mended(lambda: asking.search_each(query, many, entries))

    def why(self, query: str, path: str, **asked: Any) -> Why:
        """Say at which place a note is among the hits of a query, or why it is not.

        What else is asked for (`k`, `mode`, `today`) is as for `search`.
        """
        options = search_options(self.settings, **{"today": config.today(), **asked})
        asking, entries = self._asking(), self._searched(remember=True)
        return self._mended(lambda: asking.why(query, path, options, entries))

    @property
    def facts(self) -> Keeper:
        """What was remembered, as the viewer sees it, and all that can be done with it."""
        from memwell.facts.keeping import Keeper
        from memwell.facts.lifetimes import parse_lifetimes

        lifetimes = parse_lifetimes(self.settings["facts.lifetimes"])
        return Keeper(self._store, self.viewer, lifetimes=lifetimes)

    def remember(self, text: str, **details: Any) -> Remembered:
        """Keep a fact, or reinforce the one that says the same; `details` are `Telling`'s."""
        from memwell.facts.keeping import Telling

        telling = Telling(text, **details)
        if near := self._mended(lambda: self._asking().near_fact(telling)):
            return self.facts.reinforce(near)
        return self.facts.remember(telling)

    def supersede(self, old: str, text: str, **details: Any) -> Remembered:
        """Keep a fact in place of the one with the id `old`, which is no longer held true."""
        from memwell.facts.keeping import Telling

        return self.facts.supersede(old, Telling(text, **details))

    def forget(self, *ids: str) -> Forgotten:
        """Remove facts, and their texts from every file of the home."""
        from memwell.facts.forgetting import forget

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
        found = recall(message, self, self._index.path.parent, budget, **wanted)
        self.facts.was_read([hit.path for hit in found.hits if hit.kind == "fact"])
        return found

    def get(self, reference: str) -> Passage:
        """Read a note, or the lines of it that ``PATH#L3-L9`` names, as the file is now."""
        from memwell.passages import read_passage

        return read_passage(reference, [entry.path for entry in self._searched()])

    def note(self, text: str, *, now: dt.datetime | None = None) -> Passage:
        """Append `text` to today's log of the workspace and take it into the index."""
        from memwell.passages import append_note

        entry = self._entry()
        if entry is None:
            raise NotFoundError(
                "There is no workspace here to keep the note in",
                "Name one with --workspace, or run `memwell index .` to make this folder one",
            )
        now = now or dt.datetime.now().astimezone()
        passage = append_note(text, entry.path, self.settings["note.folder"], now)
        try:
            self._mended(lambda: self._workspaces.sync(self._workspaces.remember(entry)))
        except MemwellError as error:
            self.notices.append(f"The note is written; the index will follow ({error.what})")
        return passage

    def status(self, *, deep: bool = False) -> Status:
        """Return what the index holds; `deep` also checks every page of it."""
        from memwell import diagnosis

        return self._mended(
            lambda: diagnosis.status(
                self.home, self.agent, self._index, self._workspaces.registry, self._meaning,
                deep=deep,
            )
        )  # fmt: skip

    def doctor(self) -> list[Check]:
        """Look for anything that is wrong or will go wrong, each with its remedy."""
        from memwell import diagnosis

        registry = self._workspaces.registry
        return diagnosis.examine(self.home, self._index, registry, self._meaning, self._place)

    def reset(self, workspace: str | Path | None = None) -> None:
        """Delete the index, which comes back by itself, or forget one workspace; no note goes."""
        if workspace is not None:
            root = Path(workspace).expanduser().absolute()
            self._mended(lambda: self._workspaces.forget(root))
            return
        self.close()
        for pattern in ("index.db*", "vectors-*"):
            for file in self._index.path.parent.glob(pattern):
                file.unlink(missing_ok=True)

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
        entries = self._searched(remember=True)
        if not entries:
            raise NotFoundError("There is no workspace to watch", "Run `memwell index PATH` first")
        self._workspaces.watch(
            entries,
            lambda entry: self._mended(lambda: self._workspaces.sync(entry)),
            lambda: self._mended(lambda: self._fill(stop=stop)),
            report,
            stop,
            something_new or threading.Event(),
        )

    # -- how they do it ------------------------------------------------------------------------

    def _index_paths(
        self, paths: Sequence[str | Path], progress: Progress
    ) -> tuple[IndexReport, ...]:
        resolved = [Path(path).expanduser().resolve() for path in paths]
        entries = self._workspaces.taken(resolved, self._place)
        return tuple(self._workspaces.sync(entry, progress) for entry in entries)

    def _fill(
        self, progress: Progress = unwatched, stop: threading.Event | None = None, **how: bool
    ) -> FillReport:
        self._asking().follow_facts()
        return self._meaning.fill(progress, stop, **how)

    @cached_property
    def _is_settled(self) -> bool:
        """Whether what was forgotten is gone: what a reader kept from going goes with the next."""
        if not self._store.unfinished():
            return True
        from memwell.facts.forgetting import finish

        return finish(self._store)

    def _asking(self, passage: str = "") -> Asking:
        self._is_settled  # noqa: B018
        return Asking(
            self._index, self._workspaces, lambda: self._meaning, self.settings,
            self.notices.append, self._store, self.viewer, passage,
        )  # fmt: skip

    def _entry(self) -> Entry | None:
        return self._workspaces.around(self._place) if self._place else None

    def _searched(self, *, remember: bool = False) -> list[Entry]:
        """Return the workspaces a search is about: the one at hand, else all."""
        entry = self._entry()
        if entry is None and self._only_there:
            raise NotFoundError(
                f"{self._place} is not in any workspace", f"Run `memwell index {self._place}` first"
            )
        if entry is None:
            return self._workspaces.registry.entries()
        return [self._workspaces.remember(entry) if remember else entry]

    def _mended(self, operation: Callable[[], T]) -> T:
        """Run an operation; if the index turns out damaged, set it aside, rebuild, run again."""
        try:
            return operation()
        except CorruptIndexError as error:
            aside = self._index.database.set_aside()
            where = f"; the damaged file is kept as {aside}" if aside else ""
            self.notices.append(f"{error.what}: it is being rebuilt from the notes{where}")
            self._workspaces.sync_all()
            return operation()
