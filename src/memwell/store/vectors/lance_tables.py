"""Tables of LanceDB: their addresses, reading and writing, and their errors."""

from __future__ import annotations

import datetime as dt
import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl

from memwell.errors import ConfigError, VectorSearchUnavailable
from memwell.files import make_private_folder

if TYPE_CHECKING:
    from memwell.store.contract.values import Array

T = TypeVar("T")
Row: TypeAlias = tuple[int, int, int, bytes]
"""Key, note, workspace, vector."""

INDEXED = 50_000
"""From so many rows on an IVF index pays; below, all rows are compared."""
_PROBES = 20
"""Partitions of the index that a search reads; more, if a filter leaves too few rows in them."""
_MANY_FILES, _TOO_MANY_FILES, _MUCH = 32, 200, 0.2
"""Each write leaves a file. They are merged if much was added since, or if there are too many."""
_KEPT = dt.timedelta(hours=1)
"""How long old versions of a table are kept for their readers."""
_AT_ONCE = 5_000
"""Rows that one query returns."""
_COLLISIONS = ("conflict", "directory not empty")
"""In the messages of operations that met another writer. The second comes from deleting a table
while another process writes its last file into it."""
_ATTEMPTS = 8
_LEFT_ALONE = 30.0
"""Seconds for which an address that did not answer is not called again."""
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
    """The folder of the tables of one index; for S3 also the options to reach it."""

    path: str
    options: str = ""
    """As in an address: ``endpoint=http://127.0.0.1:8333&region=eu-west-1``."""

    @classmethod
    def at(cls, address: str, own: str) -> Root:
        """Return the folder `own` at an address of the settings."""
        path, _, options = address.partition("?")
        if path.startswith("s3://") and len(path) > len("s3://"):
            return cls(f"{path.rstrip('/')}/{own}", options)
        if "://" in address:
            raise ConfigError(
                f'vectors.lance_uri = "{address}" is neither a folder nor an S3 address',
                "Set it to a folder, or to s3://BUCKET/FOLDER",
            )
        return cls(f"{Path(address).expanduser().absolute().as_posix()}/{own}")

    @property
    def is_remote(self) -> bool:
        """Whether it is on S3."""
        return self.path.startswith("s3://")

    def place(self, name: str) -> str:
        """Return the address of a table, as the ledger has it."""
        return f"{self.path}/{name}" + (f"?{self.options}" if self.options else "")

    def new_place(self, space_id: int) -> str:
        """Return the address of a new table; its name contains the time."""
        return self.place(f"{space_id}-{int(time.time())}-{secrets.token_hex(4)}")


def parse_address(place: str) -> tuple[Root, str]:
    """Return the folder of a table and its name."""
    path, _, options = place.partition("?") if place.startswith("s3://") else (place, "", "")
    folder, _, name = path.rpartition("/")
    return Root(folder, options), name


