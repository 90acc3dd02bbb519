"""The providers of vectors that the settings name, in order, and which of them can be used."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memwell.config.settings import Settings
from memwell.embed.base import Embedder, ProviderUnavailable
from memwell.embed.providers import Factory, create_embedder
from memwell.store.contract.values import Cooldown, Space
from memwell.store.contract.vectors import Cooldowns

_KEEPS_FILES = ("minilm", "gguf")


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """A member of the chain: a provider and what it is made from."""

    name: str
    settings: dict[str, Any]
    """Everything that decides its vectors; kept with the space."""
    private: dict[str, Any]
    """What else it needs: a key, a folder. Kept nowhere."""


@dataclass(frozen=True, slots=True)
class ProviderState:
    """A member of the chain, and its provider or why it cannot be used."""

    spec: ProviderSpec
    embedder: Embedder | None
    problem: str = ""


class ProviderChain:
    """The setting ``embedding.chain``, and the providers made from it, each once."""

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

    def embedder(self, member: ProviderSpec) -> Embedder:
        """Return the provider of a member; `ProviderUnavailable` if it cannot be used."""
        identity = f"{member.name} {sorted(member.settings.items())}"
        with self._making:
            if identity not in self._made:
                settings = {**member.settings, **member.private}
                self._made[identity] = create_embedder(member.name, settings, self._factories)
            return self._made[identity]

    def states(self, rests: Cooldowns) -> Iterator[ProviderState]:
        """Yield the members in order, each with its provider or why it cannot be used."""
        for member in self.specs:
            try:
                embedder = self.embedder(member)
            except ProviderUnavailable as error:
                yield ProviderState(member, None, str(error))
                continue
            rest = cooldown(embedder.fingerprint, rests)
            refused = rest.reason if rest and rest.unavailable else ""
            yield ProviderState(member, None if refused else embedder, refused)

    def spec_for(self, space: Space) -> ProviderSpec:
        """Return what makes the provider of a space, whatever the chain says now."""
        named = self._find_spec(space.provider) or self._parse_spec(space.provider)
        return ProviderSpec(space.provider, dict(space.made_from), named.private)

    def embedder_for(self, space: Space) -> Embedder:
        """Return the provider of a space; a remote one only if the chain names it."""
        embedder = self.embedder(self.spec_for(space))
        if embedder.remote and not self._find_spec(space.provider):
            raise ProviderUnavailable(f"{space.provider} is no longer in embedding.chain")
        if embedder.fingerprint != space.fingerprint:
            raise ProviderUnavailable(f"{space.model} is no longer what it was")
        return embedder

    def _find_spec(self, provider: str) -> ProviderSpec | None:
        return next((member for member in self.specs if member.name == provider), None)

    def _parse_spec(self, text: str) -> ProviderSpec:
        """Read ``provider`` or ``provider:model``, with the settings of that provider."""
        name, _, model = (part.strip() for part in text.partition(":"))
        prefix = f"embedding.{name}."
        settings: dict[str, Any] = {
            key.removeprefix(prefix): value
            for key, value in self._settings.values.items()
            if key.startswith(prefix)
        }
        settings |= {"model": model} if model else {}
        private: dict[str, Any] = {
            key: settings.pop(key) for key in ("key", "folder") if key in settings
        }
        if name in _KEEPS_FILES:
            private["folder"] = Path(private.get("folder") or self._home / "models").expanduser()
        return ProviderSpec(name, settings, private)


def cooldown(fingerprint: str, rests: Cooldowns) -> Cooldown | None:
    """Return why a provider is to be left alone now, if it is."""
    rest = rests.get(fingerprint)
    return rest if rest and rest.is_active(time.time()) else None
