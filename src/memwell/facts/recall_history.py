"""The passages that a session recalled recently: they are still in its prompt.

Passages are stored as digests, so that a forgotten text leaves no copy here.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from memwell.files import digest_of, read_state, write_state
from memwell.model import Hit

_FILE_NAME = "recalled.json"
"""In an agent's folder."""


class RecallHistory:
    """The passages that one session recalled within the last so many minutes."""

    def __init__(self, folder: Path, session: str, minutes: float) -> None:
        self._file = folder / _FILE_NAME
        self._session = session
        self._since = time.time() - 60 * minutes

    def unseen(self, hits: Iterable[Hit]) -> list[Hit]:
        """Return the hits that the session has not recalled; all of them without a session."""
        known = self._sessions().get(self._session, {}) if self._session else {}
        return [hit for hit in hits if _digest(hit) not in known]

    def record(self, hits: Iterable[Hit]) -> None:
        """Record that the session recalls these hits now."""
        if recalled := {_digest(hit): time.time() for hit in hits if self._session}:
            sessions = self._sessions()
            sessions[self._session] = {**sessions.get(self._session, {}), **recalled}
            write_state(self._file, sessions)

    def clear(self) -> None:
        """Forget the history of the session: its prompt was cleared."""
        write_state(self._file, {**self._sessions(), self._session: {}})

    def _sessions(self) -> dict[str, dict[str, float]]:
        """Return the recent passages of each session: digest and time."""
        sessions: dict[str, Any] = read_state(self._file)
        try:
            recent = {
                session: {digest: at for digest, at in recalled.items() if at > self._since}
                for session, recalled in sessions.items()
            }
        except (AttributeError, TypeError):  # the file is damaged
            return {}
        return {session: recalled for session, recalled in recent.items() if recalled}


def _digest(hit: Hit) -> str:
    return digest_of(f"{hit.workspace}\n{hit.path}\n{hit.text}").hex()
