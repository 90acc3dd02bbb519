"""The plan of an import: facts to add, notes to write, folders to index where they are."""

from __future__ import annotations

import datetime as dt
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2s
from pathlib import Path
from typing import Any

from memwell.errors import MemwellError
from memwell.facts.lifetimes import LIFETIMES
from memwell.facts.service import CATEGORIES
from memwell.model import Problem
from memwell.store.rows import EXPORTED_KIND

TRANSCRIPTS, IMPORTED = "transcripts", "imported"
"""The folders of an agent that notes are written to."""
_MOST_BYTES = 2_000_000_000
"""Of one file of an export, unpacked."""


@dataclass(frozen=True, slots=True)
class ImportedFact:
    """A fact of another program."""

    key: str
    """Its identity there: importing it again changes nothing."""
    text: str
    created: dt.datetime
    confirmed: dt.datetime | None = None
    category: str = "fact"
    tags: tuple[str, ...] = ()
    origin: str = ""
    importance: float = 0.5
    confidence: float = 1.0
    decay_class: str = "permanent"
    expires: dt.datetime | None = None
    valid_from: dt.datetime | None = None
    valid_until: dt.datetime | None = None
    superseded_by: str = ""
    """The key of the fact that took its place."""

    def to_row(self, source: str, scope: str, target: str) -> dict[str, Any]:
        """Return the fact as a line of an export of memwell."""
        known = self.category in CATEGORIES
        tags = {*self.tags, *([] if known or not self.category else [self.category])}
        return {
            "kind": EXPORTED_KIND,
            "id": fact_id(source, self.key),
            "text": self.text.strip(),
            "category": self.category if known else "fact",
            "source": source,
            "origin": self.origin or f"{source}:{self.key}",
            "importance": _share(self.importance),
            "confidence": _share(self.confidence),
            "decay_class": self.decay_class if self.decay_class in LIFETIMES else "permanent",
            "created_at": _utc(self.created),
            "confirmed_at": _utc(self.confirmed or self.created),
            "expires_at": _utc(self.expires),
            "valid_from": _utc(self.valid_from),
            "valid_until": _utc(self.valid_until),
            "superseded_by": fact_id(source, self.superseded_by) if self.superseded_by else None,
            "scope": scope,
            "target": target,
            "tags": sorted(" ".join(tag.split()) for tag in tags if tag.strip()),
            "events": [],
        }


@dataclass(slots=True)
class ImportPlan:
    """The facts, notes and folders that an import adds."""

    source: str
    facts: list[ImportedFact] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    """Texts by path below the agent's folder."""
    folders: list[Path] = field(default_factory=list)
    """Folders of notes that stay where they are, and are indexed."""
    conversations: int = 0
    turns: int = 0
    problems: list[Problem] = field(default_factory=list)


def fact_id(source: str, key: str) -> str:
    """Return the id of an imported fact: the same whenever it is imported."""
    return f"{source}-{blake2s(key.encode('utf-8', 'replace'), digest_size=10).hexdigest()}"


def _share(value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return min(1.0, max(0.0, float(value))) if number and value == value else 0.5


def _utc(at: dt.datetime | None) -> str | None:
    return at.astimezone(dt.UTC).isoformat(timespec="milliseconds") if at else None


# -- the files of an export ------------------------------------------------------------------------


def read_files(path: Path, suffixes: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a folder, a ZIP archive (also one in another), or a single file."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and file.name.lower().endswith(suffixes):
                yield file.relative_to(path).as_posix(), file.read_bytes()
            elif file.is_file() and file.suffix.lower() == ".zip":
                yield from _read_zip(file, suffixes)
    elif zipfile.is_zipfile(path):
        yield from _read_zip(path, suffixes)
    else:
        yield path.name, path.read_bytes()


def _read_zip(file: Any, suffixes: tuple[str, ...], depth: int = 0) -> Iterator[tuple[str, bytes]]:
    import io

    try:
        with zipfile.ZipFile(file) as archive:
            for entry in sorted(archive.infolist(), key=lambda one: one.filename):
                name = entry.filename
                if entry.is_dir() or entry.file_size > _MOST_BYTES:
                    continue
                if name.lower().endswith(suffixes):
                    yield name, archive.read(entry)
                elif name.lower().endswith(".zip") and not depth:
                    yield from _read_zip(io.BytesIO(archive.read(entry)), suffixes, 1)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError) as error:
        raise MemwellError(
            f"The archive cannot be read ({error})", "Export it again, or unpack it yourself"
        ) from None


def parse_json(name: str, data: bytes) -> Any:
    """Return the value of a JSON file, or of a file with one JSON value in each line."""
    text = data.decode("utf-8-sig", "replace")
    try:
        return json.loads(text)
    except ValueError:
        try:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError:
            raise MemwellError(f"{name} is not JSON", "Name the file that was exported") from None
    except RecursionError:
        raise MemwellError(f"{name} is nested too deeply", "Export it again") from None


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list; none if it is not a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    """Return the strings of a list; none if it is not a list."""
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
