"""Tables of LanceDB: where they are, what is asked of them, and what goes wrong with them."""

from __future__ import annotations

import datetime as dt
import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl

from memwell.errors import ConfigError
from memwell.files import make_private_folder
from memwell.store.vectors.backend import VectorSearchUnavailable

if TYPE_CHECKING:
    from memwell.store.contract.values import Array

T = TypeVar("T")
Row: TypeAlias = tuple[int, int, int, bytes]
"""Key, note, workspace, vector."""

INDEXED = 50_000
"""Rows from which on an index of their neighbourhoods pays; fewer are all compared."""
_PROBES = 20
"""Neighbourhoods that are looked at; where a filter leaves too little in them, more are."""
_MANY_FILES, _TOO_MANY_FILES, _MUCH = 32, 200, 0.2
"""Each writing leaves a file: they become one where much came since, or in any case."""
_KEPT = dt.timedelta(hours=1)
"""Former states of a table, for those who still read them."""
_AT_ONCE = 5_000
"""Rows asked for at a time."""
_ATTEMPTS = 8
_LEFT_ALONE = 30.0
"""Seconds for which an address that did not answer is not asked again."""
_PATIENCE = {
    "connect_timeout": "3s",
    "timeout": "30s",
    "client_max_retries": "2",
    "client_retry_timeout": "10",
}
_REASONS = {
    "Failed to get AWS credentials": "there is no key in the environment",
    "NoSuchBucket": "the bucket does not exist",
    "InvalidAccessKeyId": "the key is not known there",
    "SignatureDoesNotMatch": "the key is refused",
    "AccessDenied": "the key is refused",
    "HttpError": "it does not answer",
    "was not found": "the table is gone",
}


@dataclass(frozen=True, slots=True)
class Root:
    """The folder that holds the tables of one index; of S3 also how it is reached."""

    path: str
    options: str = ""
    """As in an address: ``endpoint=http://127.0.0.1:8333&region=eu-west-1``."""

    @classmethod
    def at(cls, address: str, own: str) -> Root:
        """Return the folder `own` at an address that the settings name."""
        path, _, options = address.partition("?")
        if path.startswith("s3://") and len(path) > len("s3://"):
            return cls(f"{path.rstrip('/')}/{own}", options)
        if "://" in address:
            raise ConfigError(
                f'vectors.lance_uri = "{address}" is neither a folder nor an address of S3',
                "Set it to a folder, or to s3://BUCKET/FOLDER",
            )
        return cls(f"{Path(address).expanduser().absolute().as_posix()}/{own}")

    @property
    def is_remote(self) -> bool:
        """Whether it is on S3."""
        return self.path.startswith("s3://")

    def place(self, name: str) -> str:
        """Return the place of a table, as the ledger has it."""
        return f"{self.path}/{name}" + (f"?{self.options}" if self.options else "")

    def new_place(self, space_id: int) -> str:
        """Return the place of a table that is not there yet; its name says when it was made."""
        return self.place(f"{space_id}-{int(time.time())}-{secrets.token_hex(4)}")


def parse_address(place: str) -> tuple[Root, str]:
    """Return the folder of a table and its name."""
    path, _, options = place.partition("?") if place.startswith("s3://") else (place, "", "")
    folder, _, name = path.rpartition("/")
    return Root(folder, options), name


