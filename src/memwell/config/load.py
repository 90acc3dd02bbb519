"""Read the settings from files and the environment.

From weakest to strongest: the default, the user's ``memwell.toml``, the workspace's
``memwell.toml``, the environment (``MEMWELL_SEARCH_K`` for ``search.k``). ``${NAME}`` in a value
is replaced by that environment variable.

The workspace may be a clone of a stranger's folder. Unless the user trusts its file (see `trust`),
it may set only safe settings, and may name neither an environment variable nor a path outside of
the workspace. All else in it is ignored, and a notice says so.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from memwell.config.fields import Setting, Value, check, parse_env
from memwell.config.settings import SETTING_BY_NAME, SETTINGS, Settings, suggest_name
from memwell.config.trust import is_trusted
from memwell.errors import ConfigError, hide_content
from memwell.files import is_utf8, printable_path, remedy_for
from memwell.platform import folders

FILE_NAME = "memwell.toml"
_BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def load(
    workspace: Path | None,
    environment: Mapping[str, str] = os.environ,
    home: Path | None = None,
) -> Settings:
    """Read the settings that apply to a workspace (or to none).

    The home, by default that of the environment, records which workspaces are trusted.
    """
    environment = dict(environment)  # os.environ decodes a variable each time it is read
    home = home or home_folder(environment)
    paths = config_files(workspace, environment)
    contents = tuple(_load(path, environment, home) for path in paths)
    # What a file that is not trusted may set also depends on other files.
    combine = _remember if all(content.trusted for content in contents) else _combine
    return combine(contents, frozenset(environment.items()))


def _combine(contents: tuple[_Content, ...], variables: frozenset[tuple[str, str]]) -> Settings:
    """Make the settings of files, weakest first, and of the environment."""
    environment = dict(variables)
    values: dict[str, Value] = {}
    origins: dict[str, str] = {}
    written: dict[str, Value] = {}
    notices: list[str] = []
    for content in contents:
        file, path = _interpret(content, environment), content.path
        values |= file.values
        origins |= dict.fromkeys(file.values, str(path))
        written = {name: text for name, text in written.items() if name not in file.values}
        written |= file.written
        notices += file.notices
    for variable, setting in _BY_VARIABLE.items():
        name = setting.name
        if (text := environment.get(variable)) is not None:
            origins[name] = f"${variable}"
            values[name] = parse_env(setting, text, origins[name])
            written.pop(name, None)
        elif environment.get(setting.fallback_env) and not values.get(name):
            origins[name] = f"${setting.fallback_env}"
            values[name] = environment[setting.fallback_env]
    settings = Settings.build(
        values,
        origins=origins,
        written=written,
        notices=tuple(notices),
    )
    settings.check_combinations()
    return settings


_remember = lru_cache(maxsize=32)(_combine)
"""A server asks for the same settings at every request."""


def config_files(workspace: Path | None, environment: Mapping[str, str]) -> list[Path]:
    """Return the existing configuration files, weakest first."""
    files = [user_config_folder(environment) / FILE_NAME]
    files += [workspace / FILE_NAME] if workspace else []
    return [file for file in files if os.path.isfile(file)]


def user_config_folder(environment: Mapping[str, str]) -> Path:
    """Return the user's configuration folder: MEMWELL_CONFIG, else the platform's."""
    if named := environment.get("MEMWELL_CONFIG"):
        return Path(named).expanduser()
    return folders.user_config_folder("memwell")


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
    return folders.user_data_folder("memwell")


def find_home(named: str | Path | None = None) -> Path:
    """Return the home with a name or the default one; raise an error if SQLite cannot open it."""
    home = Path(named).expanduser().absolute() if named else home_folder()
    if not is_utf8(str(home)):
        raise ConfigError(
            f"The name of the home {printable_path(home)} is not valid UTF-8",
            "Rename it, or set MEMWELL_HOME to another folder",
        )
    return home


@dataclass(frozen=True, slots=True)
class _Content:
    """The text of a configuration file, and whether it may set every setting."""

    path: Path
    text: bytes
    trusted: bool


@dataclass(slots=True)
class _File:
    """The values of one configuration file."""

    path: Path
    values: dict[str, Value] = field(default_factory=dict)
    written: dict[str, Value] = field(default_factory=dict)
    """Values with ${NAME}, as the file has them."""
    refused: list[str] = field(default_factory=list)
    """Settings that the file may not set, each with the reason if the name does not tell it."""

    @property
    def notices(self) -> list[str]:
        """One sentence about all settings that are refused."""
        if not self.refused:
            return []
        return [
            f"memwell ignores {', '.join(self.refused)} in {self.path}: a folder that you do not"
            f" trust may not set this. Read the file, then run `memwell trust {self.path.parent}`"
        ]


def _load(path: Path, environment: Mapping[str, str], home: Path) -> _Content:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error}", remedy_for(error).capitalize()
        ) from error
    of_user = path.parent.resolve() == user_config_folder(environment).resolve()
    return _Content(path, text, of_user or is_trusted(home, path, text))


def _interpret(content: _Content, environment: Mapping[str, str]) -> _File:
    path = content.path
    file = _File(path)
    for name, value in _flatten(_parse(path, content.text)):
        setting = SETTING_BY_NAME.get(name)
        if setting is None:
            raise ConfigError(f"{path} sets {name}, which is not a setting", suggest_name(name))
        if not content.trusted and (refused := _find_danger(setting, value, path.parent)):
            file.refused.append(refused)
            continue
        plain = _expand(value, environment, path, name)
        file.values[name] = check(setting, plain, f"{path}", value)
        if plain != value:
            file.written[name] = tuple(value) if isinstance(value, list) else value
    return file


def _parse(path: Path, text: bytes) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text.decode().replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}", "Correct that line") from error
    except RecursionError:
        raise ConfigError(
            f"{path} is not valid TOML: it is nested too deeply", "Correct it"
        ) from None


def _find_danger(setting: Setting, value: Any, workspace: Path) -> str:
    """Return the name of a setting that the workspace may not set to this value, else ""."""
    if not setting.safe:
        return setting.name
    if references := _REFERENCE.findall(str(value)):
        return f"{setting.name} (it refers to ${{{references[0]}}})"
    if setting.name == "note.folder" and not _is_inside(workspace, str(value)):
        return f"{setting.name} = {value!r} (it is outside of the folder)"
    return ""


def _is_inside(folder: Path, name: str) -> bool:
    try:
        return (folder / name).resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):
        return False


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
        hide_content(match.group(1), environment[match.group(1)])
        return environment[match.group(1)]

    return _REFERENCE.sub(replace, value)
