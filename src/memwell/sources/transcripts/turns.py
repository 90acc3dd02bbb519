"""A turn of a conversation, and how the sessions of a tool are found and read."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import apsw

from memwell.errors import UnreadableDocumentError
from memwell.facts.guard import RECALL_BEGIN, RECALL_END

USER, ASSISTANT = "user", "assistant"
_INSERTED = re.compile(
    rf"<(system-reminder|environment_context|user_instructions|permissions instructions)>.*?</\1>"
    rf"|{re.escape(RECALL_BEGIN)}.*?{re.escape(RECALL_END)}",
    re.S,
)


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation."""

    speaker: str
    text: str
    at: dt.datetime | None
    session: str
    project: str
    """The folder that the conversation was about; "" if the tool does not say."""


@dataclass(slots=True)
class FileState:
    """How far a session file was read, and what its first lines said."""

    offset: int = 0
    """Bytes, or another measure of a tool."""
    session: str = ""
    project: str = ""
    seen: list[str] = field(default_factory=list)
    """The ids of the last messages, for tools that write a message again when it grows; the number
    of the last event of each session, for OpenClaw."""
    notes: dict[str, int] = field(default_factory=dict)
    """The notes that its turns were written to, each with its size."""

    def begin_again(self) -> None:
        """Forget how far the file was read: its notes are written from their beginning."""
        self.offset, self.seen, self.notes = 0, [], {}


def tool_folder(variable: str, *parts: str) -> Path:
    """Return the folder of a tool: an environment variable names it, else it is in the home."""
    named = os.environ.get(variable, "")
    return Path(named).expanduser() if named else Path.home().joinpath(*parts)


@contextmanager
def open_database(file: Path) -> Iterator[apsw.Connection]:
    """Open a tool's database to read it; an error is an `OSError`, as for other files."""
    try:
        with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as database:
            yield database
    except apsw.Error as error:
        raise OSError(str(error)) from error


ParseLine = Callable[[dict[str, Any], FileState], Iterator[Turn]]


def read_new_lines(file: Path, state: FileState, parse: ParseLine) -> Iterator[Turn]:
    """Yield the turns of the lines that were added since the last time.

    A file that became shorter is read from its beginning.
    """
    with file.open("rb") as stream:
        if file.stat().st_size < state.offset:
            state.begin_again()
        yield from _read_lines(stream, state, parse)


def read_compressed(file: Path, state: FileState, parse: ParseLine) -> Iterator[Turn]:
    """Yield the turns of a session that was compressed after it had ended, as `read_new_lines`.

    It is read again only if its size has changed.
    """
    size = f"{file.stat().st_size} compressed bytes"
    if state.seen == [size]:
        return
    zstd = _import_zstandard()
    if zstd is None:
        if state.offset:
            return  # it was read before it was compressed
        raise UnreadableDocumentError(
            f"{file.name} is compressed, and the package backports.zstd is not installed",
            "pip install 'memwell[transcripts]'",
        )
    try:
        with zstd.open(file) as stream:
            yield from _read_lines(stream, state, parse)
    except (zstd.ZstdError, EOFError) as error:
        raise UnreadableDocumentError(
            f"{file.name} is damaged ({error})", "Decompress it with zstd, or delete it"
        ) from error
    state.seen = [size]


def _import_zstandard() -> Any:
    """Return the module that reads the format, which Python has from 3.14 on; None without it."""
    for name in ("compression.zstd", "backports.zstd"):
        with suppress(ImportError):
            return import_module(name)
    return None


def _read_lines(stream: BinaryIO, state: FileState, parse: ParseLine) -> Iterator[Turn]:
    """Yield the turns of the lines from the state's offset on.

    An incomplete last line is still being written, and waits for the next time. A line that is
    not JSON is passed over.
    """
    stream.seek(state.offset)
    for raw in stream:
        if not raw.endswith(b"\n"):
            return
        state.offset += len(raw)
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict):
            yield from parse(line, state)


def new_turn(speaker: str, text: str, at: Any, state: FileState) -> Iterator[Turn]:
    """Yield a turn, unless nothing of its text was written by a person or a model."""
    text = _INSERTED.sub("", text).strip()
    if text:
        yield Turn(speaker, text, parse_time(at), state.session, state.project)


def join_texts(content: Any, kinds: tuple[str, ...] = ("text",)) -> str:
    """Return the text of a message that is a string, or a list of blocks of some kinds."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [
        block.get("text")
        for block in blocks
        if isinstance(block, dict) and block.get("type", kinds[0]) in kinds
    ]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def parse_time(value: Any) -> dt.datetime | None:
    """Return a time that is written as ISO 8601, or as seconds or milliseconds since 1970."""
    try:
        if isinstance(value, str):
            at = dt.datetime.fromisoformat(value)
            return at if at.tzinfo else at.replace(tzinfo=dt.UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if value > 1e11 else value
            return dt.datetime.fromtimestamp(seconds, dt.UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def to_object(data: Any) -> dict[str, Any]:
    """Return the object that a JSON text is; an empty one if it is something else."""
    try:
        value = json.loads(data)
    except (ValueError, TypeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def text_of(value: Any) -> str:
    """Return a value if it is a string, else ""."""
    return value if isinstance(value, str) else ""
