"""Gemini's language models, of the developer API."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from memwell.config.providers import GEMINI_URL
from memwell.llm.http_chat import HttpChat, get_member, join_texts
from memwell.net.responses import entries

_CUT = "MAX_TOKENS"
_FINISHED = (None, "FINISH_REASON_UNSPECIFIED", "STOP", _CUT)
"""Every other reason to stop is that something was held back, or went wrong."""


class GeminiChat(HttpChat):
    """A model behind ``:generateContent``."""

    name = "gemini"
    vendor = GEMINI_URL
    variable = "GEMINI_API_KEY"
    header = "x-goog-api-key"

    def __init__(self, model: str, **details: Any) -> None:
        """Take the model's name with or without what the API's lists put before it."""
        super().__init__(model.removeprefix("models/"), **details)

    def _body(self, system: str, user: str, max_tokens: int) -> dict[str, object]:
        # https://ai.google.dev/api/generate-content
        body: dict[str, object] = {
            "contents": [{"role": "user", "parts": [{"text": user}]}],
            "generationConfig": {"temperature": 0, "maxOutputTokens": max_tokens},
        }
        if system.strip():
            body["systemInstruction"] = {"parts": [{"text": system}]}
        return body

    def _sent(self, body: dict[str, object], seconds: float) -> Any:
        path = f"/models/{quote(self.model, safe='')}:generateContent"
        return self._service.post(path, body, within=seconds)

    def _text(self, answer: Any) -> str:
        if blocked := get_member(answer, "promptFeedback").get("blockReason"):
            raise self._refused(blocked)
        candidates = entries(self._server, answer, "candidates")
        if not candidates:
            raise self._server.wrong_answer("answered without a candidate")
        why = candidates[0].get("finishReason")
        if why not in _FINISHED:
            raise self._refused(why)
        return self._parse_reply(
            join_texts(get_member(candidates[0], "content").get("parts")), cut=why == _CUT
        )

    def _usage(self, answer: Any) -> tuple[object, object]:
        """Add the thoughts to what was written, which are paid for like it."""
        usage = get_member(answer, "usageMetadata")
        counts = [usage.get(name) for name in ("candidatesTokenCount", "thoughtsTokenCount")]
        told = [count for count in counts if type(count) is int]
        return usage.get("promptTokenCount"), sum(told) if told else None
