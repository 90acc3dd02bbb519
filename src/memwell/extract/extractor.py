"""Extract the facts of a file: by a language model, part by part, or by rules without a model.

If the model refuses a part or its answer cannot be read, the rules extract the facts of that part.
If the model is not available or the budget is spent, the rules extract the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from memwell.errors import BudgetSpent, LlmError, LlmRefused, LlmUnavailable
from memwell.extract.markdown import extract_facts
from memwell.extract.source_files import FilePart, split_text
from memwell.facts.guard import redact
from memwell.facts.service import CATEGORIES
from memwell.llm.base import Chat
from memwell.llm.parse_facts import parse_facts
from memwell.llm.prompts import extract_prompt
from memwell.model import cite_lines

RULES = "rules"
CATEGORY = "technical"
_MAX_TOKENS = 2_000
"""Of an answer: far more than the facts of a part need, because some models think first."""
_MAX_FAILURES = 3
"""After so many failures in a row the model is not asked again."""
_NOTHING = re.compile(r"```\w*|[\[\]{}\s]")
"""Characters of an answer that contains no fact, such as an empty list in a fence."""


@dataclass(frozen=True, slots=True)
class ExtractedFact:
    """A fact with its category, its tags and the lines that it came from."""

    text: str
    start_line: int
    end_line: int
    category: str = CATEGORY
    tags: tuple[str, ...] = ()


@dataclass(slots=True)
class FactExtractor:
    """Extracts facts from files; counts the parts, and records failures."""

    size: int
    overlap: int
    chat: Chat | None = None
    pieces: int = 0
    failures: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    by: str = RULES
    """The model that read the last file; "rules" if it failed, so that a later run tries again."""
    _in_a_row: int = 0

    def read(self, name: str, text: str) -> list[ExtractedFact]:
        """Return the facts of a file."""
        parts = split_text(text, self.size, self.overlap)
        self.pieces += len(parts)
        by_rules = [
            ExtractedFact(fact.text, fact.start_line, fact.end_line) for fact in extract_facts(text)
        ]
        self.by = model_name(self.chat)
        if self.chat is None:
            return by_rules
        found: list[ExtractedFact] = []
        for part in parts:
            by_model = self._ask_model(part, name)
            found += _in_part(part, by_rules) if by_model is None else by_model
        return found

    def _ask_model(self, part: FilePart, name: str) -> list[ExtractedFact] | None:
        """Return the facts that the model finds in a part; None if it fails."""
        if self.chat is None:
            return None
        # Secrets must not leave the machine.
        system, user = extract_prompt(redact(part.text), name, CATEGORIES)
        try:
            answer = self.chat.complete(system, user, max_tokens=max(_MAX_TOKENS, self.size))
        except (LlmUnavailable, BudgetSpent) as error:
            self._stop_asking(str(error))
            return None
        except LlmError as error:
            self._record_failure(part, name, error)
            return None
        self._in_a_row = 0
        facts = parse_facts(answer.text)
        if not facts and _NOTHING.sub("", answer.text):
            self._note(part, name, "the answer contains no readable fact")
            return None
        return [
            ExtractedFact(
                fact["text"],
                part.start_line,
                part.end_line,
                fact["category"] if fact["category"] in CATEGORIES else CATEGORY,
                tuple(fact["tags"]),
            )
            for fact in facts
        ]

    def _record_failure(self, part: FilePart, name: str, error: LlmError) -> None:
        self._note(part, name, error.what)
        if not isinstance(error, LlmRefused):
            self.by = RULES
            self._in_a_row += 1
            if self._in_a_row == _MAX_FAILURES:
                self._stop_asking(f"it failed {_MAX_FAILURES} times in a row")

    def _stop_asking(self, why: str) -> None:
        self.notices.append(
            f"The language model is not used any more; rules extract the rest: {why}"
        )
        self.chat, self.by = None, RULES

    def _note(self, part: FilePart, name: str, what: str) -> None:
        self.failures.append(f"{cite_lines(name, part.start_line, part.end_line)}: {what}")


def model_name(chat: Chat | None) -> str:
    """Return the name of the model, or "rules"."""
    return f"{chat.name}:{chat.model}" if chat else RULES


def _in_part(part: FilePart, by_rules: Sequence[ExtractedFact]) -> list[ExtractedFact]:
    return [fact for fact in by_rules if part.start_line <= fact.start_line <= part.end_line]
