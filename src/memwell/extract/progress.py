"""Which files facts were taken from, when they were how, and the facts that each supports."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memwell.facts.service import FactService
from memwell.files import read_state, write_state


@dataclass(slots=True)
class FileRecord:
    """A file when it was last read: its digest, by what it was read, the facts it supports."""

    digest: str
    by: str
    facts: list[str]


class IngestProgress:
    """Which files were read, for one scope, and the facts that each supports. No text is in it."""

    def __init__(self, file: Path, scope: str, roots: dict[str, dict[str, FileRecord]]) -> None:
        self.file = file
        self.scope = scope
        self.roots = roots

    @classmethod
    def read(cls, file: Path, keeper: FactService) -> IngestProgress:
        """Read the ledger of the scope that a keeper writes to; an unreadable one is empty."""
        scope = ":".join(keeper.viewer.scopes[-1])
        return cls(file, scope, _entries(read_state(file).get(scope)))

    def write(self, root: str) -> None:
        """Write what is known of one folder; what others wrote meanwhile stays.

        Should that fail, the next run reads the files again, and finds the facts known.
        """
        all_of_it = read_state(self.file)
        mine = {name: asdict(entry) for name, entry in self.roots.get(root, {}).items()}
        all_of_it[self.scope] = {**_object(all_of_it.get(self.scope)), root: mine}
        write_state(self.file, all_of_it)

    def supported_elsewhere(self, root: str, name: str) -> set[str]:
        """Return the facts that other files support."""
        return {
            fact
            for other_root, entries in self.roots.items()
            for other, entry in entries.items()
            if (other_root, other) != (root, name)
            for fact in entry.facts
        }


def _entries(found: Any) -> dict[str, dict[str, FileRecord]]:
    try:
        return {
            root: {name: FileRecord(**entry) for name, entry in entries.items()}
            for root, entries in _object(found).items()
        }
    except (AttributeError, TypeError):
        return {}


def _object(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}
