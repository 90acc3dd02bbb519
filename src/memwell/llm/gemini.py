"""Gemini's language models, through the developer API."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from memwell.llm.http_chat import HttpChat, get_member, join_texts
from memwell.net.responses import get_objects
from memwell.net.vendors import GEMINI

_CUT = "MAX_TOKENS"
_FINISHED = (None, "FINISH_REASON_UNSPECIFIED", "STOP", _CUT)
"""Every other finish reason means that the vendor withheld text, or that an error occurred."""


class GeminiChat(HttpChat):
    """A model behind ``:generateContent``."""

    name = "gemini"
    vendor = GEMINI

    def __init__(self, model: str, **details: Any) -> None:
        """Take the model's name with or without the prefix that the API's lists give it."""
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

    def _send(self, body: dict[str, object], seconds: float) -> Any:
        path = f"/models/{quote(self.model, safe='')}:generateContent"
        return self._client.post(path, body, seconds=seconds)

    def _text(self, answer: Any) -> str:
        if reason := get_member(answer, "promptFeedback").get("blockReason"):
            raise self._refused(reason)
        candidates = get_objects(self._endpoint, answer, "candidates")
        if not candidates:
            raise self._endpoint.wrong_answer("answered without a candidate")
        reason = candidates[0].get("finishReason")
        if reason not in _FINISHED:
            raise self._refused(reason)
        parts = get_member(candidates[0], "content").get("parts")
        return self._check_text(join_texts(parts), is_cut=reason == _CUT)

    def _usage(self, answer: Any) -> tuple[object, object]:
        """Add the tokens of the thoughts to those of the text: both are paid for."""
        usage = get_member(answer, "usageMetadata")
        counts = [usage.get(name) for name in ("candidatesTokenCount", "thoughtsTokenCount")]
        output = [count for count in counts if type(count) is int]
        return usage.get("promptTokenCount"), sum(output) if output else None
