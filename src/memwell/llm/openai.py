"""OpenAI's chat completions, and those of any server that speaks its protocol.

Ollama, LM Studio, vLLM and llama-server do; give their address as `base_url`. Not all take the
same parameters: one that a server refuses is left out, but never the limit of the answer.
"""

from __future__ import annotations

import re
from typing import Any

from memwell.config.providers import OPENAI_URL
from memwell.embed.base import BatchRefused, EmbeddingError
from memwell.llm.http_chat import HttpChat, get_member, join_texts
from memwell.net.responses import Reply, ServerName, entries

_LIMIT = "max_completion_tokens"
_OLDER_LIMIT = "max_tokens"
_PARAMETERS = re.compile(rb"max_completion_tokens|max_tokens|temperature")
_THOUGHTS = re.compile(r"\A\s*<think>.*?(?:</think>|\Z)\s*", re.DOTALL)


class _ParameterRefused(BatchRefused):
    """The server does not take one of the request's parameters."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__(what)
        self.name = name


class OpenAIChat(HttpChat):
    """A model behind ``/chat/completions``."""

    name = "openai"
    vendor = OPENAI_URL
    variable = "OPENAI_API_KEY"
    header = "Authorization"
    scheme = "Bearer "

    def __init__(self, model: str, *, base_url: str = "", **details: Any) -> None:
        """Ask a server at `base_url`, or OpenAI itself."""
        super().__init__(model, base_url=base_url, **details)
        # Ollama takes no notice of the newer limit, and writes without end; OpenAI refuses both.
        # https://docs.ollama.com/api/openai-compatibility
        at_home = base_url.strip().rstrip("/") in ("", self.vendor)
        self._left_out = frozenset({_OLDER_LIMIT}) if at_home else frozenset()

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

    def _sent(self, body: dict[str, object], seconds: float) -> Any:
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

    def _map_error(self, server: ServerName, reply: Reply) -> EmbeddingError:
        """Return what an answer other than success means, with the parameter that it names first.

        "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        """
        error = super()._map_error(server, reply)
        named = _PARAMETERS.search(reply.body)
        if isinstance(error, BatchRefused) and named:
            return _ParameterRefused(error.what, named[0].decode())
        return error

    def _text(self, answer: Any) -> str:
        choices = entries(self._server, answer, "choices")
        if not choices:
            raise self._server.wrong_answer("answered without a choice")
        message, why = get_member(choices[0], "message"), choices[0].get("finish_reason")
        if why == "content_filter" or message.get("refusal"):
            raise self._refused(why if why == "content_filter" else "refusal")
        content = message.get("content")
        found = content if isinstance(content, str) else join_texts(content)
        # A model on one's own machine may think aloud first.
        text = None if found is None else _THOUGHTS.sub("", found, count=1)
        return self._parse_reply(text, cut=why == "length")

    def _usage(self, answer: Any) -> tuple[object, object]:
        usage = get_member(answer, "usage")
        return usage.get("prompt_tokens"), usage.get("completion_tokens")


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
