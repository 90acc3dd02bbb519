"""The data of other programs: `memwell.sources` reads it, this module stores and indexes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from memwell.facts.export_import import ImportReport, import_jsonl
from memwell.facts.service import FactService
from memwell.files import make_private_folder, private_file
from memwell.model import IndexReport, Problem
from memwell.progress import Progress, no_progress
from memwell.sources.importers.plan import IMPORTED, ImportPlan
from memwell.sources.importers.sources import plan_import
from memwell.sources.transcripts.sync import TranscriptReport, Transcripts


@dataclass(slots=True)
class SourceReport:
    """The result of an import from another program, made or planned."""

    source: str
    path: str
    dry_run: bool
    facts: ImportReport = field(default_factory=ImportReport)
    duplicates: int = 0
    """Facts that are known already by their text."""
    conversations: int = 0
    turns: int = 0
    notes_added: int = 0
    notes_changed: int = 0
    notes_unchanged: int = 0
    indexed: tuple[str, ...] = ()
    """Folders that are indexed where they are, or that notes were written to."""
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Sources:
    """Reads transcripts of agents and exports of other programs into a memory."""

    transcripts_folder: Path
    agent_folder: Path
    facts: Callable[[], FactService]
    index: Callable[..., tuple[IndexReport, ...]]
    """Indexes folders."""

    @property
    def transcripts(self) -> Transcripts:
        """The tools whose transcripts are read, and the folder of the notes made of them."""
        return Transcripts(self.transcripts_folder)

    def sync_transcripts(self, progress: Progress = no_progress) -> TranscriptReport:
        """Index the turns that the tools that were added have written since the last time."""
        report = self.transcripts.sync(progress)
        if self.transcripts_folder.is_dir():
            self.index(self.transcripts_folder, embed=False)
        return report

    def import_from(
        self,
        source: str,
        path: str | Path,
        *,
        to: str | Path | None = None,
        trust: bool = False,
        dry_run: bool = False,
    ) -> SourceReport:
        """Import from another program; doing it again adds nothing.

        Args:
            source: the program: chatgpt, claude, mem0, notion and others of docs/importing.md.
            path: the file or folder that it exported, or that has its notes.
            to: the folder that pages are written to; default one of the agent in the home.
            trust: whether facts that look like junk or a secret are imported.
            dry_run: whether the import is only planned and reported.

        """
        path = Path(path).expanduser()
        plan = plan_import(source, path)
        report = SourceReport(source, str(path), dry_run, problems=plan.problems)
        report.conversations, report.turns = plan.conversations, plan.turns
        _import_facts(plan, self.facts(), report, trust)
        folders = _write_notes(plan, self.agent_folder, Path(to) if to else None, report)
        folders += [folder.resolve() for folder in plan.folders]
        report.indexed = tuple(str(folder) for folder in dict.fromkeys(folders))
        if not dry_run and report.indexed:
            for done in self.index(*report.indexed, embed=False):
                report.problems += done.problems
        return report


def _import_facts(plan: ImportPlan, facts: FactService, report: SourceReport, trust: bool) -> None:
    if not plan.facts:
        return
    scope, target = facts.viewer.scopes[-1]
    rows = [fact.to_row(plan.source, scope, target) for fact in plan.facts]
    # A fact that others supersede comes first: two valid facts may not have the same text.
    rows.sort(key=lambda row: row["superseded_by"] is None)
    content = "\n".join(json.dumps(row) for row in rows).encode("utf-8", "replace")
    done = import_jsonl(content, facts, trust=trust, dry_run=report.dry_run)
    report.duplicates = sum(refused.is_duplicate for refused in done.refused)
    done.refused = [refused for refused in done.refused if not refused.is_duplicate]
    report.facts = done


def _write_notes(
    plan: ImportPlan, agent_folder: Path, to: Path | None, report: SourceReport
) -> list[Path]:
    """Write the notes that are new or changed; return the folders that have them."""
    folders: dict[Path, None] = {}
    for name, text in plan.notes.items():
        place, _, inside = name.partition("/")
        if place == IMPORTED:
            source, _, rest = inside.partition("/")
            folder = to or agent_folder / place / source
        else:
            folder, rest = agent_folder / place, inside
        folders[folder.resolve()] = None
        file, data = folder / rest, text.encode("utf-8", "replace")
        known = file.read_bytes() if file.is_file() else None
        if known == data:
            report.notes_unchanged += 1
            continue
        if known is None:
            report.notes_added += 1
        else:
            report.notes_changed += 1
        if not report.dry_run:
            make_private_folder(file.parent)
            with private_file(file) as part:
                part.write_bytes(data)
    return [*folders]
