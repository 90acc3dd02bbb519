"""The plan: a JSON file that says which facts to merge and supersede, and which notes to write."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memwell.errors import MemwellError
from memwell.files import private_file
from memwell.model import Fact

MERGE, SUPERSEDE, DIGEST = "merge", "supersede", "digest"


@dataclass(frozen=True, slots=True)
class PlannedFact:
    """A fact of a plan; it is left alone if its text has changed since."""

    id: str
    text: str

    @classmethod
    def of(cls, fact: Fact) -> PlannedFact:
        """Return the part of a fact that a plan shows."""
        return cls(fact.id, fact.text)


@dataclass(slots=True)
class Step:
    """One change: the facts `old` are superseded by `new`, or a note is written at `path`."""

    kind: str
    why: str
    old: list[PlannedFact] = field(default_factory=list)
    new: PlannedFact | None = None
    path: str = ""
    text: str = ""
    """The content of a digest."""
    sources: list[str] = field(default_factory=list)
    """The notes that a digest is made of."""
    applied: bool = False
    problem: str = ""
    """Why the step could not be applied or undone."""


@dataclass(slots=True)
class Plan:
    """The proposed changes; delete those that are not wanted."""

    steps: list[Step]
    by: str
    """Who proposed them: "rules", or a language model."""
    version: int = 1

    def count(self, kind: str) -> int:
        """Return how many steps are of a kind."""
        return sum(step.kind == kind for step in self.steps)


def write_plan(plan: Plan, file: Path) -> None:
    """Write a plan to a file that only its owner can read."""
    with private_file(file.absolute()) as part:
        text = json.dumps(asdict(plan), indent=2, ensure_ascii=False)
        part.write_text(text + "\n", encoding="utf-8")


def read_plan(file: Path) -> Plan:
    """Read a plan."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        steps = [_read_step(step) for step in content["steps"]]
        return Plan(steps, str(content["by"]))
    except OSError as error:
        raise MemwellError(f"{file} cannot be read ({error.strerror})", "Name a plan") from error
    except (ValueError, KeyError, TypeError) as error:
        raise MemwellError(
            f"{file} is not a plan ({error})", "`memwell consolidate` writes one"
        ) from error


def _read_step(fields: dict[str, Any]) -> Step:
    old = [PlannedFact(**fact) for fact in fields.get("old", [])]
    new = PlannedFact(**fields["new"]) if fields.get("new") else None
    return Step(**{**fields, "old": old, "new": new})
