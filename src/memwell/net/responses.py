"""What is sent, and what a server's answer means: vectors, or one of the contract's errors.

ProviderUnavailable   somebody has to act: the key, the address, the model, the bill
ProviderFailing       it may work another time: overload, a broken line, a server not started
└── WrongAnswer       it answered, but not with what it should
BatchRefused          not with these texts, or not with so many

No message holds a key, what was sent, or more of an address than its host.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from memwell.embed.windows import text_windows
from memwell.errors import (
    BatchRefused,
    EmbeddingError,
    ProviderFailing,
    ProviderUnavailable,
    WrongAnswer,
)

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

_QUOTED = 200
"""Characters of a server's own words that a message repeats."""

# An account without credit answers 429 like a rate limit, but waiting does not mend it: OpenAI
# asks not to repeat such requests. https://platform.openai.com/docs/guides/error-codes
_UNPAID = {
    "insufficient_quota",
    "billing_hard_limit_reached",
    "credit_balance_exhausted",
    "organization_spend_limit_exceeded",
    "project_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
    # Gemini where its free tier is not offered, with a 400:
    # https://ai.google.dev/gemini-api/docs/generate-content/api-errors
    "FAILED_PRECONDITION",
}
# Gemini answers 400 to a wrong key, as it does to a wrong text.
_WRONG_KEY = {"API_KEY_INVALID", "invalid_api_key"}
# Parts of a request that are not its texts, by the name that OpenAI's `param` has for them.
_WRONG_SETTING = {"model_not_found", "model", "dimensions", "encoding_format"}


class ApiKey:
    """A key, which shows itself only when asked by name."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return "***"

    def reveal(self) -> str:
        """Return the key itself: never keep it in a variable, which a debugger would print."""
        return self._text

    def mask(self, text: str) -> str:
        """Return the text without the key."""
        return text.replace(self._text, repr(self)) if self._text else text


@dataclass(frozen=True, slots=True)
class SettingNames:
    """What a provider's settings are called, for remedies."""

    section: str
    variable: str
    """Of the environment: the key."""

    @property
    def check_key(self) -> str:
        """The remedy for a key that is missing or wrong."""
        return f"Set {self.variable} or {self.section}.key to a key of that provider"

    def check(self, *names: str) -> str:
        """The remedy for settings that are wrong."""
        return "Check " + " and ".join(f"{self.section}.{name}" for name in names)


@dataclass(frozen=True, slots=True)
class ServerName:
    """Who answered, as far as messages need to know."""

    host: str
    key: ApiKey
    settings: SettingNames

    def wrong_answer(self, what: str) -> WrongAnswer:
        """Return the error for an answer that is of no use."""
        return WrongAnswer(f"{self.host} {what}", self.settings.check("base_url"))


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    headers: Message = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ServerError:
    """A server's own account of what is wrong."""

    message: str = ""
    codes: frozenset[str] = frozenset()
    retry_after: float | None = None


def error_for(server: ServerName, reply: Reply) -> EmbeddingError:
    """Return what an answer other than success means."""
    complaint = _parse_error(reply.body)
    what = f"{server.host} answered {reply.status}{_quote(server.key, complaint.message)}"
    if reply.status in (401, 403) or complaint.codes & _WRONG_KEY:
        return ProviderUnavailable(what, server.settings.check_key)
    if reply.status == 402 or complaint.codes & _UNPAID:
        return ProviderUnavailable(what, "Check the account's plan and limits with the provider")
    if complaint.codes & _WRONG_SETTING:
        return ProviderUnavailable(what, server.settings.check("model", "dimensions"))
    if reply.status in (400, 413, 422):
        return BatchRefused(what)
    if reply.status in (408, 409, 425, 429) or reply.status >= 500:
        return _failure(what, reply, complaint)
    if reply.status < 400:
        what = f"{server.host} answered {reply.status}: look elsewhere, where no key is sent"
        return ProviderUnavailable(what, server.settings.check("base_url"))
    return ProviderUnavailable(what, server.settings.check("model", "base_url"))


def _failure(what: str, reply: Reply, complaint: ServerError) -> ProviderFailing:
    asked = _retry_after(reply.headers)
    after = complaint.retry_after if asked is None else asked
    if reply.status == 500 and after is None:
        # Ollama answers so to one text of which its model makes NaN, llama-server to one that is
        # longer than its batch.
        return WrongAnswer(what, "Try again later")
    return ProviderFailing(what, "Try again later", retry_after=after)


