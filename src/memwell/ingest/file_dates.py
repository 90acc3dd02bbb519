"""The dates of files whose notes have none: that of their last commit, otherwise their mtime.

A checkout gives every file the time of the checkout, so that git's date is better where there is
one. A file that git does not track, or that differs from its last commit, has its mtime.
"""

from __future__ import annotations

import datetime as dt
import subprocess
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

_TIMEOUT = 60
_COMMIT = "commit "


class FileDates:
    """The dates of the files of one workspace; git is asked once, at the first file."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def date(self, path: str, mtime_ns: int) -> str | None:
        """Return the ISO date of a file; None if its mtime is not in a year that Python knows."""
        if committed := self._committed.get(path):
            return committed
        try:
            modified = dt.datetime.fromtimestamp(mtime_ns / 1e9, dt.UTC).astimezone()
        except (ValueError, OverflowError, OSError):
            return None
        return modified.date().isoformat()

    @cached_property
    def _committed(self) -> Mapping[str, str]:
        """The date of the last commit of each file that is as it was committed."""
        log = self._git("log", "--relative", "--name-only", f"--format={_COMMIT}%cs", "--", ".")
        dates: dict[str, str] = {}
        date = ""
        for entry in log.replace("\n", "\0").split("\0"):
            if entry.startswith(_COMMIT):
                date = entry.removeprefix(_COMMIT)
            elif entry:
                dates.setdefault(entry, date)
        for changed in self._git("diff", "--relative", "--name-only", "HEAD").split("\0"):
            dates.pop(changed, None)
        return dates

    def _git(self, command: str, *arguments: str) -> str:
        """Return the output of git; "" without git, or outside a repository."""
        try:
            result = subprocess.run(
                ["git", "-C", str(self._root), command, "-z", *arguments],
                capture_output=True,
                timeout=_TIMEOUT,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        return result.stdout.decode("utf-8", "surrogateescape")
