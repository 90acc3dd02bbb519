"""A converted document becomes a note: its chunks, and where each of them is in the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

from memwell.ingest.chunk import MAX_CHUNKS, chunk
from memwell.ingest.chunk_settings import ChunkSettings
from memwell.ingest.parse_note import date_in_path
from memwell.ingest.readers.document import Document
from memwell.model import POSITIONS, Chunk, Note


def parse_document(path: str, document: Document, chunk_settings: ChunkSettings) -> Note:
    """Return the note of a document. Its `meta` has the positions, by line."""
    chunks: list[Chunk] = []
    positions: list[tuple[int, str]] = []
    for section, first_line in zip(document.sections, document.first_lines, strict=True):
        parts = chunk(
            section.text,
            size=chunk_settings.chunk_size,
            overlap=chunk_settings.chunk_overlap,
            first_line=first_line,
            plain=section.is_plain,
        )
        chunks += (
            replace(part, heading=(*section.heading, *part.heading))
            for part in parts
            if part.text.strip()
        )
        if section.position and (not positions or positions[-1][1] != section.position):
            positions.append((first_line, section.position))
    first_heading = next((part.heading[0] for part in chunks if part.heading), "")
    stem = PurePosixPath(path).name if document.has_source_lines else PurePosixPath(path).stem
    return Note(
        title=document.title[:1000] or ("" if document.has_source_lines else first_heading) or stem,
        date=document.date or date_in_path(path),
        tags=document.tags,
        aliases=(),
        links=(),
        meta={POSITIONS: positions} if positions else {},
        chunks=tuple(chunks[:MAX_CHUNKS]),
    )
