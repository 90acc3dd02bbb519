"""Facts out of the files of a folder, kept in step with them.

A file that is as it was is left alone. Of one that changed, what it says now is remembered; what
was taken from it before and it no longer says is superseded by what took its place, or expires.
Which file supports which facts is written down file by file (`facts.ledger`), so that a run that
was interrupted goes on where it ended; should that be lost, each fact still tells its origin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2s
from pathlib import Path
from typing import Any, Protocol

from memwell.errors import BinaryFileError, LlmUnavailable, RefusedError
from memwell.extract.extractor import RULES, ExtractedFact, FactExtractor, model_name, origin
from memwell.extract.progress import FileRecord, IngestProgress
from memwell.extract.source_files import find_files
from memwell.facts.service import ADDED, SUPERSEDED, FactService, NewFact, RememberResult
from memwell.facts.service import normalised as plain
from memwell.ingest.parse_note import decode
from memwell.llm.base import Chat
from memwell.llm.budget import Budget
from memwell.llm.log import budget_of
from memwell.llm.registry import Settings, model_for
from memwell.model import Fact
from memwell.store.sqlite.facts import FactFilter

SOURCE = TAG = "ingest"
REINFORCED, EXPIRED = "reinforced", "expired"
_ALIKE = 0.5
"""Of the words of the longer of two facts, what they share if one takes the other's place."""


class MemoryPort(Protocol):
    """What of a memory is needed."""

    home: Path
    agent: str
    notices: list[str]

    @property
    def settings(self) -> Settings:
        """The settings that hold."""

    @property
    def facts(self) -> FactService:
        """What was remembered."""

    def remember(self, text: str, **details: Any) -> RememberResult:
        """Keep a fact, or reinforce the one that says nearly the same."""


@dataclass(frozen=True, slots=True)
class Change:
    """What became of a fact, or would."""

    outcome: str
    text: str
    origin: str
    instead_of: str = ""
    """The text of the fact that it supersedes."""


@dataclass(slots=True)
class IngestReport:
    """What came of reading files for facts."""

    workspace: str
    dry_run: bool = False
    by: str = RULES
    """The language model that was to read them, or the rules."""
    files: int = 0
    unchanged: int = 0
    """Files that were as they had been."""
    gone: int = 0
    """Files that are no longer there."""
    pieces: int = 0
    found: int = 0
    """Facts that the files that were read hold."""
    added: int = 0
    reinforced: int = 0
    duplicates: int = 0
    """Facts that were known from a file already, and are left as they are."""
    superseded: int = 0
    expired: int = 0
    refused: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    calls: int = 0
    tokens: int = 0
    changes: list[Change] = field(default_factory=list)


