"""Write settings to a ``memwell.toml``; comments, order and layout of the file stay."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from memwell.config.fields import Value, to_toml
from memwell.config.load import FILE_NAME, home_folder, load, user_config_folder
from memwell.config.settings import setting_named
from memwell.config.trust import is_trusted, trust
from memwell.errors import ConfigError
from memwell.files import atomic_write


def settings_file(workspace: Path | None, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the file to write to: the workspace's, else the user's."""
    return (workspace or user_config_folder(environment)) / FILE_NAME


def find_overrides(names: Mapping[str, Value], environment: Mapping[str, str]) -> list[str]:
    """Return the environment variables that override these settings."""
    variables = [setting_named(name).variable for name in names]
    return [variable for variable in variables if variable in environment]


def write_settings(
    workspace: Path | None,
    values: Mapping[str, Value],
    environment: Mapping[str, str] = os.environ,
) -> Path:
    """Write values to the file of a workspace, or of the user: all of them or none."""
    file, home = settings_file(workspace, environment), home_folder(environment)
    try:
        old = file.read_bytes() if file.exists() else None
        was_trusted = old is not None and is_trusted(home, file, old)
        _replace(file, edit((old or b"").decode(), values).encode())
        try:
            _check(workspace, values, environment)
        except ConfigError:
            _restore(file, old)
            raise
        if was_trusted:
            trust(home, file)
    except (OSError, ValueError) as error:
        lines = ", ".join(f"{name} = {to_toml(value)}" for name, value in values.items())
        raise ConfigError(f"{file} cannot be changed ({error})", f"Set {lines} there") from error
    return file


def _check(
    workspace: Path | None, values: Mapping[str, Value], environment: Mapping[str, str]
) -> None:
    """Raise an error unless the values are now in effect, apart from environment variables."""
    hidden = {setting_named(name).variable for name in values}
    rest = {name: value for name, value in environment.items() if name not in hidden}
    settings = load(workspace, rest)
    for name, value in values.items():
        current = setting_named(name).get(settings)
        if current != value:
            raise ConfigError(
                f"{name} is {to_toml(settings.get_masked(name))} ({settings.origin(name)})"
                f" although {to_toml(value)}"
                " was written; the file is as it was before",
                f"Check whether another program writes {FILE_NAME}",
            )


def _replace(file: Path, content: bytes) -> None:
    file = file.resolve()  # a link stays one
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file, keep_permissions=True, durable=True) as part:
        part.write_bytes(content)


def _restore(file: Path, old: bytes | None) -> None:
    if old is None:
        file.unlink(missing_ok=True)
    else:
        _replace(file, old)


def edit(text: str, values: Mapping[str, Value]) -> str:
    """Return TOML with values set, by the names of their settings; all else stays as it was."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
    except TOMLKitError as error:  # of which not all are a ValueError
        raise ValueError(str(error)) from error
    for name, value in values.items():
        *sections, key = name.split(".")
        table: Any = document
        for section in sections:
            table = table.setdefault(section, tomlkit.table())
            if not isinstance(table, MutableMapping):
                raise ValueError(f"{section} is not a table")
        _set_value(table, key, list(value) if isinstance(value, tuple) else value)
    edited = tomlkit.dumps(document)
    if "\r\n" in text:
        edited = edited.replace("\r\n", "\n").replace("\n", "\r\n")
    return edited


def _set_value(table: Any, key: str, value: object) -> None:
    """Set a value; a new one comes first in its table.

    The lines at the end of a table are often a comment on the next one. tomlkit would append the
    value behind that comment, and has no public way to insert it elsewhere.
    """
    from tomlkit.items import Table

    if key not in table and isinstance(table, Table) and table.value.body:
        table.value._insert_at(0, key, value)
    else:
        table[key] = value
