"""Find the notes of a workspace: walk its folders, apply ignore files, visit no folder twice."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from memwell.config.sections import ScanSettings
from memwell.files import is_utf8, printable_path, remedy_for
from memwell.ingest.readers.formats import Format, find_format, selected_formats
from memwell.model import Problem
from memwell.store.contract.values import CONVENTIONAL

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SKIPPED_FOLDERS = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        "node_modules",
        "__pycache__",
        "site-packages",
        ".venv",
        "venv",
        ".tox",
        ".nox",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".obsidian",
        ".trash",
    }
)
IGNORE_FILES = (".gitignore", ".memwellignore")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which files of a workspace to index.

    `include` contains paths and globs relative to `root`; "." is the whole folder. `conventional`
    adds the files in which agents keep their memory.
    """

    root: Path
    conventional: bool = False
    include: tuple[str, ...] = (".",)
    max_bytes: int = 10_000_000
    max_document_bytes: int = 100_000_000
    formats: tuple[str, ...] = ScanSettings.formats

    def size_limit(self, path: str) -> tuple[int, str]:
        """Return the most bytes of a file, and the setting that says so."""
        found = find_format(path, self.formats)
        if found and found.is_packed:
            return self.max_document_bytes, "scan.max_document_mb"
        return self.max_bytes, "scan.max_file_mb"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that is a note, with its size and times."""

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    """When its content, name or mode changed last; unlike the mtime, no program can set it."""


@dataclass(slots=True)
class Scan:
    """The result of a walk: the notes, and the paths that could not be read."""

    files: dict[str, FoundFile] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    """Every folder that was read, relative to the root."""
    unreadable: list[str] = field(default_factory=list)
    """Paths that exist but could not be read: their notes stay in the index."""
    has_links: bool = False
    """Whether a note has another name, by which it can change without an event of its folder."""
    left_out: Counter[Format] = field(default_factory=Counter)
    """Files of formats that memwell could read, but are not selected or lack a package."""

    def may_hide(self, path: str) -> bool:
        """Whether `path` is in a part of the workspace that could not be read."""
        return any(
            path == hidden or path.startswith(f"{hidden}/") or not hidden
            for hidden in self.unreadable
        )


def stored_mtime(status: os.stat_result) -> int:
    """Return the mtime in ns as a store can hold it: file systems reach beyond the year 2262."""
    return min(status.st_mtime_ns, 2**63 - 1)


def scan(selection: Selection) -> Scan:
    """Walk the workspace and return the files that are notes."""
    return _Walk(selection).run()


class _Walk:
    """One walk over one workspace."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.root = str(selection.root)
        self.result = Scan()
        self.seen_folders: set[tuple[int, int]] = set()
        self.links: list[str] = []
        self.formats = selected_formats(selection.formats)

    def run(self) -> Scan:
        try:
            inherited = _inherited_rules(self.root, self.result.problems)
            if "." in self.selection.include:
                self._take_folder("", inherited)
                names = [name for name in self.selection.include if self._is_file(name)]
            else:
                self.result.folders.append("")
                conventional = CONVENTIONAL if self.selection.conventional else ()
                names = [*conventional, *self.selection.include]
            self._take_named(names, inherited)
        except OSError as error:  # of an ignore file
            self._mark_unreadable("", error)
        for link in self.links:
            self._take_link(link)
        self.result.has_links |= bool(self.links)
        return self.result

    def _is_file(self, name: str) -> bool:
        return name != "." and os.path.isfile(os.path.join(self.root, name))

    def _take_named(self, names: Sequence[str], inherited: list[_Rules]) -> None:
        """Take the files and folders that the selection names.

        A name overrides .gitignore (which often lists memory/), a glob does not. .memwellignore
        always applies.
        """
        git, memwell = (_read_rules(self.root, name, self.result.problems) for name in IGNORE_FILES)
        for name in names:
            name = os.path.expanduser(name.rstrip("/"))
            is_glob = any(mark in name for mark in "*?[")
            fixed = re.split(r"[*?\[]", name)[0].rpartition("/")[0] if is_glob else name
            full = os.path.join(self.root, fixed)
            self._note_folder_around(fixed)
            if not os.path.lexists(full):
                continue
            if not self._is_inside(full):
                remedy = f"run `memwell index {full}` to make it a workspace of its own"
                self._report(name, "is outside the workspace", remedy)
            elif is_glob:
                self._take_glob(name, fixed, [*inherited, *filter(None, (git, memwell))])
            else:
                self._take_name(name, [memwell] if memwell else [])

    def _note_folder_around(self, name: str) -> None:
        """Record the folder in which a name is, or would have to be created first."""
        folder = os.path.dirname(name)
        while folder and not os.path.isdir(os.path.join(self.root, folder)):
            folder = os.path.dirname(folder)
        if not os.path.isabs(folder) and folder not in self.result.folders:
            self.result.folders.append(folder)

    def _take_glob(self, glob: str, folder: str, rules: list[_Rules]) -> None:
        inner = _Walk(replace(self.selection, conventional=False, include=(".",)))
        inner._take_folder(folder, rules)
        matching = {
            path: file for path, file in inner.result.files.items() if _matches_glob(path, glob)
        }
        self.result.files |= matching
        self.result.unreadable += inner.result.unreadable
        self.result.folders += inner.result.folders
        self.result.has_links |= inner.result.has_links

    def _take_name(self, name: str, rules: list[_Rules]) -> None:
        full = os.path.join(self.root, name)
        if _is_ignored(full, os.path.isdir(full), rules):
            return
        if os.path.isdir(full):
            self._take_folder(name, rules)
        elif os.path.islink(full):
            self.links.append(name)
        else:
            self._take_file(name, None)

    def _take_folder(self, folder: str, rules: list[_Rules]) -> None:
        """Take the notes below `folder`, in the order of their names.

        Folders that are not finished wait on a stack: there may be more of them inside each other
        than Python allows calls.
        """
        stack = [self._entries(folder, rules)]
        while stack:
            if (entry := next(stack[-1], None)) is None:
                stack.pop()
            elif inner := self._take_entry(*entry):
                stack.append(self._entries(*inner))

    def _entries(
        self, folder: str, rules: list[_Rules]
    ) -> Iterator[tuple[str, os.DirEntry[str], list[_Rules]]]:
        """Yield the entries of a folder, unless it was visited already (a loop)."""
        full = os.path.join(self.root, folder) if folder else self.root
        try:
            status = os.stat(full)
            entries = sorted(os.scandir(full), key=lambda entry: entry.name)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                self._mark_unreadable(folder, error)
            return
        if (status.st_dev, status.st_ino) in self.seen_folders:
            return
        self.seen_folders.add((status.st_dev, status.st_ino))
        names = {entry.name for entry in entries}
        if folder and "pyvenv.cfg" in names:
            return
        if is_utf8(folder):  # the system's notifications take no other name
            self.result.folders.append(folder)
        files = [name for name in IGNORE_FILES if name in names]
        try:
            found = [_read_rules(full, name, self.result.problems) for name in files]
        except OSError as error:  # nobody knows which notes here are to be ignored
            self._mark_unreadable(folder, error)
            return
        rules = [*rules, *filter(None, found)]
        for entry in entries:
            yield (f"{folder}/{entry.name}" if folder else entry.name), entry, rules

    def _take_entry(
        self, path: str, entry: os.DirEntry[str], rules: list[_Rules]
    ) -> tuple[str, list[_Rules]] | None:
        """Take a file; return a folder, whose entries are to be taken next, and its rules."""
        found = find_format(entry.name, self.selection.formats)
        try:
            is_folder = entry.is_dir()
            is_link = entry.is_symlink()
        except OSError as error:
            self._mark_unreadable(path, error)
            return None
        if not (found or is_folder) or (is_folder and entry.name in SKIPPED_FOLDERS):
            return None
        if rules and _is_ignored(os.path.join(self.root, path), is_folder, rules):
            return None
        if is_folder:
            return (path, rules) if not is_link or self._is_inside(entry.path) else None
        if found and (found.suffixes[0] not in self.formats or not found.is_installed):
            self.result.left_out[found] += 1
        elif is_link:
            self.links.append(path)
        else:
            self._take_file(path, entry)
        return None

    def _take_file(self, path: str, entry: os.DirEntry[str] | None) -> None:
        try:
            status = entry.stat() if entry else os.stat(os.path.join(self.root, path))
        except FileNotFoundError:
            return
        except OSError as error:
            self._mark_unreadable(path, error)
            return
        if not stat.S_ISREG(status.st_mode):
            return
        if not is_utf8(path):
            self._report(printable_path(path), "its name is not valid UTF-8", "rename it")
            return
        found = find_format(path, self.selection.formats)
        if found and not found.is_installed:
            self.result.left_out[found] += 1
            return
        most_bytes, setting = self.selection.size_limit(path)
        if status.st_size > most_bytes:
            megabytes, limit = status.st_size / 1e6, most_bytes / 1e6
            what = f"skipped, {megabytes:.0f} MB is over the limit of {limit:g} MB"
            self._report(path, what, f"raise {setting} to index it")
            return
        self.result.has_links |= status.st_nlink > 1
        self.result.files[path] = FoundFile(
            path, status.st_size, stored_mtime(status), status.st_ctime_ns
        )

    def _take_link(self, path: str) -> None:
        """Take a link to a file inside the workspace, unless the file itself was taken."""
        real = os.path.realpath(os.path.join(self.root, path))
        if self._is_inside(real):
            target = os.path.relpath(real, os.path.realpath(self.root)).replace(os.sep, "/")
            if target not in self.result.files:
                self._take_file(path, None)

    def _is_inside(self, full: str) -> bool:
        real, root = os.path.realpath(full), os.path.realpath(self.root)
        return real == root or real.startswith(root.rstrip(os.sep) + os.sep)

    def _mark_unreadable(self, path: str, error: OSError) -> None:
        self.result.unreadable.append(path)
        reason = error.strerror or str(error)
        shown = printable_path(path or self.root)
        self._report(shown, f"cannot be read: {reason}", remedy_for(error))

    def _report(self, path: str, what: str, remedy: str) -> None:
        self.result.problems.append(Problem(path, what, remedy))


