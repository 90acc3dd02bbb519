"""Keeps the notes of transcripts in step with the sessions of the tools that were added.

``transcripts.json`` records which tools and projects were added, and how far each session file was
read. A note is cut back to its recorded size before turns are appended to it: if a process was
killed between writing a note and recording that, no turn is there twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2s
from pathlib import Path
from typing import Any

from memwell.errors import MemwellError, NotFoundError, UnreadableDocumentError
from memwell.files import (
    hold_lock,
    make_private_folder,
    private_file,
    read_state,
    remedy_for,
    write_errors,
)
from memwell.model import Problem
from memwell.progress import Progress, no_progress
from memwell.sources.transcripts.conversation_notes import ConversationNote, group_turns
from memwell.sources.transcripts.tools import TOOLS, Tool
from memwell.sources.transcripts.turns import FileState


@dataclass(frozen=True, slots=True)
class TranscriptSource:
    """A tool whose sessions are read; with a project, only those that took place there."""

    tool: str
    project: str = ""

    def covers(self, project: str) -> bool:
        """Whether sessions of a project are read."""
        inside = Path(self.project) in (Path(project), *Path(project).parents)
        return not self.project or (bool(project) and inside)


@dataclass(slots=True)
class TranscriptReport:
    """The result of reading transcripts."""

    sessions: int = 0
    """Session files of the tools that were added."""
    read: int = 0
    """Those that had something new."""
    turns: int = 0
    problems: list[Problem] = field(default_factory=list)


class Transcripts:
    """The transcripts of one agent's memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder.with_suffix(".json")

    @property
    def sources(self) -> tuple[TranscriptSource, ...]:
        """The tools and projects that were added."""
        listed = read_state(self._file).get("sources")
        pairs = [one for one in listed if len(one) == 2] if isinstance(listed, list) else []
        return tuple(TranscriptSource(str(tool), str(project)) for tool, project in pairs)

    def add(self, tool: str, project: str = "") -> None:
        """Read the sessions of a tool from now on."""
        _tool_named(tool)
        with write_errors(self.folder):
            make_private_folder(self.folder)  # `memwell index` and watchers look for it
        with self._changing() as state:
            source = [tool, project]
            if source not in state.setdefault("sources", []):
                state["sources"].append(source)
                _forget_files(state, tool)  # what was read may have been of another project

    def remove(self, tool: str) -> int:
        """Read a tool no longer and delete its notes; return how many there were."""
        _tool_named(tool)
        with self._changing() as state:
            known = state.get("sources", [])
            state["sources"] = [source for source in known if source[0] != tool]
            if len(state["sources"]) == len(known):
                raise NotFoundError(
                    f"{tool} was not added", "`memwell transcripts` lists the tools that were"
                )
            _forget_files(state, tool)
            notes = sorted((self.folder / tool).rglob("*.md"))
            for note in notes:
                note.unlink()
        return len(notes)

    def sync(self, progress: Progress = no_progress) -> TranscriptReport:
        """Write the turns that are new to the notes."""
        with self._changing() as state:
            sources = [source for source in self.sources if source.tool in TOOLS]
            found = [
                (TOOLS[tool], file)
                for tool in dict.fromkeys(source.tool for source in sources)
                for file in TOOLS[tool].find()
            ]
            present = {str(file) for _, file in found}
            known = {key: one for key, one in _files(state).items() if key in present}
            owners = {note: key for key, one in known.items() for note in _read_state(one).notes}
            run = _SyncRun(self.folder, sources, known, owners)
            state["files"] = run.files
            for done, (tool, file) in enumerate(found):
                progress(done, len(found))
                run.sync_file(tool, file)
            progress(len(found), len(found))
        return run.report

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """Yield the state, which is written at the end, also if an error ends the change."""
        with hold_lock(self._file.with_suffix(".lock"), wait=True):
            state = read_state(self._file)
            before = json.dumps(state)
            try:
                yield state
            finally:
                if (after := json.dumps(state)) != before:
                    with private_file(self._file) as part:
                        part.write_text(after, encoding="utf-8")


@dataclass(slots=True)
class _SyncRun:
    """One reading of all session files."""

    folder: Path
    sources: list[TranscriptSource]
    files: dict[str, dict[str, Any]]
    """The state of each session file, as it is stored."""
    owners: dict[str, str]
    """The session file that each note belongs to."""
    report: TranscriptReport = field(default_factory=TranscriptReport)

    def sync_file(self, tool: Tool, file: Path) -> None:
        """Write the new turns of a session file; if it cannot be read, name it."""
        self.report.sessions += 1
        state = _read_state(self.files.get(str(file), {}))
        try:
            turns = [*tool.read(file, state)]
        except OSError as error:
            what = f"cannot be read: {error.strerror or error}"
            remedy = remedy_for(error) if error.errno else f"check that {tool.name} can open it"
            self.report.problems.append(Problem(str(file), what, remedy))
            return
        except UnreadableDocumentError as error:
            self.report.problems.append(Problem(str(file), error.what, error.remedy))
            return
        wanted = [turn for turn in turns if self._covers(tool.name, turn.project)]
        for note, text in group_turns(tool.name, wanted).items():
            if self.owners.setdefault(note.path, str(file)) != str(file):
                digest = blake2s(str(file).encode("utf-8", "replace"), digest_size=3)
                note = replace(note, copy=digest.hexdigest())
            size = state.notes.get(note.path, 0)
            state.notes[note.path] = append_turns(self.folder, note, text, size)
        self.report.read += bool(wanted)
        self.report.turns += len(wanted)
        self.files[str(file)] = {"tool": tool.name, **asdict(state)}

    def _covers(self, tool: str, project: str) -> bool:
        return any(source.tool == tool and source.covers(project) for source in self.sources)


def append_turns(folder: Path, note: ConversationNote, text: str, size: int) -> int:
    """Append turns to a note after its first `size` bytes; return its new size."""
    file = folder / note.path
    with write_errors(file):
        make_private_folder(file.parent)
        with open(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as stream:
            end = stream.seek(0, os.SEEK_END)
            stream.truncate(stream.seek(min(size, end)))
            if not min(size, end):
                stream.write(note.front_matter.encode("utf-8", "replace"))
            stream.write(text.encode("utf-8", "replace"))
            return stream.tell()


def _files(state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    files = state.get("files")
    listed = files.items() if isinstance(files, dict) else ()
    return {key: one for key, one in listed if isinstance(one, dict)}


def _read_state(known: dict[str, Any]) -> FileState:
    """Return the state of a session file; that of a new one if it cannot be understood."""
    values = {name: value for name, value in known.items() if name != "tool"}
    try:
        state = FileState(**values)
    except TypeError:  # another version of memwell wrote it
        return FileState()
    default = asdict(FileState())
    is_valid = all(isinstance(value, type(default[name])) for name, value in values.items())
    return state if is_valid else FileState()


def _forget_files(state: dict[str, Any], tool: str) -> None:
    """Let the session files of a tool be read from their beginning."""
    state["files"] = {key: one for key, one in _files(state).items() if one.get("tool") != tool}


def _tool_named(name: str) -> Tool:
    if name not in TOOLS:
        raise MemwellError(
            f"{name} is not a tool whose transcripts memwell reads",
            f"Choose one of {', '.join(TOOLS)}",
        )
    return TOOLS[name]