def ingest_files(
    memory: MemoryPort,
    root: Path,
    *,
    paths: Sequence[str] = (),
    dry_run: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> IngestReport:
    """Take the facts out of the files of a folder that `paths` (else ``ingest.paths``) name."""
    values = memory.settings.values
    root = root.resolve()
    names, left_out = find_files(root, paths or values["ingest.paths"])
    budget = budget_of(values, memory.notices.append)
    chat = _chat(memory, budget)
    reader = FactExtractor(values["ingest.chunk_size"], values["ingest.overlap"], chat)
    report = IngestReport(str(root), dry_run, model_name(chat), failures=[*left_out])
    ledger = IngestProgress.read(
        memory.home / "agents" / memory.agent / "ingested.json", memory.facts
    )
    run = IngestRun(memory, root, reader, report, ledger, int(values["scan.max_file_mb"] * 1e6))
    for done, name in enumerate(names):
        progress(done, len(names))
        run.file(name)
    progress(len(names), len(names))
    run.gone()
    report.pieces, report.calls, report.tokens = reader.pieces, budget.calls, budget.tokens
    report.failures += reader.failures
    memory.notices += reader.notices
    return report


def _chat(memory: MemoryPort, budget: Budget) -> Chat | None:
    try:
        chat = model_for(memory.settings.values, "llm.ingest")
    except LlmUnavailable as error:
        memory.notices.append(f"Facts are taken by rule: {error}")
        return None
    return budget.wrap(chat) if chat else None


class IngestRun:
    """One reading of a folder's files."""

    def __init__(
        self,
        memory: MemoryPort,
        root: Path,
        reader: FactExtractor,
        report: IngestReport,
        ledger: IngestProgress,
        most_bytes: int,
    ) -> None:
        self.memory = memory
        self.root = root
        self.reader = reader
        self.report = report
        self.ledger = ledger
        self.known = ledger.roots.setdefault(str(root), {})
        self.most_bytes = most_bytes
        self.alive = _is_alive(memory.facts)
        self.told: set[str] = set()
        """What a dry run has told of, as it cannot be found in the memory."""

    def file(self, name: str) -> None:
        """Read a file, if it is not as it was, and bring its facts in step."""
        self.report.files += 1
        read = self._read(name)
        if read is None:
            return
        text, digest = read
        before = self.known.get(name)
        if before and before.digest == digest and self._is_done(before):
            self.report.unchanged += 1
            self.report.duplicates += sum(fact in self.alive for fact in before.facts)
            return
        found = [*{plain(fact.text): fact for fact in self.reader.read(name, text)}.values()]
        self.report.found += len(found)
        changed = before is None or before.digest != digest
        facts = self._kept(name, found, retire=changed)
        if not changed and before:
            facts += [fact for fact in before.facts if fact not in facts]
        self._done_with(name, FileRecord(digest, self.reader.by, facts))

    def gone(self) -> None:
        """Let the facts of files expire that are no longer there."""
        for name in [name for name in self.known if not (self.root / name).exists()]:
            self.report.gone += 1
            self._kept(name, [], retire=True)
            self._done_with(name, None)

    def _done_with(self, name: str, entry: FileRecord | None) -> None:
        """Write down at once what was done: whoever is killed goes on from there."""
        if entry:
            self.known[name] = entry
        else:
            del self.known[name]
        if not self.report.dry_run:
            self.ledger.write(str(self.root))

    def _is_done(self, before: FileRecord) -> bool:
        """Whether nothing is to be had from reading a file again that is as it was."""
        wanted = model_name(self.reader.chat)
        there = not before.facts or any(fact in self.alive for fact in before.facts)
        return there and wanted in (before.by, RULES)

    def _read(self, name: str) -> tuple[str, str] | None:
        file = self.root / name
        try:
            if file.stat().st_size > self.most_bytes:
                self.report.failures.append(f"{name}: larger than scan.max_file_mb")
                return None
            data = file.read_bytes()
            text, wrong = decode(data)
        except OSError as error:
            self.report.failures.append(f"{name}: {error.strerror or error}")
        except BinaryFileError:
            self.report.failures.append(f"{name}: no text")
        else:
            self.report.failures += [f"{name}: {wrong}"] if wrong else []
            return text, blake2s(data, digest_size=16).hexdigest()
        return None

    def _kept(self, name: str, found: Sequence[ExtractedFact], *, retire: bool) -> list[str]:
        """Remember the facts of a file, retire those it no longer says; return those it says."""
        mine = self._of(name)
        tellings, facts = self._unknown(name, found, mine)
        says = {plain(fact.text) for fact in found}
        stale = [fact for fact in mine if retire and plain(fact.text) not in says]
        for old, new in _pairs(stale, tellings):
            facts.append(self._supersede(old, new))
            stale.remove(old)
            tellings.remove(new)
        facts += [self._remember(telling) for telling in tellings]
        for old in stale:
            if old.id not in facts:
                self._expire(old, name)
        return [fact for fact in dict.fromkeys(facts) if fact]

    def _of(self, name: str) -> list[Fact]:
        """Return the facts that were taken from a file, and from no other."""
        elsewhere = self.ledger.supported_elsewhere(str(self.root), name)
        entry = self.known.get(name)
        listed = {*entry.facts} if entry else set[str]()
        narrowest = self.memory.facts.viewer.narrowest
        return [
            fact
            for fact in self.alive.values()
            if fact.id not in elsewhere
            and (fact.id in listed or (fact.scope == narrowest and _path(fact.origin) == name))
        ]

    def _unknown(
        self, name: str, found: Iterable[ExtractedFact], mine: Sequence[Fact]
    ) -> tuple[list[NewFact], list[str]]:
        """Return what is to be remembered, and the facts that are known from files already."""
        known = {plain(fact.text): fact for fact in mine}
        tellings, facts = [], []
        for fact in found:
            telling = _new_fact(fact, name)
            try:
                same = known.get(plain(fact.text)) or self.memory.facts.check(telling)
            except RefusedError as refusal:
                self.report.refused.append(f"{telling.origin}: {refusal.what}")
                continue
            if same and same.source == SOURCE:
                self.report.duplicates += 1
                self._moved(same, telling.origin, of_mine=same in mine)
                facts.append(same.id)
            elif plain(fact.text) in self.told:
                self.report.duplicates += 1
            else:
                tellings.append(telling)
        return tellings, facts

    # -- what is done, or only told of -------------------------------------------------------------

    def _remember(self, telling: NewFact) -> str:
        if self.report.dry_run:
            outcome, fact = REINFORCED if self.memory.facts.check(telling) else ADDED, ""
        else:
            done = self.memory.remember(**asdict(telling))
            outcome, fact = done.outcome, done.fact.id
        if outcome == ADDED:
            self.report.added += 1
        else:
            self.report.reinforced += 1
        self._tell(outcome, telling.text, telling.origin)
        return fact

    def _supersede(self, old: Fact, telling: NewFact) -> str:
        self.alive.pop(old.id, None)
        self.report.superseded += 1
        self._tell(SUPERSEDED, telling.text, telling.origin, old.text)
        if self.report.dry_run:
            return ""
        return self.memory.facts.supersede(old.id, telling).fact.id

    def _expire(self, old: Fact, name: str) -> None:
        self.alive.pop(old.id, None)
        self.report.expired += 1
        self._tell(EXPIRED, old.text, old.origin)
        if not self.report.dry_run:
            self.memory.facts.expire(old.id, f"{name} no longer says it")

    def _moved(self, fact: Fact, where: str, *, of_mine: bool) -> None:
        """Let a fact point to where it stands now, if it stands there no longer."""
        left = of_mine or not (self.root / _path(fact.origin)).exists()
        if left and fact.origin != where and not self.report.dry_run:
            self.memory.facts.edit(fact.id, origin=where)

    def _tell(self, outcome: str, text: str, where: str, instead_of: str = "") -> None:
        self.told |= {plain(text)} if self.report.dry_run and outcome != EXPIRED else set()
        self.report.changes.append(Change(outcome, text, where, instead_of))


def _is_alive(keeper: FactService) -> dict[str, Fact]:
    """Return the facts that files told and that are held true, by id."""
    if not keeper.store.exists:
        return {}
    return {fact.id: fact for fact in keeper.find(FactFilter(tag=TAG)) if fact.source == SOURCE}


def _new_fact(fact: ExtractedFact, name: str) -> NewFact:
    where = origin(name, fact.start_line, fact.end_line)
    return NewFact(fact.text, fact.category, (TAG, *fact.tags), SOURCE, where, decay_class="stable")


def _path(where: str) -> str:
    return where.rpartition("#L")[0]


def _pairs(stale: Sequence[Fact], tellings: Sequence[NewFact]) -> list[tuple[Fact, NewFact]]:
    """Return which new fact takes the place of which old one: the most alike first, each once."""
    alike = [
        (share, at, to)
        for at, old in enumerate(stale)
        for to, new in enumerate(tellings)
        if (share := _shared_words(old.text, new.text)) >= _ALIKE
    ]
    pairs: list[tuple[int, int]] = []
    for _, at, to in sorted(alike, key=lambda found: (-found[0], *found[1:])):
        if all(at != known and to != new for known, new in pairs):
            pairs.append((at, to))
    return [(stale[at], tellings[to]) for at, to in pairs]


def _shared_words(one: str, other: str) -> float:
    first, second = ({*plain(text).split()} for text in (one, other))
    return len(first & second) / max(len(first), len(second), 1)
