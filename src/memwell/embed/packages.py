"""Whether the packages that a provider needs are there, without importing them."""

from __future__ import annotations

from importlib.util import find_spec

from memwell.embed.base import ProviderUnavailable


def needed(*packages: str, install: str) -> None:
    """Raise `ProviderUnavailable` unless all packages can be imported."""
    for package in packages:
        if find_spec(package) is None:
            raise ProviderUnavailable(
                f"The package {package} is not installed", f"pip install '{install}'"
            )
