"""Who keeps the vectors of each space, and bringing them to where the settings want them."""

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
    """What keeps the vectors of one index; each is made when it is first needed."""

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
        """What finds vectors that are in index.db."""
        if self._backend.name == SQL:
            from memwell.store.vectors.sqlite_vec import SqliteVecBackend

            return SqliteVecBackend(self._database)
        from memwell.store.vectors.scan import ScanBackend

        return ScanBackend(self._database)

    @cached_property
    def lance(self) -> LanceBackend:
        """What finds those that LanceDB has, wherever that keeps them."""
        from memwell.store.vectors.lance import LanceBackend

        return LanceBackend(self._database)

    def backend_for(self, space: Space) -> VectorBackend:
        """Return what keeps the vectors of a space: where they are, not where they should be."""
        return self.lance if space.location else self.table

    def move_vectors(self, space: Space) -> None:
        """Bring the vectors of a space to where the settings want them."""
        if self._backend.name == LANCEDB:
            self.lance.import_from(space, self._backend.address)
            self.table.drop(space)
        elif space.location:
            self.lance.export_to(space)

    def put(self, space: Space, windows: Iterable[tuple[int, Matrix]]) -> None:
        """Store the vectors of chunks; a chunk that was deleted meanwhile is passed over."""
        rows = [*windows]
        while (at := self._backend_named(space.fingerprint)) and not self.backend_for(at).put(
            at, rows
        ):
            pass  # its vectors moved meanwhile

    def compact(self, fingerprint: str, *, even_if_little_changed: bool) -> None:
        """Make searches of a space quick again where enough has changed since the last time."""
        if space := self._backend_named(fingerprint):
            self.backend_for(space).compact(space, even_if_little_changed=even_if_little_changed)

    def drop(self, space: Space) -> None:
        """Delete what is kept of the vectors of a space besides the ledger."""
        if at := self._backend_named(space.fingerprint):
            self.backend_for(at).drop(at)

    def external(self) -> list[Space]:
        """Return the spaces whose vectors are not, or not only, in index.db."""
        return [space for space in self._all() if space.snapshot or space.location]

    def _backend_named(self, fingerprint: str) -> Space | None:
        return next((space for space in self._all() if space.fingerprint == fingerprint), None)

    def _all(self) -> list[Space]:
        from memwell.store.sqlite.spaces import SqliteSpaces

        with self._database.reading() as connection:
            return SqliteSpaces(connection).all()
