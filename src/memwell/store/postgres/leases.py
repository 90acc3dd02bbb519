"""Leases on the chunks that wait for vectors: any number of processes embed, each its own chunks.

A process that takes chunks holds a lease on them until it has written their vectors. It renews its
leases while it runs and ends them when it stops; the leases of a killed process expire. No row is
locked while a model works, so other processes can write notes meanwhile.
"""

from __future__ import annotations

import os
import platform
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from memwell.errors import MemwellError
from memwell.store.postgres.server import Server
from memwell.store.postgres.spaces import WAITING, PostgresSpaces, bound
from memwell.store.postgres.sql import of_agent

if TYPE_CHECKING:
    from memwell.store.contract.values import Space, WaitingChunk
    from memwell.store.contract.vectors import Take

SECONDS = 60.0
"""How long a lease lasts without renewal: so long the chunks of a killed process wait."""
MOST_CHUNKS = 250
"""Chunks that a process takes at once: several batches, but few to wait for if it is killed."""


@contextmanager
def hold_leases(server: Server, agent: str) -> Iterator[Take]:
    """Yield the function that takes chunks; at the end, release those without a vector."""
    leases, stop = _Leases(server, agent), threading.Event()
    renewal = threading.Thread(target=leases.renew_until, args=(stop,), daemon=True)
    renewal.start()
    try:
        yield leases.take
    finally:
        stop.set()
        renewal.join()
        with suppress(MemwellError):  # then they expire
            leases.release()


class _Leases:
    """The leases of one process."""

    def __init__(self, server: Server, agent: str) -> None:
        self._server = server
        self._agent = agent
        self._holder = f"{platform.node()}:{os.getpid()}:{secrets.token_hex(4)}"

    def take(self, space: Space, limit: int) -> list[WaitingChunk]:
        """Take chunks that wait for a vector in a space and that no process has leased."""
        while True:
            free, chunks = self._server.retrying(lambda: self._take(space, min(limit, MOST_CHUNKS)))
            if chunks or not free:
                return chunks

    def _take(self, space: Space, limit: int) -> tuple[int, list[WaitingChunk]]:
        """Return how many chunks were free, and those of them that still wait for a vector."""
        with self._server.writing(self._agent) as session:
            free = [chunk for (chunk,) in session.rows(_FREE, **bound(space), limit=limit)]
            taken = session.rows(
                _TAKE, space=space.id, free=free, holder=self._holder, seconds=SECONDS
            )
            among = [chunk for (chunk,) in taken]
            # Other processes may have written vectors since the first statement began.
            return len(free), PostgresSpaces(session).waiting(space, limit, among=among)

    def renew_until(self, stop: threading.Event) -> None:
        """Renew the leases until `stop` is set."""
        while not stop.wait(SECONDS / 3):
            with suppress(MemwellError):
                self._server.rows(
                    self._agent,
                    f"UPDATE leases l SET until = now() + {_DURATION} WHERE {_MINE}",
                    holder=self._holder,
                    seconds=SECONDS,
                )

    def release(self) -> None:
        """End the leases."""
        self._server.rows(self._agent, f"DELETE FROM leases l WHERE {_MINE}", holder=self._holder)


_DURATION = "%(seconds)s * interval '1 second'"
# Two processes that take chunks at once skip the rows that the other has locked. If a lease was
# written after the first statement began, the INSERT finds it: only an expired one is replaced.
_FREE = f"""
    SELECT c.id FROM chunks c JOIN notes n ON {of_agent("n")} AND n.id = c.note_id
    WHERE {WAITING} AND c.id NOT IN (
        SELECT l.chunk_id FROM leases l
        WHERE {of_agent("l")} AND l.space_id = %(space)s AND l.until > now()
    )
    ORDER BY n.mtime_ns DESC, c.id LIMIT %(limit)s
    FOR NO KEY UPDATE OF c SKIP LOCKED
"""
_TAKE = f"""
    INSERT INTO leases AS l (tenant, agent, space_id, chunk_id, holder, until)
    SELECT %(tenant)s, %(agent)s, %(space)s, id, %(holder)s, now() + {_DURATION}
    FROM unnest(%(free)s::bigint[]) AS id ORDER BY id
    ON CONFLICT (tenant, agent, space_id, chunk_id) DO UPDATE
        SET holder = excluded.holder, until = excluded.until WHERE l.until <= now()
    RETURNING chunk_id
"""
# It waits for rows that another process has locked: one that skipped them would leave its leases if
# the other was only looking whether they have expired.
_MINE = f"{of_agent('l')} AND l.holder = %(holder)s"
