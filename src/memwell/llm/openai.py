"""OpenAI's chat completions, and those of any server that speaks its protocol.

Ollama, LM Studio, vLLM and llama-server do; give their address as `base_url`. Not all of them take
the same parameters. memwell omits a parameter that a server refuses, but never the limit on the
length of the answer.
"""

from __future__ import annotations

import re
from typing import Any

from memwell.errors import BatchRefused, EmbeddingError
from memwell.llm.http_chat import HttpChat, get_member, join_texts
from memwell.net.responses import Endpoint, Reply, get_objects
from memwell.net.vendors import OPENAI

_LIMIT = "max_completion_tokens"
_OLDER_LIMIT = "max_tokens"
_PARAMETERS = re.compile(rb"max_completion_tokens|max_tokens|temperature")
_THOUGHTS = re.compile(r"\A\s*<think>.*?(?:</think>|\Z)\s*", re.DOTALL)


class _ParameterRefused(BatchRefused):
    """The server refuses one parameter of the request."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__(what)
        self.name = name


class OpenAIChat(HttpChat):
    """A model behind ``/chat/completions``."""

    name = "openai"
    vendor = OPENAI

    def __init__(self, model: str, *, base_url: str = "", **details: Any) -> None:
        """Ask the server at `base_url`, or else OpenAI."""
        super().__init__(model, base_url=base_url, **details)
        # Ollama ignores the newer limit and writes without end, so a server gets both limits.
        # OpenAI refuses a request with both.
        # https://docs.ollama.com/api/openai-compatibility
        is_openai = base_url.strip().rstrip("/") in ("", OPENAI.address)
        self._omitted = frozenset({_OLDER_LIMIT}) if is_openai else frozenset()

    def _body(self, system: str, user: str, max_tokens: int) -> dict[str, object]:
        # https://platform.openai.com/docs/api-reference/chat/create
        parts = [("system", system), ("user", user)]
        return {
            "model": self.model,
            "messages": [{"role": role, "content": text} for role, text in parts if text.strip()],
            _LIMIT: max_tokens,
            _OLDER_LIMIT: max_tokens,
            "temperature": 0,
        }

    def _send(self, body: dict[str, object], seconds: float) -> Any:
        """Send a request without the parameters that the server refuses; remember those."""
        omitted = self._omitted
        while True:
            sent = {name: value for name, value in body.items() if name not in omitted}
            try:
                answer = self._client.post("/chat/completions", sent, seconds=seconds)
            except _ParameterRefused as refusal:
                omitted = _next_omitted(refusal, sent, omitted)
            else:
                self._omitted = omitted
                return answer

    def _map_error(self, endpoint: Endpoint, reply: Reply) -> EmbeddingError:
        """Return the error that a response means, with the parameter that it names first.

        "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        """
        error = super()._map_error(endpoint, reply)
        parameter = _PARAMETERS.search(reply.body)
        if isinstance(error, BatchRefused) and parameter:
            return _ParameterRefused(error.what, parameter[0].decode())
        return error

    def _text(self, answer: Any) -> str:
        choices = get_objects(self._endpoint, answer, "choices")
        if not choices:
            raise self._endpoint.wrong_answer("answered without a choice")
        message, reason = get_member(choices[0], "message"), choices[0].get("finish_reason")
        if reason == "content_filter" or message.get("refusal"):
            raise self._refused(reason if reason == "content_filter" else "refusal")
        content = message.get("content")
        text = content if isinstance(content, str) else join_texts(content)
        if text is not None:  # A local model may write its thoughts first.
            text = _THOUGHTS.sub("", text, count=1)
        return self._check_text(text, is_cut=reason == "length")

    def _usage(self, answer: Any) -> tuple[object, object]:
        usage = get_member(answer, "usage")
        return usage.get("prompt_tokens"), usage.get("completion_tokens")


def _next_omitted(
    refusal: _ParameterRefused, sent: dict[str, object], omitted: frozenset[str]
) -> frozenset[str]:
    """Return the parameters to omit next; raise the refusal if another request cannot help."""
    if refusal.name not in sent:
        raise refusal
    if refusal.name == _LIMIT and _OLDER_LIMIT not in sent:
        return omitted - {_OLDER_LIMIT} | {_LIMIT}
    if refusal.name == _OLDER_LIMIT and _LIMIT not in sent:
        raise refusal
    return omitted | {refusal.name}
