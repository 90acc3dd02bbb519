"""All facts of a memory, copied into another with their history, whoever they are of.

They go in the order in which they last changed, so that whoever follows the changes of the copy
sees them in the same order. What is there already is passed over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from memwell.errors import HomeError
from memwell.facts.export_import import FactWithHistory, last_change, to_jsonl, to_row
from memwell.facts.comparison import normalised
from memwell.model import GLOBAL
from memwell.store.contract.facts import Facts, FactStore, IdTakenError
from memwell.store.locations import AllScopes, Location
from memwell.store.sqlite.facts import FactFilter

AT_ONCE = 1000
"""Facts of a transaction."""
_SCOPES_WRITTEN, _SCOPES_READ = 50, 10_000
"""Scopes that a statement names: each fact that is written asks for them all again."""
_NAMED = 5
_NEWER = "what is there is another version, and as new or newer"

AllFacts = dict[str, FactWithHistory]
"""Facts with their history, by id, in the order in which they last changed."""


@dataclass(frozen=True, slots=True)
class CopiedFacts:
    """The facts that the source has, in both; without --into-existing all that the target has."""

    there: AllFacts
    arrived: AllFacts
    conflicts: tuple[str, ...]
    """Facts that are others in the target, or could not be taken there, and why."""


def copy_facts(
    source: Location, target: Location, progress: Callable[[int, int], None], *, into_existing: bool
) -> CopiedFacts:
    """Copy all facts; a target that holds others is refused unless told."""
    there, gone = _all(source)
    held, _ = _all(target)
    if not into_existing:
        if others := sorted(held.keys() - there.keys() - gone):
            raise HomeError(
                f"The target holds {len(others)} facts that are not copies ({_batch_of(others)})",
                "Name an empty target, or add --into-existing to add what is missing there",
            )
        _forget(target.facts, [held[key] for key in held.keys() & gone])
    conflicts: dict[str, str] = {}
    missing = [told for key, told in there.items() if held.get(key) != told]
    done = 0
    for scopes, batch in _batches(missing, held):
        put = partial(_put, target.facts, AllScopes(every=scopes), batch, held)
        conflicts |= target.facts.retrying(put)
        done += len(batch)
        progress(done, len(missing))
    now, _ = _all(target)
    arrived = {key: told for key, told in now.items() if key in there or not into_existing}
    return CopiedFacts(there, arrived, tuple(f"{key}: {why}" for key, why in conflicts.items()))


def checksum(facts: AllFacts) -> str:
    """Return a digest of facts as they are written out, whatever their order."""
    text = to_jsonl(to_row(*facts[key]) for key in sorted(facts))
    return hashlib.sha256(text.encode()).hexdigest()


def _all(place: Location) -> tuple[AllFacts, set[str]]:
    """Return all facts, and the ids of those that were forgotten."""
    found: AllFacts = {}
    gone: set[str] = set()
    if not place.facts.exists:
        return found, gone
    scopes = sorted({(GLOBAL, ""), *place.scopes()})
    for start in range(0, len(scopes), _SCOPES_READ):
        viewer = AllScopes(every=tuple(scopes[start : start + _SCOPES_READ]))
        with place.facts.for_viewer(viewer) as facts:
            changed, forgotten = facts.changed_since(0)
            events = facts.events()
        found |= {fact.id: (fact, tuple(events.get(fact.id, ()))) for fact in changed}
        gone |= {*forgotten}
    return found, gone


def _batches(
    missing: Iterable[FactWithHistory], held: AllFacts
) -> Iterator[tuple[tuple[tuple[str, str], ...], list[FactWithHistory]]]:
    """Divide facts into transactions, each with the scopes that its facts are or were of."""
    batch: list[FactWithHistory] = []
    scopes: set[tuple[str, str]] = set()
    for told in missing:
        before = held.get(told[0].id, told)
        if len(batch) >= AT_ONCE or len(scopes) >= _SCOPES_WRITTEN:
            yield tuple(sorted(scopes)), batch
            batch, scopes = [], set()
        batch.append(told)
        scopes |= {(fact.scope, fact.target) for fact, _ in (told, before)}
    if batch:
        yield tuple(sorted(scopes)), batch


def _put(
    store: FactStore, viewer: AllScopes, batch: Sequence[FactWithHistory], held: AllFacts
) -> dict[str, str]:
    """Write facts, but none over one that is as new; return those that were not, and why."""
    conflicts = {}
    with store.change(viewer) as facts:
        for fact, events in batch:
            known = held.get(fact.id)
            if known and last_change(fact, events) <= last_change(*known):
                conflicts[fact.id] = _NEWER
                continue
            try:
                facts.put(fact, normalised(fact.text), events)
            except IdTakenError:
                conflicts[fact.id] = _existing_ids(facts, fact.text, fact.scope, fact.target)
    return conflicts


def _existing_ids(facts: Facts, text: str, scope: str, target: str) -> str:
    for same in facts.find(FactFilter(normalised=normalised(text), scope=scope)):
        if same.target == target:
            return f"the same is remembered already, as {same.id}"
    return "its id is taken"


def _forget(store: FactStore, doomed: Sequence[FactWithHistory]) -> None:
    """Forget what the source forgot since it was copied; the next who opens it sweeps up."""
    for fact, _ in doomed:
        with store.change(AllScopes(every=((fact.scope, fact.target),))) as facts:
            facts.record_pending_erasure([fact])
            facts.delete([fact.id])


def _batch_of(ids: Sequence[str]) -> str:
    return ", ".join(ids[:_NAMED]) + (" ..." if len(ids) > _NAMED else "")
