"""Facts out of a file: by a language model, piece by piece, and by rule where there is none.

What a model refuses or answers without sense goes by rule; a model that cannot be had, or has
cost enough, is asked no more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from memwell.errors import BudgetSpent, LlmError, LlmRefused, LlmUnavailable
from memwell.extract.markdown import extract
from memwell.extract.source_files import FilePart, split_file
from memwell.facts.guard import redact
from memwell.facts.service import CATEGORIES
from memwell.llm.base import Chat
from memwell.llm.parse_facts import parse_facts
from memwell.llm.prompts import extract_prompt

RULES = "rules"
CATEGORY = "technical"
_MOST_TOKENS = 2_000
"""Of an answer: far more than the facts of a piece take, as some models think first."""
_FAILURES = 3
"""In a row, after which a model is not asked any more."""
_NOTHING = re.compile(r"```\w*|[\[\]{}\s]")
"""What an answer without a fact may be made of."""


@dataclass(frozen=True, slots=True)
class ExtractedFact:
    """A fact, what is known of it, and the lines it was taken from."""

    text: str
    start_line: int
    end_line: int
    category: str = CATEGORY
    tags: tuple[str, ...] = ()


@dataclass(slots=True)
class FactExtractor:
    """Takes facts out of files; counts what it did and notes what failed."""

    size: int
    overlap: int
    chat: Chat | None = None
    pieces: int = 0
    failures: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    by: str = RULES
    """What the last file was read by; not the model's name if another time it may do better."""
    _in_a_row: int = 0

    def read(self, name: str, text: str) -> list[ExtractedFact]:
        """Return the facts of a file."""
        cut = split_file(text, self.size, self.overlap)
        self.pieces += len(cut)
        ruled = [ExtractedFact(fact.text, fact.start_line, fact.end_line) for fact in extract(text)]
        self.by = model_name(self.chat)
        if self.chat is None:
            return ruled
        found: list[ExtractedFact] = []
        for piece in cut:
            by_model = self._ask_model(piece, name)
            found += _within(piece, ruled) if by_model is None else by_model
        return found

    def _ask_model(self, piece: FilePart, name: str) -> list[ExtractedFact] | None:
        """Return what a model finds in a piece; None where the rules have to do."""
        if self.chat is None:
            return None
        # What was told to nobody but this machine is not told to a server.
        system, user = extract_prompt(redact(piece.text), name, CATEGORIES)
        try:
            answer = self.chat.complete(system, user, max_tokens=max(_MOST_TOKENS, self.size))
        except (LlmUnavailable, BudgetSpent) as error:
            self._stop_asking(str(error))
            return None
        except LlmError as error:
            self._record_failure(piece, name, error)
            return None
        self._in_a_row = 0
        facts = parse_facts(answer.text)
        if not facts and _NOTHING.sub("", answer.text):
            self._note(piece, name, "the answer holds no fact that can be read")
            return None
        return [
            ExtractedFact(
                fact["text"],
                piece.start_line,
                piece.end_line,
                fact["category"] if fact["category"] in CATEGORIES else CATEGORY,
                tuple(fact["tags"]),
            )
            for fact in facts
        ]

    def _record_failure(self, piece: FilePart, name: str, error: LlmError) -> None:
        self._note(piece, name, error.what)
        if not isinstance(error, LlmRefused):
            self.by = RULES
            self._in_a_row += 1
            if self._in_a_row == _FAILURES:
                self._stop_asking(f"it failed {_FAILURES} times in a row")

    def _stop_asking(self, why: str) -> None:
        self.notices.append(f"The language model is not asked any more, the rules go on: {why}")
        self.chat, self.by = None, RULES

    def _note(self, piece: FilePart, name: str, what: str) -> None:
        self.failures.append(f"{origin(name, piece.start_line, piece.end_line)}: {what}")


def model_name(chat: Chat | None) -> str:
    """Return what files are read by."""
    return f"{chat.name}:{chat.model}" if chat else RULES


def origin(name: str, start_line: int, end_line: int) -> str:
    """Return a pointer to lines of a file."""
    return f"{name}#L{start_line}-L{end_line}"


def _within(piece: FilePart, ruled: Sequence[ExtractedFact]) -> list[ExtractedFact]:
    return [fact for fact in ruled if piece.start_line <= fact.start_line <= piece.end_line]
