"""The settings: every default, where values come from, and how a file is edited."""

from memwell.config.fields import to_toml
from memwell.config.load import (
    FILE_NAME,
    check_agent,
    config_files,
    home_folder,
    load,
    now,
    today,
    user_config_folder,
)
from memwell.config.settings import Settings, setting_named

__all__ = [
    "FILE_NAME",
    "Settings",
    "check_agent",
    "config_files",
    "home_folder",
    "load",
    "now",
    "setting_named",
    "to_toml",
    "today",
    "user_config_folder",
]
