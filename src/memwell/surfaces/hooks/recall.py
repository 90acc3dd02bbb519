"""What an agent is told before it answers: what is remembered of the prompt, or of its user.

A prompt is asked of a server that runs, which has the model loaded, else of the memory itself.
At the start of a session there is no prompt yet; told are then

1. the newest decisions;
2. the rules, preferences and other facts that matter most, of those the newest.

A resumed session was told already; one whose context was compacted is told again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from memwell import config
from memwell.surfaces.hook_socket import Request, ask_server
from memwell.surfaces.hooks.events import PROMPT, SESSION_START, Event, HookTarget

if TYPE_CHECKING:
    from memwell.config.fields import Value
    from memwell.memory import Memory
    from memwell.model import Fact

_LONGEST_PROMPT = 4_000
"""Characters: what comes after them was pasted."""
_LONGEST_WAIT = 1.0
"""Seconds for a server, which answers in a tenth of that: the rest is for doing without it."""
_FOR_A_MODEL = 0.3
"""Of the time there is: a hypothetical answer, where one is asked for, must not cost the rest."""
_DECISIONS = 3
_FACTS = 8
_START_BUDGET = 400
"""Tokens, half of what a prompt may get: every session pays for them."""
_LOOKED_AT = 500
_LEFT_OUT = frozenset(("technical", "other"))
"""Categories: what files hold is found when it is asked for."""


def recall(event: Event, place: HookTarget, seconds: float, budget: int | None = None) -> str:
    """Return what to print at an event; "" if there is nothing to say."""
    if event.name == PROMPT and event.prompt.strip():
        block = _recall_for_prompt(event, place, seconds, budget)
    elif event.name == SESSION_START and event.source != "resume":
        with place.open_memory(event, event.session) as memory:
            memory.reset_recall_history()
            block = _recall_at_start(memory, budget or _START_BUDGET)
    else:
        return ""
    if not block:
        return ""
    told = {"hookEventName": event.name, "additionalContext": block}
    return json.dumps({"hookSpecificOutput": told}, ensure_ascii=False)


def _recall_for_prompt(event: Event, place: HookTarget, seconds: float, budget: int | None) -> str:
    message = event.prompt[:_LONGEST_PROMPT]
    folder, only_there = place.folder(event)
    request = Request(message, budget, place.user, event.session, str(folder), only_there)
    agent = place.agent or config.load(None).agent
    wait = min(seconds / 2, _LONGEST_WAIT)
    answer = ask_server(config.home_folder(), agent, request, wait)
    if answer is not None and isinstance(answer.get("block"), str):
        return str(answer["block"])
    for_a_model: dict[str, Value] = {"llm.timeout": max(0.1, seconds * _FOR_A_MODEL)}
    with place.open_memory(event, event.session, for_a_model) as memory:
        return memory.recall(message, budget=budget).block


def _recall_at_start(memory: Memory, budget: int) -> str:
    from memwell.facts.recall import recall_block
    from memwell.model import Hit
    from memwell.store.contract.values import FactFilter

    if not memory.facts.store.exists:
        return ""
    facts = memory.facts.find(FactFilter(), _LOOKED_AT)
    hits = [
        Hit(fact.id, "", 1, 1, 1.0, 1.0, fact.text, "fact", date=fact.created_at[:10])
        for fact in _choose_facts(facts)
    ]
    found = recall_block(hits, budget)
    memory.facts.renew_on_read([hit.path for hit in found.hits])
    return found.block


def _choose_facts(facts: list[Fact]) -> list[Fact]:
    """Return the facts that matter most, of some that are sorted by time, the newest first."""
    decisions = [fact for fact in facts if fact.category == "decision"][:_DECISIONS]
    others = [
        fact for fact in facts if fact.category not in _LEFT_OUT and fact.category != "decision"
    ]
    others.sort(key=lambda fact: -fact.importance)  # stable: of equals the newest first
    return [*decisions, *others[:_FACTS]]
