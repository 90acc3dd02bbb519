"""All facts of a memory, copied into another: as an export of every scope that is taken in again.

They go in the order in which they last changed, so that whoever follows the changes of the copy
sees them in the same order. What is there already is passed over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from memwell.errors import HomeError
from memwell.facts.keeping import Keeper
from memwell.facts.transfer import as_jsonl, as_plain, take_in
from memwell.store.facts import Which

AT_ONCE = 1000
"""Facts of a transaction."""
_NAMED = 5
Lines = dict[str, dict[str, Any]]
"""Facts as they are written out, by id, in the order in which they last changed."""


@dataclass(frozen=True, slots=True)
class CopiedFacts:
    """The facts of both sides, as they are written out: those that the source has."""

    there: Lines
    arrived: Lines
    conflicts: tuple[str, ...]
    """Facts that are others in the target, or could not be taken there, and why."""


def copy_facts(
    source: Keeper, target: Keeper, progress: Callable[[int, int], None], *, into_existing: bool
) -> CopiedFacts:
    """Copy all facts that the viewers see; a target that holds others is refused unless told."""
    there, gone = _lines(source)
    held, _ = _lines(target)
    if not into_existing:
        _forget(target, held.keys() & {*gone})
        if others := sorted(held.keys() - there.keys() - {*gone}):
            raise HomeError(
                f"The target holds {len(others)} facts that are not copies ({_some(others)})",
                "Name an empty target, or add --into-existing to add what is missing there",
            )
    missing = [line for key, line in there.items() if held.get(key) != line]
    refused: dict[str, str] = {}
    for start in range(0, len(missing), AT_ONCE):
        batch = missing[start : start + AT_ONCE]
        report = take_in(as_jsonl(batch).encode(), target, trust=True)
        refused |= {batch[one.line - 1]["id"]: one.reason for one in report.refused}
        progress(start + len(batch), len(missing))
    now, _ = _lines(target)
    arrived = {key: line for key, line in now.items() if key in there or not into_existing}
    different = [key for key in there if arrived.get(key) != there[key]]
    newer = "what is there is another version, and as new or newer"
    return CopiedFacts(
        there, arrived, tuple(f"{key}: {refused.get(key, newer)}" for key in sorted(different))
    )


def checksum(lines: Lines) -> str:
    """Return a digest of facts as they are written out, whatever their order."""
    text = as_jsonl(lines[key] for key in sorted(lines))
    return hashlib.sha256(text.encode()).hexdigest()


def _lines(keeper: Keeper) -> tuple[Lines, Sequence[str]]:
    """Return all facts, and the ids of those that were forgotten."""
    if not keeper.store.is_there:
        return {}, ()
    with keeper.store.seen_by(keeper.viewer) as facts:
        found, gone = facts.since(0)
        events = facts.events()
    return {fact.id: as_plain(fact, events.get(fact.id, ())) for fact in found}, gone


def _forget(keeper: Keeper, ids: Iterable[str]) -> None:
    """Forget what the source forgot since it was copied; the next who opens it sweeps up."""
    if doomed := tuple(ids):
        with keeper.store.changed_by(keeper.viewer) as facts:
            facts.leave_traces(facts.find(Which(ids=doomed, superseded=True)))
            facts.delete(doomed)


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:_NAMED]) + (" ..." if len(ids) > _NAMED else "")
