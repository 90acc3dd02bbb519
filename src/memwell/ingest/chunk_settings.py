"""Everything besides a file that decides what its rows look like."""

from __future__ import annotations

from dataclasses import dataclass

from memwell.config.sections import ChunkingSettings

CHUNKER_VERSION = 1
"""Raised whenever the same text gives other chunks; notes are then chunked again."""


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """How notes are cut; a note cut by another recipe is read again."""

    chunk_size: int = ChunkingSettings.size
    chunk_overlap: int = ChunkingSettings.overlap

    def __str__(self) -> str:
        return f"chunker {CHUNKER_VERSION}, {self.chunk_size}/{self.chunk_overlap}"
