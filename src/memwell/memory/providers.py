"""The providers of vectors that the settings name, in order, and which of them can be used."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memwell.config.load import Config
from memwell.embed.base import Embedder, ProviderUnavailable
from memwell.embed.providers import Factory, make
from memwell.store.contract.vectors import Rests
from memwell.store.sqlite.cooldowns import Rest
from memwell.store.sqlite.spaces import Space

_KEEPS_FILES = ("minilm", "gguf")


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the chain: a provider and what it is made from."""

    name: str
    settings: dict[str, Any]
    """Everything that decides its vectors; kept with the space."""
    private: dict[str, Any]
    """What else it needs: a key, a folder. Kept nowhere."""


@dataclass(frozen=True, slots=True)
class Usable:
    """A member of the chain, and its provider or why it cannot be used."""

    member: Member
    embedder: Embedder | None
    problem: str = ""


class Chain:
    """The setting ``embedding.chain``, and the providers made from it, each once."""

    def __init__(
        self, settings: Config, home: Path, factories: Mapping[str, Factory] | None
    ) -> None:
        self._settings = settings
        self._home = home
        self._factories = factories
        self._made: dict[str, Embedder] = {}
        self._making = threading.Lock()
        self.members = tuple(self._member(text) for text in settings["embedding.chain"])

    def __bool__(self) -> bool:
        return bool(self.members)

    def __str__(self) -> str:
        return " ".join(self._settings["embedding.chain"])

    def embedder(self, member: Member) -> Embedder:
        """Return the provider of a member; `ProviderUnavailable` if it cannot be used."""
        identity = f"{member.name} {sorted(member.settings.items())}"
        with self._making:
            if identity not in self._made:
                settings = {**member.settings, **member.private}
                self._made[identity] = make(member.name, settings, self._factories)
            return self._made[identity]

    def usable(self, rests: Rests) -> Iterator[Usable]:
        """Yield the members in order, each with its provider or why it cannot be used."""
        for member in self.members:
            try:
                embedder = self.embedder(member)
            except ProviderUnavailable as error:
                yield Usable(member, None, str(error))
                continue
            rest = resting(embedder.fingerprint, rests)
            refused = rest.reason if rest and rest.unavailable else ""
            yield Usable(member, None if refused else embedder, refused)

    def maker(self, space: Space) -> Member:
        """Return what makes the provider of a space, whatever the chain says now."""
        named = self._named(space.provider) or self._member(space.provider)
        return Member(space.provider, dict(space.made_from), named.private)

    def embedder_of(self, space: Space) -> Embedder:
        """Return the provider of a space; a remote one only if the chain names it."""
        embedder = self.embedder(self.maker(space))
        if embedder.remote and not self._named(space.provider):
            raise ProviderUnavailable(f"{space.provider} is no longer in embedding.chain")
        if embedder.fingerprint != space.fingerprint:
            raise ProviderUnavailable(f"{space.model} is no longer what it was")
        return embedder

    def _named(self, provider: str) -> Member | None:
        return next((member for member in self.members if member.name == provider), None)

    def _member(self, text: str) -> Member:
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
        return Member(name, settings, private)


def resting(fingerprint: str, rests: Rests) -> Rest | None:
    """Return why a provider is to be left alone now, if it is."""
    rest = rests.of(fingerprint)
    return rest if rest and rest.holds(time.time()) else None
