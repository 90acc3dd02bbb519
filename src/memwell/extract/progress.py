"""For each source file: its digest when it was last read, and the facts extracted from it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memwell.facts.service import FactService
from memwell.files import read_state, write_state


@dataclass(slots=True)
class FileRecord:
    """A file when it was last read: its digest, the model or "rules", and the ids of its facts."""

    digest: str
    by: str
    facts: list[str]


@dataclass(slots=True)
class IngestProgress:
    """The files that were read for one scope, by folder. The file contains no texts."""

    file: Path
    scope: str
    roots: dict[str, dict[str, FileRecord]]

    @classmethod
    def read(cls, file: Path, service: FactService) -> IngestProgress:
        """Read the progress of the viewer's narrowest scope; an unreadable file is empty."""
        scope = ":".join(service.viewer.scopes[-1])
        return cls(file, scope, _parse_roots(read_state(file).get(scope)))

    def write(self, root: str) -> None:
        """Write the records of one folder; keep the records that other processes wrote.

        If that fails, the next run reads the files again and finds their facts known.
        """
        scopes = read_state(self.file)
        records = {name: asdict(record) for name, record in self.roots.get(root, {}).items()}
        scopes[self.scope] = {**_as_dict(scopes.get(self.scope)), root: records}
        write_state(self.file, scopes)

    def supported_elsewhere(self, root: str, name: str) -> set[str]:
        """Return the ids of the facts that other files contain."""
        return {
            fact
            for other_root, records in self.roots.items()
            for other, record in records.items()
            if (other_root, other) != (root, name)
            for fact in record.facts
        }


def _parse_roots(value: Any) -> dict[str, dict[str, FileRecord]]:
    try:
        return {
            root: {name: FileRecord(**record) for name, record in records.items()}
            for root, records in _as_dict(value).items()
        }
    except (AttributeError, TypeError):  # the file is damaged
        return {}


def _as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
