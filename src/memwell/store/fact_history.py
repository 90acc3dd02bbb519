"""A fact with its events: how it is written out, and which of two versions is newer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import Any

from memwell.model import Fact, FactEvent

KIND = "fact"
FactWithHistory = tuple[Fact, tuple[FactEvent, ...]]
COLUMNS = tuple(column.name for column in fields(Fact) if column.name != "tags")


def to_row(fact: Fact, events: Iterable[FactEvent]) -> dict[str, Any]:
    """Return a fact as an export writes it."""
    values = asdict(fact)
    return {
        "kind": KIND,
        **{name: values[name] for name in COLUMNS},
        "tags": [*fact.tags],
        "events": [
            {"at": event.at, "what": event.what, "detail": event.detail} for event in events
        ],
    }


def last_change(fact: Fact, events: Iterable[FactEvent]) -> tuple[dt.datetime, dt.datetime]:
    """Return when a fact was confirmed, and when it last changed: the larger pair is newer."""
    confirmed = dt.datetime.fromisoformat(fact.confirmed_at)
    return confirmed, max([confirmed, *(dt.datetime.fromisoformat(event.at) for event in events)])
