"""Answers made comparable, and what differs between two of them.

Ids, clock times, durations and random values differ between two runs of the same code. They are
replaced by a name. Human wording may change: only whether it is there is compared.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

WORDING = frozenset(
    {
        "description",
        "detail",
        "details",
        "instructions",
        "kept_why",
        "meaning",
        "message",
        "note",
        "notes",
        "notices",
        "reason",
        "refused",
        "remedy",
        "summary",
        "failures",
        "warnings",
    }
)
"""Keys whose texts are for people. Numbers and objects below them are compared as usual."""
BESIDE_A_REMEDY = frozenset({"what"})
"""Wording only in an object that also has a remedy; elsewhere it names a kind of event."""
MEASURED = frozenset({"seconds", "bytes"})
"""Keys of durations and file sizes."""
RANDOM = frozenset({"checksum", "token"})
"""Keys of values made by chance, or of ids."""
BLOCKS = frozenset({"block", "additionalContext"})
"""Keys of texts for a prompt. Their numbered quotations are compared, the rest is wording."""
RENAMED = {
    "Usage: python -m memwell": "Usage: memwell",
    "memwell.registered": "memwell.workspace_list",
    "memwell.words": "memwell.vocabulary",
    "memwell.rests": "memwell.cooldowns",
    "memwell.cached": "memwell.vector_cache",
    "memwell.spoken": "memwell.chunk_texts",
    "memwell.unfinished": "memwell.pending_erasures",
    ", held true until ": ", valid until ",
}
"""Texts that were renamed on purpose, such as the tables on PostgreSQL."""
_ID = re.compile(r"\b(?:01[0-9a-hjkmnp-tv-z]{18}|(?:vs|file|vsfb)_[0-9a-f]{20,40})\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?")
_STAMP = re.compile(r"\d{8}[-T]\d{6}(?:-\d+)?")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one step: the exit status, what was shown, and whether stderr said anything."""

    name: str
    status: int
    shown: Any
    complained: bool
    unplanned: str = ""
    """Why it is no answer to compare: a command failed that should not have, or did not."""


@dataclass(slots=True)
class Cleaner:
    """Makes the answers of one run comparable with those of another."""

    paths: Mapping[str, str]
    """Folders that only one checkout has, and what they are called instead."""
    since: dt.datetime
    """The time at which the run began: later times are the clock's."""
    _ids: dict[str, str] = field(default_factory=dict)

    def clean(self, value: Any, key: str = "") -> Any:
        """Return a value of an answer without what may differ."""
        if isinstance(value, dict):
            return {name: self._member(value, name) for name in value}
        if isinstance(value, list):
            return [self.clean(inner, key) for inner in value]
        if key in MEASURED and isinstance(value, int | float):
            return "measured"
        if key.endswith("_at") and isinstance(value, int):
            return "clock" if value >= self.since.timestamp() else value
        if not isinstance(value, str):
            return value
        if key in RANDOM:
            return bool(value)
        if key in WORDING:
            return "words" if value else ""
        return self._quotations(value) if key in BLOCKS else self.clean_text(value)

    def clean_text(self, text: str) -> str:
        """Return a text with names in place of ids, of times of the clock and of folders."""
        for path, name in self.paths.items():
            text = text.replace(path, name)
        for former, present in RENAMED.items():
            text = text.replace(former, present)
        text = _ID.sub(lambda found: self._named(found.group()), text)
        text = _STAMP.sub("clock", text)
        return _TIME.sub(lambda found: self._time(found.group()), text)

    def _member(self, whole: Mapping[str, Any], name: str) -> Any:
        if name in BESIDE_A_REMEDY and "remedy" in whole:
            return bool(whole[name])
        return self.clean(whole[name], name)

    def _quotations(self, block: str) -> list[str]:
        return [self.clean_text(line) for line in block.splitlines() if line.startswith("[")]

    def _named(self, found: str) -> str:
        return self._ids.setdefault(found, f"id-{len(self._ids) + 1}")

    def _time(self, found: str) -> str:
        time = dt.datetime.fromisoformat(found)
        time = time if time.tzinfo else time.replace(tzinfo=dt.UTC)
        return "clock" if time >= self.since else found


def parse(text: str, shown: str) -> Any:
    """Return what a command printed, as far as it is compared."""
    try:
        if shown == "json":
            return json.loads(text) if text.strip() else ""
        if shown == "jsonl":
            return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return {"not JSON": text}
    return text.splitlines() if shown == "lines" else bool(text)


def difference(old: Answer, new: Answer) -> str:
    """Return in one line what differs, "" if nothing does."""
    found = [unplanned for unplanned in (old.unplanned, new.unplanned) if unplanned]
    if old.status != new.status:
        found.append(f"exit status {old.status} -> {new.status}")
    if old.complained != new.complained:
        found.append(f"stderr {_told(old.complained)} -> {_told(new.complained)}")
    before, after = dict(_leaves(old.shown)), dict(_leaves(new.shown))
    for place in {**before, **after}:
        was, became = before.get(place, _ABSENT), after.get(place, _ABSENT)
        if type(was) is not type(became) or was != became:
            found.append(f"{place or 'output'}: {_short(was)} -> {_short(became)}")
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "; ".join(found[:_SHOWN]) + more


class _Absent:
    """Stands for a value that is not there."""

    def __repr__(self) -> str:
        return "(absent)"


_ABSENT = _Absent()


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value that has no parts, and the path to it."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, f"{place}.{name}" if place else str(name))
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{place}[{number}]")
    else:
        yield place, value


def _told(complained: bool) -> str:
    return "says something" if complained else "is empty"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
