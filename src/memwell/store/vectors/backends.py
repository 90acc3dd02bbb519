"""The backends of one index: finds the one that has a space, and moves spaces between them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING

from memwell.errors import ConfigError
from memwell.store.sqlite.database import Database
from memwell.store.vectors.backend import LANCEDB, SQL, BackendSetting, VectorBackend

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.contract.values import Space
    from memwell.store.vectors.lance import LanceBackend

_NEEDS = {SQL: ("sqlite_vec", "sqlite-vec"), LANCEDB: ("lancedb", "lance")}
"""The module that a backend needs, and the extra that installs it."""


class VectorBackends:
    """The backends of one index, each created at its first use."""

    def __init__(self, database: Database, backend: BackendSetting) -> None:
        module, extra = _NEEDS.get(backend.name, ("", ""))
        if module and find_spec(module) is None:
            raise ConfigError(
                f'vectors.backend = "{backend.name}" needs a package that is not installed',
                f"pip install 'memwell[{extra}]', or set it to \"scan\"",
            )
        self._database = database
        self._backend = backend

    @cached_property
    def table(self) -> VectorBackend:
        """The backend that searches vectors in index.db."""
        if self._backend.name == SQL:
            from memwell.store.vectors.sqlite_vec import SqliteVecBackend

            return SqliteVecBackend(self._database)
        from memwell.store.vectors.scan import ScanBackend

        return ScanBackend(self._database)

    @cached_property
    def lance(self) -> LanceBackend:
        """The backend that searches vectors in LanceDB, in a folder or on S3."""
        from memwell.store.vectors.lance import LanceBackend

        return LanceBackend(self._database)

    def backend_for(self, space: Space) -> VectorBackend:
        """Return the backend that has the vectors of a space now, whatever the settings say."""
        return self.lance if space.location else self.table

    def move_vectors(self, space: Space) -> bool:
        """Move the vectors of a space to the backend that the settings name.

        Return whether some left index.db, whose free pages still have their numbers.
        """
        if self._backend.name == LANCEDB:
            has_moved = self.lance.import_from(space, self._backend.address)
            self.table.drop(space)
            return has_moved and not space.location
        if space.location:
            self.lance.export_to(space)
        return False

    def put(self, space: Space, windows: Iterable[tuple[int, Matrix]]) -> None:
        """Store the vectors of chunks; chunks that were deleted meanwhile are skipped."""
        rows = [*windows]
        while current := self._find_space(space.fingerprint):
            if self.backend_for(current).put(current, rows):
                return
            # else another process moved the space meanwhile

    def compact(self, fingerprint: str, *, even_if_little_changed: bool) -> None:
        """Make searches of a space fast again, if enough has changed since the last time."""
        if space := self._find_space(fingerprint):
            self.backend_for(space).compact(space, even_if_little_changed=even_if_little_changed)

    def drop(self, space: Space) -> None:
        """Delete what the backend has of a space, but not its rows in the ledger."""
        if current := self._find_space(space.fingerprint):
            self.backend_for(current).drop(current)

    def external(self) -> list[Space]:
        """Return the spaces that have vectors outside index.db: a snapshot or a LanceDB table."""
        return [space for space in self._all() if space.snapshot or space.location]

    def _find_space(self, fingerprint: str) -> Space | None:
        return next((space for space in self._all() if space.fingerprint == fingerprint), None)

    def _all(self) -> list[Space]:
        from memwell.store.sqlite.spaces import SqliteSpaces

        with self._database.reading() as connection:
            return SqliteSpaces(connection).all()
