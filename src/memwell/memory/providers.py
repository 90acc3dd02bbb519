"""The fallback chain of embedding providers, and which of them can be used."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memwell.config.settings import Settings
from memwell.embed.base import Embedder
from memwell.embed.list_items import ListItemEmbedder, without_items
from memwell.embed.providers import Factory, create_embedder
from memwell.errors import ProviderUnavailable
from memwell.store.contract.values import Cooldown, Space
from memwell.store.contract.vectors import Cooldowns

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

_WITH_MODEL_FILES = ("minilm", "gguf")


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """A provider of the chain and the settings that create it."""

    name: str
    settings: dict[str, Any]
    """Everything that its vectors depend on; stored with the space."""
    private: dict[str, Any]
    """Values that are not stored: a key, a folder."""


@dataclass(frozen=True, slots=True)
class ProviderState:
    """A provider of the chain: its embedder, or why it cannot be used."""

    spec: ProviderSpec
    embedder: Embedder | None
    problem: str = ""


class ProviderChain:
    """The providers of ``embedding.chain``; each embedder is created once."""

    def __init__(
        self, settings: Settings, home: Path, factories: Mapping[str, Factory] | None
    ) -> None:
        self._settings = settings
        self._home = home
        self._factories = factories
        self._made: dict[str, Embedder] = {}
        self._making = threading.Lock()
        self.specs = tuple(self._parse_spec(text) for text in settings.embedding.chain)

    def __bool__(self) -> bool:
        return bool(self.specs)

    def __str__(self) -> str:
        return " ".join(self._settings.embedding.chain)

    def embedder(self, spec: ProviderSpec) -> Embedder:
        """Return the embedder of a provider; `ProviderUnavailable` if it cannot be used."""
        identity = f"{spec.name} {sorted(spec.settings.items())}"
        with self._making:
            if identity not in self._made:
                settings = {**spec.settings, **spec.private}
                embedder = create_embedder(spec.name, settings, self._factories)
                kind = RedactingEmbedder if embedder.remote else ListItemEmbedder
                self._made[identity] = kind(embedder)
            return self._made[identity]

    def states(self, cooldowns: Cooldowns) -> Iterator[ProviderState]:
        """Yield the providers in order, each with its embedder or why it cannot be used."""
        for spec in self.specs:
            try:
                embedder = self.embedder(spec)
            except ProviderUnavailable as error:
                yield ProviderState(spec, None, str(error))
                continue
            pause = cooldown(embedder.fingerprint, cooldowns)
            problem = pause.reason if pause and pause.unavailable else ""
            yield ProviderState(spec, None if problem else embedder, problem)

    def spec_for(self, space: Space) -> ProviderSpec:
        """Return the provider that fills a space, even if the chain no longer names it."""
        named = self._find_spec(space.provider) or self._parse_spec(space.provider)
        return ProviderSpec(space.provider, dict(space.made_from), named.private)

    def embedder_for(self, space: Space) -> Embedder:
        """Return the embedder of a space; a remote one only if the chain names it."""
        embedder = self.embedder(self.spec_for(space))
        if embedder.remote and not self._find_spec(space.provider):
            raise ProviderUnavailable(f"{space.provider} is no longer in embedding.chain")
        if space.fingerprint not in (embedder.fingerprint, without_items(embedder.fingerprint)):
            raise ProviderUnavailable(
                f"The vectors are of an earlier model ({space.model})",
                f"Run `memwell index` to embed with {embedder.model}",
            )
        return embedder

    def _find_spec(self, provider: str) -> ProviderSpec | None:
        return next((spec for spec in self.specs if spec.name == provider), None)

    def _parse_spec(self, text: str) -> ProviderSpec:
        """Read ``provider`` or ``provider:model``, with the settings of that provider."""
        name, _, model = (part.strip() for part in text.partition(":"))
        settings = self._settings.embedding.provider(name)
        settings |= {"model": model} if model else {}
        private: dict[str, Any] = {
            key: settings.pop(key) for key in ("key", "folder") if key in settings
        }
        if name in _WITH_MODEL_FILES:
            private["folder"] = Path(private.get("folder") or self._home / "models").expanduser()
        return ProviderSpec(name, settings, private)


class RedactingEmbedder(ListItemEmbedder):
    """A remote provider: no secret in a text is sent to it.

    The cache knows its vectors by the whole text, but only under the provider's own fingerprint.
    """

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        """Return the vectors of each text without its secrets."""
        from memwell.facts.guard import redact  # its patterns take 20 ms to compile

        return super().embed_documents([redact(text) for text in texts])

    def embed_query(self, text: str) -> Matrix:
        """Return the vector of a query without its secrets."""
        from memwell.facts.guard import redact

        return super().embed_query(redact(text))


def cooldown(fingerprint: str, cooldowns: Cooldowns) -> Cooldown | None:
    """Return the cooldown of a provider, if it is in one."""
    found = cooldowns.get(fingerprint)
    return found if found and found.is_active(time.time()) else None
