"""Language models by name: ``provider:model``, as in the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Protocol

from memwell.errors import LlmUnavailable
from memwell.llm.base import Chat, Timeouts

PROVIDERS = {"openai": "OpenAIChat", "gemini": "GeminiChat"}
"""The modules of this package that hold a provider, with their classes."""


class Settings(Protocol):
    """The effective settings."""

    @property
    def values(self) -> Mapping[str, Any]:
        """The value of each setting, by name."""


def create_chat(name: str, settings: Mapping[str, Any], *, setting: str = "llm.default") -> Chat:
    """Create a model from a name such as ``openai:gpt-5-mini`` or ``openai:llama3.2:3b``.

    `settings` are those below ``llm.``. It uses ``timeout``, ``total`` and the provider's
    ``base_url`` and ``key``, if they are there. Messages mention `setting`, which holds the name.
    """
    provider, _, model = (part.strip() for part in name.partition(":"))
    if provider not in PROVIDERS or not model:
        known = " or ".join(f"{name}:MODEL" for name in PROVIDERS)
        hint = ", where openai is any server that speaks its protocol (llm.openai.base_url)"
        raise LlmUnavailable(
            f"{setting} = {name!r} does not name a language model", f"Use {known}{hint}"
        )
    server = {name: settings.get(f"{provider}.{name}") for name in ("base_url", "key")}
    times = {name: settings.get(name) for name in ("timeout", "total")}
    create: Callable[..., Chat] = getattr(
        import_module(f"memwell.llm.{provider}"), PROVIDERS[provider]
    )
    return create(model, timeouts=Timeouts(**_given(times)), setting=setting, **_given(server))


def model_for(values: Mapping[str, Any], setting: str, **overrides: Any) -> Chat | None:
    """Create the model that a setting names, or else `llm.default`; None if both are empty.

    `values` are all settings; `overrides` replace some of those below ``llm.``.
    """
    names = (name for name in (setting, "llm.default") if values[name].strip())
    if (named := next(names, None)) is None:
        return None
    settings = {name[4:]: value for name, value in values.items() if name.startswith("llm.")}
    return create_chat(values[named], settings | overrides, setting=named)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}
