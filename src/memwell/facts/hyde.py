"""HyDE: a search by the answer that a language model makes up for a message.

What people ask and what stands in their notes are often worded differently; an answer, though
made up, is worded like the notes. What it finds is added behind what the message itself finds,
or takes its place in the meaning leg (``search.hyde_mode``). Whatever goes wrong, the message
is searched for as it is. Answers are kept, so that none is asked for twice.

https://arxiv.org/abs/2212.10496
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import blake2s
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from memwell.model import HYPOTHETICAL, Hit, SearchResult

if TYPE_CHECKING:
    from memwell.llm.base import Chat

ANSWERS = "hyde.json"
"""The file of answers, in an agent's folder."""
LONGEST_WAIT = 8.0
"""Seconds: somebody waits for what is recalled."""
MOST_TOKENS = 600
_MOST_ANSWERS = 200
REPLACE = "replace"


class Settings(Protocol):
    """The settings that hold."""

    @property
    def values(self) -> Mapping[str, Any]:
        """Each by its name."""


class Searching(Protocol):
    """What of a memory is needed."""

    notices: list[str]

    @property
    def settings(self) -> Settings:
        """The settings that hold."""

    def search(
        self, query: str, *, k: int | None = None, mode: str | None = None, passage: str = ""
    ) -> SearchResult:
        """Search, by the meaning of a passage if one is given."""


def searched(message: str, memory: Searching, folder: Path) -> SearchResult:
    """Search for a message, and by an answer to it where the settings say so."""
    values = memory.settings.values
    k = values["recall.k"]
    passage = _passage(message, memory, folder) if _is_on(values) else ""
    if passage and values["search.hyde_mode"] == REPLACE:
        return memory.search(message, k=k, passage=passage)
    plain = memory.search(message, k=k)
    if not passage:
        return plain
    more = memory.search(message, k=k, mode="meaning", passage=passage)
    if not any(leg.answered and leg.detail == HYPOTHETICAL for leg in more.legs):
        return plain
    return replace(plain, hits=(*plain.hits, *_others(more.hits, plain.hits)))


def _is_on(values: Mapping[str, Any]) -> bool:
    """Whether an answer is of any use: without vectors it is not."""
    by_meaning = values["embedding.chain"] and values["search.mode"] != "words"
    return bool(values["search.hyde_enabled"] and by_meaning)


def _others(found: Iterable[Hit], known: Iterable[Hit]) -> list[Hit]:
    """Return the hits that show other lines than those that are known."""
    shown = [*known]
    texts = {hit.text for hit in shown}
    return [
        hit
        for hit in found
        if hit.text not in texts and not any(_overlap(hit, other) for other in shown)
    ]


def _overlap(one: Hit, other: Hit) -> bool:
    same = (one.workspace, one.path) == (other.workspace, other.path)
    return same and one.start_line <= other.end_line and other.start_line <= one.end_line


def _passage(message: str, memory: Searching, folder: Path) -> str:
    """Return an answer to a message, kept or new; "" if there is none to be had."""
    from memwell.llm.base import LlmError
    from memwell.llm.models import chosen

    values = memory.settings.values
    wait = min(values["llm.timeout"], LONGEST_WAIT)
    try:
        chat = chosen(values, "search.hyde_model", timeout=wait, total=wait)
        if chat is None:
            memory.notices.append(
                "search.hyde_enabled is on, but no language model is named: set llm.default"
            )
            return ""
        return _answered(message, chat, folder / ANSWERS)
    except LlmError as error:
        memory.notices.append(f"Searched without a hypothetical answer: {error}")
        return ""


def _answered(message: str, chat: Chat, file: Path) -> str:
    from memwell.facts.guard import redacted
    from memwell.llm.prompts import hyde_prompt

    message = redacted(message)  # a key is nothing to search by
    asked = json.dumps([chat.name, chat.model, message]).encode()
    key = blake2s(asked, digest_size=16).hexdigest()
    kept = _read(file)
    if key not in kept:
        answer = chat.complete(*hyde_prompt(message), max_tokens=MOST_TOKENS).text.strip()
        if not answer:
            return ""
        kept[key] = answer
        _write(file, dict([*kept.items()][-_MOST_ANSWERS:]))
    return kept[key]


def _read(file: Path) -> dict[str, str]:
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    good = isinstance(kept, dict) and all(isinstance(answer, str) for answer in kept.values())
    return kept if good else {}


def _write(file: Path, kept: Mapping[str, str]) -> None:
    """Write the answers, for the owner's eyes; if that fails they are asked for again."""
    part = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        part.touch(mode=0o600)
        part.write_text(json.dumps(kept, ensure_ascii=False), encoding="utf-8")
        part.replace(file)
    except OSError:
        part.unlink(missing_ok=True)
