"""A memory that is open: for whom, of which folders, with which settings, and how it is mended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from memwell import config
from memwell.config.settings import Value
from memwell.errors import CorruptIndexError, NotFoundError
from memwell.ingest.scan import find_workspace
from memwell.memory.searcher import Searcher
from memwell.memory.workspaces import Workspaces
from memwell.model import Viewer
from memwell.store.contract.values import Workspace
from memwell.store.factory import Stores, open_postgres, open_sqlite
from memwell.store.vectors.backend import BackendSetting

if TYPE_CHECKING:
    from typing import Self

    from memwell.embed.providers import Factory
    from memwell.memory.vectors import VectorIndex
    from memwell.store.contract.index import Index

T = TypeVar("T")


class Opened:
    """What every verb of a memory stands on; `Memory` says what it is opened with."""

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
    ) -> None:
        self.home = Path(home).expanduser().absolute() if home else config.home_folder()
        place = workspace or fallback_workspace
        self._place = Path(place).expanduser().resolve() if place else None
        self._workspace_required = workspace is not None
        if self._place and not self._place.is_dir():
            raise NotFoundError(
                f"The workspace {self._place} does not exist", "Name an existing folder"
            )
        self._overrides = settings or {}
        around = find_workspace(self._place) if self._place else None
        held = config.load(around).with_overrides(self._overrides)
        self.agent = agent or held["agent"]
        config.check_agent(self.agent)
        stores = self._open_stores(held)
        self._index = stores.index
        self._agent_folder = stores.agent_folder
        self._workspaces = Workspaces(stores.registry, stores.index, self._overrides)
        self._embedders = embedders
        self.viewer = Viewer(user, self.agent, session)
        self._store = stores.facts
        self.notices: list[str] = []
        """What happened on the way that the user should hear of."""

    def _open_stores(self, held: config.Config) -> Stores:
        if held["store.url"]:
            return open_postgres(held["store.url"], held["store.tenant"], self.home, self.agent)
        backend = BackendSetting(held["vectors.backend"], held["vectors.lance_uri"])
        return open_sqlite(self.home, self.agent, backend)

    def __enter__(self) -> Self:
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
        if "_vectors" in self.__dict__:
            self._vectors.close()

    @cached_property
    def _vectors(self) -> VectorIndex:
        from memwell.memory.vectors import VectorIndex

        return VectorIndex(self._index, self.home, self.settings, self._embedders)

    @property
    def store_index(self) -> Index:
        """Where the notes are kept, with what they are found by."""
        return self._index

    @property
    def workspace(self) -> Path | None:
        """The folder of the workspace that searches are about, if they are about one."""
        entry = self._current_workspace()
        return entry.path if entry else None

    @property
    def settings(self) -> config.Config:
        """The settings that hold here."""
        return config.load(self.workspace).with_overrides(self._overrides)

    def as_viewer(self, user: str = "", session: str = "") -> Self:
        """Return the same memory as somebody else sees it; it shares this one's connections."""
        shared = self._vectors  # made now, so that there is one for all
        other = copy(self)
        other.__dict__["_vectors"] = shared
        other.viewer, other.notices = Viewer(user, self.agent, session), []
        return other

    def folders(self) -> tuple[Path, ...]:
        """Return the folders of the workspaces that searches are about, those that are there."""
        return tuple(entry.path for entry in self._target_workspaces() if entry.path.is_dir())

    @cached_property
    def _is_settled(self) -> bool:
        """Whether what was forgotten is gone: what a reader kept from going goes with the next."""
        if not self._store.pending_erasures():
            return True
        from memwell.facts.erase import finish_erasures

        return finish_erasures(self._store)

    def _searcher(self, passage: str = "") -> Searcher:
        self._is_settled  # noqa: B018
        return Searcher(
            self._index.for_viewer(self.viewer),
            self._workspaces,
            lambda: self._vectors,
            self.settings,
            self.notices.append,
            self._store,
            self.viewer,
            passage,
        )

    def _current_workspace(self) -> Workspace | None:
        return self._workspaces.find_around(self._place) if self._place else None

    def _target_workspaces(self, *, remember: bool = False) -> list[Workspace]:
        """Return the workspaces a search is about: the one at hand, else all."""
        entry = self._current_workspace()
        if entry is None and self._workspace_required:
            raise NotFoundError(
                f"{self._place} is not in any workspace", f"Run `memwell index {self._place}` first"
            )
        if entry is None:
            return self._workspaces.registry.list_all()
        return [self._workspaces.ensure_registered(entry) if remember else entry]

    def _with_repair(self, operation: Callable[[], T]) -> T:
        """Run an operation; if the index turns out damaged, set it aside, rebuild, run again."""
        try:
            return self._index.retrying(operation)
        except CorruptIndexError as error:
            aside = self._index.files.quarantine() if self._index.files else None
            where = f"; the damaged file is kept as {aside}" if aside else ""
            self.notices.append(f"{error.what}: it is being rebuilt from the notes{where}")
            self._workspaces.sync_all()
            return operation()
