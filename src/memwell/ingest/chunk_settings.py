"""The settings that determine what is read from a file: its chunks and its date."""

from __future__ import annotations

from dataclasses import dataclass

from memwell.config.sections import ChunkingSettings, ScanSettings
from memwell.ingest.readers.formats import Format, find_format

CHUNKER_VERSION = 3
"""Raise it if the same text gives other chunks now: all notes are then cut again."""


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """How notes are cut, in tokens; a note that was read with other settings is read again."""

    chunk_size: int = ChunkingSettings.size
    chunk_overlap: int = ChunkingSettings.overlap
    file_dates: bool = False
    """Whether a note without a date has the date of its file."""

    formats: tuple[str, ...] = ScanSettings.formats
    """The formats that ``scan.formats`` names."""

    def find_reader(self, path: str) -> Format | None:
        """Return the format whose reader converts a file; None if the file is text."""
        found = find_format(path, self.formats)
        return None if found is None or found.is_text else found

    def recipe(self, path: str) -> str:
        """Return how a file is read and cut."""
        found = find_format(path, self.formats)
        if found is None or (found.is_text and found.version == 1):
            return str(self)
        return f"{self}, {found.name} {found.version}"

    def __str__(self) -> str:
        dates = ", file dates" if self.file_dates else ""
        return f"chunker {CHUNKER_VERSION}, {self.chunk_size}/{self.chunk_overlap}{dates}"
