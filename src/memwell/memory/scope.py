"""The scope of one call: resolved once, frozen, and handed down to everything that takes part."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from memwell.config.settings import Settings
from memwell.model import Viewer
from memwell.store.contract.values import Workspace


@dataclass(frozen=True, slots=True)
class Scope:
    """The settings, workspaces, viewer and time that one call works with."""

    settings: Settings
    workspace: Workspace | None
    """The workspace around the folder that the memory was opened in."""
    workspaces: tuple[Workspace, ...]
    """The workspaces that the call covers: that one, or all of them."""
    viewer: Viewer
    now: dt.datetime
    load: Callable[[Path], Settings]
    """Reads the settings of a workspace."""
    transcripts: str = ""
    """The root of the workspace that has the transcripts of agents."""

    @property
    def today(self) -> dt.date:
        """The day of the call; notes are old by it."""
        return self.now.date()

    @property
    def timestamp(self) -> str:
        """The time of the call as facts store it."""
        return self.now.astimezone(dt.UTC).isoformat(timespec="milliseconds")

    def settings_for(self, workspace: Workspace) -> Settings:
        """Return the settings of a workspace; only another one's are read from its file."""
        if workspace == self.workspace:
            return self.settings
        return self.load(workspace.path)


def utc_now() -> str:
    """Return the present time in UTC, to the second, as an index stores it."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
