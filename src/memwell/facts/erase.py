"""Erase forgotten facts: remove their texts from every file of the home.

The files are memory.db and its log, the keyword index and the vectors of every agent, the vectors'
snapshots, the caches of vectors and of model answers, quarantined files and automatic backups. The
transaction that deletes a fact, or changes its text, also records the pending erasure. If a process
that still reads keeps a log alive, the erasure stays pending, and the next process that opens the
memory finishes it, also after a crash. Backups that the user made are not changed: the report names
those that still contain a fact.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memwell.errors import MemwellError
from memwell.model import Fact
from memwell.search.hyde import ANSWERS
from memwell.store.contract.facts import FactStore, split_trace
from memwell.store.contract.index import Index
from memwell.store.contract.values import FactFilter
from memwell.store.fact_notes import remove_facts, remove_old_texts
from memwell.store.sqlite.verify import open_for_verify

if TYPE_CHECKING:
    from memwell.facts.service import FactService

_alone = threading.Lock()
"""Erasures rewrite the same files. Of many at once, as in a server, each would open its own
connections, whose descriptors SQLite keeps while another connection of the process is open."""


@dataclass(frozen=True, slots=True)
class EraseReport:
    """How many facts were removed, and where their texts may still be."""

    count: int
    pending: bool = False
    """Whether a process that is still reading delays the erasure."""
    backups: tuple[str, ...] = ()
    """Backups that still contain the facts; they are not changed."""
    remains: str = ""
    """Where else a server may still have the texts, as a sentence."""
    predecessors: tuple[str, ...] = ()
    """The ids of facts that these superseded, which are still in the history."""


def forget(ids: Sequence[str], service: FactService, *, predecessors: bool = False) -> EraseReport:
    """Remove facts, and with `predecessors` those that they superseded, and every trace of them."""
    older = _find_predecessors(ids, service)
    forgotten = service.forget([*ids, *older] if predecessors else ids)
    finished, remains = _finish(service.store)
    copies = service.store.file.copies() if service.store.file else []
    backups = [file for file in copies if _contains_any(file, forgotten)]
    left = () if predecessors else older
    return EraseReport(len(forgotten), not finished, tuple(map(str, backups)), remains, left)


def _find_predecessors(ids: Sequence[str], service: FactService) -> tuple[str, ...]:
    """Return the ids of the facts that others superseded, directly or through further facts."""
    with service.store.for_viewer(service.viewer) as facts:
        successors = {
            fact.id: fact.superseded_by for fact in facts.find(FactFilter(superseded=True))
        }
    older = dict.fromkeys(ids)
    while found := [fact for fact, new in successors.items() if new in older and fact not in older]:
        older |= dict.fromkeys(found)
    return tuple(older)[len({*ids}) :]


def prune(service: FactService) -> int:
    """Remove expired facts and every trace of their texts; return how many there were."""
    count = service.prune()
    if count:
        finish_erasures(service.store)
    return count


def finish_erasures(store: FactStore) -> bool:
    """Remove every trace of forgotten facts; return False while a process still reads them."""
    return _finish(store)[0]


def _finish(store: FactStore) -> tuple[bool, str]:
    """Remove every trace of forgotten facts; return whether all are gone, and what remains."""
    with _alone:
        return _finish_alone(store)


def _finish_alone(store: FactStore) -> tuple[bool, str]:
    traces = store.pending_erasures()
    for pattern in (f"{ANSWERS}*", "*.corrupt-*"):  # a cache, and files that nobody can read
        for file in store.home.glob(f"agents/*/{pattern}"):
            file.unlink(missing_ok=True)
    finished = [_erase_traces(index, traces) for index in store.indexes()]
    if store.file:
        finished += [store.file.remove_leftovers(), store.file.scrub()]
        finished += [store.file.erase_from_backups(traces)]
    remains = store.vacuum() if traces else ""
    if traces and all(finished):
        store.clear_pending(traces)
    return all(finished), remains


def _erase_traces(index: Index, traces: Mapping[str, bytes]) -> bool:
    """Remove the traces from an agent's index and cache; return whether nothing is left."""
    with closing(index.cache(0)) as cache:
        cache_is_clean = cache.forget(traces.values())
    try:
        if not index.exists:
            return cache_is_clean
        split = {trace: split_trace(trace) for trace in traces}
        remove_facts(index, [fact_id for fact_id, is_edit in split.values() if not is_edit])
        edits = {(split[trace][0], digest) for trace, digest in traces.items() if split[trace][1]}
        if edits:
            remove_old_texts(index, edits)
        return index.scrub() and cache_is_clean
    except MemwellError:  # the next process that uses a damaged index quarantines it
        return False


def _contains_any(copy: Path, facts: Sequence[Fact]) -> bool:
    """Whether a backup contains one of the facts; True if it cannot be read."""
    try:
        with open_for_verify(copy) as connection:
            marks = ", ".join("?" * len(facts))
            sql = f"SELECT EXISTS (SELECT 1 FROM fact_rows WHERE id IN ({marks}))"
            return bool(connection.execute(sql, [fact.id for fact in facts]).get)
    except MemwellError:
        return True