class Tables:
    """The tables that this process has open."""

    def __init__(self) -> None:
        self._databases: dict[Root, Any] = {}
        self._tables: dict[str, Any] = {}
        self._failed: dict[Root, tuple[float, VectorSearchUnavailable]] = {}

    # -- tables --------------------------------------------------------------------------------

    def create(self, place: str, dimensions: int) -> None:
        """Make an empty table."""
        schema = _schema(dimensions)
        self._try(place, lambda database, name: database.create_table(name, schema=schema))

    def exists(self, place: str) -> bool:
        """Whether a table is there."""
        root, name = parse_address(place)
        return name in self.names(root)

    def names(self, root: Root) -> list[str]:
        """Return the names of the tables in a folder."""
        return self._try(root.place(""), lambda database, _: _all_names(database))

    def drop(self, place: str) -> None:
        """Delete a table with its files, if it is there."""
        self._tables.pop(place, None)
        self._try(place, lambda database, name: database.drop_table(name, ignore_missing=True))

    # -- rows ----------------------------------------------------------------------------------

    def add(self, place: str, rows: Sequence[Row]) -> None:
        """Write rows, all or none."""
        table = self._open(place)
        self._try(place, lambda *_: table.add(_arrow(rows, table.schema)))

    def fetch(self, place: str, keys: Sequence[int]) -> dict[int, bytes]:
        """Return the vectors of some rows by their keys."""
        found: dict[int, bytes] = {}
        for start in range(0, len(keys), _AT_ONCE):
            some = ", ".join(map(str, keys[start : start + _AT_ONCE]))
            asked = self._open(place).search().where(f"key IN ({some})").limit(_AT_ONCE).to_arrow
            found |= {key: vector for key, _, _, vector in self._try(place, partial(_found, asked))}
        return found

    def every(self, place: str) -> Iterator[list[Row]]:
        """Yield all rows, block by block."""
        batches = self._try(place, lambda *_: self._open(place).search().to_batches(_AT_ONCE))
        while (batch := self._try(place, lambda *_: next(batches, None))) is not None:
            yield _rows(batch)

    def nearest(self, query: Array, where: str, limit: int, place: str) -> list[tuple[int, float]]:
        """Return keys and cosines of the rows nearest to a query, of those that a filter leaves."""
        asked = (
            self._open(place)
            .search(query, vector_column_name="vector")
            .distance_type("dot")
            .minimum_nprobes(_PROBES)
            .maximum_nprobes(0)
            .select(["key", "_distance"])
            .limit(limit)
        )
        if where:
            asked = asked.where(where, prefilter=True)
        found = self._try(place, lambda *_: asked.to_arrow())
        distances = zip(found["key"].to_pylist(), found["_distance"].to_pylist(), strict=True)
        return [(key, 1.0 - distance) for key, distance in distances]

    def count(self, place: str) -> int:
        """Return how many rows there are."""
        return int(self._try(place, lambda *_: self._open(place).count_rows()))

    # -- keeping them quick --------------------------------------------------------------------

    def tidy(self, place: str) -> None:
        """Make one file of many, and bring the index of neighbourhoods up to date."""
        table = self._open(place)
        stats = self._try(place, lambda *_: table.stats())
        files, rows = stats["fragment_stats"], stats["num_rows"]
        count, came = files["num_fragments"], rows - files["lengths"]["max"]
        if count > _TOO_MANY_FILES or (count > _MANY_FILES and came > _MUCH * rows):
            self._try(place, lambda *_: table.optimize(cleanup_older_than=_KEPT))
        self.ensure_index(place)

    def ensure_index(self, place: str) -> None:
        """Index a table that has become large."""
        from lancedb.index import IvfFlat

        table = self._open(place)
        if self.count(place) >= INDEXED and not self._try(place, lambda *_: table.list_indices()):
            flat = IvfFlat(distance_type="dot")
            self._try(place, lambda *_: table.create_index("vector", config=flat))

    # -- what goes wrong -----------------------------------------------------------------------

    def _open(self, place: str) -> Any:
        if place not in self._tables:
            self._tables[place] = self._try(place, lambda db, name: db.open_table(name))
        return self._tables[place]

    def _try(self, place: str, work: Callable[[Any, str], T]) -> T:
        """Do something at a place; again where another writer was quicker."""
        root, name = parse_address(place)
        for attempt in range(_ATTEMPTS):
            try:
                return work(self._database(root), name)
            except (ValueError, RuntimeError, OSError) as error:
                if "conflict" not in str(error).lower() or attempt == _ATTEMPTS - 1:
                    self._tables.pop(place, None)
                    raise _unavailable(place, error) from error
                time.sleep(random.random() * 0.05 * 2**attempt)
        raise AssertionError

    def _database(self, root: Root) -> Any:
        """Connect once; where that fails, not again for a while."""
        if root in self._databases:
            return self._databases[root]
        at, failure = self._failed.get(root, (0.0, None))
        if failure and time.monotonic() < at + _LEFT_ALONE:
            raise failure
        try:
            self._databases[root] = _connect(root)
        except (ValueError, RuntimeError, OSError) as error:
            failure = _unavailable(root.place(""), error)
            self._failed[root] = time.monotonic(), failure
            raise failure from error
        return self._databases[root]


def _connect(root: Root) -> Any:
    try:
        import lancedb
    except ImportError as error:
        raise VectorSearchUnavailable(
            f"The vectors at {root.path} need a package that is not installed",
            "pip install 'memwell[lance]'",
        ) from error
    options = dict(parse_qsl(root.options))
    if root.is_remote:
        plain = {"allow_http": "true"} if options.get("endpoint", "").startswith("http://") else {}
        options = {**_PATIENCE, **plain, **options}
    else:
        make_private_folder(Path(root.path))
    return lancedb.connect(
        root.path, read_consistency_interval=dt.timedelta(0), storage_options=options
    )


def _unavailable(place: str, error: Exception) -> VectorSearchUnavailable:
    said = str(error)
    reason = next((told for sign, told in _REASONS.items() if sign in said), said[:200])
    return VectorSearchUnavailable(
        f"LanceDB cannot use {place}: {reason}",
        "Check vectors.lance_uri, and for S3 its endpoint and AWS_ACCESS_KEY_ID,"
        " AWS_SECRET_ACCESS_KEY and AWS_REGION in the environment; then `memwell index`",
    )


def _all_names(database: Any) -> list[str]:
    page = database.list_tables()
    found = [*page.tables]
    while page.page_token:
        page = database.list_tables(page_token=page.page_token)
        found += page.tables
    return found


def _schema(dimensions: int) -> Any:
    import pyarrow as pa  # type: ignore[import-untyped]

    ids = [(name, pa.int64()) for name in ("key", "note", "workspace")]
    return pa.schema([*ids, ("vector", pa.list_(pa.float32(), dimensions))])


def _arrow(rows: Sequence[Row], schema: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    *ids, vectors = zip(*rows, strict=True)
    numbers = pa.array(np.frombuffer(b"".join(vectors), dtype="<f4"))
    lists = pa.FixedSizeListArray.from_arrays(numbers, schema.field("vector").type.list_size)
    return pa.table([*(pa.array(column, pa.int64()) for column in ids), lists], schema=schema)


def _found(ask: Callable[[], Any], *_: Any) -> list[Row]:
    return _rows(ask())


def _rows(found: Any) -> list[Row]:
    """Return what LanceDB found as rows."""
    import numpy as np

    vectors = found["vector"]
    lists = vectors.combine_chunks() if hasattr(vectors, "combine_chunks") else vectors
    numbers = np.asarray(lists.flatten(), dtype="<f4").reshape(len(found["key"]), -1)
    ids = (found[name].to_pylist() for name in ("key", "note", "workspace"))
    return [(*row, vector.tobytes()) for *row, vector in zip(*ids, numbers, strict=True)]
