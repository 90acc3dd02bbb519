"""A memory, copied from files to a server or back: facts, lists of workspaces, notes and vectors.

1. The facts of every scope, with their history; 2. of each agent the list of workspaces, and
3. the notes with their vectors; 4. what is there and what arrived are compared. Each step passes
over what is there already, so that a copy that was interrupted is finished by running it again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import asdict, dataclass

from memwell.errors import ConfigError
from memwell.progress import Progress
from memwell.store.copy.facts import checksum, copy_facts
from memwell.store.copy.index import IndexCopy, Tally, copy_workspaces
from memwell.store.locations import Location

ShowProgress = Callable[[str], AbstractContextManager[Progress]]
"""Lends what is told of the progress of a step, by its name."""


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """How much one side holds of what was to be copied."""

    facts: int
    checksum: str
    workspaces: int
    notes: int
    passages: int
    vectors: int


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What was to be copied, what arrived, and what could not be."""

    source: str
    target: str
    agents: tuple[str, ...]
    there: StoreCounts
    arrived: StoreCounts
    conflicts: tuple[str, ...]
    same: bool


def copy_memory(
    source: Location, target: Location, shown: ShowProgress, *, into_existing: bool
) -> CopyReport:
    """Copy all of a memory that is not in the target yet, and compare the two."""
    if source.name == target.name:
        raise ConfigError(f"{source.name} is both the source and the target", "Name another target")
    with closing(source.facts), closing(target.facts), shown("facts") as progress:
        facts = copy_facts(source, target, progress, into_existing=into_existing)
    same = {key for key, told in facts.there.items() if facts.arrived.get(key) == told}
    there, arrived = Tally(), Tally()
    agents = source.agents()
    for agent in agents:
        from_stores, to_stores = source.stores(agent), target.stores(agent)
        with (
            closing(from_stores.index) as theirs_index,
            closing(to_stores.index) as ours_index,
            shown(f"notes of {agent}") as progress,
        ):
            copy_workspaces(from_stores.registry, to_stores.registry, there, arrived)
            IndexCopy(theirs_index, ours_index, same, there, arrived, progress).run()
    sides = [
        StoreCounts(len(lines), checksum(lines), **asdict(tally))
        for lines, tally in ((facts.there, there), (facts.arrived, arrived))
    ]
    return CopyReport(
        source.name,
        target.name,
        tuple(agents),
        sides[0],
        sides[1],
        facts.conflicts,
        sides[0] == sides[1],
    )
