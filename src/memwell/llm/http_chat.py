"""A language model behind a vendor's HTTP protocol: the parts that all of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

from memwell.errors import EmbeddingError, LlmFailing, LlmRefused, ProviderFailing, WrongAnswer
from memwell.llm.base import DEFAULT_TIMEOUTS, Answer, Timeouts, translate_errors, with_retries
from memwell.net.client import JsonClient
from memwell.net.responses import Endpoint, Reply, SettingNames, error_for
from memwell.net.vendors import Vendor
from memwell.token_estimate import count_tokens

MAX_BYTES = 8 * 1024 * 1024
"""The largest response: far more text than any model writes at a time."""


@dataclass(frozen=True, slots=True)
class ChatSettings(SettingNames):
    """The names of a model's settings; all providers share the one with the model's name."""

    model: str = "llm.default"

    def remedy(self, *names: str) -> str:
        """Return the remedy for settings that are wrong; a language model has no dimensions."""
        known = {"model": self.model}
        wrong = [known.get(name, f"{self.section}.{name}") for name in names]
        return "Check " + " and ".join(name for name in wrong if not name.endswith(".dimensions"))


class HttpChat(ABC):
    """A model on a server; each protocol says what to send and where the text is."""

    name: ClassVar[str]
    vendor: ClassVar[Vendor]

    def __init__(
        self,
        model: str,
        *,
        base_url: str = "",
        key: str = "",
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        setting: str = "llm.default",
    ) -> None:
        """Ask the server at `base_url`, or else the vendor's own.

        `setting` holds the model's name; remedies mention it.
        """
        self.model = model
        self._settings = ChatSettings(f"llm.{self.name}", self.vendor.variable, setting)
        self._timeouts = timeouts
        with translate_errors():
            self._client = JsonClient(
                base_url or self.vendor.address,
                key,
                self.vendor,
                self._settings,
                timeout=timeouts.timeout,
                max_bytes=MAX_BYTES,
                to_error=self._map_error,
            )
        self._endpoint = self._client.endpoint
        self.address = self._endpoint.host

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r})"

    def complete(self, system: str, user: str, *, max_tokens: int) -> Answer:
        """Return the answer to `user`, under the instructions of `system`."""
        body = self._body(system, user, max_tokens)
        answer = with_retries(lambda seconds: self._send(body, seconds), self._timeouts)
        with translate_errors():
            text = self._text(answer)
        return self._answer(text, system + user, *self._usage(answer))

    @abstractmethod
    def _body(self, system: str, user: str, max_tokens: int) -> dict[str, object]:
        """Return the request."""

    @abstractmethod
    def _send(self, body: dict[str, object], seconds: float) -> Any:
        """Send a request and return the JSON of the response."""

    @abstractmethod
    def _text(self, answer: Any) -> str:
        """Return the text that the model wrote."""

    @abstractmethod
    def _usage(self, answer: Any) -> tuple[object, object]:
        """Return the server's counts of input tokens and output tokens."""

    def _map_error(self, endpoint: Endpoint, reply: Reply) -> EmbeddingError:
        """Return the error that a response without success means.

        It is never `WrongAnswer`, which blames one text of a batch: here is only one text.
        """
        error = error_for(endpoint, reply)
        is_wrong = isinstance(error, WrongAnswer)
        return ProviderFailing(error.what, error.remedy) if is_wrong else error

    def _answer(self, text: str, sent: str, input_tokens: object, output_tokens: object) -> Answer:
        """Return an answer; estimate the tokens if the server did not count them.

        The text goes into logs and databases. So the key is masked, in case the server repeats
        it, and lone surrogates, which cannot be encoded, are replaced.
        """
        encodable = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return Answer(
            self._endpoint.key.mask(encodable),
            input_tokens if _is_count(input_tokens) else count_tokens(sent),
            output_tokens if _is_count(output_tokens) else count_tokens(text),
        )

    def _check_text(self, text: str | None, *, is_cut: bool) -> str:
        """Return a text, or raise the reason why it is missing.

        `is_cut` says that the model reached the limit of its tokens.
        """
        if text is not None and (text.strip() or not is_cut):
            return text
        setting = self._settings.model
        if is_cut:
            # A model that thinks first may spend all of its tokens on that.
            spent = f"{self.address} spent all tokens of the answer before its first word"
            raise LlmFailing(spent, f"Name a model that thinks less in {setting}")
        raise LlmFailing(f"{self.address} answered without text", f"Check {setting}")

    def _refused(self, reason: object) -> LlmRefused:
        """Return the error for an answer that the vendor withheld, with the vendor's reason."""
        plain = isinstance(reason, str) and reason.isascii() and reason.replace("_", "").isalnum()
        why = f" ({str(reason)[:40]})" if plain else ""
        what = f"{self.address} will not answer this{why}"
        return LlmRefused(what, f"Check {self._settings.model}")


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and value >= 0


def get_member(value: Any, name: str) -> dict[str, Any]:
    """Return the object that an answer has under a name, or an empty one."""
    member = value.get(name) if isinstance(value, dict) else None
    return member if isinstance(member, dict) else {}


def join_texts(parts: object) -> str | None:
    """Return the text of an answer's parts, without thoughts; None if it has no text."""
    items = parts if isinstance(parts, list) else []
    spoken = [part for part in items if isinstance(part, dict) and not part.get("thought")]
    texts = [part["text"] for part in spoken if isinstance(part.get("text"), str)]
    return "".join(texts) if texts else None
