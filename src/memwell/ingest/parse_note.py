"""From the bytes of a file to a note: decode, front matter, tags, links, date, chunks."""

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
from memwell.model import Note

_FRONT_MATTER = re.compile(
    r"(---|\+\+\+)[ \t]*\r?\n(.*?)(?:(?<=\n)|\A)(?:\1|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.S
)
_FENCED = re.compile(r"^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1|\Z)", re.S | re.M)
_INLINE_CODE = re.compile(r"`[^`\n]+`")
_INLINE_TAG = re.compile(r"#(?<!\S#)(?=[\w/-]*[^\W\d])([\w/-]*\w)")
_WIKI_LINK = re.compile(r"\[\[([^\]\[|#\n]+)[^\]\[\n]*\]\]")
_PATH_DATE = re.compile(r"(?<!\d)(\d{4})(?:([-_/.])(\d{2})\2(\d{2})|(\d{2})(\d{2}))(?!\d)")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_BINARY_SHARE = 0.1


def decode(data: bytes) -> tuple[str, str]:
    """Return the text of a file, and what was wrong with its bytes ("" if nothing).

    UTF-8 with or without a byte order mark, UTF-16 with or without one; bytes that are none
    of it are replaced, never fatal. Raises `BinaryFileError` for binary data.
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
        wrong = f"not valid UTF-8 from byte {error.start} on, broken bytes replaced"
    if "\0" in text:
        text, wrong = text.replace("\0", "\ufffd"), wrong or "NUL characters replaced"
    return text, wrong


def _utf16_without_mark(data: bytes) -> str | None:
    """Guess UTF-16 from where the zero bytes of Latin text stand."""
    sample = data[:2000]
    pairs = len(sample) // 2
    if pairs < 4 or len(data) % 2:
        return None
    high, low = sample[0::2].count(0), sample[1::2].count(0)
    if low > pairs * 0.4 and high <= pairs * 0.05:
        return "utf-16-le"
    return "utf-16-be" if high > pairs * 0.4 and low <= pairs * 0.05 else None


def parse_note(path: str, text: str, recipe: ChunkSettings) -> tuple[Note, str]:
    """Return the note that `text` is, and what was wrong with its front matter ("" if nothing)."""
    meta, body_at, wrong = split_front_matter(text)
    body = text[body_at:]
    if not body.strip():
        body, body_at = text, 0  # nothing but front matter: that is what it can be found by
    chunks = chunk(
        body,
        size=recipe.chunk_size,
        overlap=recipe.chunk_overlap,
        first_line=1 + text.count("\n", 0, body_at),
        rst=path.endswith(".rst"),
    )
    prose = _prose(body)
    first_heading = next((part.heading[0] for part in chunks if part.heading), "")
    note = Note(
        title=_line(meta.get("title")) or first_heading or PurePosixPath(path).stem,
        date=_note_date(meta.get("date")) or date_in_path(path),
        tags=_unique(
            [*_as_list(meta.get("tags")), *_as_list(meta.get("tag")), *_INLINE_TAG.findall(prose)]
        ),
        aliases=_unique(_aliases(meta)),
        links=_unique(link.strip() for link in _WIKI_LINK.findall(prose)),
        meta=meta,
        chunks=tuple(part for part in chunks if part.text.strip()),
    )
    return note, wrong


def split_front_matter(text: str) -> tuple[dict[str, Any], int, str]:
    """Return the front matter's fields, where the body begins, and what was wrong (or "")."""
    match = _FRONT_MATTER.match(text)
    if not match:
        return {}, 0, ""
    fence, block = match.group(1), match.group(2)
    try:
        fields = _toml(block) if fence == "+++" else _yaml(block)
    except ValueError as error:
        fields = _lines_of_fields(block)
        return fields, match.end(), f"front matter is not valid ({error}), read line by line"
    if not isinstance(fields, dict):
        # A rule, some text and another rule look like front matter but hold no fields.
        return {}, (match.end() if fields is None else 0), ""
    return {str(key): _plain(value) for key, value in fields.items()}, match.end(), ""


def _yaml(block: str) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(block, Loader=loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(" ".join(str(getattr(error, "problem", None) or error).split())) from error


def _toml(block: str) -> Any:
    import tomllib

    return tomllib.loads(block)


def _lines_of_fields(block: str) -> dict[str, Any]:
    """Take ``key: value`` lines for what they say, when the block as a whole is not valid."""
    pairs = (line.partition(":") for line in block.splitlines() if line[:1].strip())
    return {key.strip(): value.strip().strip("\"'") for key, colon, value in pairs if colon}


def _plain(value: Any) -> Any:
    """Reduce a front matter value to what JSON holds."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(inner) for inner in value]
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return value
    return str(value)


def _line(value: Any) -> str:
    return " ".join(str(value).split()) if value is not None else ""


def _as_list(value: Any) -> list[str]:
    """Read tags written as a list, or as words between commas or spaces."""
    if isinstance(value, str):
        value = value.replace(",", " ").split()
    if not isinstance(value, list):
        return []
    return [tag for item in value if item is not None and (tag := _line(item).lstrip("#"))]


def _aliases(meta: Mapping[str, Any]) -> list[str]:
    value = meta.get("aliases", meta.get("alias"))
    listed = value if isinstance(value, list) else [value]
    return [name for item in listed if (name := _line(item))]


def _unique(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


def _prose(body: str) -> str:
    """Return `body` without code, where a # is no tag and [[ no link."""
    if not (_INLINE_TAG.search(body) or _WIKI_LINK.search(body)):
        return ""
    return _INLINE_CODE.sub("", _FENCED.sub("", body))


def _note_date(value: Any) -> str | None:
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
