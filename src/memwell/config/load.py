"""Where the values of the settings come from; `settings` lists them all.

From weakest to strongest: the default, the user's ``memwell.toml``, the workspace's
``memwell.toml``, the environment (``MEMWELL_SEARCH_K`` for ``search.k``). ``${NAME}`` in a
value is taken from the environment.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memwell.config.settings import SETTINGS, Setting, Value
from memwell.errors import ConfigError

FILE_NAME = "memwell.toml"
_BY_NAME = {setting.name: setting for setting in SETTINGS}
_BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Config:
    """The value of every setting, and where each came from."""

    values: Mapping[str, Value] = field(repr=False)  # a key may be among them
    origins: Mapping[str, str]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def with_overrides(self, changes: Mapping[str, Value], origin: str = "the call") -> Config:
        """Return the same with some values changed, each of them checked."""
        checked = {
            name: _check(setting_named(name), value, origin) for name, value in changes.items()
        }
        return Config(
            {**self.values, **checked}, {**self.origins, **dict.fromkeys(checked, origin)}
        )

    def visible(self, setting: Setting) -> Value:
        """Return a value as people may see it."""
        value = self.values[setting.name]
        return "***" if setting.secret and value else value


def setting_named(name: str) -> Setting:
    """Return a setting, or say which name is nearest."""
    if name not in _BY_NAME:
        raise ConfigError(f"{name} is no setting", _suggest_name(name))
    return _BY_NAME[name]


def load(workspace: Path | None, environment: Mapping[str, str] | None = None) -> Config:
    """Read the settings that hold for a workspace (or for none)."""
    environment = dict(os.environ) if environment is None else environment
    values: dict[str, Value] = {setting.name: setting.default for setting in SETTINGS}
    origins = dict.fromkeys(values, "default")
    for file in config_files(workspace, environment):
        for name, value in _file_values(file, environment):
            values[name], origins[name] = value, str(file)
    for variable, setting in _BY_VARIABLE.items():
        if (text := environment.get(variable)) is not None:
            values[setting.name] = parse_env(setting, text, f"${variable}")
            origins[setting.name] = f"${variable}"
        elif not values[setting.name] and environment.get(setting.fallback_env):
            values[setting.name] = environment[setting.fallback_env]
            origins[setting.name] = f"${setting.fallback_env}"
    if values["chunk.overlap"] * 2 > values["chunk.size"]:  # type: ignore[operator]
        raise ConfigError(
            f"chunk.overlap = {values['chunk.overlap']} is more than half of chunk.size ="
            f" {values['chunk.size']} ({origins['chunk.overlap']})",
            "Lower the one or raise the other",
        )
    if not (values["search.vector_weight"] or values["search.text_weight"]):
        raise ConfigError(
            "search.vector_weight and search.text_weight are both 0", "One of them must be more"
        )
    return Config(values, origins)


def config_files(workspace: Path | None, environment: Mapping[str, str]) -> list[Path]:
    """Return the files that are read, weakest first."""
    files = [user_config_folder(environment) / FILE_NAME]
    files += [workspace / FILE_NAME] if workspace else []
    return [file for file in files if file.is_file()]


def user_config_folder(environment: Mapping[str, str]) -> Path:
    """Return the user's configuration folder: MEMWELL_CONFIG, else the platform's."""
    if named := environment.get("MEMWELL_CONFIG"):
        return Path(named).expanduser()
    import platformdirs

    return Path(platformdirs.user_config_dir("memwell", appauthor=False))


def today(environment: Mapping[str, str] | None = None) -> dt.date:
    """Return the day that it is."""
    return now(environment).date()


def now(environment: Mapping[str, str] | None = None) -> dt.datetime:
    """Return the time that it is, in the zone at hand.

    MEMWELL_NOW, so that examples stay true, else the clock's. Of a day alone, the clock says the
    time.
    """
    environment = os.environ if environment is None else environment
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
            f"$MEMWELL_NOW = {named!r} is no time", "Write it like 2026-02-10 or 2026-02-10T14:15"
        ) from None


def check_agent(agent: str) -> None:
    """Raise an error for a name that no agent can have: it names a folder, too."""
    if (
        not agent
        or agent in (".", "..")
        or any(sign in agent for sign in "/\\\0")
        or len(agent) > 100
    ):
        raise ConfigError(
            f"{agent!r} cannot be the name of an agent", "Use letters, digits, - and _"
        )


def home_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return the folder all data lives in: MEMWELL_HOME, else the platform's data folder."""
    environment = os.environ if environment is None else environment
    if named := environment.get("MEMWELL_HOME"):
        return Path(named).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_data_dir("memwell", appauthor=False))


