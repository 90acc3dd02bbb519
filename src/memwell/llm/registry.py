"""Language models by name: ``provider:model``, as the settings have it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol

from memwell.errors import LlmUnavailable
from memwell.llm.base import Chat, Timeouts

PROVIDERS = {"openai": "OpenAIChat", "gemini": "GeminiChat"}
"""Each is a module of this package, with its class."""


class Settings(Protocol):
    """The settings that hold."""

    @property
    def values(self) -> Mapping[str, Any]:
        """Each by its name."""


def create_chat(name: str, settings: Mapping[str, Any], *, setting: str = "llm.default") -> Chat:
    """Make the model of a name such as ``openai:gpt-5-mini`` or ``openai:llama3.2:3b``.

    `settings` are those below ``llm.``: of them ``timeout``, ``total`` and the provider's own
    ``openai.base_url`` and ``openai.key`` are taken, each if it is there. `setting` is the one in
    which the name stands, for messages.
    """
    provider, _, model = (part.strip() for part in name.partition(":"))
    if provider not in PROVIDERS or not model:
        known = " or ".join(f"{each}:MODEL" for each in PROVIDERS)
        hint = ", where openai is any server that speaks its protocol (llm.openai.base_url)"
        raise LlmUnavailable(f"{setting} = {name!r} names no language model", f"Use {known}{hint}")
    own = {each: settings.get(f"{provider}.{each}") for each in ("base_url", "key")}
    paces = {each: settings.get(each) for each in ("timeout", "total")}
    chat: Chat = getattr(import_module(f"memwell.llm.{provider}"), PROVIDERS[provider])(
        model,
        pace=Timeouts(**_provider_settings(paces)),
        setting=setting,
        **_provider_settings(own),
    )
    return chat


def model_for(values: Mapping[str, Any], setting: str, **changed: Any) -> Chat | None:
    """Make the model that a setting names, else `llm.default`; None where neither names one.

    `values` are all settings; of those below ``llm.`` some may be `changed`.
    """
    named = next((each for each in (setting, "llm.default") if values[each].strip()), None)
    if named is None:
        return None
    own = {name[4:]: value for name, value in values.items() if name.startswith("llm.")}
    return create_chat(values[named], own | changed, setting=named)


def _provider_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}
