"""Open the stores that the settings name: files in the home, or a PostgreSQL server."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from memwell.store.factory import Stores, open_postgres, open_sqlite
from memwell.store.postgres.options import ServerOptions
from memwell.store.sqlite.auto_backup import AutoBackups
from memwell.store.vectors.backend import BackendSetting

if TYPE_CHECKING:
    from memwell.config.settings import Settings


def open_stores(
    settings: Settings,
    home: Path,
    agent: str,
    clock: Callable[[], dt.datetime],
    notify: Callable[[str], None],
) -> Stores:
    """Return the stores of an agent; only facts in files are backed up automatically."""
    if settings.store.url:
        store = settings.store
        options = ServerOptions(store.prepare, store.slow_ms, settings.tenants.statement_seconds)
        return open_postgres(store.url, store.tenant, home, agent, options)
    backend = BackendSetting(settings.vectors.backend, settings.vectors.lance_uri)
    backups = AutoBackups(home / "memory.db", settings.backup, clock, notify)
    return open_sqlite(home, agent, backend, backups)
