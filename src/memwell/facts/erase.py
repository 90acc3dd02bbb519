"""Forgetting: the text itself goes, from every file of the home.

From memory.db and its log, from every agent's keyword index, vectors and their mapped copies, the
caches of vectors and answers, and damaged files that were set aside. What has to go is written
down with the deletion itself: where a process that still reads holds a log it is *pending*, and
whoever opens the memory next finishes it, also after a crash. Backups are the owner's: those that
still hold a text are named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from memwell.errors import MemwellError
from memwell.facts.service import FactService
from memwell.model import Fact
from memwell.search.hyde import ANSWERS
from memwell.store.contract.facts import FactStore
from memwell.store.contract.index import Index
from memwell.store.fact_notes import remove_facts
from memwell.store.sqlite.verify import open_for_verify


@dataclass(frozen=True, slots=True)
class EraseReport:
    """What was removed, and where something of it may still be."""

    count: int
    pending: bool = False
    """Whether a process that is still reading keeps the last of it from going."""
    backups: tuple[str, ...] = ()
    """Copies of the memory that still hold it, and are left alone."""


def forget(ids: Sequence[str], keeper: FactService) -> EraseReport:
    """Remove facts and every trace of their texts."""
    gone = keeper.forget(ids)
    clean = finish_erasures(keeper.store)
    copies = keeper.store.file.copies() if keeper.store.file else []
    holding = [file for file in copies if _holds(file, gone)]
    return EraseReport(len(gone), not clean, tuple(map(str, holding)))


def finish_erasures(store: FactStore) -> bool:
    """Remove every trace of what was forgotten; False while somebody still reads."""
    traces = store.pending_erasures()
    for pattern in (f"{ANSWERS}*", "*.corrupt-*"):  # what can be had again, or is of no use
        for file in store.home.glob(f"agents/*/{pattern}"):
            file.unlink(missing_ok=True)
    clean = [_is_clean(index, traces) for index in store.indexes()]
    clean.append(store.file is None or store.file.scrub())
    if traces and all(clean):
        store.clear_pending(traces)
    return all(clean)


def _is_clean(index: Index, traces: Mapping[str, bytes]) -> bool:
    """Remove the traces from what is kept of an agent."""
    with closing(index.cache(0)) as cache:
        cache_is_clean = cache.forget(traces.values())
    try:
        if not index.exists:
            return cache_is_clean
        remove_facts(index, [*traces])
        return (index.files is None or index.files.scrub()) and cache_is_clean
    except MemwellError:  # one that is damaged is set aside by whoever uses it next
        return False


def _holds(copy: Path, facts: Sequence[Fact]) -> bool:
    """Whether a copy of the memory holds any of some facts; one that cannot be read may."""
    try:
        with open_for_verify(copy) as connection:
            marks = ", ".join("?" * len(facts))
            asked = f"SELECT EXISTS (SELECT 1 FROM fact_rows WHERE id IN ({marks}))"
            return bool(connection.execute(asked, [fact.id for fact in facts]).get)
    except MemwellError:
        return True
