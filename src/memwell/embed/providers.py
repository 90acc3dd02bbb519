"""Providers by name: our own, and those that other packages offer.

Another package offers one through an entry point of the group ``memwell.embedders``: a callable
that takes the settings as keywords and returns an `Embedder`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from memwell.embed.base import Embedder, ProviderUnavailable

GROUP = "memwell.embedders"

BUILT_IN = {
    "minilm": "minilm.MiniLM",
    "gguf": "gguf.GGUF",
    "openai": "openai.OpenAI",
    "gemini": "gemini.Gemini",
    "sentence-transformers": "sentence_transformers.SentenceTransformers",
    "static": "static.Static",
    "test": "testing.WordCounts",
}
REMOTE = frozenset({"openai", "gemini"})
"""Those that send texts elsewhere, known without importing them."""


def make(name: str, settings: Mapping[str, Any]) -> Embedder:
    """Make a provider; `ProviderUnavailable` says what is missing."""
    try:
        made: Embedder = _factory(name)(**settings)
    except TypeError as error:
        raise ProviderUnavailable(
            f"The provider {name} cannot be made from {sorted(settings)} ({error})",
            "Check what embedding.chain says of it",
        ) from error
    return made


def _factory(name: str) -> Callable[..., Any]:
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(".")
        found: Callable[..., Any] = getattr(import_module(f"memwell.embed.{module}"), attribute)
        return found
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP, name=name):
        try:
            loaded: Callable[..., Any] = entry.load()
        except ImportError as error:
            raise ProviderUnavailable(
                f"The provider {name} cannot be loaded ({error})", f"Check {entry.value}"
            ) from error
        return loaded
    raise ProviderUnavailable(
        f"{name} is no embedding provider",
        f"Use one of {', '.join(BUILT_IN)}, or install a package that offers it",
    )
