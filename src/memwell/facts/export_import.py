"""Facts as a file: written out for reading or keeping, and taken in again.

JSONL is the whole of it, one fact a line with all that happened to it; taken into an empty memory
it gives the same file again. Markdown is for reading. Both hold what the viewer sees, no more.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from memwell.errors import MemwellError
from memwell.facts.guard import rejection_reason, secrets
from memwell.facts.lifetimes import lifetime
from memwell.facts.service import LONGEST, FactService, normalised
from memwell.model import GLOBAL, SCOPES, Fact, FactEvent
from memwell.store.contract.facts import Facts, IdTakenError
from memwell.store.contract.values import FactFilter
from memwell.store.fact_history import COLUMNS, KIND, FactWithHistory, last_change, to_row

JSONL, MARKDOWN = FORMATS = ("jsonl", "markdown")
_SHARES = ("importance", "confidence")
_MAY_LACK = ("expires_at", "valid_from", "valid_until", "superseded_by")
_MOMENTS = ("created_at", "confirmed_at", "expires_at")
"""Compared as they are written: in UTC."""
_DAYS = ("valid_from", "valid_until")
_MAY_BE_EMPTY = ("source", "origin", "target")
_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_BOM = b"\xef\xbb\xbf"

History = tuple[FactEvent, ...]


class _MalformedError(Exception):
    """Why a line is not taken; never with a text of it."""


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line that was not taken, and why."""

    line: int
    reason: str


