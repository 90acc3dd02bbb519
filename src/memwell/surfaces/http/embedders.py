"""Providers of vectors for many memories: each is made once."""

from __future__ import annotations

import threading
from typing import Any

from memwell.embed.base import Embedder
from memwell.embed.providers import BUILT_IN, Factory, create_embedder


def shared_embedders() -> dict[str, Factory]:
    """Return makers of the built-in providers; what was made from the same settings is the same."""
    made: dict[str, Embedder] = {}
    making = threading.Lock()

    def maker(name: str) -> Factory:
        def shared(**settings: Any) -> Embedder:
            identity = f"{name} {sorted(settings.items())}"
            with making:
                if identity not in made:
                    made[identity] = create_embedder(name, settings)
                return made[identity]

        return shared

    return {name: maker(name) for name in BUILT_IN}
