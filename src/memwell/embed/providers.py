"""Embedding providers by name: those of memwell, and those of other packages.

A package offers a provider through an entry point of the group ``memwell.embedders``: a callable
that takes the settings as keywords and returns an `Embedder`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, cast

from memwell.embed.base import Embedder
from memwell.errors import ProviderUnavailable

GROUP = "memwell.embedders"

BUILT_IN = {
    "memwell": "multilingual.Multilingual",
    "minilm": "minilm.MiniLM",
    "gguf": "gguf.GGUF",
    "openai": "openai.OpenAI",
    "gemini": "gemini.Gemini",
    "sentence-transformers": "sentence_transformers.SentenceTransformers",
    "static": "static.Static",
    "test": "testing.WordCounts",
}
Factory = Callable[..., Embedder]
"""Takes the settings as keywords."""


def create_embedder(
    name: str, settings: Mapping[str, Any], factories: Mapping[str, Factory] | None = None
) -> Embedder:
    """Create a provider; a factory in `factories` comes before a built-in one.

    Raises `ProviderUnavailable` if something is missing.
    """
    factory = (factories or {}).get(name) or _factory(name)
    try:
        return factory(**settings)
    except TypeError as error:
        raise ProviderUnavailable(
            f"The provider {name} does not take the settings {sorted(settings)} ({error})",
            "Check embedding.chain",
        ) from error


def _factory(name: str) -> Factory:
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(".")
        return cast(Factory, getattr(import_module(f"memwell.embed.{module}"), attribute))
    from importlib.metadata import entry_points

    for entry_point in entry_points(group=GROUP, name=name):
        try:
            return cast(Factory, entry_point.load())
        except (ImportError, AttributeError) as error:
            raise ProviderUnavailable(
                f"The provider {name} cannot be loaded ({error})", f"Check {entry_point.value}"
            ) from error
    raise ProviderUnavailable(
        f"{name} is not an embedding provider",
        f"Choose one of {', '.join(BUILT_IN)}, or install a package that offers it",
    )
