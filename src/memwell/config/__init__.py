"""The settings: every default, where values come from, and how a file is edited."""

from memwell.config.load import check_agent, config_files, find_home, home_folder, load, now
from memwell.config.settings import Settings, setting_named

__all__ = [
    "Settings",
    "check_agent",
    "config_files",
    "find_home",
    "home_folder",
    "load",
    "now",
    "setting_named",
]
