"""Answers of language models, right and wrong, for the servers of `tests.support.servers`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.servers import Act, Handler, Request, Server, serving, without_proxies

PROVIDERS = ("openai", "gemini")
Set = Callable[..., None]
"""Sets settings, by their names with _ for the dots."""
FACT = '{"text": "The harbour opens at six.", "category": "fact", "tags": ["harbour"]}'


@contextlib.contextmanager
def chatting() -> Iterator[Server]:
    """A server that answers every request well, in the protocol of the request."""
    with serving() as server:
        server.usually = says(FACT)
        yield server


def setter(monkeypatch: pytest.MonkeyPatch) -> Set:
    def sets(**values: object) -> None:
        for name, value in values.items():
            monkeypatch.setenv(f"MEMWELL_{name.upper()}", str(value))

    return sets


@contextlib.contextmanager
def configured(provider: str, monkeypatch: pytest.MonkeyPatch, key: str = "") -> Iterator[Server]:
    """Start a server and name it in the settings as a language model."""
    without_proxies(monkeypatch)
    with chatting() as server:
        own = {f"llm_{provider}_base_url": server.url, f"llm_{provider}_key": key}
        setter(monkeypatch)(llm_default=f"{provider}:a-model", llm_timeout=5, **own)
        yield server


def sent(request: Request) -> str:
    """The user part of a request, without the instructions."""
    if "contents" in request.body:
        return str(request.body["contents"][0]["parts"][0]["text"])
    return str(request.body["messages"][-1]["content"])


def says(text: str) -> Act:
    """Answer with a text, in the form of the vendors' references."""
    return lambda handler, request: _send(handler, completion(request, text))


def completion(request: Request, text: str) -> dict[str, Any]:
    return _generated(text) if "contents" in request.body else _completed(request, text)


def _completed(request: Request, text: str) -> dict[str, Any]:
    # https://platform.openai.com/docs/api-reference/chat/object
    written: dict[str, Any] = {
        "role": "assistant",
        "content": text,
        "refusal": None,
        "annotations": [],
    }
    choice = {"index": 0, "message": written, "logprobs": None, "finish_reason": "stop"}
    thoughts = {"reasoning_tokens": 0, "accepted_prediction_tokens": 0}
    usage = {
        "prompt_tokens": 19,
        "completion_tokens": 10,
        "total_tokens": 19 + 10,
        "completion_tokens_details": thoughts,
    }
    return {
        "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
        "object": "chat.completion",
        "created": 1741569952,
        "model": request.body["model"],
        "choices": [choice],
        "usage": usage,
        "service_tier": "default",
    }


def _generated(text: str) -> dict[str, Any]:
    # https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse
    content = {"parts": [{"text": text}], "role": "model"}
    usage = {
        "promptTokenCount": 19,
        "candidatesTokenCount": 7,
        "thoughtsTokenCount": 3,
        "totalTokenCount": 19 + 7 + 3,
    }
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": usage,
        "modelVersion": "gemini-2.5-flash",
        "responseId": "kY6eaJCVBq-rn9kP",
    }


def message(finish_reason: str = "stop", **members: object) -> Act:
    """Answer in OpenAI's protocol, with other members of the message."""

    def act(handler: Handler, request: Request) -> None:
        answer = _completed(request, "")
        choice = answer["choices"][0]
        choice["message"] |= members
        choice["finish_reason"] = finish_reason
        _send(handler, answer)

    return act


def candidate(**members: object) -> Act:
    """Answer in Gemini's protocol, with other members of the candidate."""

    def act(handler: Handler, request: Request) -> None:
        answer = _generated("")
        answer["candidates"][0] |= members
        _send(handler, answer)

    return act


def held_back(handler: Handler, request: Request) -> None:
    """Refuse to answer, as each vendor does."""
    safety = candidate(finishReason="SAFETY", content={})
    refusal = safety if "contents" in request.body else message("content_filter", content="")
    refusal(handler, request)


def sends(answer: object) -> Act:
    return lambda handler, request: _send(handler, answer)


def refusing(*parameters: str, otherwise: Act) -> Act:
    """Refuse the first of these parameters that a request holds."""

    def act(handler: Handler, request: Request) -> None:
        named = next((name for name in parameters if name in request.body), None)
        if named is None:
            return otherwise(handler, request)
        error = {
            "message": f"Unsupported parameter: '{named}' is not supported with this model.",
            "type": "invalid_request_error",
            "param": named,
            "code": "unsupported_parameter",
        }
        return handler.answer(400, json.dumps({"error": error}).encode())

    return act


def _send(handler: Handler, answer: object) -> None:
    handler.answer(200, json.dumps(answer).encode(), Content_Type="application/json")
