"""Language models by name: ``provider:model``, as in the settings."""

from __future__ import annotations

from importlib import import_module

from memwell.config.providers import LlmSettings
from memwell.errors import LlmUnavailable
from memwell.llm.base import Chat, Timeouts

PROVIDERS = {"openai": "OpenAIChat", "gemini": "GeminiChat"}
"""The modules of this package that hold a provider, with their classes."""


def model_for(
    settings: LlmSettings, name: str = "", setting: str = "", *, seconds: float | None = None
) -> Chat | None:
    """Create the model called `name`, or else ``llm.default``; None if neither names one.

    A name is like ``openai:gpt-5-mini`` or ``openai:llama3.2:3b``. `setting` is the setting that
    holds it, for messages. `seconds` limit each request and all retries together; without them
    ``llm.timeout`` limits each request.
    """
    if not name.strip():
        name, setting = settings.default, "llm.default"
    if not name.strip():
        return None
    provider, _, model = (part.strip() for part in name.partition(":"))
    if provider not in PROVIDERS or not model:
        known = " or ".join(f"{known}:MODEL" for known in PROVIDERS)
        hint = ", where openai is any server that speaks its protocol (llm.openai.base_url)"
        raise LlmUnavailable(
            f"{setting} = {name!r} does not name a language model", f"Use {known}{hint}"
        )
    server = getattr(settings, provider)
    chat: Chat = getattr(import_module(f"memwell.llm.{provider}"), PROVIDERS[provider])(
        model,
        timeouts=Timeouts(seconds or settings.timeout, seconds),
        setting=setting,
        base_url=server.base_url,
        key=server.key,
    )
    return chat
