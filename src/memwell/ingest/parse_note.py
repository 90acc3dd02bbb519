"""The bytes of a file become a note: decode, front matter, tags, links, date, chunks."""

from __future__ import annotations

import codecs
import datetime as dt
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from memwell.errors import BinaryFileError
from memwell.ingest.chunk import chunk
from memwell.ingest.chunk_settings import ChunkSettings
from memwell.ingest.front_matter import split_front_matter
from memwell.ingest.markdown import FENCED_BLOCK
from memwell.model import Note

_INLINE_CODE = re.compile(r"`[^`\n]+`")
_INLINE_TAG = re.compile(r"#(?<!\S#)(?=[\w/-]*[^\W\d])([\w/-]*\w)")
_WIKI_LINK = re.compile(r"\[\[([^\]\[|#\n]+)[^\]\[\n]*\]\]")
_PATH_DATE = re.compile(r"(?<!\d)(\d{4})(?:([-_/.])(\d{2})\2(\d{2})|(\d{2})(\d{2}))(?!\d)")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_BINARY_SHARE = 0.1


def decode(data: bytes) -> tuple[str, str]:
    """Return the text of a file, and a message about invalid bytes ("" if there are none).

    The file may be UTF-8 or UTF-16, with or without a byte order mark. Invalid bytes are
    replaced. Raises `BinaryFileError` for binary data.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace"), ""
    if encoding := _utf16_without_mark(data):
        return data.decode(encoding, errors="replace"), ""
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
    """Return the note, and a message about invalid front matter ("" if it is valid)."""
    meta, body_at, wrong = split_front_matter(text)
    body = text[body_at:]
    if not body.strip():
        body, body_at = text, 0  # only front matter: then a search finds its words
    chunks = chunk(
        body,
        size=chunk_settings.chunk_size,
        overlap=chunk_settings.chunk_overlap,
        first_line=1 + text.count("\n", 0, body_at),
        rst=path.endswith(".rst"),
    )
    prose = _without_code(body)
    listed_tags = [*_parse_tags(meta.get("tags")), *_parse_tags(meta.get("tag"))]
    first_heading = next((part.heading[0] for part in chunks if part.heading), "")
    note = Note(
        title=_one_line(meta.get("title")) or first_heading or PurePosixPath(path).stem,
        date=_parse_date(meta.get("date")) or date_in_path(path),
        tags=_unique([*listed_tags, *_INLINE_TAG.findall(prose)]),
        aliases=_unique(_parse_aliases(meta)),
        links=_unique(link.strip() for link in _WIKI_LINK.findall(prose)),
        meta=meta,
        chunks=tuple(part for part in chunks if part.text.strip()),
    )
    return note, wrong


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


def _without_code(body: str) -> str:
    """Return `body` without code: in code a # is not a tag and [[ is not a link."""
    if not (_INLINE_TAG.search(body) or _WIKI_LINK.search(body)):
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