def _file_values(file: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, Value]]:
    import tomllib

    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not valid TOML: {error}", "Mend the line it names") from error
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error}", "Check its permissions") from error
    for name, value in _flatten(tables):
        setting = _BY_NAME.get(name)
        if setting is None:
            raise ConfigError(f"{file} sets {name}, which is no setting", _suggest_name(name))
        if setting.user_level_only and file.parent != user_config_folder(environment):
            raise ConfigError(
                f"{file} sets {name}, which holds for all workspaces",
                f"Set it in {user_config_folder(environment) / FILE_NAME} or ${setting.variable}",
            )
        yield name, _check(setting, _expand(value, environment, file, name), f"{file}")


def _flatten(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping) and name not in _BY_NAME:
            yield from _flatten(value, f"{name}.")
        else:
            yield name, value


def _suggest_name(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, _BY_NAME, n=1, cutoff=0.5)
    suggestion = f"Did you mean {near[0]}? " if near else ""
    return f"{suggestion}`memwell config` lists them all"


def _expand(value: Any, environment: Mapping[str, str], file: Path, name: str) -> Any:
    """Put the environment's values in place of ${NAME}."""
    if isinstance(value, list):
        return [_expand(item, environment, file, name) for item in value]
    if not isinstance(value, str):
        return value

    def replaced(match: re.Match[str]) -> str:
        if match.group(1) not in environment:
            raise ConfigError(
                f"{name} in {file} refers to ${{{match.group(1)}}}, which is not set",
                f"Set {match.group(1)} in the environment, or write the value itself",
            )
        return environment[match.group(1)]

    return _REFERENCE.sub(replaced, value)


def parse_env(setting: Setting, text: str, origin: str) -> Value:
    """Read a setting's value from the environment, where everything is text."""
    if isinstance(setting.default, bool):
        words = {
            "1": True,
            "true": True,
            "yes": True,
            "on": True,
            "0": False,
            "false": False,
            "no": False,
            "off": False,
        }
        return _check(setting, words.get(text.strip().lower(), text), origin)
    if isinstance(setting.default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if isinstance(setting.default, int | float):
        try:
            return _check(setting, float(text) if "." in text or "e" in text else int(text), origin)
        except ValueError:
            return _check(setting, text, origin)
    return _check(setting, text, origin)


def _check(setting: Setting, value: Any, origin: str) -> Value:
    """Return the value in the setting's type, or say what it should have been."""
    expected, right = _type_name(setting.default), False
    if isinstance(setting.default, bool):
        right = isinstance(value, bool)
    elif isinstance(setting.default, tuple):
        right = isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
        value = tuple(value) if right else value
    elif isinstance(setting.default, int | float):
        whole = isinstance(setting.default, int)
        right = not isinstance(value, bool) and isinstance(value, int if whole else int | float)
    else:
        right = isinstance(value, str)
    if not right:
        raise ConfigError(
            f"{setting.name} = {'***' if setting.secret else repr(value)} ({origin}) should be"
            f" {expected}",
            f"The default is {to_toml(setting.default)}",
        )
    if setting.one_of and value not in setting.one_of:
        raise ConfigError(
            f"{setting.name} = {value!r} ({origin}) should be one of {', '.join(setting.one_of)}",
            f"The default is {to_toml(setting.default)}",
        )
    low, high = setting.minimum, setting.maximum
    if (low is not None and not value >= low) or (high is not None and not value <= high):
        limits = f"at least {low:g}" if high is None else f"between {low:g} and {high:g}"
        raise ConfigError(
            f"{setting.name} = {value!r} ({origin}) should be {limits}",
            f"The default is {to_toml(setting.default)}",
        )
    return value  # type: ignore[no-any-return]


def _type_name(default: Value) -> str:
    if isinstance(default, bool):
        return "true or false"
    if isinstance(default, tuple):
        return "a list of strings"
    return {int: "a whole number", float: "a number"}.get(type(default), "a string")


def to_toml(value: Value) -> str:
    """Return a value as it would stand in memwell.toml."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return str(list(value)).replace("'", '"')
    return f'"{value}"' if isinstance(value, str) else str(value)
