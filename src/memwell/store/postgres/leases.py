"""The chunks that wait for their vectors, handed out to any number of processes, each to one.

Whoever takes chunks has a lease on them until their vectors are written. A process that lives
renews its leases, and gives them back when it stops; those of one that was killed end by
themselves. No row is locked while a model works: notes are written meanwhile.
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
"""How long a lease lasts that is not renewed: what a killed process had waits for so long."""
AT_ONCE = 250
"""Chunks that are taken at most: several batches, and few to wait for when a process dies."""


@contextmanager
def hold_leases(server: Server, agent: str) -> Iterator[Take]:
    """Lend what takes chunks; what has no vector in the end is given back."""
    leases, over = _Leases(server, agent), threading.Event()
    renewing = threading.Thread(target=leases.keep, args=(over,), daemon=True)
    renewing.start()
    try:
        yield leases.take
    finally:
        over.set()
        renewing.join()
        with suppress(MemwellError):  # then they end by themselves
            leases.give_back()


class _Leases:
    """The leases of one filling."""

    def __init__(self, server: Server, agent: str) -> None:
        self._server = server
        self._agent = agent
        self._holder = f"{platform.node()}:{os.getpid()}:{secrets.token_hex(4)}"

    def take(self, space: Space, limit: int) -> list[WaitingChunk]:
        """Take chunks that wait in a space and that nobody has."""
        while True:
            free, found = self._server.retrying(lambda: self._taken(space, min(limit, AT_ONCE)))
            if found or not free:
                return found

    def _taken(self, space: Space, limit: int) -> tuple[int, list[WaitingChunk]]:
        """Return how many were free when it was looked, and those that were so still."""
        with self._server.writing(self._agent) as session:
            free, taken = session.row(
                _TAKE, **bound(space), limit=limit, holder=self._holder, seconds=SECONDS
            )
            # Others may have written vectors since that statement began: looked at again.
            return free, PostgresSpaces(session).waiting(space, limit, among=taken)

    def keep(self, over: threading.Event) -> None:
        """Renew the leases until this is over."""
        while not over.wait(SECONDS / 3):
            with suppress(MemwellError):
                self._server.rows(
                    self._agent,
                    f"UPDATE leases SET until = now() + {_A_WHILE} WHERE {_MINE}",
                    holder=self._holder,
                    seconds=SECONDS,
                )

    def give_back(self) -> None:
        """End the leases."""
        self._server.rows(self._agent, f"DELETE FROM leases WHERE {_MINE}", holder=self._holder)


_A_WHILE = "%(seconds)s * interval '1 second'"
# Two that take at once pass over what the other has locked. A lease that was written after the
# statement began is met when its row is inserted: only one that has ended gives way.
_TAKE = f"""
    WITH free AS (
        SELECT c.id FROM chunks c JOIN notes n ON {of_agent("n")} AND n.id = c.note_id
        WHERE {WAITING} AND c.id NOT IN (
            SELECT l.chunk_id FROM leases l
            WHERE {of_agent("l")} AND l.space_id = %(space)s AND l.until > now()
        )
        ORDER BY n.mtime_ns DESC, c.id LIMIT %(limit)s
        FOR NO KEY UPDATE OF c SKIP LOCKED
    ), taken AS (
        INSERT INTO leases AS l (tenant, agent, space_id, chunk_id, holder, until)
        SELECT %(tenant)s, %(agent)s, %(space)s, id, %(holder)s, now() + {_A_WHILE}
        FROM free ORDER BY id
        ON CONFLICT (tenant, agent, space_id, chunk_id) DO UPDATE
            SET holder = excluded.holder, until = excluded.until WHERE l.until <= now()
        RETURNING chunk_id
    )
    SELECT (SELECT count(*) FROM free), ARRAY(SELECT chunk_id FROM taken)
"""
# Rows that others have locked are about to go with their chunks.
_MINE = f"""(tenant, agent, space_id, chunk_id) IN (
        SELECT l.tenant, l.agent, l.space_id, l.chunk_id FROM leases l
        WHERE {of_agent("l")} AND l.holder = %(holder)s FOR UPDATE SKIP LOCKED
    )
"""
