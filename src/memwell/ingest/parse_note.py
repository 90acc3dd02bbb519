"""The bytes of a file become a note: decode, front matter, tags, links, date, chunks."""

from __future__ import annotations

import codecs
import datetime as dt
import re
from collections.abc import Iterable, Mapping
from itertools import accumulate
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

from memwell.errors import BinaryFileError, TooManySectionsError
from memwell.ingest.chunk import chunk
from memwell.ingest.chunk_settings import ChunkSettings
from memwell.ingest.front_matter import split_front_matter
from memwell.ingest.markdown import FENCED_BLOCK
from memwell.model import Chunk, Note

_INLINE_CODE = re.compile(r"`[^`\n]+`")
_INLINE_TAG = re.compile(r"#(?<!\S#)(?=[\w/-]*[^\W\d])([\w/-]*\w)")
_WIKI_LINK = re.compile(r"\[\[([^\]\[|#\n]+)(?:[|#][^\]\[\n]*)?\]\]")
_MARKDOWN_LINK = re.compile(r"(?<!!)\[[^\]\[\n]*\]\(<?([^()<>\s]+)>?(?:\s[^()\n]*)?\)")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", re.IGNORECASE)
"""The beginning of a link that leads to another site, or to a place in the same note."""
_PATH_DATE = re.compile(r"(?<!\d)(\d{4})(?:([-_/.])(\d{2})\2(\d{2})|(\d{2})(\d{2}))(?!\d)")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_BINARY_SHARE = 0.1
_MAX_TITLE = 1_000
_MAX_LABELS = 10_000
"""Characters of all tags, and of all aliases: every chunk of a note is found by them, so that
without a limit 300,000 tags take minutes."""


def decode(data: bytes) -> tuple[str, str]:
    """Return the text of a file, and a message about invalid bytes ("" if there are none).

    The file may be UTF-8 or UTF-16, with or without a byte order mark, or UTF-32 with one.
    Invalid bytes are replaced. Raises `BinaryFileError` for binary data.
    """
    if encoding := _wide_encoding(data):
        text = data.decode(encoding, errors="replace")
        return text.replace("\0", "\ufffd"), "NUL characters replaced" if "\0" in text else ""
    if data.count(0) > len(data) * _BINARY_SHARE:
        raise BinaryFileError
    try:
        text, wrong = data.decode("utf-8-sig"), ""
    except UnicodeDecodeError as error:
        text = data.decode("utf-8-sig", errors="replace")
        wrong = f"not valid UTF-8 from byte {error.start} on, invalid bytes replaced"
    if "\0" in text:
        text, wrong = text.replace("\0", "\ufffd"), wrong or "NUL characters replaced"
    return text, wrong


def _wide_encoding(data: bytes) -> str | None:
    """Return UTF-32 or UTF-16 if the data begins with its mark, or looks like UTF-16."""
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return _utf16_without_mark(data)


def _utf16_without_mark(data: bytes) -> str | None:
    """Guess UTF-16 from the positions of the zero bytes in Latin text."""
    sample = data[:2000]
    pairs = len(sample) // 2
    if pairs < 4 or len(data) % 2:
        return None
    high, low = sample[0::2].count(0), sample[1::2].count(0)
    if low > pairs * 0.4 and high <= pairs * 0.05:
        return "utf-16-le"
    return "utf-16-be" if high > pairs * 0.4 and low <= pairs * 0.05 else None


def parse_note(path: str, text: str, chunk_settings: ChunkSettings) -> tuple[Note, str]:
    """Return the note, and a message about what could not be read as it is written, or ""."""
    meta, body_at, wrong_fields = split_front_matter(text)
    body = text[body_at:]
    if not body.strip():
        body, body_at = text, 0  # only front matter: then a search finds its words
    chunks, wrong_structure = _chunks(path, body, chunk_settings, 1 + text.count("\n", 0, body_at))
    prose = _without_code(body)
    listed_tags = [*_parse_tags(meta.get("tags")), *_parse_tags(meta.get("tag"))]
    tags, wrong_tags = _labels("tags", [*listed_tags, *_INLINE_TAG.findall(prose)])
    aliases, wrong_aliases = _labels("aliases", _parse_aliases(meta))
    first_heading = next((part.heading[0] for part in chunks if part.heading), "")
    title = _one_line(meta.get("title"))[:_MAX_TITLE].strip()
    note = Note(
        title=title or first_heading or PurePosixPath(path).stem,
        date=_parse_date(meta.get("date")) or date_in_path(path),
        tags=tags,
        aliases=aliases,
        links=_unique([*_wiki_links(prose), *_markdown_links(prose)]),
        meta=meta,
        chunks=chunks,
    )
    wrong = [wrong_fields, wrong_structure, wrong_tags, wrong_aliases]
    return note, "; ".join(filter(None, wrong))


