"""Carrying out what `extract.files` plans: facts are remembered, superseded, moved or expire."""

from __future__ import annotations

from collections.abc import Callable

from memwell.extract.files import Change, FilePlan, IngestReport
from memwell.facts.service import (
    ADDED,
    REINFORCED,
    SUPERSEDED,
    FactService,
    NewFact,
    RememberResult,
)
from memwell.model import Fact

EXPIRED = "expired"


class FactChanges:
    """Applies plans to the facts and counts in a report; a dry run only counts.

    Args:
        facts: returns the facts at the present time.
        remember: remembers a fact, or reinforces one that says nearly the same.
        report: takes the counts.

    """

    def __init__(
        self,
        facts: Callable[[], FactService],
        remember: Callable[[NewFact], RememberResult],
        report: IngestReport,
    ) -> None:
        self._facts = facts
        self._remember_fact = remember
        self._report = report

    def apply(self, plan: FilePlan) -> list[str]:
        """Carry a plan out; return the ids of the facts that the file now supports."""
        for fact, where in plan.moved:
            if not self._report.dry_run:
                self._facts().edit(fact.id, origin=where)
        ids = [self._supersede(old, new) for old, new in plan.supersede]
        ids += [self._remember(fact) for fact in plan.remember]
        for old in plan.stale:
            if old.id not in (*plan.known, *ids):
                self._expire(old, plan.name)
        return ids

    def _remember(self, fact: NewFact) -> str:
        if self._report.dry_run:
            outcome, fact_id = REINFORCED if self._facts().check(fact) else ADDED, ""
        else:
            done = self._remember_fact(fact)
            outcome, fact_id = done.outcome, done.fact.id
        if outcome == ADDED:
            self._report.added += 1
        else:
            self._report.reinforced += 1
        self._report.changes.append(Change(outcome, fact.text, fact.origin))
        return fact_id

    def _supersede(self, old: Fact, new: NewFact) -> str:
        self._report.superseded += 1
        self._report.changes.append(Change(SUPERSEDED, new.text, new.origin, old.text))
        return "" if self._report.dry_run else self._facts().supersede(old.id, new).fact.id

    def _expire(self, old: Fact, name: str) -> None:
        self._report.expired += 1
        self._report.changes.append(Change(EXPIRED, old.text, old.origin))
        if not self._report.dry_run:
            self._facts().expire(old.id, f"{name} no longer says it")
