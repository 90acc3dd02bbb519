"""Check that a provider's packages and model are there, without importing them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from memwell.errors import ProviderUnavailable


def require(*packages: str, install: str) -> None:
    """Raise `ProviderUnavailable` unless all packages can be imported."""
    for package in packages:
        if find_spec(package) is None:
            raise ProviderUnavailable(
                f"The package {package} is not installed", f"pip install '{install}'"
            )


def model_folder(model: str, provider: str) -> Path:
    """Return the folder of a model; an empty name does not mean the current folder."""
    if not model:
        raise ProviderUnavailable(
            f"{provider} has no model", f"Set embedding.{provider}.model to the folder of one"
        )
    return Path(model).expanduser()