def _matches_glob(path: str, pattern: str) -> bool:
    """Whether a path matches a glob in which ** also matches zero folders."""
    return fnmatch(path, pattern) or fnmatch(path, pattern.replace("**/", ""))


@dataclass(frozen=True, slots=True)
class _Rules:
    """The patterns of one ignore file, and the folder that they are relative to."""

    base: str
    spec: GitIgnoreSpec


def _is_ignored(full: str, is_folder: bool, rules: list[_Rules]) -> bool:
    """Whether the innermost rule that matches a path excludes it."""
    for rule in reversed(rules):
        relative = os.path.relpath(full, rule.base).replace(os.sep, "/")
        verdict = rule.spec.check_file(relative + "/" if is_folder else relative)
        if verdict.include is not None:
            return verdict.include
    return False


def _inherited_rules(root: str, problems: list[Problem]) -> list[_Rules]:
    """Return the ignore rules of the folders above `root`, up to the top of its repository."""
    folders = [Path(root), *Path(root).parents]
    top = next((n for n, folder in enumerate(folders[:-1]) if os.path.exists(folder / ".git")), 0)
    above = reversed(folders[1 : top + 1])
    readable = [str(folder) for folder in above if os.access(folder / ".gitignore", os.R_OK)]
    return [*filter(None, (_read_rules(folder, ".gitignore", problems) for folder in readable))]


def _read_rules(folder: str, name: str, problems: list[Problem]) -> _Rules | None:
    """Return the rules of an ignore file, if it exists; raise `OSError` if it cannot be read."""
    from pathspec import GitIgnoreSpec

    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    patterns = []
    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
            patterns.append(line)
        except ValueError as error:
            where = os.path.join(folder, name)
            problems.append(
                Problem(where, f"pattern {line!r} is not valid: {error}", "correct the line")
            )
    return _Rules(folder, GitIgnoreSpec.from_lines(patterns)) if patterns else None


def find_workspace(start: Path) -> Path | None:
    """Return `start` or its nearest parent that is an agent's workspace, if any."""
    for folder in (start, *start.parents):
        # Path.exists would raise an error in a folder that this user cannot read.
        inside = f"{folder}{os.sep}"
        if os.path.isfile(f"{inside}memwell.toml") or any(
            os.path.exists(f"{inside}{name}") for name in CONVENTIONAL
        ):
            return folder
    return None
