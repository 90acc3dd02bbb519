"""Facts out of the files of a folder: which facts to remember, supersede or expire.

An unchanged file is skipped. Of a changed one, new facts are remembered; facts that were taken from
it before and that it no longer states are superseded by the facts that replace them, or expire.
The progress file records after each file which facts it supports, so that an interrupted run goes
on where it ended. If that record is lost, each fact still names its origin.

`IngestRun` only plans; its caller changes the facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2s
from pathlib import Path

from memwell.errors import BinaryFileError, RefusedError
from memwell.extract.extractor import RULES, ExtractedFact, FactExtractor, model_name
from memwell.extract.progress import FileRecord, IngestProgress
from memwell.facts.comparison import normalised
from memwell.facts.service import FactService, NewFact
from memwell.ingest.parse_note import decode
from memwell.model import Fact, cite_lines
from memwell.store.contract.values import FactFilter

SOURCE = TAG = "ingest"
_ALIKE = 0.5
"""Two facts replace each other if they share this part of the words of the longer one."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a fact, made or planned."""

    outcome: str
    text: str
    origin: str
    instead_of: str = ""
    """The text of the fact that it supersedes."""


@dataclass(slots=True)
class IngestReport:
    """The result of reading files for facts."""

    workspace: str
    dry_run: bool = False
    by: str = RULES
    """The language model that should read them, or the rules."""
    files: int = 0
    unchanged: int = 0
    gone: int = 0
    """Files that no longer exist."""
    pieces: int = 0
    found: int = 0
    """Facts in the files that were read."""
    added: int = 0
    reinforced: int = 0
    duplicates: int = 0
    """Facts that a file had supplied before; they stay as they are."""
    superseded: int = 0
    expired: int = 0
    refused: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    calls: int = 0
    tokens: int = 0
    changes: list[Change] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FilePlan:
    """The changes that bring the facts of one file in step with it."""

    name: str
    record: FileRecord | None
    """The file as it is recorded afterwards; None if it no longer exists."""
    known: list[str]
    """Ids of facts that stay as they are."""
    remember: list[NewFact]
    supersede: list[tuple[Fact, NewFact]]
    stale: list[Fact]
    """Facts to expire, unless remembering reinforced them."""
    moved: list[tuple[Fact, str]]
    """Facts with their new origin."""


