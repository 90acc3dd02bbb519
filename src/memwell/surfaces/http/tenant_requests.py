"""The requests of each tenant, counted against the operator's limits by all workers together.

The counts are a table in memory that the workers share. A tenant has an entry in it while one of
its requests runs or is younger than a minute; without one it may send as many as the limit says.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from memwell.config.sections import TenantsSettings
from memwell.files import hold_lock
from memwell.surfaces.worker_group import MOST_WORKERS, Group

_SETS, _WAYS = 1024, 16
"""A tenant has its entry in one of the sets, by its digest. So 16,384 tenants have one at most."""
_ENTRY = np.dtype(
    [("tenant", "u8"), ("tokens", "f8"), ("at", "f8"), ("running", "u2", (MOST_WORKERS,))]
)
"""A digest of the tenant, its tokens at a time, and how many of its requests each worker runs."""
_TABLE_BYTES = _SETS * _WAYS * _ENTRY.itemsize
_MINUTE = 60.0


class TenantRequests:
    """Counts requests of tenants; a server with several workers makes one in each of them."""

    def __init__(
        self,
        limits: TenantsSettings,
        group: Group | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        group = group or Group()
        self._limits = limits
        self._clock = clock
        self._worker = group.place
        self._lock = threading.Lock()
        self._file = group.folder / "requests" if group.folder else None
        table = np.frombuffer(_map_table(self._file), _ENTRY)
        self._table = table.reshape(_SETS, _WAYS)
        with self._locked():  # the worker that had this place before may have been killed
            self._table["running"][:, :, self._worker] = 0

    def seconds_to_wait(self, tenant: str) -> float:
        """Count a request; return 0, or how long a tenant with too many requests has to wait.

        Each request takes one of the tenant's tokens, which come back evenly over a minute.
        """
        most = self._limits.requests_per_minute
        if not most:
            return 0.0
        with self._locked():
            entry, now = self._entry(tenant), self._clock()
            tokens = min(most, entry["tokens"] + (now - entry["at"]) * most / _MINUTE)
            is_allowed = tokens >= 1
            entry["tokens"], entry["at"] = tokens - is_allowed, now
        return 0.0 if is_allowed else float((1 - tokens) * _MINUTE / most)

    def try_to_begin(self, tenant: str) -> bool:
        """Count a request that begins to run; return False if too many run."""
        most = self._limits.requests_at_once
        if not most:
            return True
        with self._locked():
            running = self._entry(tenant)["running"]
            if running.sum() >= most:
                return False
            running[self._worker] += 1
            return True

    def end(self, tenant: str) -> None:
        """Count a request that has ended."""
        if self._limits.requests_at_once:
            with self._locked():
                running = self._entry(tenant)["running"]
                running[self._worker] -= running[self._worker] > 0

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock:
            if not self._file:
                yield
                return
            with hold_lock(self._file.with_suffix(".lock"), wait=True):
                yield

    def _entry(self, tenant: str) -> Any:
        """Return the entry of a tenant; a new one replaces the oldest without a running request."""
        digest = int.from_bytes(blake2b(tenant.encode(), digest_size=8).digest(), "big")
        entries = self._table[digest % _SETS]
        known = np.flatnonzero(entries["tenant"] == digest)
        if known.size:
            return entries[known[0]]
        has_running = entries["running"].any(axis=1)
        entry = entries[np.argmin(np.where(has_running, np.inf, entries["at"]))]
        entry["tenant"], entry["tokens"] = digest, self._limits.requests_per_minute
        entry["at"], entry["running"] = self._clock(), 0
        return entry


def _map_table(file: Path | None) -> mmap.mmap:
    """Return the memory of the table, which is empty at first."""
    if file is None:
        return mmap.mmap(-1, _TABLE_BYTES)
    number = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.ftruncate(number, _TABLE_BYTES)
        return mmap.mmap(number, _TABLE_BYTES)
    finally:
        os.close(number)
