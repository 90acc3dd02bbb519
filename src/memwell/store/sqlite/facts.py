"""Facts in memory.db, as one viewer sees them.

Every statement that reads is built by `_visible`: it sees the facts of the viewer's scopes and
no others, whatever a caller asks for. What is not visible is not there: an id of another scope
is unknown, a text of another scope no duplicate.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import apsw

from memwell.errors import (
    CorruptIndexError,
    HomeError,
    IdTakenError,
    NewerIndexError,
    NotFoundError,
)
from memwell.hashing import digest_of
from memwell.model import Fact, FactEvent, Viewer
from memwell.store.sqlite.database import Database
from memwell.store.sqlite.facts_schema import FACT_MIGRATIONS
from memwell.store.sqlite.index import Index

T = TypeVar("T")

COLUMNS = (
    "id, text, category, source, origin, importance, confidence, decay_class, created_at,"
    " confirmed_at, expires_at, valid_from, valid_until, superseded_by, scope, target"
)
_TAGS = "(SELECT group_concat(tag, char(10)) FROM fact_tags WHERE fact_id = f.id)"
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Without i, l, o and u: easy to read out, and no words by chance."""
_BITS = 50
_making, _newest = threading.Lock(), [0, 0]
"""The millisecond and the number of the id that was made last."""


def new_id(now_ms: int) -> str:
    """Return an id that sorts by time: 10 signs for the millisecond, 10 by chance.

    Those that one process makes in the same millisecond sort in the order they were made in.
    """
    with _making:
        last, number = _newest
        number = number + 1 if last == now_ms else secrets.randbits(_BITS - 1)
        _newest[:] = now_ms, number
    return _signs(now_ms) + _signs(number)


def _signs(number: int) -> str:
    """Return the last 50 bits of a number in 10 signs."""
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(_BITS - 5, -1, -5))


@dataclass(frozen=True, slots=True)
class FactFilter:
    """Which facts are meant, of those that are visible; all by default."""

    ids: tuple[str, ...] | None = None
    normalised: str | None = None
    scope: str | None = None
    category: str | None = None
    tag: str | None = None
    source: str | None = None
    superseded: bool = False
    """Whether those that were superseded are meant too."""
    expired_before: str | None = None
    """Only those that expire by this time."""
    live_at: str | None = None
    """Only those that have not expired by this time."""
    as_of: str | None = None
    """Those that were held true at this time, whatever became of them."""


class FactStore:
    """The facts of one home."""

    def __init__(self, path: Path) -> None:
        self.database = Database(path, FACT_MIGRATIONS, durable=True)

    @property
    def home(self) -> Path:
        """The folder that files of agents lie in."""
        return self.database.path.parent

    @property
    def exists(self) -> bool:
        """Whether anything can have been remembered yet."""
        return self.database.path.exists()

    def retrying(self, operation: Callable[[], T]) -> T:
        """Run an operation: no server interrupts it."""
        return operation()

    def indexes(self) -> Iterator[Index]:
        """Yield the index of every agent, each open until the next."""
        for folder in sorted(self.home.glob("agents/*/")):
            with closing(Index(folder / "index.db")) as index:
                yield index

    def scrub(self) -> bool:
        """Let nothing of what was deleted stay in the log; False while a reader still holds it."""
        return self.database.scrub()

    def close(self) -> None:
        """Close every connection."""
        self.database.close()

    @contextmanager
    def for_viewer(self, viewer: Viewer) -> Iterator[Facts]:
        """Lend one unchanging state, as a viewer sees it."""
        with fact_errors(self.database.path), self.database.reading() as connection:
            yield Facts(connection, viewer)

    @contextmanager
    def change(self, viewer: Viewer) -> Iterator[Facts]:
        """Lend the facts of a viewer for changes, inside one transaction that outlives a crash."""
        with fact_errors(self.database.path), self.database.writing() as connection:
            yield Facts(connection, viewer)

    def revision(self) -> int:
        """Return a number that grows with every change."""
        if not self.exists:
            return 0
        with fact_errors(self.database.path), self.database.reading() as connection:
            return int(connection.execute("SELECT last FROM revisions").get)

    def pending_erasures(self) -> dict[str, bytes]:
        """Return what was forgotten and may have left traces: ids, and the digests of texts."""
        if not self.exists:
            return {}
        with fact_errors(self.database.path), self.database.reading() as connection:
            rows: Any = connection.execute("SELECT id, digest FROM unfinished").fetchall()
            return dict(rows)

    def clear_pending(self, ids: Iterable[str]) -> None:
        """Note that nothing is left of what was forgotten."""
        with fact_errors(self.database.path), self.database.writing() as connection:
            rows = ((fact_id,) for fact_id in ids)
            connection.executemany("DELETE FROM unfinished WHERE id = ?", rows)

    def copies(self) -> list[Path]:
        """Return where copies of the memory were written that are still there."""
        with fact_errors(self.database.path), self.database.reading() as connection:
            rows: Any = connection.execute("SELECT file FROM copies").fetchall()
        beside = self.database.path.parent.glob(f"{self.database.path.name}.*")
        found = {*beside, *(Path(file) for (file,) in rows)}
        return sorted(file for file in found if file.is_file())


