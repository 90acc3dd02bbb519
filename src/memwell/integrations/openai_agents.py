"""OpenAI Agents SDK: a session that keeps its history and remembers facts beyond it.

The history is a file of JSON lines in the home, which only its owner can read. Facts that the user
states (see `extract.chat`) are remembered for all sessions.
"""

from __future__ import annotations

import asyncio
import json
import threading
from hashlib import blake2s
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.memory import SessionSettings
from agents.memory.session import SessionABC

from memwell.errors import RefusedError
from memwell.extract.chat import facts_in_message
from memwell.files import append_private, make_private_folder, private_file
from memwell.memory import Memory

if TYPE_CHECKING:
    from agents.items import TResponseInputItem


class MemwellSession(SessionABC):
    """The history of one session.

    Args:
        session_id: names the session.
        memory: remembers the facts of all sessions.
        capture: whether facts that the user states are remembered.

    """

    def __init__(self, session_id: str, memory: Memory, *, capture: bool = True) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings | None = None
        self.memory = memory
        self._capture = capture
        self._lock = threading.Lock()
        digest = blake2s(session_id.encode(), digest_size=12).hexdigest()
        folder = memory.home / "agents" / memory.agent / "openai_agents"
        self.file: Path = folder / f"{digest}.jsonl"

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the newest items, the oldest of them first."""
        items = await asyncio.to_thread(self._read)
        return items if limit is None else items[len(items) - min(limit, len(items)) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items to the history, and remember the facts in what the user said."""
        await asyncio.to_thread(self._add, items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove and return the newest item."""
        return await asyncio.to_thread(self._pop)

    async def clear_session(self) -> None:
        """Delete the history; remembered facts stay."""
        await asyncio.to_thread(lambda: self.file.unlink(missing_ok=True))

    async def recall_input(
        self, history: list[TResponseInputItem], new: list[TResponseInputItem]
    ) -> list[TResponseInputItem]:
        """Return the input of a run with the memories that fit it, for `session_input_callback`."""
        message = "\n".join(filter(None, map(_user_text, new)))
        recalled = await asyncio.to_thread(self.memory.recall, message) if message else None
        block: list[Any] = []
        if recalled and recalled.block:
            block = [{"role": "developer", "content": recalled.block}]
        return [*history, *block, *new]

    def _read(self) -> list[Any]:
        with self._lock:
            if not self.file.exists():
                return []
            lines = self.file.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def _add(self, items: list[Any]) -> None:
        lines = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items)
        with self._lock:
            make_private_folder(self.file.parent)
            append_private(self.file, lines)
        for item in items if self._capture else ():
            for fact in facts_in_message(_user_text(item)):
                try:
                    self.memory.remember(fact.text, category=fact.category, source="conversation")
                except RefusedError:
                    continue

    def _pop(self) -> Any:
        items = self._read()
        if not items:
            return None
        with self._lock, private_file(self.file) as part:
            lines = (json.dumps(item, ensure_ascii=False) + "\n" for item in items[:-1])
            part.write_text("".join(lines), encoding="utf-8")
        return items[-1]


def _user_text(item: Any) -> str:
    """Return the text of an item that the user wrote; "" for any other item."""
    if not isinstance(item, dict) or item.get("role") != "user":
        return ""
    content = item.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part.get("text", "") for part in parts if isinstance(part, dict))
