"""The context that an agent gets from the memory, at a prompt and at the start of a session.

For a prompt, a running server is asked, as it has the model loaded; without one, the hook opens the
memory itself. At the start of a session there is no prompt yet, so the context is

1. the newest decisions;
2. the other facts with the highest importance, the newest first.

A resumed session has its context already. A session that was compacted gets it again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from memwell import config
from memwell.surfaces.hook_socket import HookRequest, ask_server
from memwell.surfaces.hooks.events import PROMPT, SESSION_START, HookEvent, HookTarget

if TYPE_CHECKING:
    from memwell.config.fields import Value
    from memwell.memory import Memory
    from memwell.model import Fact

_LONGEST_PROMPT = 4_000
"""Characters; a longer prompt contains pasted text."""
_SERVER_SECONDS = 1.0
"""The longest wait for a server, which usually answers in a tenth of it."""
_MODEL_TIME_SHARE = 0.3
"""Of the time limit: a hypothetical answer (HyDE) must not use up all of it."""
_DECISIONS = 3
_FACTS = 8
_START_BUDGET = 400
"""Tokens: half of the budget of a prompt, as every session pays for them."""
_CANDIDATES = 500
_EXCLUDED_CATEGORIES = frozenset(("technical", "other"))
"""Facts of these categories are found when a prompt needs them."""


def recall(event: HookEvent, target: HookTarget, seconds: float, budget: int | None = None) -> str:
    """Return the text to print at an event; "" if there is none."""
    if event.name == PROMPT and event.prompt.strip():
        block = _recall_for_prompt(event, target, seconds, budget)
    elif event.name == SESSION_START and event.source != "resume":
        with target.open_memory(event, event.session) as memory:
            memory.reset_recall_history()
            block = _recall_at_start(memory, budget or _START_BUDGET)
    else:
        return ""
    if not block:
        return ""
    return json.dumps(_to_output(event, block), ensure_ascii=False)


def _to_output(event: HookEvent, block: str) -> dict[str, object]:
    """Return a block in the form that the program of an event reads."""
    if event.native_name == "sessionStart":  # Cursor
        return {"additional_context": block}
    output = {"hookEventName": event.native_name, "additionalContext": block}
    return {"hookSpecificOutput": output}


def _recall_for_prompt(
    event: HookEvent, target: HookTarget, seconds: float, budget: int | None
) -> str:
    message = event.prompt[:_LONGEST_PROMPT]
    folder, only_there = target.folder(event)
    request = HookRequest(message, budget, target.user, event.session, str(folder), only_there)
    agent = target.agent or config.load(None).agent
    wait = min(seconds / 2, _SERVER_SECONDS)
    answer = ask_server(config.home_folder(), agent, request, wait)
    if answer is not None and isinstance(answer.get("block"), str):
        return str(answer["block"])
    overrides: dict[str, Value] = {"llm.timeout": max(0.1, seconds * _MODEL_TIME_SHARE)}
    with target.open_memory(event, event.session, overrides) as memory:
        return memory.recall(message, budget=budget).block


def _recall_at_start(memory: Memory, budget: int) -> str:
    from memwell.facts.recall import recall_block
    from memwell.model import Hit
    from memwell.store.contract.values import FactFilter

    if not memory.facts.store.exists:
        return ""
    facts = memory.facts.find(FactFilter(), _CANDIDATES)
    hits = [
        Hit(fact.id, "", 1, 1, 1.0, 1.0, fact.text, "fact", date=fact.created_at[:10])
        for fact in _choose_facts(facts)
    ]
    recalled = recall_block(hits, budget)
    memory.facts.renew_on_read([hit.path for hit in recalled.hits])
    return recalled.block


def _choose_facts(facts: list[Fact]) -> list[Fact]:
    """Return the most important facts of a list that starts with the newest."""
    decisions = [fact for fact in facts if fact.category == "decision"][:_DECISIONS]
    others = [
        fact
        for fact in facts
        if fact.category not in _EXCLUDED_CATEGORIES and fact.category != "decision"
    ]
    others.sort(key=lambda fact: -fact.importance)  # stable: equal ones stay newest first
    return [*decisions, *others[:_FACTS]]
