"""Export facts to a file, and import them again.

JSONL is complete: one fact per line, with its history. Imported into an empty memory it exports the
same file again. Markdown is for people. Both contain only the facts that the viewer sees.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from memwell.errors import IdTakenError, MemwellError
from memwell.facts.comparison import normalised
from memwell.facts.erase import finish_erasures
from memwell.facts.guard import find_secrets, rejection_reason
from memwell.facts.lifetimes import lifetime
from memwell.facts.service import MAX_CHARACTERS, FactService
from memwell.model import GLOBAL, SCOPES, SESSION, Fact, FactEvent
from memwell.store.contract.facts import Facts, trace_of_edit
from memwell.store.contract.values import FactFilter
from memwell.store.rows import (
    EXPORTED_COLUMNS,
    EXPORTED_KIND,
    FactWithHistory,
    last_change,
    to_export_row,
)

JSONL, MARKDOWN = "jsonl", "markdown"
_FRACTIONS = ("importance", "confidence")
_OPTIONAL = ("expires_at", "valid_from", "valid_until", "superseded_by")
_TIMES = ("created_at", "confirmed_at", "expires_at")
"""These must be in UTC, because the store compares them as strings."""
_DAYS = ("valid_from", "valid_until")
_MAY_BE_EMPTY = ("source", "origin", "target")
_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_BOM = b"\xef\xbb\xbf"

History = tuple[FactEvent, ...]


class _MalformedError(Exception):
    """The reason why a line is refused; it never quotes a text of the line."""


class _DuplicateError(_MalformedError):
    """A fact with the same text exists already."""


class _DryRunError(Exception):
    """Ends a transaction without a change."""


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """The number of a line that was refused, and the reason."""

    line: int
    reason: str
    is_duplicate: bool = False
    """Whether another fact has the same text, so that nothing is lost."""


@dataclass(slots=True)
class ImportReport:
    """The result of an import, in numbers of facts."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    refused: list[RefusedLine] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    """For each scope that the viewer does not see, the number of its facts in the file."""


# -- export ----------------------------------------------------------------------------------------


def export_facts(service: FactService) -> list[dict[str, Any]]:
    """Return all facts that the viewer sees, including superseded ones, sorted by id."""
    with service.store.for_viewer(service.viewer) as facts:
        found, events = facts.find(FactFilter(superseded=True)), facts.events()
    found.sort(key=lambda fact: fact.id)
    return [to_export_row(fact, events.get(fact.id, ())) for fact in found]


def to_jsonl(found: Iterable[dict[str, Any]]) -> str:
    """Return exported facts as lines of JSON."""
    return "".join(json.dumps(fact, ensure_ascii=False) + "\n" for fact in found)


def to_markdown(found: Sequence[dict[str, Any]]) -> str:
    """Return exported facts as Markdown, by category; superseded ones are struck through."""
    lines = ["# Facts"]
    for category in sorted({fact["category"] for fact in found}):
        lines += ["", f"## {' '.join(category.split())}", ""]
        lines += [_markdown_item(fact) for fact in found if fact["category"] == category]
    return "\n".join(lines) + "\n"


def _markdown_item(fact: dict[str, Any]) -> str:
    text = " ".join(fact["text"].split())
    successor = fact["superseded_by"]
    details = [
        fact["created_at"][:10],
        f"{fact['scope']} {fact['target']}".strip(),
        *(f"#{tag}" for tag in fact["tags"]),
        *([f"superseded by `{successor}`"] if successor else []),
        *([f"until {fact['expires_at'][:10]}"] if fact["expires_at"] else []),
        f"`{fact['id']}`",
    ]
    return f"- {f'~~{text}~~' if successor else text}  \n  {' · '.join(details)}"


# -- import ----------------------------------------------------------------------------------------


def import_jsonl(
    content: bytes, service: FactService, *, trust: bool = False, dry_run: bool = False
) -> ImportReport:
    """Import facts from lines of JSON with their ids, times, scopes and history.

    If a fact exists already, the version that changed last stays. Without `trust`, the import
    refuses the texts that `remember` refuses. A dry run only reports.
    """
    report = service.store.retrying(lambda: _import(content, service, trust, dry_run))
    if report.updated and not dry_run and service.store.pending_erasures():
        with suppress(MemwellError):  # the facts are imported; the next process erases the rest
            finish_erasures(service.store)
    return report


def _import(content: bytes, service: FactService, trust: bool, dry_run: bool) -> ImportReport:
    report = ImportReport()
    parsed = [*_parse_lines(content, service, trust, report)]
    if dry_run and not service.store.exists:
        report.added = len({normalised(fact.text) for _, fact, _ in parsed})
    elif parsed:
        with suppress(_DryRunError), service.store.change(service.viewer) as facts:
            histories = facts.events()
            for number, fact, events in parsed:
                try:
                    _import_one(facts, fact, events, histories, report)
                except _MalformedError as error:
                    is_duplicate = isinstance(error, _DuplicateError)
                    report.refused.append(RefusedLine(number, str(error), is_duplicate))
            if dry_run:
                raise _DryRunError
    report.refused.sort(key=lambda refused: refused.line)
    return report


def _parse_lines(
    content: bytes, service: FactService, trust: bool, report: ImportReport
) -> Iterator[tuple[int, Fact, History]]:
    """Yield the facts to import, each with the number of its line; report the refused lines."""
    for number, line in enumerate(content.removeprefix(_BOM).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            fact, events = _parse_line(line)
            if (fact.scope, fact.target) == (SESSION, service.viewer.session):
                # The file is of a viewer without a user, or of a version without users of sessions.
                fact = replace(fact, target=service.viewer.session_key)
            if (fact.scope, fact.target) not in service.viewer.scopes:
                scope = f"{fact.scope} {fact.target}".strip()
                report.left_out[scope] = report.left_out.get(scope, 0) + 1
                continue
            service.require_right_to(fact.scope)
            if not trust:
                _refuse_unsafe(fact.text)
            yield number, fact, events
        except _MalformedError as error:
            report.refused.append(RefusedLine(number, str(error)))


def _import_one(
    facts: Facts,
    fact: Fact,
    events: History,
    histories: dict[str, list[FactEvent]],
    report: ImportReport,
) -> None:
    """Write a fact, unless the store has the same or a newer version."""
    known = next(iter(facts.find(FactFilter(ids=(fact.id,), superseded=True))), None)
    if known:
        before = tuple(histories.get(fact.id, ()))
        if (known, before) == (fact, events) or last_change(fact, events) <= last_change(
            known, before
        ):
            report.unchanged += 1
            return
        if SCOPES.index(fact.scope) > SCOPES.index(known.scope):
            raise _MalformedError(f"{fact.id} exists already, in the wider scope {known.scope}")
    _refuse_cycle(facts, fact)
    _refuse_copy(facts, fact)
    try:
        if known and known.text != fact.text:
            facts.record_pending_erasure([trace_of_edit(known)])
        facts.put(fact, normalised(fact.text), events)
    except IdTakenError:
        raise _MalformedError(f"the id {fact.id} cannot be used here") from None
    histories[fact.id] = [*events]
    if known:
        report.updated += 1
    else:
        report.added += 1


def _refuse_cycle(facts: Facts, fact: Fact) -> None:
    successor, visited = fact.superseded_by, set[str]()
    while successor and successor not in visited:
        if successor == fact.id:
            raise _MalformedError(f"{fact.id} would supersede itself")
        visited.add(successor)
        found = facts.find(FactFilter(ids=(successor,), superseded=True))
        successor = found[0].superseded_by if found else None


def _refuse_copy(facts: Facts, fact: Fact) -> None:
    """Refuse a fact if another fact of its scope has the same text."""
    if fact.superseded_by is None:
        for same in facts.find(FactFilter(normalised=normalised(fact.text), scope=fact.scope)):
            if same.id != fact.id:
                raise _DuplicateError(f"the fact {same.id} has the same text already")


def _refuse_unsafe(text: str) -> None:
    if reason := rejection_reason(text):
        raise _MalformedError(reason)
    if found := find_secrets(text):
        kinds = ", ".join(sorted({secret.kind for secret in found}))
        raise _MalformedError(f"it contains a secret ({kinds})")


# -- a line ----------------------------------------------------------------------------------------


def _parse_line(line: bytes) -> FactWithHistory:
    """Return the fact in a line and its history, or raise what is wrong with the line."""
    try:
        value = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        raise _MalformedError("it is not JSON") from None
    if not isinstance(value, dict) or value.get("kind") != EXPORTED_KIND:
        raise _MalformedError('it is not an object of the kind "fact"')
    if missing := [name for name in EXPORTED_COLUMNS if name not in value]:
        raise _MalformedError(f"it lacks {', '.join(missing)}")
    columns = {name: _parse_column(name, value[name]) for name in EXPORTED_COLUMNS}
    fact = Fact(**columns, tags=_parse_tags(value.get("tags", [])))
    _check_fact(fact)
    return fact, _parse_events(fact.id, value.get("events", []))


def _parse_column(name: str, value: Any) -> Any:
    if name in _FRACTIONS:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise _MalformedError(f"{name} is not a number between 0 and 1")
        return float(value)
    if value is None and name in _OPTIONAL:
        return None
    return _parse_text(name, value, may_be_empty=name in _MAY_BE_EMPTY)


def _parse_text(name: str, value: Any, *, may_be_empty: bool = False) -> str:
    if not isinstance(value, str) or not (value or may_be_empty):
        raise _MalformedError(f"{name} is not a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _MalformedError(f"{name} is not valid Unicode") from None
    return value


def _check_fact(fact: Fact) -> None:
    """Refuse a fact that `remember` could not have stored."""
    if not _ID.fullmatch(fact.id):
        raise _MalformedError("id is not valid: use 1 to 100 letters, digits, - and _")
    if fact.scope not in SCOPES or (fact.scope == GLOBAL) != (not fact.target):
        raise _MalformedError("scope and target do not fit together")
    if not normalised(fact.text) and not fact.text.strip():
        raise _MalformedError("text is empty")
    if len(fact.text) > MAX_CHARACTERS:
        raise _MalformedError(f"{len(fact.text):,} characters are too long for a fact")
    try:
        lifetime(fact.decay_class)
    except MemwellError:
        raise _MalformedError("decay_class is not a known decay class") from None
    for name in (*_TIMES, *_DAYS):
        _check_time(name, getattr(fact, name), in_utc=name in _TIMES)


def _check_time(name: str, value: str | None, *, in_utc: bool) -> None:
    if value is None:
        return
    try:
        at = dt.datetime.fromisoformat(value)
    except ValueError:
        raise _MalformedError(f"{name} is not a time") from None
    if in_utc and at.utcoffset() != dt.timedelta(0):
        raise _MalformedError(f"{name} is not in UTC")


def _parse_tags(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _MalformedError("tags is not a list")
    tags = {_parse_text("a tag", tag) for tag in value}
    if any("\n" in tag for tag in tags):
        raise _MalformedError("a tag has more than one line")
    return tuple(sorted(tags))


def _parse_events(fact_id: str, value: Any) -> History:
    if not isinstance(value, list) or not all(isinstance(event, dict) for event in value):
        raise _MalformedError("events is not a list of objects")
    events = []
    for event in value:
        at = _parse_text("the time of an event", event.get("at"))
        _check_time("the time of an event", at, in_utc=True)
        what = _parse_text("what of an event", event.get("what"))
        detail = _parse_text("detail of an event", event.get("detail"), may_be_empty=True)
        events.append(FactEvent(fact_id, at, what, detail))
    return tuple(events)
