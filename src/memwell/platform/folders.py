"""The folders in which each platform keeps data and configuration."""

from __future__ import annotations

import os
from pathlib import Path

from memwell.platform import CURRENT, MACOS, WINDOWS


def user_data_folder(name: str) -> Path:
    """Return the folder for a program's data."""
    import platformdirs

    return Path(platformdirs.user_data_dir(name, appauthor=False))


def user_config_folder(name: str, *, roaming: bool = False) -> Path:
    """Return the folder for a program's configuration."""
    import platformdirs

    return Path(platformdirs.user_config_dir(name, appauthor=False, roaming=roaming))


def service_file(name: str, *, on: str = CURRENT) -> Path | None:
    """Return the file of a service of this user; None if the platform has no such files."""
    home = Path.home()
    if on == MACOS:
        return home / "Library" / "LaunchAgents" / f"{name}.plist"
    if on == WINDOWS:
        return None
    config = os.environ.get("XDG_CONFIG_HOME") or home / ".config"
    return Path(config) / "systemd" / "user" / f"{name}.service"