def _retry_after(headers: Message) -> float | None:
    """Return the seconds that the header of this name asks for, as a number or as a date."""
    asked = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", asked):
        return float(asked)
    until, now = _date(asked), _date(headers.get("Date", "")) or datetime.now(UTC)
    return max(0.0, (until - now).total_seconds()) if until else None


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _parse_error(body: bytes) -> ServerError:
    """Read an error: OpenAI and Gemini wrap it in `error`, compatible servers not always."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return ServerError()
    error = said.get("error", said) if isinstance(said, dict) else said
    if not isinstance(error, dict):
        return ServerError(error if isinstance(error, str) else "")
    parts = _find_objects(error.get("details"))
    codes = [error.get(name) for name in ("code", "type", "status", "param")]
    codes += [part.get("reason") for part in parts]
    delays = (_seconds(part.get("retryDelay")) for part in parts)
    return ServerError(
        next((error[name] for name in ("message", "detail") if type(error.get(name)) is str), ""),
        frozenset(code for code in codes if isinstance(code, str)),
        next((delay for delay in delays if delay is not None), None),
    )


def _find_objects(value: object) -> list[dict[str, Any]]:
    found = value if isinstance(value, list) else []
    return [entry for entry in found if isinstance(entry, dict)]


def _seconds(delay: object) -> float | None:
    """Read a duration as Gemini writes it, such as 38.5s."""
    found = re.fullmatch(r"(\d+(\.\d+)?)s", str(delay))
    return float(found[1]) if found else None


def _quote(key: ApiKey, message: str) -> str:
    """Turn a server's words into the end of a line: short, harmless, without the key."""
    printable = "".join(c if c.isprintable() else " " for c in key.mask(message))
    line = " ".join(printable.split())[:_QUOTED].rstrip(". ")
    return f": {line}" if line else ""


def prepare_windows(text: str, tokens: int) -> list[str]:
    """Cut a text into windows, without blank ones: servers refuse those."""
    return [window for window in text_windows(text, tokens) if window.strip()]


def empty_rows(dimensions: int) -> Matrix:
    """Return the vectors of a text that has none."""
    import numpy as np

    return np.zeros((0, dimensions), dtype=np.float32)


def entries(server: ServerName, answer: object, name: str) -> list[dict[str, Any]]:
    """Return the list of objects that an answer has under a name."""
    found = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(found, list) or len(_find_objects(found)) != len(found):
        raise server.wrong_answer(f"answered without a list of {name}")
    return found


def to_unit_vectors(
    server: ServerName, vectors: Sequence[object], count: int, dimensions: int
) -> Matrix:
    """Make unit vectors of what a server sent, as many and as long as they should be."""
    import numpy as np

    if len(vectors) != count:
        raise server.wrong_answer(f"answered with {len(vectors)} vectors to {count} texts")
    numbers = [_numbers(server, vector) for vector in vectors]
    _check_lengths(server, {len(vector) for vector in numbers}, dimensions)
    rows = np.array(numbers, dtype=np.float64)
    largest = np.abs(rows).max(axis=1, keepdims=True)
    if not np.isfinite(rows).all() or not largest.all():
        raise server.wrong_answer("answered with a vector of zeros, NaN or infinity")
    rows /= largest  # Squares of very large or very small numbers are infinite or nothing.
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32)


def _check_lengths(server: ServerName, lengths: set[int], dimensions: int) -> None:
    if lengths == {dimensions}:
        return
    if len(lengths) > 1 or 0 in lengths:
        raise server.wrong_answer("answered with vectors of different lengths, or without numbers")
    (length,) = lengths
    raise ProviderUnavailable(
        f"{server.host} answered with vectors of {length} numbers, not of {dimensions}",
        f"Set {server.settings.section}.dimensions to {length}, or name another model",
    )


def _numbers(server: ServerName, vector: object) -> Sequence[float]:
    """Read a vector: a list of numbers, or base64 of little-endian float32."""
    import numpy as np

    try:
        if isinstance(vector, str):
            return [*np.frombuffer(base64.b64decode(vector, validate=True), "<f4").astype(float)]
        if isinstance(vector, list) and set(map(type, vector)) <= {int, float}:
            return [float(number) for number in vector]
    except (ValueError, OverflowError):
        pass
    raise server.wrong_answer("answered with something other than numbers")
