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
from memwell.memory.searcher import Asking
from memwell.memory.workspaces import Workspaces
from memwell.model import Viewer
from memwell.store.factory import Stores, in_files, on_server
from memwell.store.sqlite.workspace_list import Entry
from memwell.store.vectors.backend import Backend

if TYPE_CHECKING:
    from typing import Self

    from memwell.embed.providers import Factory
    from memwell.memory.vectors import Meaning
    from memwell.store.contract.index import Index

T = TypeVar("T")


class Opened:
    """What every verb of a memory stands on; `Memory` says what it is opened with."""

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
        stores = self._stores(held)
        self._index = stores.index
        self._workspaces = Workspaces(stores.registry, stores.index, self._own)
        self._embedders = embedders
        self.viewer = Viewer(user, self.agent, session)
        self._store = stores.facts
        self.notices: list[str] = []
        """What happened on the way that the user should hear of."""

    def _stores(self, held: config.Config) -> Stores:
        if held["store.url"]:
            return on_server(held["store.url"], held["store.tenant"], self.home, self.agent)
        backend = Backend(held["vectors.backend"], held["vectors.lance_uri"])
        return in_files(self.home, self.agent, backend)

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
        if "_meaning" in self.__dict__:
            self._meaning.close()

    @cached_property
    def _meaning(self) -> Meaning:
        from memwell.memory.vectors import Meaning

        return Meaning(self._index, self.home, self.settings, self._embedders)

    @property
    def kept_index(self) -> Index:
        """Where the notes are kept, with what they are found by."""
        return self._index

    @property
    def workspace(self) -> Path | None:
        """The folder of the workspace that searches are about, if they are about one."""
        entry = self._entry()
        return entry.path if entry else None

    @property
    def settings(self) -> config.Config:
        """The settings that hold here."""
        return config.load(self.workspace).but(self._own)

    def seen_by(self, user: str = "", session: str = "") -> Self:
        """Return the same memory as somebody else sees it; it shares this one's connections."""
        shared = self._meaning  # made now, so that there is one for all
        other = copy(self)
        other.__dict__["_meaning"] = shared
        other.viewer, other.notices = Viewer(user, self.agent, session), []
        return other

    def folders(self) -> tuple[Path, ...]:
        """Return the folders of the workspaces that searches are about, those that are there."""
        return tuple(entry.path for entry in self._searched() if entry.path.is_dir())

    @cached_property
    def _is_settled(self) -> bool:
        """Whether what was forgotten is gone: what a reader kept from going goes with the next."""
        if not self._store.unfinished():
            return True
        from memwell.facts.erase import finish

        return finish(self._store)

    def _asking(self, passage: str = "") -> Asking:
        self._is_settled  # noqa: B018
        return Asking(
            self._index.seen_by(self.viewer),
            self._workspaces,
            lambda: self._meaning,
            self.settings,
            self.notices.append,
            self._store,
            self.viewer,
            passage,
        )

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
            return self._index.again(operation)
        except CorruptIndexError as error:
            aside = self._index.set_aside()
            where = f"; the damaged file is kept as {aside}" if aside else ""
            self.notices.append(f"{error.what}: it is being rebuilt from the notes{where}")
            self._workspaces.sync_all()
            return operation()
