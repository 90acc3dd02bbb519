"""Copies a memory from files to a server or back, in four steps.

1. The facts of every scope, with their events. 2. The list of workspaces of each agent. 3. The
notes of each agent, with their vectors. 4. A comparison of both sides. Each step skips what the
target has already: after an interruption, run the copy again to finish it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass

from memwell.errors import ConfigError
from memwell.progress import Progress
from memwell.store.copy.facts import checksum, copy_facts
from memwell.store.copy.index import IndexCopy, StoreCounts, copy_workspaces
from memwell.store.copy.locations import Location

ShowProgress = Callable[[str], AbstractContextManager[Progress]]
"""Opens the progress display of a step, by the name of the step."""


@dataclass(frozen=True, slots=True)
class CopyReport:
    """The result of a copy: what each side has, and what could not be copied."""

    source: str
    target: str
    agents: tuple[str, ...]
    there: StoreCounts
    arrived: StoreCounts
    conflicts: tuple[str, ...]
    same: bool


def copy_memory(
    source: Location,
    target: Location,
    normalise: Callable[[str], str],
    show_progress: ShowProgress,
    *,
    into_existing: bool,
) -> CopyReport:
    """Copy everything that the target does not have yet, and compare the two.

    Facts whose texts `normalise` makes equal are the same.
    """
    if source.name == target.name:
        raise ConfigError(f"{source.name} is both the source and the target", "Name another target")
    with closing(source.facts), closing(target.facts), show_progress("facts") as progress:
        facts = copy_facts(source, target, normalise, progress, into_existing=into_existing)
    same = {key for key, fact in facts.there.items() if facts.arrived.get(key) == fact}
    there, arrived = (
        StoreCounts(len(side), checksum(side)) for side in (facts.there, facts.arrived)
    )
    agents = tuple(source.agents())
    for agent in agents:
        from_stores, to_stores = source.stores(agent), target.stores(agent)
        with (
            closing(from_stores.index) as source_index,
            closing(to_stores.index) as target_index,
            show_progress(f"notes of {agent}") as progress,
        ):
            copy_workspaces(from_stores.registry, to_stores.registry, there, arrived)
            IndexCopy(source_index, target_index, same, there, arrived, progress).run()
    return CopyReport(
        source.name, target.name, agents, there, arrived, facts.conflicts, there == arrived
    )
