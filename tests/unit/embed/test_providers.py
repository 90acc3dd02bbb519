"""The list of providers."""

from __future__ import annotations

from memwell.config.providers import LOCAL_EMBEDDERS
from memwell.embed.providers import BUILT_IN, create_embedder
from memwell.errors import ProviderUnavailable


def test_the_local_providers_are_those_that_are_not_remote() -> None:
    remote = set()
    for name in BUILT_IN:
        try:
            remote |= {name} if create_embedder(name, {}).remote else set()
        except ProviderUnavailable:  # it needs a setting or a file
            assert name in LOCAL_EMBEDDERS | {"openai", "gemini"}
    assert not remote & LOCAL_EMBEDDERS
    assert {*BUILT_IN} - LOCAL_EMBEDDERS == {"openai", "gemini"}
