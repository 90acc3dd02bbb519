"""A language model behind a vendor's protocol: what all of them have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

from memwell.errors import EmbeddingError, LlmFailing, LlmRefused, ProviderFailing, WrongAnswer
from memwell.llm.base import DEFAULT_TIMEOUTS, Answer, Timeouts, translate_errors, with_retries
from memwell.net.client import JsonClient
from memwell.net.responses import Reply, ServerName, SettingNames, error_for
from memwell.token_estimate import count_tokens

MOST_BYTES = 8 * 1024 * 1024
"""Of an answer: far more text than any model writes at a time."""


@dataclass(frozen=True, slots=True)
class ChatSettings(SettingNames):
    """What a model's settings are called; its name stands in one that all providers share."""

    model: str = "llm.default"

    def check(self, *names: str) -> str:
        """The remedy for settings that are wrong; dimensions are none of a language model's."""
        called = {"model": self.model}
        wrong = [called.get(name, f"{self.section}.{name}") for name in names]
        return "Check " + " and ".join(name for name in wrong if not name.endswith(".dimensions"))


class HttpChat(ABC):
    """A model that is asked over HTTP; each protocol says what to send and what comes back."""

    name: ClassVar[str]
    vendor: ClassVar[str]
    """The vendor's own address, which demands a key."""
    variable: ClassVar[str]
    """Of the environment: the key."""
    header: ClassVar[str]
    scheme: ClassVar[str] = ""
    """What the key is sent as, and what stands before it."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str = "",
        key: str = "",
        pace: Timeouts = DEFAULT_TIMEOUTS,
        setting: str = "llm.default",
    ) -> None:
        """`setting` is where the model's name stands, for remedies."""
        self.model = model
        self._settings = ChatSettings(f"llm.{self.name}", self.variable, setting)
        self._pace = pace
        with translate_errors():
            self._service = JsonClient(
                base_url or self.vendor,
                key,
                vendor=self.vendor,
                header=self.header,
                scheme=self.scheme,
                settings=self._settings,
                timeout=pace.timeout,
                most_bytes=MOST_BYTES,
                meaning=self._map_error,
            )
        self._server = self._service.server

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r})"

    @property
    def address(self) -> str:
        """The host that is asked."""
        return self._server.host

    def complete(self, system: str, user: str, *, max_tokens: int) -> Answer:
        """Return the answer to `user`, under the instructions of `system`."""
        body = self._body(system, user, max_tokens)
        answer = with_retries(lambda seconds: self._sent(body, seconds), self._pace)
        with translate_errors():
            text = self._text(answer)
        return self._answer(text, system + user, *self._usage(answer))

    @abstractmethod
    def _body(self, system: str, user: str, max_tokens: int) -> dict[str, object]:
        """Return the request."""

    @abstractmethod
    def _sent(self, body: dict[str, object], seconds: float) -> Any:
        """Send a request and return what comes back."""

    @abstractmethod
    def _text(self, answer: Any) -> str:
        """Return what the model wrote."""

    @abstractmethod
    def _usage(self, answer: Any) -> tuple[object, object]:
        """Return the tokens that were sent and answered, as the server tells."""

    def _map_error(self, server: ServerName, reply: Reply) -> EmbeddingError:
        """Return what an answer other than success means: no text of a batch can be to blame."""
        error = error_for(server, reply)
        wrong = isinstance(error, WrongAnswer)
        return ProviderFailing(error.what, error.remedy) if wrong else error

    def _answer(self, text: str, sent: str, input_tokens: object, output_tokens: object) -> Answer:
        """Make an answer of a text; where the server does not tell the tokens, they are estimated.

        The text goes into logs and databases: without the key, should the server repeat it, and
        without halves of characters, which cannot be written.
        """
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return Answer(
            self._server.key.mask(whole),
            input_tokens if _is_count(input_tokens) else count_tokens(sent),
            output_tokens if _is_count(output_tokens) else count_tokens(text),
        )

    def _parse_reply(self, text: str | None, *, cut: bool) -> str:
        """Return a text, or say why there is none; `cut` where it reached its limit of tokens."""
        if text is not None and (text.strip() or not cut):
            return text
        host, setting = self.address, self._settings.model
        if cut:
            # A model that thinks first may spend all of its tokens on that.
            spent = f"{host} spent all tokens of the answer before its first word"
            raise LlmFailing(spent, f"Name a model that thinks less in {setting}")
        raise LlmFailing(f"{host} answered without text", f"Check {setting}")

    def _refused(self, reason: object) -> LlmRefused:
        """Return the error for an answer that was held back, with the vendor's word for why."""
        plain = isinstance(reason, str) and reason.isascii() and reason.replace("_", "").isalnum()
        why = f" ({str(reason)[:40]})" if plain else ""
        what = f"{self.address} will not answer this{why}"
        return LlmRefused(what, f"Check {self._settings.model}")


def _is_count(told: object) -> TypeGuard[int]:
    return type(told) is int and told >= 0


def get_member(value: Any, name: str) -> dict[str, Any]:
    """Return the object that an answer has under a name, or an empty one."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def join_texts(parts: object) -> str | None:
    """Return the text of an answer's parts, without its thoughts; None where it holds none."""
    found = parts if isinstance(parts, list) else []
    spoken = [part for part in found if isinstance(part, dict) and not part.get("thought")]
    texts = [part["text"] for part in spoken if isinstance(part.get("text"), str)]
    return "".join(texts) if texts else None
