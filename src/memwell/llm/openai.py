"""OpenAI's chat completions, and those of any server that speaks its protocol.

Ollama, LM Studio, vLLM and llama-server do; give their address as `base_url`. Not all take the
same parameters: one that a server refuses is left out, but never the limit of the answer.
"""

from __future__ import annotations

import re
from typing import Any

from memwell.embed.answers import Reply, Server, entries
from memwell.embed.base import BatchRefused, EmbeddingError
from memwell.embed.http import Service
from memwell.llm.base import (
    MOST_BYTES,
    PACE,
    Answer,
    ChatSettings,
    Pace,
    answer_of,
    as_llm_errors,
    ask,
    joined,
    meaning,
    member,
    no_text,
    refused,
)

ADDRESS = "https://api.openai.com/v1"
_LIMIT = "max_completion_tokens"
_OLDER_LIMIT = "max_tokens"
_PARAMETERS = re.compile(rb"max_completion_tokens|max_tokens|temperature")
_THOUGHTS = re.compile(r"\A\s*<think>.*?(?:</think>|\Z)\s*", re.DOTALL)


class OpenAIChat:
    """A model behind ``/chat/completions``."""

    name = "openai"

    def __init__(
        self,
        model: str,
        *,
        base_url: str = ADDRESS,
        key: str = "",
        pace: Pace = PACE,
        setting: str = "llm.default",
    ) -> None:
        """`setting` is where the model's name stands, for remedies."""
        self.model = model
        self._settings = ChatSettings("llm.openai", "OPENAI_API_KEY", setting)
        self._pace = pace
        with as_llm_errors():
            self._service = Service(
                base_url,
                key,
                vendor=ADDRESS,
                header="Authorization",
                scheme="Bearer ",
                settings=self._settings,
                timeout=pace.timeout,
                most_bytes=MOST_BYTES,
                meaning=_meaning,
            )
        # Ollama takes no notice of the newer limit, and writes without end; OpenAI refuses both.
        # https://docs.ollama.com/api/openai-compatibility
        at_home = base_url.strip().rstrip("/") == ADDRESS
        self._left_out = frozenset({_OLDER_LIMIT}) if at_home else frozenset()

    def __repr__(self) -> str:
        return f"OpenAIChat(model={self.model!r})"

    def complete(self, system: str, user: str, *, max_tokens: int) -> Answer:
        """Return the answer to `user`, under the instructions of `system`."""
        body = self._body(system, user, max_tokens)
        answer = ask(lambda seconds: self._answer(body, seconds), self._pace)
        with as_llm_errors():
            text = self._text(answer)
        usage = member(answer, "usage")
        return answer_of(
            self._service.server,
            text,
            system + user,
            input_tokens=usage.get("prompt_tokens"),
            output_tokens=usage.get("completion_tokens"),
        )

    def _body(self, system: str, user: str, max_tokens: int) -> dict[str, object]:
        # https://platform.openai.com/docs/api-reference/chat/create
        said = [("system", system), ("user", user)]
        return {
            "model": self.model,
            "messages": [{"role": role, "content": text} for role, text in said if text.strip()],
            _LIMIT: max_tokens,
            _OLDER_LIMIT: max_tokens,
            "temperature": 0,
        }

    def _answer(self, body: dict[str, object], seconds: float) -> Any:
        """Send a request, without what the server refuses; remember that if it helped."""
        left_out = self._left_out
        while True:
            sent = {name: value for name, value in body.items() if name not in left_out}
            try:
                answer = self._service.post("/chat/completions", sent, within=seconds)
            except _ParameterRefused as refusal:
                left_out = _without(refusal, sent, left_out)
            else:
                self._left_out = left_out
                return answer

    def _text(self, answer: Any) -> str:
        choices = entries(self._service.server, answer, "choices")
        if not choices:
            raise self._service.server.wrong_answer("answered without a choice")
        message, why = member(choices[0], "message"), choices[0].get("finish_reason")
        if why == "content_filter" or message.get("refusal"):
            reason = why if why == "content_filter" else "refusal"
            raise refused(self._service.server, reason, self._settings)
        return self._written(message.get("content"), cut=why == "length")

    def _written(self, content: object, *, cut: bool) -> str:
        """Read a message, without what a model on one's own machine thought aloud first."""
        found = content if isinstance(content, str) else joined(content)
        text = None if found is None else _THOUGHTS.sub("", found, count=1)
        if text is None or (cut and not text.strip()):
            raise no_text(self._service.server, cut=cut, settings=self._settings)
        return text


class _ParameterRefused(BatchRefused):
    """The server does not take one of the request's parameters."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__(what)
        self.name = name


def _meaning(server: Server, reply: Reply) -> EmbeddingError:
    """Return what an answer other than success means, with the parameter that it names first.

    "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    """
    error = meaning(server, reply)
    named = _PARAMETERS.search(reply.body)
    if isinstance(error, BatchRefused) and named:
        return _ParameterRefused(error.what, named[0].decode())
    return error


def _without(
    refusal: _ParameterRefused, sent: dict[str, object], left_out: frozenset[str]
) -> frozenset[str]:
    """Return what to leave out next; the refusal stands where it is of no use to ask again."""
    if refusal.name not in sent:
        raise refusal
    if refusal.name == _LIMIT and _OLDER_LIMIT not in sent:
        return left_out - {_OLDER_LIMIT} | {_LIMIT}
    if refusal.name == _OLDER_LIMIT and _LIMIT not in sent:
        raise refusal
    return left_out | {refusal.name}
