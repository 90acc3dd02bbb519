"""Which files facts were taken from, when they were how, and the facts that each supports."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memwell.facts.keeping import Keeper


@dataclass(slots=True)
class Entry:
    """A file when it was last read: its digest, by what it was read, the facts it supports."""

    digest: str
    by: str
    facts: list[str]


class Ledger:
    """Which files were read, for one scope, and the facts that each supports. No text is in it."""

    def __init__(self, file: Path, scope: str, roots: dict[str, dict[str, Entry]]) -> None:
        self.file = file
        self.scope = scope
        self.roots = roots

    @classmethod
    def read(cls, file: Path, keeper: Keeper) -> Ledger:
        """Read the ledger of the scope that a keeper writes to; an unreadable one is empty."""
        scope = ":".join(keeper.viewer.scopes[-1])
        return cls(file, scope, _entries(_json(file).get(scope)))

    def write(self, root: str) -> None:
        """Write what is known of one folder; what others wrote meanwhile stays."""
        all_of_it = _json(self.file)
        mine = all_of_it.setdefault(self.scope, {})
        mine[root] = {name: asdict(entry) for name, entry in self.roots.get(root, {}).items()}
        part = self.file.with_name(f"{self.file.name}.{os.getpid()}")
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            part.touch(mode=0o600)
            part.write_text(json.dumps(all_of_it), encoding="utf-8")
            part.replace(self.file)
        except OSError:  # the next run reads the files again, and finds the facts known
            part.unlink(missing_ok=True)

    def supported_elsewhere(self, root: str, name: str) -> set[str]:
        """Return the facts that other files support."""
        return {
            fact
            for other_root, entries in self.roots.items()
            for other, entry in entries.items()
            if (other_root, other) != (root, name)
            for fact in entry.facts
        }


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    good = isinstance(found, dict) and all(isinstance(value, dict) for value in found.values())
    return found if good else {}


def _entries(found: Any) -> dict[str, dict[str, Entry]]:
    try:
        return {
            root: {name: Entry(**entry) for name, entry in entries.items()}
            for root, entries in (found or {}).items()
        }
    except (AttributeError, TypeError):
        return {}
