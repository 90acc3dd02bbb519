"""How much a command may ask of language models, and what it asked.

A call that might go beyond the limit is not made: its tokens are reckoned beforehand, those sent
by their estimate and those of the answer by its limit. What the server says it took counts after.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from memwell.errors import BudgetSpent
from memwell.llm.base import Answer, Chat
from memwell.token_estimate import count_tokens

CALLS = "llm.max_calls"
TOKENS = "llm.max_tokens"
"""The settings that hold the limits."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A call, for a log: what was sent to whom, and what came back. It holds no key."""

    provider: str
    model: str
    address: str
    system: str
    user: str
    max_tokens: int
    answer: Answer | None
    error: str = ""
    """Why there is no answer."""


Log = Callable[[Exchange], object]


class Budget:
    """The limits of one command, for all models that it asks; threads may share it."""

    def __init__(self, calls: int, tokens: int, *, log: Log | None = None) -> None:
        self._lock = threading.Lock()
        self._most_calls = calls
        self._most_tokens = tokens
        self.log = log
        self.calls = 0
        """Made so far; tries that a call repeats are part of it."""
        self.tokens = 0
        """Spent so far, and set aside for the calls that are under way."""

    def __repr__(self) -> str:
        calls, tokens = f"{self.calls}/{self._most_calls}", f"{self.tokens}/{self._most_tokens}"
        return f"Budget(calls={calls}, tokens={tokens})"

    def wrap(self, chat: Chat) -> Chat:
        """Return the same model, within this budget."""
        return _BudgetedChat(chat, self)

    def reserve(self, tokens: int) -> None:
        """Count a call and the tokens that it may take; `BudgetSpent` if there are not so many."""
        with self._lock:
            if self.calls + 1 > self._most_calls:
                raise BudgetSpent(
                    f"A command may call a language model {self._most_calls} times, and has",
                    f"Raise {CALLS}, or give it less to do",
                )
            if self.tokens + tokens > self._most_tokens:
                raise BudgetSpent(
                    f"A command may spend {self._most_tokens} tokens on language models:"
                    f" {self.tokens} are gone, and the next call may take {tokens}",
                    f"Raise {TOKENS}, or give it less to do",
                )
            self.calls += 1
            self.tokens += tokens

    def settle(self, reserved: int, spent: int) -> None:
        """Put what a call took in place of what was set aside for it."""
        with self._lock:
            self.tokens += spent - reserved


class _BudgetedChat:
    """A model that asks a budget first."""

    def __init__(self, chat: Chat, budget: Budget) -> None:
        self._chat = chat
        self._budget = budget

    def __repr__(self) -> str:
        return f"{self._chat!r} within {self._budget!r}"

    @property
    def name(self) -> str:
        """The provider's name."""
        return self._chat.name

    @property
    def model(self) -> str:
        """The model's name."""
        return self._chat.model

    @property
    def address(self) -> str:
        """The host that is asked."""
        return self._chat.address

    def complete(self, system: str, user: str, *, max_tokens: int) -> Answer:
        """Return the answer, if the budget allows to ask for it."""
        sent = count_tokens(system) + count_tokens(user)
        self._budget.reserve(sent + max_tokens)
        answer, error, spent = None, "", sent  # A call that fails may have been paid for.
        try:
            answer = self._chat.complete(system, user, max_tokens=max_tokens)
            spent = answer.input_tokens + answer.output_tokens
            return answer
        except BaseException as failure:
            error = str(failure) or type(failure).__name__
            raise
        finally:
            self._budget.settle(sent + max_tokens, spent)
            if self._budget.log is not None:
                whom = (self.name, self.model, self.address)
                self._budget.log(Exchange(*whom, system, user, max_tokens, answer, error))
