"""Embedding providers that many memories share."""

from __future__ import annotations

import threading
from typing import Any

from memwell.embed.base import Embedder
from memwell.embed.providers import BUILT_IN, Factory, create_embedder


def shared_embedders() -> dict[str, Factory]:
    """Return makers of the built-in providers; the same settings give the same provider."""
    made: dict[str, Embedder] = {}
    making = threading.Lock()

    def maker(name: str) -> Factory:
        def make_once(**settings: Any) -> Embedder:
            identity = f"{name} {sorted(settings.items())}"
            with making:
                if identity not in made:
                    made[identity] = create_embedder(name, settings)
                return made[identity]

        return make_once

    return {name: maker(name) for name in BUILT_IN}
