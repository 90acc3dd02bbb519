"""Keeps the notes of transcripts in step with the sessions of the tools that were added.

``transcripts.json`` records which tools and projects were added, and how far each session file was
read. A note is cut back to its recorded size before turns are appended to it: if a process was
killed between writing a note and recording that, no turn is there twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memwell.errors import MemwellError, NotFoundError
from memwell.files import (
    hold_lock,
    make_private_folder,
    read_state,
    write_errors,
    write_state,
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
        listed = read_state(self._file).get("sources", [])
        return tuple(TranscriptSource(*map(str, source)) for source in listed)

    def add(self, tool: str, project: str = "") -> None:
        """Read the sessions of a tool from now on."""
        _tool_named(tool)
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
        report = TranscriptReport()
        with self._changing() as state:
            found = [
                (tool, file)
                for tool in dict.fromkeys(source.tool for source in self.sources)
                for file in TOOLS[tool].find()
            ]
            for done, (tool, file) in enumerate(found):
                progress(done, len(found))
                self._sync_file(TOOLS[tool], file, state, report)
            progress(len(found), len(found))
            present = {str(file) for _, file in found}
            files = state.get("files", {})
            state["files"] = {key: one for key, one in files.items() if key in present}
        return report

    def _sync_file(
        self, tool: Tool, file: Path, state: dict[str, Any], report: TranscriptReport
    ) -> None:
        report.sessions += 1
        files = state.setdefault("files", {})
        known = files.get(str(file), {})
        before = FileState(**{key: value for key, value in known.items() if key != "tool"})
        sources = [source for source in self.sources if source.tool == tool.name]
        after = FileState(**asdict(before))
        try:
            turns = [*tool.read(file, after)]
        except OSError as error:
            what = f"cannot be read: {error.strerror or error}"
            report.problems.append(Problem(str(file), what))
            return
        wanted = [turn for turn in turns if any(source.covers(turn.project) for source in sources)]
        for note, text in group_turns(tool.name, wanted).items():
            size = after.notes.get(note.path, 0)
            after.notes[note.path] = append_turns(self.folder, note, text, size)
        report.read += bool(wanted)
        report.turns += len(wanted)
        files[str(file)] = {"tool": tool.name, **asdict(after)}

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """Yield the state, which is written at the end, also if an error ends the change."""
        with hold_lock(self._file.with_suffix(".lock"), wait=True):
            state = read_state(self._file)
            try:
                yield state
            finally:
                write_state(self._file, state)


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


def _forget_files(state: dict[str, Any], tool: str) -> None:
    """Let the session files of a tool be read from their beginning."""
    files = state.get("files", {})
    state["files"] = {key: one for key, one in files.items() if one["tool"] != tool}


def _tool_named(name: str) -> Tool:
    if name not in TOOLS:
        raise MemwellError(
            f"{name} is not a tool whose transcripts memwell reads",
            f"Choose one of {', '.join(TOOLS)}",
        )
    return TOOLS[name]
