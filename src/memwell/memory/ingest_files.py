"""Storing the facts of files: `extract.files` plans the changes, this module makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from memwell.config.settings import Settings
from memwell.errors import LlmUnavailable
from memwell.extract.extractor import FactExtractor, model_name
from memwell.extract.files import Change, FilePlan, IngestReport, IngestRun
from memwell.extract.progress import IngestProgress
from memwell.extract.source_files import find_files
from memwell.facts.service import (
    ADDED,
    REINFORCED,
    SUPERSEDED,
    FactService,
    NewFact,
    RememberResult,
)
from memwell.llm.log import budget_of
from memwell.llm.registry import model_for
from memwell.model import Fact
from memwell.progress import Progress

EXPIRED = "expired"


def ingest_files(
    root: Path,
    settings: Settings,
    agent_folder: Path,
    facts: Callable[[], FactService],
    remember: Callable[[NewFact], RememberResult],
    notices: list[str],
    *,
    paths: Sequence[str],
    dry_run: bool,
    progress: Progress,
) -> IngestReport:
    """Store the facts in the files of a folder; see `Memory.ingest_files`."""
    names, problems = find_files(root, paths or settings.ingest.paths)
    budget, chat = budget_of(settings, notices.append), None
    try:
        if model := model_for(settings.llm, settings.llm.ingest, "llm.ingest"):
            chat = budget.wrap(model)
    except LlmUnavailable as error:
        notices.append(f"Facts are extracted by rules: {error}")
    extractor = FactExtractor(settings.ingest.chunk_size, settings.ingest.overlap, chat)
    report = IngestReport(str(root), dry_run, model_name(chat), failures=[*problems])
    record = IngestProgress.read(agent_folder / "ingested.json", facts())
    most_bytes = int(settings.scan.max_file_mb * 1e6)
    run = IngestRun(root, extractor, record, facts(), report, most_bytes)
    changes = FactChanges(facts, remember, report)
    for done, name in enumerate(names):
        progress(done, len(names))
        if plan := run.plan_file(name):
            run.finish(plan, changes.apply(plan))
    progress(len(names), len(names))
    for plan in run.plan_missing():
        run.finish(plan, changes.apply(plan))
    report.pieces, report.calls, report.tokens = extractor.pieces, budget.calls, budget.tokens
    report.failures += extractor.failures
    notices += extractor.notices
    return report


@dataclass(frozen=True, slots=True)
class FactChanges:
    """Applies plans to the facts and counts in a report; a dry run only counts."""

    facts: Callable[[], FactService]
    """Returns the facts at the present time."""
    remember: Callable[[NewFact], RememberResult]
    """Remembers a fact, or reinforces one that says nearly the same."""
    report: IngestReport

    def apply(self, plan: FilePlan) -> list[str]:
        """Carry a plan out; return the ids of the facts that the file now supports."""
        for fact, where in plan.moved:
            if not self.report.dry_run:
                self.facts().edit(fact.id, origin=where)
        ids = [self._supersede(old, new) for old, new in plan.supersede]
        ids += [self._add(fact) for fact in plan.remember]
        for old in plan.stale:
            if old.id not in (*plan.known, *ids):
                self._expire(old, plan.name)
        return ids

    def _add(self, fact: NewFact) -> str:
        if self.report.dry_run:
            outcome, fact_id = REINFORCED if self.facts().check(fact) else ADDED, ""
        else:
            done = self.remember(fact)
            outcome, fact_id = done.outcome, done.fact.id
        if outcome == ADDED:
            self.report.added += 1
        else:
            self.report.reinforced += 1
        self.report.changes.append(Change(outcome, fact.text, fact.origin))
        return fact_id

    def _supersede(self, old: Fact, new: NewFact) -> str:
        self.report.superseded += 1
        self.report.changes.append(Change(SUPERSEDED, new.text, new.origin, old.text))
        return "" if self.report.dry_run else self.facts().supersede(old.id, new).fact.id

    def _expire(self, old: Fact, name: str) -> None:
        self.report.expired += 1
        self.report.changes.append(Change(EXPIRED, old.text, old.origin))
        if not self.report.dry_run:
            self.facts().expire(old.id, f"{name} no longer says it")
