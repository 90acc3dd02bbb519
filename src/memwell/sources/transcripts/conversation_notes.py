"""Conversations as notes: one Markdown file for each session and day, one heading for each turn.

Secrets are replaced before anything is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2s
from pathlib import Path

from memwell.facts.guard import redact
from memwell.sources.transcripts.turns import Turn

TAG = "transcript"
UNDATED = "undated"
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})", re.M)
_STRUCTURE = re.compile(r"^([ \t]*)(#{1,6}[ \t]|[=-]+[ \t]*$|\+{3,}[ \t]*$)")
_UNSAFE = re.compile(r"[^\w.-]+")


@dataclass(frozen=True, slots=True)
class ConversationNote:
    """The part of a session that took place on one day."""

    tool: str
    session: str
    project: str
    day: str
    title: str = ""

    @property
    def path(self) -> str:
        """Its path below the folder of transcripts."""
        project = _slug(Path(self.project).name) if self.project else ""
        if project:
            project = f"{project}-{blake2s(self.project.encode(), digest_size=3).hexdigest()}/"
        name = _slug(self.session)[:40] or "session"
        return f"{self.tool}/{project}{self.day}-{name}.md"

    @property
    def front_matter(self) -> str:
        """The fields above the first turn."""
        where = f" in {Path(self.project).name}" if self.project else ""
        fields = {
            "title": redact(self.title) or f"{self.tool}{where}, {self.day}",
            "date": None if self.day == UNDATED else self.day,
            "tags": [TAG, self.tool],
            "tool": self.tool,
            "project": self.project or None,
            "session": self.session,
        }
        lines = [
            f"{name}: {json.dumps(value, ensure_ascii=False)}"
            for name, value in fields.items()
            if value
        ]
        return "\n".join(["---", *lines, "---", ""])


def group_turns(tool: str, turns: Iterable[Turn], title: str = "") -> dict[ConversationNote, str]:
    """Return the notes that turns belong to, each with its turns as Markdown."""
    found: dict[ConversationNote, list[str]] = {}
    for turn in turns:
        at = turn.at.astimezone() if turn.at else None
        day = f"{at:%Y-%m-%d}" if at else UNDATED
        note = ConversationNote(tool, turn.session, turn.project, day, title)
        time = f"{at:%H:%M} " if at else ""
        found.setdefault(note, []).append(f"\n## {time}{turn.speaker}\n\n{to_block(turn.text)}\n")
    return {note: "".join(parts) for note, parts in found.items()}


def to_block(text: str) -> str:
    """Return the text of a turn without secrets, and so that it cannot begin another turn."""
    lines, fence = [], ""
    for line in redact(text.strip().replace("\0", "\ufffd")).split("\n"):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and line.strip() == mark[1]:
            fence = ""
        elif not fence:
            line = _STRUCTURE.sub(r"\1\\\2", line)
        lines.append(line)
    if fence:
        lines.append(fence)
    return "\n".join(lines)


def _slug(name: str) -> str:
    return _UNSAFE.sub("-", redact(name)).strip("-.")