def plain_note(path: str, text: str, chunk_settings: ChunkSettings) -> Note:
    """Return a note that has nothing but its text, its name and the date in its path."""
    chunks = _plain_chunks(text, chunk_settings, 1)
    return Note(PurePosixPath(path).stem, date_in_path(path), (), (), (), {}, chunks)


def _chunks(
    path: str, body: str, chunk_settings: ChunkSettings, first_line: int
) -> tuple[tuple[Chunk, ...], str]:
    """Return the chunks, and a message if the note is cut without regard to its structure."""
    try:
        chunks = chunk(
            body,
            size=chunk_settings.chunk_size,
            overlap=chunk_settings.chunk_overlap,
            first_line=first_line,
            rst=path.endswith(".rst"),
        )
    except TooManySectionsError as error:
        wrong = f"{error.what}; indexed as plain text"
        return _plain_chunks(body, chunk_settings, first_line), wrong
    return tuple(part for part in chunks if part.text.strip()), ""


def _plain_chunks(text: str, chunk_settings: ChunkSettings, first_line: int) -> tuple[Chunk, ...]:
    chunks = chunk(
        text,
        size=chunk_settings.chunk_size,
        overlap=chunk_settings.chunk_overlap,
        first_line=first_line,
        plain=True,
    )
    return tuple(part for part in chunks if part.text.strip())


def _labels(kind: str, labels: Iterable[str]) -> tuple[tuple[str, ...], str]:
    """Return each label once, and a message if some are left out because they are too many."""
    unique = _unique(labels)
    lengths = accumulate(map(len, unique))
    kept = tuple(label for label, end in zip(unique, lengths, strict=True) if end <= _MAX_LABELS)
    if len(kept) == len(unique):
        return kept, ""
    return kept, f"has {len(unique)} {kind}; only the first {len(kept)} are indexed as {kind}"


def _one_line(value: Any) -> str:
    return " ".join(str(value).split()) if value is not None else ""


def _parse_tags(value: Any) -> list[str]:
    """Return tags that are written as a list, or as words between commas or spaces."""
    if isinstance(value, str):
        value = value.replace(",", " ").split()
    if not isinstance(value, list):
        return []
    return [tag for item in value if item is not None and (tag := _one_line(item).lstrip("#"))]


def _parse_aliases(meta: Mapping[str, Any]) -> list[str]:
    value = meta.get("aliases", meta.get("alias"))
    listed = value if isinstance(value, list) else [value]
    return [name for item in listed if (name := _one_line(item))]


def _unique(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


def _wiki_links(prose: str) -> list[str]:
    return [link.strip() for link in _WIKI_LINK.findall(prose)]


def _markdown_links(prose: str) -> list[str]:
    """Return the paths that links such as ``[text](other.md#heading)`` name."""
    return [as_relative(link) for link in _MARKDOWN_LINK.findall(prose) if not _ADDRESS.match(link)]


def as_relative(link: str) -> str:
    """Return the path of a Markdown link, so that it tells itself from the name of a note.

    It begins with a dot unless it begins at the root of the workspace.
    """
    path = unquote(link.partition("#")[0])
    return path if path.startswith((".", "/")) else f"./{path}"


def _without_code(body: str) -> str:
    """Return `body` without code: in code a # is not a tag and [[ is not a link."""
    if not any(sign.search(body) for sign in (_INLINE_TAG, _WIKI_LINK, _MARKDOWN_LINK)):
        return ""
    return _INLINE_CODE.sub("", FENCED_BLOCK.sub("", body))


def _parse_date(value: Any) -> str | None:
    match = _ISO_DATE.match(str(value)) if value is not None else None
    return _valid_date(match.group().split("-")) if match else None


def date_in_path(path: str) -> str | None:
    """Return the last date in a path: ``memory/2026-02-10-standup.md``, ``2026/02/10.md``."""
    found = None
    for year, separator, month, day, month_run, day_run in _PATH_DATE.findall(path):
        parts = (year, month, day) if separator else (year, month_run, day_run)
        found = _valid_date(parts) or found
    return found


def _valid_date(parts: Iterable[str]) -> str | None:
    try:
        return dt.date(*map(int, parts)).isoformat()
    except ValueError:
        return None
