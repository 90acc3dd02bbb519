"""What a session was told lately: it is still in its prompt, and is not told again.

Kept by a digest, so that no text stays here when it is forgotten.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from memwell.files import read_state, write_state
from memwell.hashing import digest_of
from memwell.model import Hit

TOLD = "recalled.json"
"""The file, in an agent's folder."""


class RecallHistory:
    """What was told to one session within the last so many minutes."""

    def __init__(self, folder: Path, session: str, minutes: float) -> None:
        self._file = folder / TOLD
        self._session = session
        self._since = time.time() - 60 * minutes

    def unseen(self, hits: Iterable[Hit]) -> list[Hit]:
        """Return the hits that were not told; all of them where no session is named."""
        known = self._sessions().get(self._session, {}) if self._session else {}
        return [hit for hit in hits if _digest(hit) not in known]

    def record(self, hits: Iterable[Hit]) -> None:
        """Note that hits were told now."""
        if told := {_digest(hit): time.time() for hit in hits if self._session}:
            sessions = self._sessions()
            sessions[self._session] = {**sessions.get(self._session, {}), **told}
            write_state(self._file, sessions)

    def clear(self) -> None:
        """Note that nothing of what was told is known any more."""
        write_state(self._file, {**self._sessions(), self._session: {}})

    def _sessions(self) -> dict[str, dict[str, float]]:
        """Return what was told to each session, without what is long ago."""
        sessions: dict[str, Any] = read_state(self._file)
        try:
            lately = {
                session: {one: at for one, at in told.items() if at > self._since}
                for session, told in sessions.items()
            }
        except (AttributeError, TypeError):
            return {}
        return {session: told for session, told in lately.items() if told}


def _digest(hit: Hit) -> str:
    return digest_of(f"{hit.workspace}\n{hit.path}\n{hit.text}").hex()
