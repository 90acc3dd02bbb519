"""`Memory`: the facade that the command line and every server call.

Each method resolves a `Scope` once (settings, workspaces, viewer, time) and hands it down. The
class is synchronous and may be shared between threads.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from memwell import config
from memwell.config.fields import Value
from memwell.config.settings import Settings
from memwell.errors import CorruptIndexError, HomeError, MemwellError, NotFoundError
from memwell.files import close_to_others, remove_unfinished
from memwell.ingest.scan import find_workspace
from memwell.memory.refresh import WorkspaceSync
from memwell.memory.scope import Scope
from memwell.memory.searcher import Searcher, SearchTarget
from memwell.memory.shared import Shared
from memwell.memory.stores import open_stores
from memwell.memory.workspaces import Workspaces, find_around, find_covered
from memwell.model import Excerpt, IndexReport, SearchResult, Viewer
from memwell.progress import Progress, no_progress
from memwell.search.options import search_options

if TYPE_CHECKING:
    from typing import Self

    from memwell.embed.providers import Factory
    from memwell.extract.files import IngestReport
    from memwell.facts.erase import EraseReport
    from memwell.facts.export_import import ImportReport
    from memwell.facts.recall import Recall
    from memwell.facts.recall_history import RecallHistory
    from memwell.facts.service import FactService, NewFact, RememberResult
    from memwell.llm.budget import Budget
    from memwell.memory.sources import Sources
    from memwell.memory.vectors import VectorIndex
    from memwell.reports import Check, FillReport, SpaceStatus, Status
    from memwell.search.why import Why
    from memwell.store.browse import NoteBrowser
    from memwell.store.contract.values import BackupReport, RestoreReport, Workspace
    from memwell.store.sqlite.verify import Finding

T = TypeVar("T")
TRANSCRIPTS = "transcripts"
"""The folder of an agent that has the transcripts as notes."""


class Memory:
    """An agent's memory.

    Args:
        home: the folder of the data; default ``MEMWELL_HOME``, else the platform's data folder.
        workspace: the folder (or one inside it) that searches cover; None covers all.
        fallback_workspace: the same, but if no workspace is there, all of them are covered.
        agent: the agent whose memory this is; default the setting ``agent``.
        user, session: whose facts are visible besides those of the agent and global ones.
        embedders: your own embedding providers, by the name ``embedding.chain`` gives them.
        settings: values that override files and the environment.
        clock: returns the present time; default `config.now`.

    """

    def __init__(
        self,
        home: str | Path | None = None,
        *,
        workspace: str | Path | None = None,
        fallback_workspace: str | Path | None = None,
        agent: str | None = None,
        user: str = "",
        session: str = "",
        embedders: Mapping[str, Factory] | None = None,
        settings: Mapping[str, Value] | None = None,
        clock: Callable[[], dt.datetime] = config.now,
    ) -> None:
        self.home = self.root_home = config.find_home(home)
        folder = workspace or fallback_workspace
        self._folder = Path(folder).expanduser().resolve() if folder else None
        self._workspace_required = workspace is not None
        if self._folder and not self._folder.is_dir():
            raise NotFoundError(
                f"The workspace {self._folder} does not exist", "Name an existing folder"
            )
        self.notices = close_to_others(self.home, own_names=("memory.db", "agents"))
        """Sentences about what happened on the way, for the user."""
        self._overrides = settings or {}
        self._overridden: tuple[Settings, Mapping[str, Value], Settings] | None = None
        self._clock = clock
        opened_with = self._load(find_workspace(self._folder) if self._folder else None)
        self.agent = agent or opened_with.agent
        config.check_agent(self.agent)
        stores = open_stores(opened_with, self.home, self.agent, self._clock, self._notify_once)
        self._index, self._fact_store = stores.index, stores.facts
        self._workspaces = Workspaces(stores.registry, stores.index)
        self._embedders = embedders
        self.shared = Shared(waits=self._index.shared)
        self.viewer = Viewer(user, self.agent, session)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; the next call opens new ones."""
        self._index.close()
        self._fact_store.close()
        self.shared.changes.close()
        if self.shared.vectors:
            self.shared.vectors.close()

    @property
    def workspace(self) -> Path | None:
        """The folder of the workspace that searches cover, if they cover one."""
        workspace = self._scope().workspace
        return workspace.path if workspace else None

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._scope().settings

    def as_viewer(self, user: str = "", session: str = "", *, is_admin: bool = True) -> Self:
        """Return the same memory for another viewer; it shares the connections."""
        other = copy(self)
        other.viewer = Viewer(user, self.agent, session, is_admin)
        other.notices = []
        return other

    def folders(self) -> tuple[Path, ...]:
        """Return the existing folders of the workspaces that searches cover."""
        workspaces = self._target_scope().workspaces
        return tuple(workspace.path for workspace in workspaces if workspace.is_present)

    # -- indexing ----------------------------------------------------------------------------------

    def index(
        self, *paths: str | Path, embed: bool = True, progress: Progress = no_progress
    ) -> tuple[IndexReport, ...]:
        """Create or refresh the index of folders and single files; by default of the workspace.

        A named folder is indexed whole. Without a name, the files that agents keep by convention
        (MEMORY.md, memory/ and so on) and those of ``scan.extra`` are indexed. Unless `embed` is
        False, new passages are embedded, too (see `fill`, which reports more about them).
        """
        resolved = [Path(path).expanduser().resolve() for path in paths]
        if not paths and (self._agent_folder / TRANSCRIPTS).is_dir():
            self.sources.sync_transcripts(progress)

        def run() -> tuple[IndexReport, ...]:
            sync = self._sync()
            workspaces = self._workspaces.register_all(resolved, self._folder)
            reports = tuple(
                replace(sync.sync(workspace, progress), left_out=sync.find_left_out(workspace))
                for workspace in workspaces
            )
            self._index.erase_deleted()
            return reports

        reports = self._with_repair(run)
        if embed:
            self.notices += self.fill().notes
        return reports

    def fill(
        self, progress: Progress = no_progress, stop: threading.Event | None = None
    ) -> FillReport:
        """Embed the passages that have no vector yet; finished ones are kept, whatever happens."""
        return self._fill(progress, stop, again=True)

    def watch(
        self,
        report: Callable[[IndexReport | str], None],
        stop: threading.Event | None = None,
        something_new: threading.Event | None = None,
    ) -> None:
        """Sync the workspaces with their files until `stop` is set.

        `report` receives each sync that changed something, and sentences about events. Set
        `something_new` to embed facts immediately that were written elsewhere.
        """
        from memwell.memory.watch import watch_workspaces

        stop = stop or threading.Event()
        workspaces = self._target_scope(register=True).workspaces
        if not workspaces:
            raise NotFoundError("There is no workspace to watch", "Run `memwell index PATH` first")

        watch_workspaces(
            workspaces,
            lambda workspace: self._with_repair(lambda: self._sync().sync(workspace)),
            lambda workspace: self._sync().folders(workspace),
            lambda: self._fill(no_progress, stop),
            self.sources.transcripts.sync if (self._agent_folder / TRANSCRIPTS).is_dir() else None,
            report,
            stop,
            something_new or threading.Event(),
        )

    @property
    def sources(self) -> Sources:
        """The data of other programs: transcripts of agents, and exports to import."""
        from memwell.memory.sources import Sources

        return Sources(
            self._agent_folder / TRANSCRIPTS, self._agent_folder, lambda: self.facts, self.index
        )

    def reset(self, workspace: str | Path | None = None) -> None:
        """Delete the index, which is rebuilt on demand, or forget one workspace; notes stay."""
        if workspace is None:
            self._index.delete()
            return
        root = Path(workspace).expanduser().absolute()
        self._with_repair(lambda: self._workspaces.forget(root))

    # -- searching ---------------------------------------------------------------------------------

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
        group: str | None = None,
        kind: str | None = None,
        include_superseded: bool = False,
        as_of: str | None = None,
        paths: Iterable[str] | None = None,
        passage: str = "",
        transcripts: bool = True,
        explain: bool = False,
        today: dt.date | None = None,
        progress: Progress = no_progress,
    ) -> SearchResult:
        """Find the passages that answer `query`, best first.

        Args:
            query: words, phrases, operators and filters.
            k: the number of hits; default ``search.k``.
            min_score: the lowest relevance of a hit; default ``search.min_score``.
            mode: "hybrid", "words" or "meaning"; default ``search.mode``.
            fusion: "standard", "rrf" or "weighted"; default ``search.fusion``.
            diversity: "off", "mmr" or "cluster"; default ``search.diversity``.
            context: "neighbours" or "section" adds the text around each hit.
            group: "notes" (the best passage of each) or "passages"; default ``search.group``.
            kind: "note", "fact" or "transcript" excludes the others; so does ``kind:note`` in the
                query.
            include_superseded: whether superseded facts are found.
            as_of: a time; facts that were valid then are found.
            paths: only these notes are searched.
            passage: the vector search uses its embedding instead of the query's.
            transcripts: whether transcripts of agents are found.
            explain: hits get a trace of how their scores came about.
            today: the day by which notes are old; default the clock's.
            progress: is called while new notes are indexed.

        """
        scope = self._target_scope(register=True)
        options = search_options(
            scope.settings.search,
            k=k,
            min_score=min_score,
            mode=mode,
            fusion=fusion,
            diversity=diversity,
            context=context,
            group=group,
            explain=explain,
            today=today or scope.today,
        )
        exact_paths = None if paths is None else frozenset(paths)
        target = SearchTarget(kind, include_superseded, as_of, exact_paths, transcripts)
        searcher = self._searcher(scope)
        with self.shared.search_slot(scope.settings):
            return self._with_repair(
                lambda: searcher.search(query, options, target, passage, progress)
            )

    def search_with(
        self, query: str, changes: Sequence[Mapping[str, Value]], *, k: int | None = None
    ) -> tuple[SearchResult, ...]:
        """Search once with each of several changes of the settings; the query is embedded once."""
        scope = self._target_scope(register=True)
        many = [
            search_options(scope.settings.with_overrides(changed).search, k=k, today=scope.today)
            for changed in changes
        ]
        searcher = self._searcher(scope)
        return self._with_repair(lambda: searcher.search_each(query, many))

    def why(
        self,
        query: str,
        path: str,
        *,
        k: int | None = None,
        mode: str | None = None,
        today: dt.date | None = None,
    ) -> Why:
        """Explain at which rank a note is among the hits of a query, or why it is not."""
        scope = self._target_scope(register=True)
        options = search_options(scope.settings.search, k=k, mode=mode, today=today or scope.today)
        searcher = self._searcher(scope)
        return self._with_repair(lambda: searcher.why(query, path, options))

    def recall(
        self,
        message: str,
        *,
        budget: int | None = None,
        include_superseded: bool = False,
        as_of: str | None = None,
    ) -> Recall:
        """Return a block of the memories that fit a message; a session gets none twice soon."""
        from memwell.memory.recall import recall

        history = self._recall_history()
        return recall(self, message, history, budget, include_superseded, as_of)

    def search_for_recall(
        self,
        message: str,
        *,
        include_superseded: bool = False,
        as_of: str | None = None,
        budget: Budget | None = None,
    ) -> SearchResult:
        """Search as `recall` does: also by a hypothetical answer, if the settings ask for it.

        A `budget` for the language model may be shared by several searches.
        """
        from memwell.memory.recall import find_passage, search

        passage = find_passage(
            message, self.settings, self._agent_folder, self._index, self._notify_once, budget
        )
        return search(self, message, passage, include_superseded, as_of)

    def reset_recall_history(self) -> None:
        """Let the session get every memory again, for example after its context was emptied."""
        self._recall_history().clear()

    def _recall_history(self) -> RecallHistory:
        from memwell.facts.recall_history import RecallHistory

        minutes = self.settings.recall.again_after
        return RecallHistory(self._agent_folder, self.viewer.session_key, minutes)

    # -- notes -------------------------------------------------------------------------------------

    @property
    def contents(self) -> NoteBrowser:
        """The notes and facts that the viewer can find, as lists."""
        from memwell.store.browse import NoteBrowser
        from memwell.store.fact_notes import scope_workspace

        roots = [workspace.root for workspace in self._target_scope().workspaces]
        roots += [scope_workspace(*scope) for scope in self.viewer.scopes]
        return NoteBrowser(self._index.for_viewer(self.viewer), roots)

    def get(self, reference: str) -> Excerpt:
        """Read a note, or the lines of it that ``PATH#L3-L9`` names, as the file is now."""
        from memwell.memory.note_files import read_excerpt, with_links

        scope = self._target_scope()
        find_note = WorkspaceSync(self._index, scope.settings_for, self.shared.changes).find_note
        return self._with_repair(
            lambda: with_links(read_excerpt(reference, scope.workspaces, find_note), self._index)
        )

    def note(self, text: str, *, now: dt.datetime | None = None) -> Excerpt:
        """Append `text` to today's log of the workspace and index it."""
        from memwell.memory.note_files import append_note

        scope = self._scope()
        if scope.workspace is None:
            raise NotFoundError(
                "There is no workspace here to keep the note in",
                "Name one with --workspace, or run `memwell index .` to make this folder one",
            )
        workspace = scope.workspace
        excerpt = append_note(text, workspace.path, scope.settings.note.folder, now or scope.now)
        try:
            workspace = self._workspaces.ensure_registered(workspace)
            self._with_repair(lambda: self._sync().sync(workspace))
        except MemwellError as error:
            self.notices.append(f"The note is written, but not indexed yet ({error.what})")
        return excerpt

    # -- facts -------------------------------------------------------------------------------------

    @property
    def facts(self) -> FactService:
        """The facts as the viewer sees them now."""
        from memwell.facts.lifetimes import parse_lifetimes
        from memwell.facts.service import FactService

        with suppress(MemwellError):  # a damaged file is reported by the operation that reads it
            self._finish_pending_erasure()
        lifetimes = parse_lifetimes(self.settings.facts.lifetimes)
        return FactService(self._fact_store, self.viewer, self._clock(), lifetimes)

    def remember(
        self,
        text: str,
        *,
        category: str = "fact",
        tags: Sequence[str] = (),
        source: str = "python",
        origin: str = "",
        importance: float = 0.5,
        confidence: float = 1.0,
        decay_class: str = "permanent",
        scope: str | None = None,
        valid_from: str | None = None,
        secrets: str = "refuse",
    ) -> RememberResult:
        """Store a fact, or reinforce the one that says the same.

        Args:
            text: the fact.
            category: one of `CATEGORIES`: preference, fact, decision, entity, rule and so on.
            tags: labels to filter by.
            source: the program that stores the fact.
            origin: where the fact comes from, such as a file and its lines.
            importance: from 0 to 1.
            confidence: from 0 to 1; it decays unless the fact is confirmed.
            decay_class: how long the fact lives; one of ``facts.lifetimes``.
            scope: "global", "agent", "user" or "session"; default the viewer's narrowest.
            valid_from: the time since which the fact is true; default now.
            secrets: "refuse", "redact" or "allow" a text that contains a secret.

        """
        from memwell.facts.service import NewFact

        values = (importance, confidence, decay_class, scope, valid_from, secrets)
        return self._remember(NewFact(text, category, tuple(tags), source, origin, *values))

    def supersede(
        self,
        old: str,
        text: str,
        *,
        category: str = "fact",
        tags: Sequence[str] = (),
        source: str = "python",
        origin: str = "",
        importance: float = 0.5,
        confidence: float = 1.0,
        decay_class: str = "permanent",
        scope: str | None = None,
        valid_from: str | None = None,
        secrets: str = "refuse",
    ) -> RememberResult:
        """Store a fact in place of the one with the id `old`, which is then superseded.

        The other arguments are those of `remember`.
        """
        from memwell.facts.service import NewFact

        values = (importance, confidence, decay_class, scope, valid_from, secrets)
        fact = NewFact(text, category, tuple(tags), source, origin, *values)
        return self._publish_fact(self.facts.supersede(old, fact))

    def forget(self, *ids: str, predecessors: bool = False) -> EraseReport:
        """Remove facts, and their texts from every file of the home.

        With `predecessors`, the facts that they superseded are removed, too; otherwise the report
        names those.
        """
        from memwell.facts.erase import forget

        return forget(ids, self.facts, predecessors=predecessors)

    def find_lost_facts(self) -> str:
        """Return a sentence if memory.db is not the file that the index followed, else ""."""
        from memwell.store.sqlite.lineage import describe_mismatch

        return describe_mismatch(self._index, self._fact_store)

    def ingest_files(
        self,
        root: str | Path,
        *,
        paths: Sequence[str] = (),
        dry_run: bool = False,
        progress: Progress = no_progress,
    ) -> IngestReport:
        """Store the facts in the files of a folder that `paths` (else ``ingest.paths``) name.

        A dry run only reports the changes.
        """
        from memwell.memory.ingest_files import ingest_files

        return ingest_files(
            Path(root).resolve(),
            self.settings,
            self._agent_folder,
            lambda: self.facts,
            self._remember,
            self.notices,
            paths=paths,
            dry_run=dry_run,
            progress=progress,
        )

    def export(self, layout: str = "jsonl") -> str:
        """Return the facts that the viewer sees, with their history, as JSON Lines or Markdown."""
        from memwell.facts.export_import import MARKDOWN, export_facts, to_jsonl, to_markdown

        facts = export_facts(self.facts)
        return to_markdown(facts) if layout == MARKDOWN else to_jsonl(facts)

    def import_facts(
        self, data: bytes, *, trust: bool = False, dry_run: bool = False
    ) -> ImportReport:
        """Import facts in the format of `export`; with `trust`, junk and secrets, too."""
        from memwell.facts.export_import import import_jsonl

        return import_jsonl(data, self.facts, trust=trust, dry_run=dry_run)

    def backup(self, file: str | Path, *, force: bool = False) -> BackupReport:
        """Copy the facts of every viewer to a file, even while other processes write."""
        return self._fact_store.require_file().backup(Path(file).absolute(), force=force)

    def restore(self, file: str | Path) -> RestoreReport:
        """Replace the facts of every viewer by those of a backup; keep the old file beside it.

        "latest" is the newest automatic backup.
        """
        fact_file = self._fact_store.require_file()
        return fact_file.restore(file, dt.datetime.now())

    def verify(self, file: str | Path | None = None) -> list[Finding]:
        """Return the problems in the stored facts, or in a backup; nothing is changed."""
        from memwell.memory.status import verify_facts

        return verify_facts(self._fact_store, Path(file).absolute() if file else None)

    # -- vector spaces, status ---------------------------------------------------------------------

    def spaces(self) -> tuple[SpaceStatus, ...]:
        """Return the vector spaces, the one that answers first."""
        return self._with_repair(lambda: self._visible_vectors().spaces())

    def switch_space(self, number: int) -> SpaceStatus:
        """Let another space answer, until ``embedding.chain`` is changed."""
        return self._visible_vectors().switch(number)

    def drop_space(self, number: int) -> None:
        """Delete a space that does not answer."""
        self._visible_vectors().drop(number)

    def status(self, *, deep: bool = False) -> Status:
        """Return the state of the index; `deep` also checks every page of it."""
        from memwell.memory.status import read_status

        index, registry = self._index.for_viewer(self.viewer), self._workspaces.registry
        vectors = self._visible_vectors()
        return self._with_repair(
            lambda: read_status(self.home, self.agent, index, registry, vectors, deep=deep)
        )

    def doctor(self) -> list[Check]:
        """Check everything that can be wrong; each finding comes with its remedy."""
        from memwell.memory.status import run_checks

        registry = self._workspaces.registry
        return run_checks(
            self.home,
            self._index,
            self._fact_store,
            registry,
            self._visible_vectors,
            self._folder,
            for_owner=not self.viewer.user,
        )

    # -- how they do it ----------------------------------------------------------------------------

    def _load(self, workspace: Path | None) -> Settings:
        settings = config.load(workspace, home=self.root_home)
        self.notices += [notice for notice in settings.notices if notice not in self.notices]
        known = self._overridden  # `config.load` returns the same object for the same values
        if known is None or known[0] is not settings or known[1] is not self._overrides:
            known = settings, self._overrides, settings.with_overrides(self._overrides)
            self._overridden = known
        return known[2]

    def _scope(self) -> Scope:
        """Resolve what a call is about."""
        return self._resolve(self._workspaces.registry.list_all())

    def _target_scope(self, *, register: bool = False) -> Scope:
        """Resolve the scope of a search; with `register` its workspace is put on the list."""
        registered = self._workspaces.registry.list_all()
        scope = self._resolve(registered)
        if scope.workspace is None and self._workspace_required:
            raise NotFoundError(
                f"{self._folder} is not in any workspace",
                f"Run `memwell index {self._folder}` first",
            )
        if scope.workspace and register:
            self._workspaces.ensure_registered(scope.workspace, registered)
        return scope

    def _resolve(self, registered: Sequence[Workspace]) -> Scope:
        workspace = find_around(self._folder, registered) if self._folder else None
        transcripts = str(self._agent_folder / TRANSCRIPTS)
        return Scope(
            self._load(workspace.path if workspace else None),
            workspace,
            find_covered(workspace, registered, transcripts),
            self.viewer,
            self._clock(),
            self._load,
            transcripts,
        )

    def _sync(self) -> WorkspaceSync:
        return WorkspaceSync(self._index, self._scope().settings_for)

    @property
    def _agent_folder(self) -> Path:
        return self.home / "agents" / self.agent

    def _vectors(self, settings: Settings) -> VectorIndex:
        """Return the vector index, created at its first use and shared by all viewers."""
        from memwell.memory.vectors import VectorIndex  # a keyword search goes without

        with self.shared.lock:
            if self.shared.vectors is None:
                self.shared.vectors = VectorIndex(
                    self._index, self.root_home, settings, self._embedders
                )
            return self.shared.vectors

    def _visible_vectors(self) -> VectorIndex:
        """Return the vector index with counts of what the viewer sees."""
        return self._vectors(self.settings).for_index(self._index.for_viewer(self.viewer))

    def _searcher(self, scope: Scope) -> Searcher:
        self._finish_pending_erasure()
        return Searcher(
            self._index.for_viewer(scope.viewer),
            self._fact_store,
            lambda: self._vectors(scope.settings),
            scope,
            self.notices.append,
            self.shared.changes,
            self._agent_folder,
        )

    def _finish_pending_erasure(self) -> None:
        """Finish erasures that an open reader or a killed command left; looked for once."""
        if self.shared.erasures_checked:
            return
        with suppress(OSError, HomeError):  # a home that cannot be written, or is damaged
            if self._fact_store.pending_erasures():
                from memwell.facts.erase import finish_erasures

                finish_erasures(self._fact_store)
            elif self._fact_store.file:
                self._fact_store.file.remove_leftovers()
            for folder in (self.home, self._agent_folder, self.home / "models"):
                remove_unfinished(folder)
        self.shared.erasures_checked = True

    def _remember(self, fact: NewFact) -> RememberResult:
        searcher = self._searcher(self._scope())
        near = self._with_repair(lambda: searcher.find_near_fact(fact))
        return self._publish_fact(self.facts.remember(fact, near))

    def _publish_fact(self, result: RememberResult) -> RememberResult:
        """On a shared store, index the fact now: a read replica cannot do it when it searches."""
        if self._index.shared:
            with suppress(MemwellError):  # the next search does it
                self._searcher(self._scope()).sync_facts()
        return result

    def _fill(
        self, progress: Progress, stop: threading.Event | None, *, again: bool = False
    ) -> FillReport:
        def run() -> FillReport:
            scope = self._scope()
            self._searcher(scope).sync_facts()
            return self._vectors(scope.settings).fill(progress, stop, again=again)

        return self._with_repair(run)

    def _notify_once(self, notice: str) -> None:
        if notice not in self.notices:
            self.notices.append(notice)

    def _with_repair(self, operation: Callable[[], T]) -> T:
        """Run an operation; if the index is damaged, quarantine it, rebuild it and run again."""
        try:
            return self._index.retrying(operation)
        except CorruptIndexError as error:
            file = self._index.quarantine()
            where = f"; the damaged file is kept as {file}" if file else ""
            self.notices.append(f"{error.what}: it is rebuilt from the notes{where}")
            self._sync().sync_all(self._workspaces.registry.list_all())
            return operation()
