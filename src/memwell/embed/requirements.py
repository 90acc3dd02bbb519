"""Whether what a provider needs is there, without importing any of it."""

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
    """Return the folder of a model; none named is not the current one."""
    if not model:
        raise ProviderUnavailable(
            f"No model is named for {provider}", f"Set embedding.{provider}.model to its folder"
        )
    return Path(model).expanduser()
