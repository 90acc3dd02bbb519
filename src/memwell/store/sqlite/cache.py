"""embeddings.db: vectors by text, so that no text is embedded twice.

Vectors are kept as every store keeps them (quantisation.py).

The cache survives an index that is deleted, damaged or reset. It is bounded: `trim` deletes the
vectors that were not used for longest. If anything is wrong with it, texts are embedded again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from memwell.errors import CorruptIndexError, MemwellError
from memwell.files import digest_of, read_migrations
from memwell.store.contract.quantisation import pack, unpack
from memwell.store.contract.vectors import VectorCache
from memwell.store.sqlite.database import Database

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

MIGRATIONS = read_migrations(Path(__file__).with_suffix(".sql"))
_TRIMMED_TO = 0.9


class SqliteVectorCache(VectorCache):
    """The cache of one agent, in a file of its own."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self.database = Database(path, MIGRATIONS)
        self._most_bytes = most_bytes

    def get(self, fingerprint: str, dimensions: int, texts: Sequence[str]) -> dict[str, Matrix]:
        by_digest = {digest_of(text): text for text in texts}
        found: dict[str, Matrix] = {}
        with self._start_again_if_damaged(), self.database.reading() as connection:
            for digest, text in by_digest.items():
                blob = connection.execute(
                    "SELECT vectors FROM cached WHERE digest = ? AND fingerprint = ?",
                    (digest, fingerprint),
                ).get
                if blob is not None:
                    found[text] = unpack(blob, dimensions)
        return found

    def put(self, fingerprint: str, vectors: Iterable[tuple[str, Matrix]]) -> None:
        rows = [(digest_of(text), fingerprint, pack(matrix)) for text, matrix in vectors]
        with self._start_again_if_damaged(), self.database.writing() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO cached (digest, fingerprint, vectors) VALUES (?, ?, ?)",
                rows,
            )

    def forget(self, digests: Iterable[bytes]) -> bool:
        if not self.database.path.exists():
            return True
        with self._start_again_if_damaged():
            with self.database.writing() as connection:
                connection.pragma("secure_delete", True)
                connection.executemany(
                    "DELETE FROM cached WHERE digest = ?", ((digest,) for digest in digests)
                )
            return self.database.scrub(rewrite=False)
        return not self.database.path.exists()  # a damaged file was deleted

    def trim(self) -> None:
        files = [Path(f"{self.database.path}{suffix}") for suffix in ("", "-wal")]
        if sum(file.stat().st_size for file in files if file.exists()) < self._most_bytes:
            return  # small enough: the rows need not be counted
        with self._start_again_if_damaged(), self.database.writing() as connection:
            connection.execute(
                """
                DELETE FROM cached WHERE id <= (
                    SELECT max(id) FROM (
                        SELECT id, sum(length(vectors)) OVER (ORDER BY id DESC) AS so_far
                        FROM cached
                    )
                    WHERE so_far > :most
                ) AND (SELECT sum(length(vectors)) FROM cached) > :most / :share
                """,
                {"most": int(self._most_bytes * _TRIMMED_TO), "share": _TRIMMED_TO},
            )

    def close(self) -> None:
        self.database.close()

    @contextmanager
    def _start_again_if_damaged(self) -> Iterator[None]:
        """Delete a damaged cache; ignore an error that may pass (a busy or full disk)."""
        try:
            yield
        except (CorruptIndexError, ValueError):
            if renamed := self.database.quarantine():
                for file in renamed.parent.glob(f"{renamed.name}*"):
                    file.unlink(missing_ok=True)
        except MemwellError:
            pass
