"""The budget of a command: how often it may call language models, and for how many tokens.

A call that might exceed the budget is not made. Its tokens are reserved beforehand: the estimate
of the request, and the limit of the answer. Afterwards the server's own count replaces them.
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
"""The names of the settings that hold the limits."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A call for the log: the receiver, the request and the answer. It does not hold a key."""

    provider: str
    model: str
    address: str
    system: str
    user: str
    max_tokens: int
    answer: Answer | None
    error: str = ""
    """The reason why there is not an answer."""


Log = Callable[[Exchange], object]


class Budget:
    """The limits of one command, for all models that it calls; threads may share it."""

    def __init__(self, calls: int, tokens: int, *, log: Log | None = None) -> None:
        self._lock = threading.Lock()
        self._max_calls = calls
        self._max_tokens = tokens
        self.log = log
        self.calls = 0
        """Calls so far; repeated attempts count as one call."""
        self.tokens = 0
        """Tokens spent so far, and reserved for the calls in progress."""

    def __repr__(self) -> str:
        calls, tokens = f"{self.calls}/{self._max_calls}", f"{self.tokens}/{self._max_tokens}"
        return f"Budget(calls={calls}, tokens={tokens})"

    def wrap(self, chat: Chat) -> Chat:
        """Return the same model, limited by this budget."""
        return _BudgetedChat(chat, self)

    def reserve(self, tokens: int) -> None:
        """Reserve a call and its tokens; raise `BudgetSpent` if the budget does not allow them."""
        with self._lock:
            if self.calls + 1 > self._max_calls:
                raise BudgetSpent(
                    f"The command has called language models {self._max_calls} times, its limit",
                    f"Raise {CALLS}, or give it less to do",
                )
            if self.tokens + tokens > self._max_tokens:
                raise BudgetSpent(
                    f"A command may spend {self._max_tokens} tokens on language models:"
                    f" {self.tokens} are spent, and the next call may take {tokens}",
                    f"Raise {TOKENS}, or give it less to do",
                )
            self.calls += 1
            self.tokens += tokens

    def settle(self, reserved: int, spent: int) -> None:
        """Replace the reserved tokens of a call by the tokens that it spent."""
        with self._lock:
            self.tokens += spent - reserved


class _BudgetedChat:
    """A model that reserves its budget before each call."""

    def __init__(self, chat: Chat, budget: Budget) -> None:
        self._chat = chat
        self._budget = budget
        self.name, self.model, self.address = chat.name, chat.model, chat.address

    def __repr__(self) -> str:
        return f"{self._chat!r} within {self._budget!r}"

    def complete(self, system: str, user: str, *, max_tokens: int) -> Answer:
        """Return the answer, if the budget allows the call."""
        sent = count_tokens(system) + count_tokens(user)
        self._budget.reserve(sent + max_tokens)
        answer, error, spent = None, "", sent  # A failed call may cost its request.
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
                receiver = (self.name, self.model, self.address)
                self._budget.log(Exchange(*receiver, system, user, max_tokens, answer, error))
