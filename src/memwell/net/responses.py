"""The meaning of a server's response: which error of `memwell.errors` it is.

No message holds a key, the text of a request, or more of an address than its host.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from memwell.errors import (
    BatchRefused,
    EmbeddingError,
    ProviderFailing,
    ProviderUnavailable,
    WrongAnswer,
)

_QUOTED = 200
"""A message repeats this many characters of the server's own message."""

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
# OpenAI's `param` gives these names to the parts of a request that are not its texts.
_WRONG_SETTING = {"model_not_found", "model", "dimensions", "encoding_format"}


class ApiKey:
    """A key that shows itself only in `reveal`."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return "***"

    def reveal(self) -> str:
        """Return the key itself. Never keep it in a variable: a debugger would print it."""
        return self._text

    def mask(self, text: str) -> str:
        """Return the text with *** in place of the key."""
        return text.replace(self._text, repr(self)) if self._text else text


@dataclass(frozen=True, slots=True)
class SettingNames:
    """The names of a provider's settings, for remedies."""

    section: str
    variable: str
    """The environment variable that holds the key."""

    @property
    def key_remedy(self) -> str:
        """The remedy for a key that is missing or wrong."""
        return f"Set {self.variable} or {self.section}.key to a key of that provider"

    def remedy(self, *names: str) -> str:
        """Return the remedy for settings that are wrong."""
        return "Check " + " and ".join(f"{self.section}.{name}" for name in names)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The server that answers, as far as messages need to know it."""

    host: str
    key: ApiKey
    settings: SettingNames

    def wrong_answer(self, what: str) -> WrongAnswer:
        """Return the error for a response that memwell cannot use."""
        return WrongAnswer(f"{self.host} {what}", self.settings.remedy("base_url"))


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response, read to its end."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ServerError:
    """The server's own description of an error."""

    message: str = ""
    codes: frozenset[str] = frozenset()
    retry_after: float | None = None


def error_for(endpoint: Endpoint, reply: Reply) -> EmbeddingError:
    """Return the error that a response without success means."""
    error = _parse_error(reply.body)
    what = f"{endpoint.host} answered {reply.status}{_quote(endpoint.key, error.message)}"
    settings = endpoint.settings
    if reply.status in (401, 403) or error.codes & _WRONG_KEY:
        return ProviderUnavailable(what, settings.key_remedy)
    if reply.status == 402 or error.codes & _UNPAID:
        return ProviderUnavailable(what, "Check the account's plan and limits with the provider")
    if error.codes & _WRONG_SETTING:
        return ProviderUnavailable(what, settings.remedy("model", "dimensions"))
    if reply.status in (400, 413, 422):
        return BatchRefused(what)
    if reply.status in (408, 409, 425, 429) or reply.status >= 500:
        return _failure(what, reply, error)
    if reply.status < 400:
        moved = (
            f"{endpoint.host} answered {reply.status}, a redirect, which memwell does not follow"
        )
        return ProviderUnavailable(moved, settings.remedy("base_url"))
    return ProviderUnavailable(what, settings.remedy("model", "base_url"))


def _failure(what: str, reply: Reply, error: ServerError) -> ProviderFailing:
    asked = _retry_after(reply.headers)
    after = error.retry_after if asked is None else asked
    if reply.status == 500 and after is None:
        # Ollama answers 500 to a text for which its model computes NaN, llama-server to a text
        # that is longer than its batch.
        return WrongAnswer(what, "Try again later")
    return ProviderFailing(what, "Try again later", retry_after=after)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the header Retry-After asks for, as a number or as a date."""
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
    """Read an error. OpenAI and Gemini wrap it in `error`, compatible servers not always."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return ServerError()
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if not isinstance(error, dict):
        return ServerError(error if isinstance(error, str) else "")
    details = _find_objects(error.get("details"))
    codes = [error.get(name) for name in ("code", "type", "status", "param")]
    codes += [detail.get("reason") for detail in details]
    delays = (_seconds(detail.get("retryDelay")) for detail in details)
    return ServerError(
        next((error[name] for name in ("message", "detail") if type(error.get(name)) is str), ""),
        frozenset(code for code in codes if isinstance(code, str)),
        next((delay for delay in delays if delay is not None), None),
    )


def _seconds(delay: object) -> float | None:
    """Read a duration as Gemini writes it, such as 38.5s."""
    match = re.fullmatch(r"(\d+(\.\d+)?)s", str(delay))
    return float(match[1]) if match else None


def _quote(key: ApiKey, message: str) -> str:
    """Return a server's message as the end of a line: short, printable, without the key."""
    printable = "".join(c if c.isprintable() else " " for c in key.mask(message))
    line = " ".join(printable.split())[:_QUOTED].rstrip(". ")
    return f": {line}" if line else ""


def get_objects(endpoint: Endpoint, answer: object, name: str) -> list[dict[str, Any]]:
    """Return the list of objects that an answer has under a name."""
    values = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(values, list) or len(_find_objects(values)) != len(values):
        raise endpoint.wrong_answer(f"answered without a list of {name}")
    return values


def _find_objects(value: object) -> list[dict[str, Any]]:
    items = value if isinstance(value, list) else []
    return [item for item in items if isinstance(item, dict)]