@dataclass(slots=True)
class ImportReport:
    """What became of the lines of a file."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    refused: list[RefusedLine] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    """How many facts there were of each scope that the viewer does not see."""


# -- out -------------------------------------------------------------------------------------------


def export_facts(keeper: FactService) -> list[dict[str, Any]]:
    """Return all facts that the viewer sees, those no longer held true too, sorted by id."""
    with keeper.store.for_viewer(keeper.viewer) as facts:
        found, events = facts.find(FactFilter(superseded=True)), facts.events()
    found.sort(key=lambda fact: fact.id)
    return [to_row(fact, events.get(fact.id, ())) for fact in found]


def to_jsonl(found: Iterable[dict[str, Any]]) -> str:
    """Return facts as lines of JSON."""
    return "".join(json.dumps(fact, ensure_ascii=False) + "\n" for fact in found)


def to_markdown(found: Sequence[dict[str, Any]]) -> str:
    """Return facts for reading, by category; those that were superseded are struck through."""
    lines = ["# Facts"]
    for category in sorted({fact["category"] for fact in found}):
        lines += ["", f"## {' '.join(category.split())}", ""]
        lines += [_item(fact) for fact in found if fact["category"] == category]
    return "\n".join(lines) + "\n"


def _item(fact: dict[str, Any]) -> str:
    text = " ".join(fact["text"].split())
    ended = fact["superseded_by"]
    details = [
        fact["created_at"][:10],
        f"{fact['scope']} {fact['target']}".strip(),
        *(f"#{tag}" for tag in fact["tags"]),
        *([f"superseded by `{ended}`"] if ended else []),
        *([f"until {fact['expires_at'][:10]}"] if fact["expires_at"] else []),
        f"`{fact['id']}`",
    ]
    return f"- {f'~~{text}~~' if ended else text}  \n  {' · '.join(details)}"


# -- in --------------------------------------------------------------------------------------------


def import_jsonl(content: bytes, keeper: FactService, *, trust: bool = False) -> ImportReport:
    """Take facts in from lines of JSON, as they are: ids, times, scopes and history.

    What is there already stays where it was confirmed last. Unless `trust` is given, junk and
    secrets are refused as `remember` refuses them.
    """
    return keeper.store.retrying(lambda: _import_items(content, keeper, trust))


def _import_items(content: bytes, keeper: FactService, trust: bool) -> ImportReport:
    report = ImportReport()
    told = [*_readable_line(content, keeper, trust, report)]
    if told:
        with keeper.store.change(keeper.viewer) as facts:
            histories = facts.events()
            for number, fact, events in told:
                try:
                    _import_one(facts, fact, events, histories, report)
                except _MalformedError as error:
                    report.refused.append(RefusedLine(number, str(error)))
    report.refused.sort(key=lambda refused: refused.line)
    return report


def _readable_line(
    content: bytes, keeper: FactService, trust: bool, report: ImportReport
) -> Iterator[tuple[int, Fact, History]]:
    """Yield the facts that may be taken, each with the number of its line; report the others."""
    for number, line in enumerate(content.removeprefix(_BOM).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            fact, events = _parse_line(line)
            if (fact.scope, fact.target) not in keeper.viewer.scopes:
                whose = f"{fact.scope} {fact.target}".strip()
                report.left_out[whose] = report.left_out.get(whose, 0) + 1
                continue
            if not trust:
                _guard(fact.text)
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
    """Write a fact unless what is there is the same or newer."""
    known = next(iter(facts.find(FactFilter(ids=(fact.id,), superseded=True))), None)
    if known:
        before = tuple(histories.get(fact.id, ()))
        if (known, before) == (fact, events) or last_change(fact, events) <= last_change(
            known, before
        ):
            report.unchanged += 1
            return
        if SCOPES.index(fact.scope) > SCOPES.index(known.scope):
            raise _MalformedError(f"{fact.id} is there already, in the wider scope {known.scope}")
    _refuse_cycle(facts, fact)
    _refuse_copy(facts, fact)
    try:
        facts.put(fact, normalised(fact.text), events)
    except IdTakenError:
        raise _MalformedError(f"the id {fact.id} cannot be used here") from None
    histories[fact.id] = [*events]
    if known:
        report.updated += 1
    else:
        report.added += 1


def _refuse_cycle(facts: Facts, fact: Fact) -> None:
    after, seen = fact.superseded_by, set[str]()
    while after and after not in seen:
        if after == fact.id:
            raise _MalformedError(f"{fact.id} would come to supersede itself")
        seen.add(after)
        found = facts.find(FactFilter(ids=(after,), superseded=True))
        after = found[0].superseded_by if found else None


def _refuse_copy(facts: Facts, fact: Fact) -> None:
    """Refuse a fact that says what another one of its scope says already."""
    if fact.superseded_by is None:
        for same in facts.find(FactFilter(normalised=normalised(fact.text), scope=fact.scope)):
            if same.id != fact.id:
                raise _MalformedError(f"the same is remembered already, as {same.id}")


def _guard(text: str) -> None:
    if reason := rejection_reason(text):
        raise _MalformedError(reason)
    if found := secrets(text):
        kinds = ", ".join(sorted({secret.kind for secret in found}))
        raise _MalformedError(f"it holds a secret ({kinds})")


# -- a line ----------------------------------------------------------------------------------------


def _parse_line(line: bytes) -> FactWithHistory:
    """Return the fact in a line, and what happened to it, or say what is wrong with the line."""
    try:
        value = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        raise _MalformedError("it is no JSON") from None
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise _MalformedError('it is no object of the kind "fact"')
    if missing := [name for name in COLUMNS if name not in value]:
        raise _MalformedError(f"it lacks {', '.join(missing)}")
    columns = {name: _column(name, value[name]) for name in COLUMNS}
    fact = Fact(**columns, tags=_tags(value.get("tags", [])))
    _check(fact)
    return fact, _events(fact.id, value.get("events", []))


def _column(name: str, value: Any) -> Any:
    if name in _SHARES:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise _MalformedError(f"{name} is no number between 0 and 1")
        return float(value)
    if value is None and name in _MAY_LACK:
        return None
    return _text(name, value, may_be_empty=name in _MAY_BE_EMPTY)


def _text(name: str, value: Any, *, may_be_empty: bool = False) -> str:
    if not isinstance(value, str) or not (value or may_be_empty):
        raise _MalformedError(f"{name} is no text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _MalformedError(f"{name} is no valid Unicode") from None
    return value


def _check(fact: Fact) -> None:
    """Refuse what no fact that was remembered here can be."""
    if not _ID.fullmatch(fact.id):
        raise _MalformedError("id is none: letters, digits, - and _ make one")
    if fact.scope not in SCOPES or (fact.scope == GLOBAL) != (not fact.target):
        raise _MalformedError("scope and target do not fit together")
    if not normalised(fact.text) and not fact.text.strip():
        raise _MalformedError("text is empty")
    if len(fact.text) > LONGEST:
        raise _MalformedError(f"a text of {len(fact.text):,} characters is a document")
    try:
        lifetime(fact.decay_class)
    except MemwellError:
        raise _MalformedError("decay_class is none that is known") from None
    for name in (*_MOMENTS, *_DAYS):
        _check_time(name, getattr(fact, name), in_utc=name in _MOMENTS)


def _check_time(name: str, value: str | None, *, in_utc: bool) -> None:
    if value is None:
        return
    try:
        at = dt.datetime.fromisoformat(value)
    except ValueError:
        raise _MalformedError(f"{name} is no time") from None
    if in_utc and at.utcoffset() != dt.timedelta(0):
        raise _MalformedError(f"{name} is not in UTC")


def _tags(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _MalformedError("tags is no list")
    tags = {_text("a tag", tag) for tag in value}
    if any("\n" in tag for tag in tags):
        raise _MalformedError("a tag has more than one line")
    return tuple(sorted(tags))


def _events(fact_id: str, value: Any) -> History:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise _MalformedError("events is no list of objects")
    found = []
    for one in value:
        at = _text("the time of an event", one.get("at"))
        _check_time("the time of an event", at, in_utc=True)
        what = _text("what of an event", one.get("what"))
        detail = _text("detail of an event", one.get("detail"), may_be_empty=True)
        found.append(FactEvent(fact_id, at, what, detail))
    return tuple(found)
