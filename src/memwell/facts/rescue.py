"""Rescue facts: write those that the indexes still have back into memory.db.

For the owner of the home, after memory.db was lost, damaged or replaced by an older file. Every
index of every agent is read, and the facts of all scopes. Nothing in memory.db is replaced.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, replace

from memwell.errors import MemwellError
from memwell.facts.comparison import normalised
from memwell.facts.ids import new_id
from memwell.model import Fact, FactEvent
from memwell.store.contract.facts import Facts, FactStore
from memwell.store.contract.index import Index
from memwell.store.contract.values import FACT_RECIPE, FactFilter
from memwell.store.copy.locations import AllScopes
from memwell.store.fact_notes import fact_from_note
from memwell.store.sqlite.backup import clear_indexes

_AT_ONCE = 1000
RESCUED = "rescued"


@dataclass(frozen=True, slots=True)
class RescueReport:
    """How many facts the indexes have, and how many of them memory.db lacked."""

    found: int
    rescued: int
    kept: str | None = None
    """Where the damaged memory.db is kept, if it was damaged."""


def find_rescuable(store: FactStore) -> list[Fact]:
    """Return the facts of every index of a home, each once, as it was confirmed last."""
    store.require_file()
    newest: dict[str, Fact] = {}
    for index in store.indexes():
        for fact in _read_facts(index):
            known = newest.get(fact.id)
            if known is None or fact.confirmed_at >= known.confirmed_at:
                newest[fact.id] = fact
    return [newest[key] for key in sorted(newest)]


def _read_facts(index: Index) -> Iterator[Fact]:
    if not index.exists:
        return
    with index.reading() as reader:
        after = 0
        while notes := reader.listing.export(after, _AT_ONCE):
            yield from (fact_from_note(note) for note in notes if note.file.recipe == FACT_RECIPE)
            after = notes[-1].id


def rescue(store: FactStore, now: dt.datetime) -> RescueReport:
    """Write the facts that memory.db lacks; then let every index follow it."""
    file, facts = store.require_file(), find_rescuable(store)
    kept = file.set_aside_if_damaged(now)
    scopes = tuple({(fact.scope, fact.target): None for fact in facts})
    rescued = 0
    if facts:
        with store.change(AllScopes(every=scopes)) as target:
            deleted = {*target.changed_since(0)[1]}
            rescued = sum(_put(target, fact, now) for fact in facts if fact.id not in deleted)
    clear_indexes(store.home)
    return RescueReport(len(facts), rescued, str(kept) if kept else None)


def _put(facts: Facts, fact: Fact, now: dt.datetime) -> bool:
    """Write a fact unless it is there; one with another text gets a new id."""
    at = now.astimezone(dt.UTC).isoformat(timespec="milliseconds")
    present = facts.find(FactFilter(ids=(fact.id,), superseded=True))
    if present and _same(present[0].text, fact.text):
        return _supersede(facts, present[0], fact, at)
    if present:
        fact = replace(fact, id=new_id(int(now.timestamp() * 1000)))
    same = facts.find(FactFilter(normalised=normalised(fact.text), scope=fact.scope))
    if not fact.superseded_by and any(other.target == fact.target for other in same):
        return False
    try:
        facts.put(fact, normalised(fact.text), [FactEvent(fact.id, at, RESCUED, "")])
    except MemwellError:  # a viewer of another scope has the id
        return False
    return True


def _supersede(facts: Facts, present: Fact, lost: Fact, at: str) -> bool:
    """Mark a fact as superseded, if the index knows that it is and memory.db does not."""
    if present.superseded_by or not lost.superseded_by:
        return False
    ended = replace(present, superseded_by=lost.superseded_by, valid_until=lost.valid_until)
    facts.change(ended, normalised(ended.text), RESCUED, at)
    return True


def _same(one: str, other: str) -> bool:
    return normalised(one) == normalised(other)