@contextmanager
def fact_errors(path: Path) -> Iterator[None]:
    """Tell apart what an index's errors mean for a file that cannot be built anew."""
    try:
        yield
    except CorruptIndexError as error:
        raise HomeError(
            f"{path}, which holds what was remembered, is damaged", "Restore it from a backup"
        ) from error
    except NewerIndexError as error:
        raise HomeError(f"{path} was written by a newer memwell", "Upgrade memwell") from error


class Facts:
    """Reads and writes facts over one connection, for one viewer."""

    def __init__(self, connection: apsw.Connection, viewer: Viewer) -> None:
        self._connection = connection
        self.viewer = viewer

    # -- reading: every statement goes through here ------------------------------------------------

    def _visible(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Run a statement over `facts`: the rows that the viewer may see, and nothing else."""
        scopes = [":".join(scope) for scope in self.viewer.scopes]
        marks = ", ".join("?" * len(scopes))
        # Not by an index of its own: what is asked for is found by its id, text or time.
        restricted = f"""
            WITH facts AS (
                SELECT * FROM fact_rows WHERE scope || ':' || target IN ({marks})
            )
            {statement}
        """
        return self._connection.execute(restricted, (*scopes, *values)).fetchall()

    def find(self, which: FactFilter, limit: int = -1) -> list[Fact]:
        """Return facts, the newest first."""
        conditions, values = _conditions(which)
        rows = self._visible(
            f"SELECT {COLUMNS}, {_TAGS} FROM facts f WHERE {conditions}"
            " ORDER BY +f.id DESC LIMIT ?",
            (*values, limit),
        )
        return [_fact(row) for row in rows]

    def get(self, fact_id: str) -> Fact:
        """Return a fact, or say that there is none of that id."""
        found = self.find(FactFilter(ids=(fact_id,), superseded=True))
        if not found:
            raise fact_not_found(fact_id)
        return found[0]

    def history(self, fact_id: str) -> list[FactEvent]:
        """Return what happened to a fact, and to those it superseded, the oldest first."""
        self.get(fact_id)
        rows = self._visible(
            """,
            chain (id) AS (
                SELECT ? UNION SELECT f.id FROM facts f JOIN chain ON f.superseded_by = chain.id
            )
            SELECT e.fact_id, e.at, e.what, e.detail FROM fact_events e JOIN facts f
            ON f.id = e.fact_id WHERE e.fact_id IN (SELECT id FROM chain)
            -- Of one moment, what came before what it replaced: the same in every copy.
            ORDER BY e.at, e.fact_id DESC, e.rowid
            """,
            (fact_id,),
        )
        return [FactEvent(*row) for row in rows]

    def changed_since(self, revision: int) -> tuple[list[Fact], list[str]]:
        """Return what changed after a revision: facts as they are now, and ids that are gone."""
        rows = self._visible(
            f"SELECT {COLUMNS}, {_TAGS} FROM facts f WHERE f.revision > ? ORDER BY f.revision",
            (revision,),
        )
        gone = self._connection.execute("SELECT id FROM forgotten WHERE revision > ?", (revision,))
        return [_fact(row) for row in rows], [fact_id for (fact_id,) in gone]

    # -- writing: only what is visible can be named ------------------------------------------------

    def add(self, fact: Fact, folded: str) -> None:
        """Write a new fact."""
        self._connection.execute(
            f"""
            INSERT INTO fact_rows ({COLUMNS}, folded, revision)
            VALUES ({", ".join("?" * 18)})
            """,
            (*values_of(fact), folded, self._next_revision()),
        )
        self._tag(fact)

    def change(self, fact: Fact, folded: str, what: str, at: str, detail: str = "") -> None:
        """Write a fact over what it was, and note what happened."""
        self.get(fact.id)
        assignments = ", ".join(f"{name} = ?" for name in COLUMNS.split(", "))
        self._connection.execute(
            f"UPDATE fact_rows SET {assignments}, folded = ?, revision = ? WHERE id = ?",
            (*values_of(fact), folded, self._next_revision(), fact.id),
        )
        self._connection.execute("DELETE FROM fact_tags WHERE fact_id = ?", (fact.id,))
        self._tag(fact)
        self.note(fact.id, at, what, detail)

    def note(self, fact_id: str, at: str, what: str, detail: str = "") -> None:
        """Record what happened to a fact."""
        self._connection.execute(
            "INSERT INTO fact_events VALUES (?, ?, ?, ?)", (fact_id, at, what, detail)
        )

    def delete(self, ids: Iterable[str]) -> int:
        """Remove facts, and with them what is known of them; return how many there were."""
        count = 0
        for fact_id in ids:
            self.get(fact_id)
            self._connection.execute("DELETE FROM fact_rows WHERE id = ?", (fact_id,))
            self._connection.execute(
                "INSERT OR REPLACE INTO forgotten VALUES (?, ?)", (fact_id, self._next_revision())
            )
            count += 1
        return count

    def record_pending_erasure(self, facts: Iterable[Fact]) -> None:
        """Note what may still be in an index, a cache or a log of facts that are forgotten."""
        self._connection.executemany(
            "INSERT OR REPLACE INTO unfinished VALUES (?, ?)",
            ((fact.id, digest_of(fact.text)) for fact in facts),
        )

    def _tag(self, fact: Fact) -> None:
        self._connection.executemany(
            "INSERT INTO fact_tags VALUES (?, ?)", ((fact.id, tag) for tag in fact.tags)
        )

    def _next_revision(self) -> int:
        self._connection.execute("UPDATE revisions SET last = last + 1")
        return int(self._connection.execute("SELECT last FROM revisions").get)

    # -- carrying over: facts with all that happened to them ---------------------------------------

    def events(self) -> dict[str, list[FactEvent]]:
        """Return what happened to each fact, in the order in which it was noted."""
        rows = self._visible(
            "SELECT e.fact_id, e.at, e.what, e.detail FROM fact_events e"
            " JOIN facts f ON f.id = e.fact_id ORDER BY e.rowid"
        )
        found: dict[str, list[FactEvent]] = {}
        for row in rows:
            found.setdefault(row[0], []).append(FactEvent(*row))
        return found

    def put(self, fact: Fact, folded: str, events: Iterable[FactEvent]) -> None:
        """Write a fact with its history as they are, in place of the visible one of that id."""
        if (fact.scope, fact.target) not in self.viewer.scopes:
            raise NotFoundError(f"There is no scope {fact.scope} {fact.target}".rstrip())
        try:
            with self._connection:  # all of it or nothing, inside the transaction
                if self.find(FactFilter(ids=(fact.id,), superseded=True)):
                    self._connection.execute("DELETE FROM fact_rows WHERE id = ?", (fact.id,))
                self.add(fact, folded)
                for event in events:
                    self.note(fact.id, event.at, event.what, event.detail)
                self._connection.execute("DELETE FROM forgotten WHERE id = ?", (fact.id,))
        except apsw.ConstraintError as error:
            raise IdTakenError(fact.id) from error


def _conditions(which: FactFilter) -> tuple[str, list[Any]]:
    """Return what a row must satisfy, as SQL, and the values in it."""
    found = [*_equal(which), *_in_time(which)]
    if which.ids is not None:
        found.append((f"f.id IN ({', '.join('?' * len(which.ids))})", *which.ids))
    sql = " AND ".join(["1", *(condition for condition, *_ in found)])
    return sql, [value for _, *values in found for value in values]


def _equal(which: FactFilter) -> Iterator[tuple[Any, ...]]:
    for name, value in (
        ("folded", which.normalised),
        ("scope", which.scope),
        ("category", which.category),
        ("source", which.source),
    ):
        if value is not None:
            yield f"f.{name} = ?", value
    if which.tag is not None:
        tagged = "SELECT 1 FROM fact_tags t WHERE t.fact_id = f.id AND t.tag = ?"
        yield f"EXISTS ({tagged})", which.tag


def _in_time(which: FactFilter) -> Iterator[tuple[Any, ...]]:
    if which.as_of is not None:
        yield "coalesce(f.valid_from, f.created_at) <= ?", which.as_of
        yield "(f.valid_until IS NULL OR f.valid_until > ?)", which.as_of
    elif not which.superseded:
        yield ("f.superseded_by IS NULL",)
    if which.expired_before is not None:
        yield "f.expires_at <= ?", which.expired_before
    if which.live_at is not None:
        yield "(f.expires_at IS NULL OR f.expires_at > ?)", which.live_at


def values_of(fact: Fact) -> tuple[Any, ...]:
    """Return a fact as a row."""
    return tuple(getattr(fact, name) for name in COLUMNS.split(", "))


def _fact(row: Sequence[Any]) -> Fact:
    known: dict[str, Any] = dict(zip(COLUMNS.split(", "), row, strict=False))
    return Fact(**known, tags=tuple(sorted(row[-1].split("\n"))) if row[-1] else ())


def fact_not_found(fact_id: str) -> NotFoundError:
    """Return the error for an id that is not visible."""
    return NotFoundError(
        f"There is no fact {fact_id!r}", "`memwell facts list` shows those there are"
    )


def milliseconds() -> int:
    """Return the present time as ids carry it."""
    return time.time_ns() // 1_000_000
