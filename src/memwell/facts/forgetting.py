"""Forgetting: the text itself goes, from every file of the home.

From memory.db and its log, from every agent's keyword index, vectors and their mapped copies, the
caches of vectors and answers, and damaged files that were set aside. What has to go is written
down with the deletion itself: where a process that still reads holds a log it is *pending*, and
whoever opens the memory next finishes it, also after a crash. Backups are the owner's: those that
still hold a text are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memwell.errors import MemwellError
from memwell.facts.hyde import ANSWERS
from memwell.facts.keeping import Keeper
from memwell.model import Fact
from memwell.store.facts import FactStore
from memwell.store.index import Index
from memwell.store.projection import withdraw
from memwell.store.verify import looking_at


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was removed, and where something of it may still be."""

    count: int
    pending: bool = False
    """Whether a process that is still reading keeps the last of it from going."""
    backups: tuple[str, ...] = ()
    """Copies of the memory that still hold it, and are left alone."""


def forget(ids: Sequence[str], keeper: Keeper) -> Forgotten:
    """Remove facts and every trace of their texts."""
    gone = keeper.forget(ids)
    clean = finish(keeper.store)
    holding = [file for file in keeper.store.copies() if _holds(file, gone)]
    return Forgotten(len(gone), not clean, tuple(map(str, holding)))


def finish(store: FactStore) -> bool:
    """Remove every trace of what was forgotten; False while somebody still reads."""
    traces = store.unfinished()
    folders = sorted(store.database.path.parent.glob("agents/*/"))
    clean = [_scrubbed(folder, traces) for folder in folders]
    clean.append(store.database.scrub())
    if traces and all(clean):
        store.finished(traces)
    return all(clean)


def _scrubbed(folder: Path, traces: Mapping[str, bytes]) -> bool:
    """Remove the traces from the files of an agent."""
    for pattern in (f"{ANSWERS}*", "*.corrupt-*"):  # what can be had again, or is of no use
        for file in folder.glob(pattern):
            file.unlink(missing_ok=True)
    index_is_clean = _index_is_clean(folder / "index.db", [*traces])
    return _cache_is_clean(folder / "embeddings.db", traces.values()) and index_is_clean


def _index_is_clean(file: Path, ids: Sequence[str]) -> bool:
    if not file.exists():
        return True
    index = Index(file)
    try:
        withdraw(index, ids)
        return index.scrub()
    except MemwellError:  # one that is damaged is set aside by whoever uses it next
        return False
    finally:
        index.close()


def _cache_is_clean(file: Path, digests: Iterable[bytes]) -> bool:
    if not file.exists():
        return True
    from memwell.store.cache import VectorCache

    cache = VectorCache(file, 0)
    try:
        return cache.forget(digests)
    finally:
        cache.close()


def _holds(copy: Path, facts: Sequence[Fact]) -> bool:
    """Whether a copy of the memory holds any of some facts; one that cannot be read may."""
    try:
        with looking_at(copy) as connection:
            marks = ", ".join("?" * len(facts))
            asked = f"SELECT EXISTS (SELECT 1 FROM fact_rows WHERE id IN ({marks}))"
            return bool(connection.execute(asked, [fact.id for fact in facts]).get)
    except MemwellError:
        return True