class Tables:
    """The open tables of this process."""

    def __init__(self) -> None:
        self._databases: dict[Root, Any] = {}
        self._tables: dict[str, Any] = {}
        self._failed: dict[Root, tuple[float, VectorSearchUnavailable]] = {}

    # -- tables --------------------------------------------------------------------------------

    def create(self, place: str, dimensions: int) -> None:
        """Create an empty table."""
        schema = _schema(dimensions)
        self._try(place, lambda database, name: database.create_table(name, schema=schema))

    def exists(self, place: str) -> bool:
        """Whether a table exists."""
        root, name = parse_address(place)
        return name in self.names(root)

    def names(self, root: Root) -> list[str]:
        """Return the names of the tables in a folder."""
        return self._try(root.place(""), lambda database, _: _all_names(database))

    def drop(self, place: str) -> None:
        """Delete a table with its files, if it exists."""
        self._tables.pop(place, None)
        self._try(place, lambda database, name: database.drop_table(name, ignore_missing=True))

    # -- rows ----------------------------------------------------------------------------------

    def add(self, place: str, rows: Sequence[Row]) -> None:
        """Write rows, all or none."""
        table = self._open(place)
        self._try(place, lambda *_: table.add(_arrow(rows, table.schema)))

    def fetch(self, place: str, keys: Sequence[int]) -> dict[int, bytes]:
        """Return the vectors of rows, by key."""
        found: dict[int, bytes] = {}
        for start in range(0, len(keys), _AT_ONCE):
            batch = ", ".join(map(str, keys[start : start + _AT_ONCE]))
            query = self._open(place).search().where(f"key IN ({batch})").limit(_AT_ONCE)
            rows = _rows(self._try(place, lambda *_, query=query: query.to_arrow()))
            found |= {key: vector for key, _, _, vector in rows}
        return found

    def every(self, place: str) -> Iterator[list[Row]]:
        """Yield all rows, block by block."""
        batches = self._try(place, lambda *_: self._open(place).search().to_batches(_AT_ONCE))
        while (batch := self._try(place, lambda *_: next(batches, None))) is not None:
            yield _rows(batch)

    def nearest(self, query: Array, where: str, limit: int, place: str) -> list[tuple[int, float]]:
        """Return keys and cosines of the rows nearest to a query, among those a filter allows."""
        search = (
            self._open(place)
            .search(query, vector_column_name="vector")
            .distance_type("dot")
            .minimum_nprobes(_PROBES)
            .maximum_nprobes(0)
            .select(["key", "_distance"])
            .limit(limit)
        )
        if where:
            search = search.where(where, prefilter=True)
        found = self._try(place, lambda *_: search.to_arrow())
        distances = zip(found["key"].to_pylist(), found["_distance"].to_pylist(), strict=True)
        return [(key, 1.0 - distance) for key, distance in distances]

    def count(self, place: str) -> int:
        """Return how many rows there are."""
        return int(self._try(place, lambda *_: self._open(place).count_rows()))

    # -- maintenance ---------------------------------------------------------------------------

    def tidy(self, place: str) -> None:
        """Merge files, and create the IVF index of a large table."""
        table = self._open(place)
        stats = self._try(place, lambda *_: table.stats())
        files, rows = stats["fragment_stats"], stats["num_rows"]
        count, added = files["num_fragments"], rows - files["lengths"]["max"]
        if count > _TOO_MANY_FILES or (count > _MANY_FILES and added > _MUCH * rows):
            self._try(place, lambda *_: table.optimize(cleanup_older_than=_KEPT))
        self.ensure_index(place)

    def ensure_index(self, place: str) -> None:
        """Create the IVF index of a table that has become large."""
        from lancedb.index import IvfFlat

        table = self._open(place)
        if self.count(place) >= INDEXED and not self._try(place, lambda *_: table.list_indices()):
            flat = IvfFlat(distance_type="dot")
            self._try(place, lambda *_: table.create_index("vector", config=flat))

    # -- errors --------------------------------------------------------------------------------

    def _open(self, place: str) -> Any:
        if place not in self._tables:
            self._tables[place] = self._try(place, lambda db, name: db.open_table(name))
        return self._tables[place]

    def _try(self, place: str, work: Callable[[Any, str], T]) -> T:
        """Run an operation on a table; try again if another writer was faster."""
        root, name = parse_address(place)
        for attempt in range(_ATTEMPTS):
            try:
                return work(self._database(root), name)
            except (ValueError, RuntimeError, OSError) as error:
                collided = any(sign in str(error).lower() for sign in _COLLISIONS)
                if not collided or attempt == _ATTEMPTS - 1:
                    self._tables.pop(place, None)
                    raise _unavailable(place, error) from error
                time.sleep(random.random() * 0.05 * 2**attempt)
        raise AssertionError

    def _database(self, root: Root) -> Any:
        """Connect once; after a failure, do not try again for a while."""
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
    message = str(error)
    reason = next((text for part, text in _REASONS.items() if part in message), message[:200])
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
    import pyarrow as pa

    ids = [(name, pa.int64()) for name in ("key", "note", "workspace")]
    return pa.schema([*ids, ("vector", pa.list_(pa.float32(), dimensions))])


def _arrow(rows: Sequence[Row], schema: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    *ids, vectors = zip(*rows, strict=True)
    numbers = pa.array(np.frombuffer(b"".join(vectors), dtype="<f4"))
    lists = pa.FixedSizeListArray.from_arrays(numbers, schema.field("vector").type.list_size)
    return pa.table([*(pa.array(column, pa.int64()) for column in ids), lists], schema=schema)


def _rows(found: Any) -> list[Row]:
    """Convert a result of LanceDB to rows."""
    import numpy as np

    vectors = found["vector"]
    lists = vectors.combine_chunks() if hasattr(vectors, "combine_chunks") else vectors
    numbers = np.asarray(lists.flatten(), dtype="<f4").reshape(len(found["key"]), -1)
    ids = (found[name].to_pylist() for name in ("key", "note", "workspace"))
    return [(*row, vector.tobytes()) for *row, vector in zip(*ids, numbers, strict=True)]
