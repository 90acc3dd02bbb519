"""HyDE: search by the hypothetical answer that a language model writes for a message.

Questions and notes are often worded differently. A hypothetical answer is worded like the notes.
Its hits follow those of the message itself, or its embedding replaces the message's in the vector
search (``search.hyde_mode``). If anything fails, only the message is searched. Answers are cached,
and a model that fails gets a cooldown, so that its time-out is waited for only once.

https://arxiv.org/abs/2212.10496
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2s
from pathlib import Path
from typing import TYPE_CHECKING

from memwell.errors import MemwellError
from memwell.model import HYPOTHETICAL, Hit, SearchResult
from memwell.search.fuse import MEANING, WORDS

if TYPE_CHECKING:
    from memwell.config.settings import Settings
    from memwell.llm.base import Chat
    from memwell.llm.budget import Budget
    from memwell.store.contract.index import Index

ANSWERS = "hyde.json"
"""The file of answers, in an agent's folder."""
LONGEST_WAIT = 8.0
"""Seconds: a person waits for the recall."""
MOST_TOKENS = 600
_MOST_ANSWERS = 1000
_LOCK_MS = 100
"""A person waits: a cooldown that cannot be recorded within this time is not recorded."""
REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class HydeSearch:
    """One search of those that answer a message: plain, or by the embedding of a passage."""

    passage: str = ""
    mode: str | None = None


def plan_searches(passage: str, hyde_mode: str) -> tuple[HydeSearch, ...]:
    """Return the searches to run for a message; `passage` is its hypothetical answer, or ""."""
    if not passage:
        return (HydeSearch(),)
    if hyde_mode == REPLACE:
        return (HydeSearch(passage),)
    return (HydeSearch(), HydeSearch(passage, MEANING))


def merge_results(results: Sequence[SearchResult]) -> SearchResult:
    """Merge the results of the planned searches: hits of the second follow those of the first."""
    plain, *others = results
    for more in others:
        legs = [leg for leg in more.legs if leg.answered and leg.detail == HYPOTHETICAL]
        if legs:
            hits = (*plain.hits, *_new_hits(more.hits, plain.hits))
            plain = replace(plain, hits=hits, legs=(*plain.legs, *legs))
    return plain


def describe_model(settings: Settings) -> str:
    """Return the name of the model that writes answers; an error says what is missing."""
    if not _has_vectors(settings):
        raise MemwellError(
            "HyDE searches by embedding, and embeddings are switched off",
            "Set embedding.chain to memwell and search.mode to hybrid",
        )
    chat = _chat(settings)
    if chat is None:
        raise MemwellError(
            "No language model is named that could write a hypothetical answer",
            "Set llm.default, or search.hyde_model, to openai:MODEL or gemini:MODEL",
        )
    return f"{chat.name}:{chat.model}"


def is_enabled(settings: Settings) -> bool:
    """Whether the settings ask for hypothetical answers and vectors can be searched by them."""
    return bool(settings.search.hyde_enabled and _has_vectors(settings))


def _has_vectors(settings: Settings) -> bool:
    return bool(settings.embedding.chain and settings.search.mode != WORDS)


def _chat(settings: Settings) -> Chat | None:
    from memwell.llm.registry import model_for

    wait = min(settings.llm.timeout, LONGEST_WAIT)
    return model_for(settings.llm, settings.search.hyde_model, "search.hyde_model", seconds=wait)


def _new_hits(found: Iterable[Hit], known: Iterable[Hit]) -> list[Hit]:
    """Return the hits that show other lines than the known ones."""
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


def find_hypothetical_answer(
    message: str,
    settings: Settings,
    folder: Path,
    index: Index,
    notify: Callable[[str], None],
    budget: Budget | None = None,
) -> str:
    """Return an answer to a message without secrets, from the cache or new; "" if there is none.

    Answers are cached in `folder`, an agent's; `index` records models that fail. A `budget` is
    shared by several searches.
    """
    from memwell.errors import LlmError
    from memwell.llm.log import budget_of

    try:
        if chat := _chat(settings):
            budget = budget or budget_of(settings, notify)
            return _ask_model(message, budget.wrap(chat), folder, index)
        notify("search.hyde_enabled is on, but no language model is named: set llm.default")
    except LlmError as error:
        notify(f"Searched without a hypothetical answer: {error}")
    return ""


def _ask_model(message: str, chat: Chat, folder: Path, index: Index) -> str:
    from memwell.files import read_state, write_state

    identity = json.dumps([chat.name, chat.model, message]).encode()
    key = blake2s(identity, digest_size=16).hexdigest()
    cached = read_state(folder / ANSWERS)
    if isinstance(answer := cached.get(key), str):
        return answer
    answer = _complete(message, chat, index)
    if answer:
        write_state(folder / ANSWERS, dict([*cached.items(), (key, answer)][-_MOST_ANSWERS:]))
    return answer


def _complete(message: str, chat: Chat, index: Index) -> str:
    """Ask a model that is not in its cooldown; a failure starts one, for every process."""
    from memwell.errors import BudgetSpent, LlmError, LlmFailing, LlmRefused
    from memwell.llm.prompts import hyde_prompt

    name, cooldown = f"{chat.name}:{chat.model} at {chat.address}", None
    with suppress(MemwellError), index.reading() as reader:
        cooldown = reader.cooldowns.get(name)
    if cooldown and cooldown.is_active(time.time()):
        raise LlmFailing(
            f"{name} is in its cooldown: {cooldown.reason}", "`memwell index` ends the cooldown"
        )
    try:
        answer = chat.complete(*hyde_prompt(message), max_tokens=MOST_TOKENS).text.strip()
    except (BudgetSpent, LlmRefused):  # the model itself is up
        raise
    except LlmError as error:
        with suppress(MemwellError), index.writing_cooldowns(_LOCK_MS) as cooldowns:
            retry_after = getattr(error, "retry_after", None) or 0.0
            cooldowns.record_failure(name, error.what, time.time(), at_least=retry_after)
        raise LlmFailing(f"{error.what}; a cooldown begins", error.remedy) from None
    if cooldown:
        with suppress(MemwellError), index.writing_cooldowns(_LOCK_MS) as cooldowns:
            cooldowns.clear(name)
    return answer
