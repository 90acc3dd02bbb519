"""The settings that determine what is read from a file: its chunks and its date."""

from __future__ import annotations

from dataclasses import dataclass

from memwell.config.sections import ChunkingSettings

CHUNKER_VERSION = 1
"""Raise it if the same text gives other chunks now: all notes are then cut again."""


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """How notes are cut, in tokens; a note that was read with other settings is read again."""

    chunk_size: int = ChunkingSettings.size
    chunk_overlap: int = ChunkingSettings.overlap
    file_dates: bool = False
    """Whether a note without a date has the date of its file."""

    def __str__(self) -> str:
        dates = ", file dates" if self.file_dates else ""
        return f"chunker {CHUNKER_VERSION}, {self.chunk_size}/{self.chunk_overlap}{dates}"