@dataclass(slots=True)
class IngestRun:
    """One reading of a folder's files, which counts in a report.

    Args:
        root: the folder.
        extractor: finds facts in a text.
        progress: the record of the files that were read before.
        facts: the facts as they are; the run reads them only.
        report: takes the counts.
        most_bytes: larger files are reported and skipped.

    """

    root: Path
    extractor: FactExtractor
    progress: IngestProgress
    facts: FactService
    report: IngestReport
    most_bytes: int
    _records: dict[str, FileRecord] = field(init=False)
    _alive: dict[str, Fact] = field(init=False)
    _planned: set[str] = field(default_factory=set)
    """Texts that a dry run would remember: they cannot be found in the memory."""

    def __post_init__(self) -> None:
        self._records = self.progress.roots.setdefault(str(self.root), {})
        self._alive = _facts_of_files(self.facts)

    def plan_file(self, name: str) -> FilePlan | None:
        """Read a file that changed and plan its facts; None if there is nothing to do."""
        self.report.files += 1
        read = self._read(name)
        if read is None:
            return None
        text, digest = read
        before = self._records.get(name)
        if before and before.digest == digest and self._is_done(before):
            self.report.unchanged += 1
            self.report.duplicates += sum(fact in self._alive for fact in before.facts)
            return None
        found = [
            *{normalised(fact.text): fact for fact in self.extractor.read(name, text)}.values()
        ]
        self.report.found += len(found)
        changed = before is None or before.digest != digest
        kept = before.facts if before and not changed else []
        record = FileRecord(digest, self.extractor.by, [*kept])
        return self._plan(name, record, found, retire=changed)

    def plan_missing(self) -> Iterator[FilePlan]:
        """Yield a plan for each file that no longer exists: its facts expire."""
        for name in [name for name in self._records if not (self.root / name).exists()]:
            self.report.gone += 1
            yield self._plan(name, None, [], retire=True)

    def finish(self, plan: FilePlan, fact_ids: Iterable[str]) -> None:
        """Record at once that a plan was carried out: a run that is killed goes on from there."""
        supported = [*plan.known, *fact_ids]
        if plan.record:
            facts = dict.fromkeys([*supported, *plan.record.facts])
            plan.record.facts = [fact for fact in facts if fact]
            self._records[plan.name] = plan.record
        else:
            del self._records[plan.name]
        ended = [fact for fact in plan.stale if fact.id not in supported]
        for fact in (*ended, *(old for old, _ in plan.supersede)):
            self._alive.pop(fact.id, None)
        if self.report.dry_run:
            new_facts = (*plan.remember, *(new for _, new in plan.supersede))
            self._planned |= {normalised(fact.text) for fact in new_facts}
        else:
            self.progress.write(str(self.root))

    def _is_done(self, before: FileRecord) -> bool:
        """Whether reading an unchanged file again can bring nothing new."""
        reader = model_name(self.extractor.chat)
        present = not before.facts or any(fact in self._alive for fact in before.facts)
        return present and reader in (before.by, RULES)

    def _read(self, name: str) -> tuple[str, str] | None:
        file = self.root / name
        try:
            if file.stat().st_size > self.most_bytes:
                self.report.failures.append(f"{name}: larger than scan.max_file_mb")
                return None
            data = file.read_bytes()
            text, problem = decode(data)
        except OSError as error:
            self.report.failures.append(f"{name}: {error.strerror or error}")
        except BinaryFileError:
            self.report.failures.append(f"{name}: not a text file")
        else:
            self.report.failures += [f"{name}: {problem}"] if problem else []
            return text, blake2s(data, digest_size=16).hexdigest()
        return None

    def _plan(
        self,
        name: str,
        record: FileRecord | None,
        found: Sequence[ExtractedFact],
        *,
        retire: bool,
    ) -> FilePlan:
        supplied = self._supplied_by(name)
        plan = FilePlan(name, record, [], [], [], [], [])
        self._sort_found(plan, found, supplied)
        texts = {normalised(fact.text) for fact in found}
        plan.stale.extend(
            fact for fact in supplied if retire and normalised(fact.text) not in texts
        )
        for old, new in _pair(plan.stale, plan.remember):
            plan.supersede.append((old, new))
            plan.stale.remove(old)
            plan.remember.remove(new)
        return plan

    def _supplied_by(self, name: str) -> list[Fact]:
        """Return the facts that were taken from a file, and from no other."""
        elsewhere = self.progress.supported_elsewhere(str(self.root), name)
        record = self._records.get(name)
        recorded = {*record.facts} if record else set[str]()
        narrowest = self.facts.viewer.narrowest
        return [
            fact
            for fact in self._alive.values()
            if fact.id not in elsewhere
            and (fact.id in recorded or (fact.scope == narrowest and _path(fact.origin) == name))
        ]

    def _sort_found(
        self, plan: FilePlan, found: Iterable[ExtractedFact], supplied: Sequence[Fact]
    ) -> None:
        """Sort what a file states into facts to remember and facts that are known from files."""
        known = {normalised(fact.text): fact for fact in supplied}
        for fact in found:
            new = _new_fact(fact, plan.name)
            try:
                same = known.get(normalised(fact.text)) or self.facts.check(new)
            except RefusedError as refusal:
                self.report.refused.append(f"{new.origin}: {refusal.what}")
                continue
            if same and same.source == SOURCE:
                self.report.duplicates += 1
                plan.known.append(same.id)
                if same.origin != new.origin and (same in supplied or self._is_missing(same)):
                    plan.moved.append((same, new.origin))
            elif normalised(fact.text) in self._planned:
                self.report.duplicates += 1
            else:
                plan.remember.append(new)

    def _is_missing(self, fact: Fact) -> bool:
        """Whether the file that a fact names as its origin no longer exists."""
        return not (self.root / _path(fact.origin)).exists()


def _facts_of_files(facts: FactService) -> dict[str, Fact]:
    """Return the valid facts that were taken from files, by id."""
    if not facts.store.exists:
        return {}
    return {fact.id: fact for fact in facts.find(FactFilter(tag=TAG)) if fact.source == SOURCE}


def _new_fact(fact: ExtractedFact, name: str) -> NewFact:
    where = cite_lines(name, fact.start_line, fact.end_line)
    return NewFact(fact.text, fact.category, (TAG, *fact.tags), SOURCE, where, decay_class="stable")


def _path(where: str) -> str:
    return where.rpartition("#L")[0]


def _pair(stale: Sequence[Fact], new_facts: Sequence[NewFact]) -> list[tuple[Fact, NewFact]]:
    """Return which new fact replaces which old one: the most alike first, each once."""
    alike = [
        (share, at, to)
        for at, old in enumerate(stale)
        for to, new in enumerate(new_facts)
        if (share := _shared_words(old.text, new.text)) >= _ALIKE
    ]
    pairs: list[tuple[int, int]] = []
    for _, at, to in sorted(alike, key=lambda found: (-found[0], *found[1:])):
        if all(at != known and to != new for known, new in pairs):
            pairs.append((at, to))
    return [(stale[at], new_facts[to]) for at, to in pairs]


def _shared_words(one: str, other: str) -> float:
    first, second = ({*normalised(text).split()} for text in (one, other))
    return len(first & second) / max(len(first), len(second), 1)
