"""The settings that determine how a note is cut into chunks."""

from __future__ import annotations

from dataclasses import dataclass

from memwell.config.sections import ChunkingSettings

CHUNKER_VERSION = 1
"""Raise it if the same text gives other chunks now: all notes are then cut again."""


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """How notes are cut, in tokens; a note that was cut with other settings is read again."""

    chunk_size: int = ChunkingSettings.size
    chunk_overlap: int = ChunkingSettings.overlap

    def __str__(self) -> str:
        return f"chunker {CHUNKER_VERSION}, {self.chunk_size}/{self.chunk_overlap}"
