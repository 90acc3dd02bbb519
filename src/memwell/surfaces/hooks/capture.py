"""What a person told an agent becomes facts: at the end of a turn and of a session.

By rule (`facts.conversation`), or by the language model that ``llm.default`` names; what that
cannot do in time goes by rule. How far a transcript was read is written down after each message,
so that a capture that was cut off goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from memwell import config
from memwell.extract.chat import facts_in_message, own_words
from memwell.surfaces.hooks.cursor import open_cursor
from memwell.surfaces.hooks.events import SESSION_END, STOP, Event, HookTarget
from memwell.surfaces.hooks.transcript import Mark, Message, messages

if TYPE_CHECKING:
    from memwell.memory import Memory

SOURCE = "conversation"
_CONFIDENCE = 0.8
"""Nobody asked for it to be remembered; when it is told again it rises."""
_DECAY_CLASS = "stable"
"""What nobody reads for 90 days was not worth it."""
_FOR_THE_MODEL = 0.5
"""Of the time there is: the rest is for the rules, and for writing."""
_MOST_FOR_THE_MODEL = 8_000
"""Characters: of more, an answer would not come in time."""


@dataclass(frozen=True, slots=True)
class _FoundFact:
    text: str
    category: str
    line: int
    after: Mark


@dataclass(slots=True)
class CaptureReport:
    """What came of reading a transcript."""

    remembered: int = 0
    refused: int = 0
    notices: list[str] = field(default_factory=list)


def capture(
    event: Event,
    place: HookTarget,
    home: Path,
    seconds: float,
    *,
    scope: str | None = None,
    rules: bool = False,
) -> CaptureReport:
    """Remember what was said since the last time, if the event is the end of a turn."""
    done = CaptureReport()
    ours = event.name in (STOP, SESSION_END) and not event.stop_hook_active
    if not ours or event.transcript is None or not event.transcript.is_file():
        return done
    whose = [event.session, str(event.transcript), place.agent, place.user]
    with open_cursor(whose, home / "hooks") as progress:
        said = [*messages(event.transcript, progress.mark)]
        found = _by_rule(said)
        asks = not rules and any(message.text for message in said) and _has_model()
        if found or asks:
            with place.open_memory(event, event.session if scope == "session" else "") as memory:
                if asks:
                    by_model = _by_model(memory, said, seconds * _FOR_THE_MODEL, done)
                    found = found if by_model is None else by_model
                for after, facts in groupby(found, lambda fact: fact.after):
                    for fact in facts:
                        _remember(memory, fact, event, scope, done)
                    progress.advance(after)
                done.notices += memory.notices
        progress.advance(said[-1].after)
    return done


def _remember(
    memory: Memory, fact: _FoundFact, event: Event, scope: str | None, done: CaptureReport
) -> None:
    from memwell.facts.service import RefusedError

    lasting = "user" if memory.viewer.user else "agent"
    try:
        memory.remember(
            fact.text,
            category=fact.category,
            source=SOURCE,
            origin=f"{event.session}#L{fact.line}",
            confidence=_CONFIDENCE,
            decay_class=_DECAY_CLASS,
            scope=scope or lasting,
        )
        done.remembered += 1
    except RefusedError as refusal:
        done.refused += 1
        done.notices.append(f"line {fact.line}: {refusal.what}")


def _by_rule(said: Sequence[Message]) -> list[_FoundFact]:
    return [
        _FoundFact(fact.text, fact.category, message.line, message.after)
        for message in said
        for fact in facts_in_message(message.text)
    ]


def _has_model() -> bool:
    return bool(config.load(None).llm.default.strip())


def _by_model(
    memory: Memory, said: Sequence[Message], seconds: float, done: CaptureReport
) -> list[_FoundFact] | None:
    """Return what the language model finds; None where the rules have to do."""
    from memwell.extract.extractor import FactExtractor
    from memwell.llm.base import LlmUnavailable
    from memwell.llm.budget import Budget
    from memwell.llm.registry import model_for

    text = "\n\n".join(filter(None, (own_words(message.text) for message in said)))
    if not text:
        return []
    if len(text) > _MOST_FOR_THE_MODEL:
        done.notices.append(f"by rule: {len(text)} characters are too many for the model")
        return None
    llm = memory.settings.llm
    try:
        chat = model_for(llm, seconds=seconds)
    except LlmUnavailable as error:
        done.notices.append(f"by rule: {error}")
        return None
    if chat is None:
        return None
    budget = Budget(llm.max_calls, llm.max_tokens)
    reader = FactExtractor(_MOST_FOR_THE_MODEL, 0, budget.wrap(chat))
    facts = reader.read("what the user said to an assistant", text)
    if troubles := [*reader.failures, *reader.notices]:
        done.notices.append(f"by rule: {troubles[0]}")
        return None
    first, last = next(message for message in said if message.text), said[-1]
    return [_FoundFact(fact.text, fact.category, first.line, last.after) for fact in facts]
