"""Copies all facts of a memory, of every scope, into another one with their events.

The facts go in the order in which they last changed: a reader that follows the changes of the copy
sees them in the same order. A fact that the target has already is skipped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from memwell.errors import HomeError, IdTakenError
from memwell.model import GLOBAL, Fact
from memwell.progress import Progress
from memwell.store.contract.facts import Facts, FactStore
from memwell.store.contract.values import FactFilter
from memwell.store.copy.locations import AllScopes, Location
from memwell.store.rows import FactWithHistory, last_change, to_export_row

AT_ONCE = 1000
"""Facts that one transaction writes."""
_SCOPES_WRITTEN, _SCOPES_READ = 50, 10_000
"""Scopes that one statement names; each fact that is written names all of them again."""
_NAMED = 5
"""Ids that a message names."""
_NEWER = "the target has another version that is as new or newer"

AllFacts = dict[str, FactWithHistory]
"""Facts with their events by id, in the order in which they last changed."""


@dataclass(frozen=True, slots=True)
class CopiedFacts:
    """The facts of the source, as both sides have them.

    Without --into-existing `arrived` has every fact of the target.
    """

    there: AllFacts
    arrived: AllFacts
    conflicts: tuple[str, ...]
    """The facts that could not be copied, each with the reason."""


def copy_facts(
    source: Location,
    target: Location,
    normalise: Callable[[str], str],
    progress: Progress,
    *,
    into_existing: bool,
) -> CopiedFacts:
    """Copy all facts; refuse a target that has other facts, unless `into_existing`.

    Texts that `normalise` makes equal are the same fact.
    """
    there, deleted = _read_all(source)
    present, _ = _read_all(target)
    if not into_existing:
        if others := sorted(present.keys() - there.keys() - deleted):
            raise HomeError(
                f"The target has {len(others)} facts that are not copies ({_name_some(others)})",
                "Name an empty target, or add --into-existing to add the missing facts there",
            )
        _delete(target.facts, [present[key] for key in present.keys() & deleted])
    conflicts: dict[str, str] = {}
    missing = [fact for key, fact in there.items() if present.get(key) != fact]
    done = 0
    for scopes, batch in _batches(missing, present):
        put = partial(_put, target.facts, AllScopes(every=scopes), batch, present, normalise)
        conflicts |= target.facts.retrying(put)
        done += len(batch)
        progress(done, len(missing))
    now, _ = _read_all(target)
    arrived = {key: fact for key, fact in now.items() if key in there or not into_existing}
    reasons = tuple(f"{key}: {reason}" for key, reason in conflicts.items())
    return CopiedFacts(there, arrived, reasons)


def checksum(facts: AllFacts) -> str:
    """Return the digest of the facts as an export writes them, sorted by id."""
    rows = (to_export_row(*facts[key]) for key in sorted(facts))
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return hashlib.sha256(text.encode()).hexdigest()


def _read_all(location: Location) -> tuple[AllFacts, set[str]]:
    """Return all facts, and the ids of those that were deleted."""
    all_facts: AllFacts = {}
    deleted: set[str] = set()
    if not location.facts.exists:
        return all_facts, deleted
    scopes = sorted({(GLOBAL, ""), *location.scopes()})
    for start in range(0, len(scopes), _SCOPES_READ):
        viewer = AllScopes(every=tuple(scopes[start : start + _SCOPES_READ]))
        with location.facts.for_viewer(viewer) as facts:
            changed, gone = facts.changed_since(0)
            events = facts.events()
        all_facts |= {fact.id: (fact, tuple(events.get(fact.id, ()))) for fact in changed}
        deleted |= {*gone}
    return all_facts, deleted


def _batches(
    missing: Iterable[FactWithHistory], present: AllFacts
) -> Iterator[tuple[tuple[tuple[str, str], ...], list[FactWithHistory]]]:
    """Divide facts into transactions, each with the scopes that its facts have on both sides."""
    batch: list[FactWithHistory] = []
    scopes: set[tuple[str, str]] = set()
    for new in missing:
        old = present.get(new[0].id, new)
        if len(batch) >= AT_ONCE or len(scopes) >= _SCOPES_WRITTEN:
            yield tuple(sorted(scopes)), batch
            batch, scopes = [], set()
        batch.append(new)
        scopes |= {(fact.scope, fact.target) for fact, _ in (new, old)}
    if batch:
        yield tuple(sorted(scopes)), batch


def _put(
    store: FactStore,
    viewer: AllScopes,
    batch: Sequence[FactWithHistory],
    present: AllFacts,
    normalise: Callable[[str], str],
) -> dict[str, str]:
    """Write facts, but none over a version that is as new; return why some were not written."""
    conflicts = {}
    with store.change(viewer) as facts:
        for fact, events in batch:
            old = present.get(fact.id)
            if old and last_change(fact, events) <= last_change(*old):
                conflicts[fact.id] = _NEWER
                continue
            normalised = normalise(fact.text)
            try:
                facts.put(fact, normalised, events)
            except IdTakenError:
                conflicts[fact.id] = _explain_conflict(facts, fact, normalised)
    return conflicts


def _explain_conflict(facts: Facts, fact: Fact, normalised: str) -> str:
    for same in facts.find(FactFilter(normalised=normalised, scope=fact.scope)):
        if same.target == fact.target:
            return f"the same text is remembered already, as {same.id}"
    return "its id is taken"


def _delete(store: FactStore, doomed: Sequence[FactWithHistory]) -> None:
    """Delete what the source deleted since the last copy.

    The next process that opens the target removes the traces.
    """
    for fact, _ in doomed:
        with store.change(AllScopes(every=((fact.scope, fact.target),))) as facts:
            facts.record_pending_erasure([fact])
            facts.delete([fact.id])


def _name_some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:_NAMED]) + (" ..." if len(ids) > _NAMED else "")
