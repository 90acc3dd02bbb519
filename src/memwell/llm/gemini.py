"""Gemini's language models, of the developer API."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from memwell.embed.answers import entries
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

ADDRESS = "https://generativelanguage.googleapis.com/v1beta"
_CUT = "MAX_TOKENS"
_FINISHED = (None, "FINISH_REASON_UNSPECIFIED", "STOP", _CUT)
"""Every other reason to stop is that something was held back, or went wrong."""


class GeminiChat:
    """A model behind ``:generateContent``."""

    name = "gemini"

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
        self.model = model.removeprefix("models/")
        self._settings = ChatSettings("llm.gemini", "GEMINI_API_KEY", setting)
        self._pace = pace
        with as_llm_errors():
            self._service = Service(
                base_url,
                key,
                vendor=ADDRESS,
                header="x-goog-api-key",
                settings=self._settings,
                timeout=pace.timeout,
                most_bytes=MOST_BYTES,
                meaning=meaning,
            )

    def __repr__(self) -> str:
        return f"GeminiChat(model={self.model!r})"

    def complete(self, system: str, user: str, *, max_tokens: int) -> Answer:
        """Return the answer to `user`, under the instructions of `system`."""
        path = f"/models/{quote(self.model, safe='')}:generateContent"
        body = _body(system, user, max_tokens)
        answer = ask(lambda seconds: self._service.post(path, body, within=seconds), self._pace)
        with as_llm_errors():
            text = self._text(answer)
        usage = member(answer, "usageMetadata")
        return answer_of(
            self._service.server,
            text,
            system + user,
            input_tokens=usage.get("promptTokenCount"),
            output_tokens=_output_tokens(usage),
        )

    def _text(self, answer: Any) -> str:
        server = self._service.server
        if blocked := member(answer, "promptFeedback").get("blockReason"):
            raise refused(server, blocked, self._settings)
        candidates = entries(server, answer, "candidates")
        if not candidates:
            raise server.wrong_answer("answered without a candidate")
        why = candidates[0].get("finishReason")
        if why not in _FINISHED:
            raise refused(server, why, self._settings)
        text = joined(member(candidates[0], "content").get("parts"))
        if text is None or (why == _CUT and not text.strip()):
            raise no_text(server, cut=why == _CUT, settings=self._settings)
        return text


def _body(system: str, user: str, max_tokens: int) -> dict[str, object]:
    # https://ai.google.dev/api/generate-content
    body: dict[str, object] = {
        "contents": [{"role": "user", "parts": [{"text": user}]}],
        "generationConfig": {"temperature": 0, "maxOutputTokens": max_tokens},
    }
    if system.strip():
        body["systemInstruction"] = {"parts": [{"text": system}]}
    return body


def _output_tokens(usage: dict[str, Any]) -> int | None:
    """Add the thoughts to what was written, which are paid for like it."""
    counts = [usage.get(name) for name in ("candidatesTokenCount", "thoughtsTokenCount")]
    told = [count for count in counts if type(count) is int]
    return sum(told) if told else None
