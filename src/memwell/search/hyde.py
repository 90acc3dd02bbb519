"""HyDE: a search by the answer that a language model makes up for a message.

What people ask and what stands in their notes are often worded differently; an answer, though
made up, is worded like the notes. What it finds is added behind what the message itself finds,
or takes its place in the meaning leg (``search.hyde_mode``). Whatever goes wrong, the message
is searched for as it is. Answers are kept, so that none is asked for twice; a model that fails
is left alone for a while, so that its silence is waited for once and not each time.

https://arxiv.org/abs/2212.10496
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2s
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from memwell.errors import MemwellError
from memwell.model import HYPOTHETICAL, Hit, SearchResult

if TYPE_CHECKING:
    from memwell.llm.base import Chat
    from memwell.llm.budget import Budget
    from memwell.llm.registry import Settings
    from memwell.store.contract.index import Index

ANSWERS = "hyde.json"
"""The file of answers, in an agent's folder."""
LONGEST_WAIT = 8.0
"""Seconds: somebody waits for what is recalled."""
MOST_TOKENS = 600
_MOST_ANSWERS = 1000
_LOCK_MS = 100
"""Somebody waits: what cannot be noted within that time is not."""
REPLACE = "replace"


class MemoryPort(Protocol):
    """What of a memory is needed."""

    notices: list[str]

    @property
    def settings(self) -> Settings:
        """The settings that hold."""

    @property
    def store_index(self) -> Index:
        """Where providers that failed are noted."""

    @property
    def search(self) -> Callable[..., SearchResult]:
        """Search for a query, in a `mode` and by the meaning of a `passage` if they are given."""


def search_with_hyde(
    message: str, memory: MemoryPort, folder: Path, budget: Budget | None = None, **wanted: Any
) -> SearchResult:
    """Search for a message, and by an answer to it where the settings say so.

    Answers are kept in `folder`, an agent's. A `budget` is that of several searches together.
    What is `wanted` besides goes to the search as it is.
    """
    values = memory.settings.values
    k = values["recall.k"]
    on = values["search.hyde_enabled"] and _has_vectors(values)
    passage = _passage(message, memory, folder, budget) if on else ""
    if passage and values["search.hyde_mode"] == REPLACE:
        return memory.search(message, k=k, passage=passage, **wanted)
    plain = memory.search(message, k=k, **wanted)
    if not passage:
        return plain
    more = memory.search(message, k=k, mode="meaning", passage=passage, **wanted)
    legs = [leg for leg in more.legs if leg.answered and leg.detail == HYPOTHETICAL]
    if not legs:
        return plain
    hits = (*plain.hits, *_other_chats(more.hits, plain.hits))
    return replace(plain, hits=hits, legs=(*plain.legs, *legs))


def describe_model(values: Mapping[str, Any]) -> str:
    """Return the name of the model that makes answers up, or say what is missing for them."""
    if not _has_vectors(values):
        raise MemwellError(
            "A hypothetical answer is searched by its vector, and none is made here",
            "Set embedding.chain to minilm and search.mode to hybrid",
        )
    chat = _chat(values)
    if chat is None:
        raise MemwellError(
            "No language model is named that could make up an answer",
            "Set llm.default, or search.hyde_model, to openai:MODEL or gemini:MODEL",
        )
    return f"{chat.name}:{chat.model}"


def _has_vectors(values: Mapping[str, Any]) -> bool:
    return bool(values["embedding.chain"] and values["search.mode"] != "words")


def _chat(values: Mapping[str, Any]) -> Chat | None:
    from memwell.llm.registry import model_for

    wait = min(values["llm.timeout"], LONGEST_WAIT)
    return model_for(values, "search.hyde_model", timeout=wait, total=wait)


def _other_chats(found: Iterable[Hit], known: Iterable[Hit]) -> list[Hit]:
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


def _passage(message: str, memory: MemoryPort, folder: Path, budget: Budget | None) -> str:
    """Return an answer to a message, kept or new; "" if there is none to be had."""
    from memwell.errors import LlmError
    from memwell.llm.log import budget_of

    def say(notice: str) -> None:
        if notice not in memory.notices:
            memory.notices.append(notice)

    values = memory.settings.values
    try:
        if chat := _chat(values):
            within = budget or budget_of(values, say)
            return _ask_model(message, within.wrap(chat), folder, memory.store_index)
        say("search.hyde_enabled is on, but no language model is named: set llm.default")
    except LlmError as error:
        say(f"Searched without a hypothetical answer: {error}")
    return ""


def _ask_model(message: str, chat: Chat, folder: Path, index: Index) -> str:
    from memwell.facts.guard import redact
    from memwell.state_files import read_scratch, write_scratch

    message = redact(message)  # a key is nothing to search by
    asked = json.dumps([chat.name, chat.model, message]).encode()
    key = blake2s(asked, digest_size=16).hexdigest()
    kept = read_scratch(folder / ANSWERS)
    if isinstance(answer := kept.get(key), str):
        return answer
    answer = _hypothetical_answer(message, chat, index)
    if answer:
        write_scratch(folder / ANSWERS, dict([*kept.items(), (key, answer)][-_MOST_ANSWERS:]))
    return answer


def _hypothetical_answer(message: str, chat: Chat, index: Index) -> str:
    """Ask a model that is not left alone; one that fails will be, by every process."""
    from memwell.errors import BudgetSpent, LlmError, LlmFailing, LlmRefused
    from memwell.llm.prompts import hyde_prompt

    name, rest = f"{chat.name}:{chat.model} at {chat.address}", None
    with suppress(MemwellError), index.reading() as reader:
        rest = reader.cooldowns.get(name)
    if rest and rest.is_active(time.time()):
        resting = f"{name} is left alone for now: {rest.reason}"
        raise LlmFailing(resting, "`memwell index` has it asked again at once")
    try:
        answer = chat.complete(*hyde_prompt(message), max_tokens=MOST_TOKENS).text.strip()
    except (BudgetSpent, LlmRefused):  # which is not to say that it is down
        raise
    except LlmError as error:
        with suppress(MemwellError), index.writing_cooldowns(_LOCK_MS) as rests:
            asked = getattr(error, "retry_after", None) or 0.0
            rests.record_failure(name, error.what, time.time(), at_least=asked)
        alone = f"{error.what}; it is left alone for a while"
        raise LlmFailing(alone, error.remedy) from None
    if rest:
        with suppress(MemwellError), index.writing_cooldowns(_LOCK_MS) as rests:
            rests.clear(name)
    return answer
