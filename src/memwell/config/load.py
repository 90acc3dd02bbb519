"""Read the settings from files and the environment.

From weakest to strongest: the default, the user's ``memwell.toml``, the workspace's
``memwell.toml``, the environment (``MEMWELL_SEARCH_K`` for ``search.k``). ``${NAME}`` in a value
is replaced by that environment variable.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memwell.config.fields import Value, check, parse_env
from memwell.config.settings import SETTING_BY_NAME, SETTINGS, Settings, suggest_name
from memwell.errors import ConfigError
from memwell.files import is_utf8, printable_path, remedy_for

FILE_NAME = "memwell.toml"
_BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def load(workspace: Path | None, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings that apply to a workspace (or to none)."""
    environment = dict(environment)  # os.environ decodes a variable each time it is read
    values: dict[str, Value] = {}
    origins: dict[str, str] = {}
    for file in config_files(workspace, environment):
        for name, value in _file_values(file, environment):
            values[name], origins[name] = value, str(file)
    for variable, setting in _BY_VARIABLE.items():
        name = setting.name
        if (text := environment.get(variable)) is not None:
            origins[name] = f"${variable}"
            values[name] = parse_env(setting, text, origins[name])
        elif environment.get(setting.fallback_env) and not values.get(name):
            origins[name] = f"${setting.fallback_env}"
            values[name] = environment[setting.fallback_env]
    settings = Settings.build(values, origins=origins)
    settings.check_combinations()
    return settings


def config_files(workspace: Path | None, environment: Mapping[str, str]) -> list[Path]:
    """Return the existing configuration files, weakest first."""
    files = [user_config_folder(environment) / FILE_NAME]
    files += [workspace / FILE_NAME] if workspace else []
    return [file for file in files if os.path.isfile(file)]


def user_config_folder(environment: Mapping[str, str]) -> Path:
    """Return the user's configuration folder: MEMWELL_CONFIG, else the platform's."""
    if named := environment.get("MEMWELL_CONFIG"):
        return Path(named).expanduser()
    import platformdirs

    return Path(platformdirs.user_config_dir("memwell", appauthor=False))


def now(environment: Mapping[str, str] = os.environ) -> dt.datetime:
    """Return the current time in the local time zone.

    MEMWELL_NOW replaces the clock, so that examples print the same every day. If it holds only a
    day, the clock adds the time of day.
    """
    clock = dt.datetime.now().astimezone()
    named = environment.get("MEMWELL_NOW")
    if not named:
        return clock
    try:
        if "T" not in named:
            return dt.datetime.combine(dt.date.fromisoformat(named), clock.time()).astimezone()
        return dt.datetime.fromisoformat(named).astimezone()
    except (ValueError, OverflowError):
        raise ConfigError(
            f"$MEMWELL_NOW = {named!r} is not a time",
            "Write it like 2026-02-10 or 2026-02-10T14:15",
        ) from None


def check_agent(agent: str) -> None:
    """Raise an error if an agent cannot have this name, which is also the name of a folder."""
    if (
        not agent
        or agent in (".", "..")
        or any(sign in agent for sign in "/\\\0")
        or len(agent) > 100
    ):
        raise ConfigError(
            f"{agent!r} cannot be the name of an agent", "Use letters, digits, - and _"
        )


def home_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of all data: MEMWELL_HOME, else the platform's data folder."""
    if named := environment.get("MEMWELL_HOME"):
        return Path(named).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_data_dir("memwell", appauthor=False))


def find_home(named: str | Path | None = None) -> Path:
    """Return the home with a name or the default one; raise an error if SQLite cannot open it."""
    home = Path(named).expanduser().absolute() if named else home_folder()
    if not is_utf8(str(home)):
        raise ConfigError(
            f"The name of the home {printable_path(home)} is not valid UTF-8",
            "Rename it, or set MEMWELL_HOME to another folder",
        )
    return home


def _file_values(file: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, Value]]:
    import tomllib

    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not valid TOML: {error}", "Correct that line") from error
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be read: {error}", remedy_for(error).capitalize()
        ) from error
    for name, value in _flatten(tables):
        setting = SETTING_BY_NAME.get(name)
        if setting is None:
            raise ConfigError(f"{file} sets {name}, which is not a setting", suggest_name(name))
        if setting.user_level_only and file.parent != user_config_folder(environment):
            raise ConfigError(
                f"{file} sets {name}, which applies to all workspaces",
                f"Set it in {user_config_folder(environment) / FILE_NAME} or ${setting.variable}",
            )
        yield name, check(setting, _expand(value, environment, file, name), f"{file}")


def _flatten(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping) and name not in SETTING_BY_NAME:
            yield from _flatten(value, f"{name}.")
        else:
            yield name, value


def _expand(value: Any, environment: Mapping[str, str], file: Path, name: str) -> Any:
    """Replace each ${NAME} by the environment variable NAME."""
    if isinstance(value, list):
        return [_expand(item, environment, file, name) for item in value]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        if match.group(1) not in environment:
            raise ConfigError(
                f"{name} in {file} refers to ${{{match.group(1)}}}, which is not set",
                f"Set {match.group(1)} in the environment, or write the value itself",
            )
        return environment[match.group(1)]

    return _REFERENCE.sub(replace, value)
