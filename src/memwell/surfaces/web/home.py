"""The first view: what is indexed, what is new, what is waiting, and questions to begin with."""

from __future__ import annotations

import datetime as dt
import os
import posixpath
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from memwell.memory import Memory
from memwell.model import Fact
from memwell.store.contract.values import FactFilter, ListedNote
from memwell.surfaces.web.timeline import describe_note, is_date

_RECENT = 6
_MOST_STATS = 5000
"""Notes without a date whose files are looked at; more would delay the page."""
_MOST_FACTS = 10_000


@dataclass(frozen=True, slots=True)
class Home:
    """The values of the first view."""

    notes: int
    passages: int
    facts: int
    folders: int
    waiting: int
    """Passages that have no vector yet."""
    recent_notes: tuple[tuple[ListedNote, str, str], ...]
    """Each with its day, and with a text that describes it."""
    recent_facts: tuple[Fact, ...]
    questions: tuple[str, ...]


def describe_home(memory: Memory) -> Home:
    """Return what the memory contains, for its first view."""
    notes = memory.contents.notes()
    facts = memory.facts.find(FactFilter(), _MOST_FACTS)
    live = next((space for space in memory.spaces() if space.state == "live"), None)
    recent = _find_recent(notes)
    return Home(
        notes=len(notes),
        passages=sum(note.chunks for note in notes),
        facts=len(facts),
        folders=len({note.workspace for note in notes}),
        waiting=max(0, live.chunks - live.embedded) if live else 0,
        recent_notes=tuple((note, day, describe_note(memory, note)) for note, day in recent),
        recent_facts=tuple(facts[:_RECENT]),
        questions=_example_questions(notes, [note for note, _ in recent]),
    )


def _find_recent(notes: Sequence[ListedNote]) -> tuple[tuple[ListedNote, str], ...]:
    """Return the newest notes: by their dates, else by when their files were changed."""
    dated = [(note, note.date[:10]) for note in notes[:_RECENT] if note.date]
    if len(dated) == _RECENT:
        return tuple(dated)
    changed = []
    for note in notes[len(dated) : _MOST_STATS]:
        try:
            seconds = os.stat(posixpath.join(note.workspace, note.path)).st_mtime
        except OSError:
            continue
        changed.append((note, dt.date.fromtimestamp(seconds).isoformat()))
    changed.sort(key=lambda pair: pair[1], reverse=True)
    return tuple([*dated, *changed][:_RECENT])


def _example_questions(
    notes: Sequence[ListedNote], recent: Sequence[ListedNote]
) -> tuple[str, ...]:
    """Return queries that find something: titles, a time, the commonest tag and folder."""
    titles = [note.title for note in (*recent, *notes) if not is_date(note.title)]
    found = [title for title in dict.fromkeys(titles) if len(title) <= 40][:2]
    months = Counter(note.date[:7] for note in notes if note.date)
    if months:
        found.append(f"after:{max(months)}")
    tags = Counter(tag for note in notes for tag in note.tags)
    folders = Counter(note.path.split("/")[0] for note in notes if "/" in note.path)
    found += [f"tag:{tag}" for tag, _ in tags.most_common(1) if " " not in tag]
    found += [f"path:{folder}/" for folder, _ in folders.most_common(1) if " " not in folder]
    return tuple(found)
