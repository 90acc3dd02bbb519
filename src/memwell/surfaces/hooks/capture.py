"""Turns what a user told an agent into facts, at the end of a turn and of a session.

Rules (`extract.chat`) find the facts, or the language model that ``llm.default`` names. If the
model does not answer in time, the rules are used. An event with the prompt in it is read alone.
Otherwise the transcript is read; the position in it is saved after each message, so that an
interrupted capture continues from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from memwell import config
from memwell.extract.chat import facts_in_message, typed_text
from memwell.surfaces.hooks.cursor import open_cursor
from memwell.surfaces.hooks.events import PROMPT, SESSION_END, STOP, HookEvent, HookTarget
from memwell.surfaces.hooks.transcript import Message, Position, read_messages

if TYPE_CHECKING:
    from memwell.memory import Memory

SOURCE = "conversation"
_CONFIDENCE = 0.8
"""Lower than 1, as nobody asked to remember it; it rises when the user says it again."""
_DECAY_CLASS = "stable"
"""A fact that nobody reads for 90 days expires."""
_MODEL_TIME_SHARE = 0.5
"""Of the time limit; the rest is for the rules and for writing."""
_MOST_MODEL_CHARACTERS = 8_000
"""For more characters the model would not answer in time."""


@dataclass(frozen=True, slots=True)
class _CapturedFact:
    text: str
    category: str
    line: int
    after: Position


@dataclass(slots=True)
class CaptureReport:
    """How many facts a capture remembered and refused, and why."""

    remembered: int = 0
    refused: int = 0
    notices: list[str] = field(default_factory=list)


def capture(
    event: HookEvent,
    target: HookTarget,
    home: Path,
    seconds: float,
    *,
    scope: str | None = None,
    rules: bool = False,
) -> CaptureReport:
    """Remember what the user said: the prompt of the event, or what is new in the transcript."""
    report = CaptureReport()
    if event.name not in (PROMPT, STOP, SESSION_END) or event.stop_hook_active:
        return report

    def store(messages: Sequence[Message], advance: Callable[[Position], None]) -> None:
        facts = _extract_by_rule(messages)
        asks_model = not rules and any(message.text for message in messages) and _has_model()
        if not facts and not asks_model:
            return
        with target.open_memory(event, event.session if scope == "session" else "") as memory:
            if asks_model:
                limit = seconds * _MODEL_TIME_SHARE
                by_model = _extract_by_model(memory, messages, limit, report)
                facts = facts if by_model is None else by_model
            for after, group in groupby(facts, lambda fact: fact.after):
                for fact in group:
                    _remember(memory, fact, event, scope, report)
                advance(after)
            report.notices += memory.notices

    if event.prompt.strip():
        store([Message(event.prompt, 0, Position())], lambda _: None)
    elif event.name != PROMPT and event.transcript and event.transcript.is_file():
        key = [event.session, str(event.transcript), target.agent, target.user]
        with open_cursor(key, home / "hooks") as cursor:
            messages = [*read_messages(event.transcript, cursor.position)]
            store(messages, cursor.advance)
            cursor.advance(messages[-1].after)
    return report


def _remember(
    memory: Memory, fact: _CapturedFact, event: HookEvent, scope: str | None, report: CaptureReport
) -> None:
    from memwell.errors import RefusedError

    default_scope = "user" if memory.viewer.user else "agent"
    try:
        memory.remember(
            fact.text,
            category=fact.category,
            source=SOURCE,
            origin=f"{event.session}#L{fact.line}" if fact.line else event.session,
            confidence=_CONFIDENCE,
            decay_class=_DECAY_CLASS,
            scope=scope or default_scope,
        )
        report.remembered += 1
    except RefusedError as refusal:
        report.refused += 1
        report.notices.append(f"line {fact.line}: {refusal.what}")


def _extract_by_rule(messages: Sequence[Message]) -> list[_CapturedFact]:
    return [
        _CapturedFact(fact.text, fact.category, message.line, message.after)
        for message in messages
        for fact in facts_in_message(message.text)
    ]


def _has_model() -> bool:
    return bool(config.load(None).llm.default.strip())


def _extract_by_model(
    memory: Memory, messages: Sequence[Message], seconds: float, report: CaptureReport
) -> list[_CapturedFact] | None:
    """Return the facts that the language model finds; None if the rules are to be used."""
    from memwell.errors import LlmUnavailable
    from memwell.extract.extractor import FactExtractor
    from memwell.llm.budget import Budget
    from memwell.llm.registry import model_for

    text = "\n\n".join(filter(None, (typed_text(message.text) for message in messages)))
    if not text:
        return []
    if len(text) > _MOST_MODEL_CHARACTERS:
        report.notices.append(f"used the rules: {len(text)} characters are too many for the model")
        return None
    llm = memory.settings.llm
    try:
        chat = model_for(llm, seconds=seconds)
    except LlmUnavailable as error:
        report.notices.append(f"used the rules: {error}")
        return None
    if chat is None:
        return None
    budget = Budget(llm.max_calls, llm.max_tokens)
    reader = FactExtractor(_MOST_MODEL_CHARACTERS, 0, budget.wrap(chat))
    facts = reader.read("what the user said to an assistant", text)
    if problems := [*reader.failures, *reader.notices]:
        report.notices.append(f"used the rules: {problems[0]}")
        return None
    first, last = next(message for message in messages if message.text), messages[-1]
    return [_CapturedFact(fact.text, fact.category, first.line, last.after) for fact in facts]
