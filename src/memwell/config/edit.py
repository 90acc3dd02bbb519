"""Writing settings into a ``memwell.toml``, where everything else stays as its owner wrote it."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memwell.config.load import FILE_NAME, load, setting_named, to_toml, user_config_folder
from memwell.config.settings import Value
from memwell.errors import ConfigError
from memwell.files import atomic_write

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""Nothing else ends a line: a comment may hold what Python, too, takes for an end."""
_HEADER = re.compile(r"""\s*\[\s*["']?([\w.-]+)["']?\s*\]\s*(?:#.*)?$""")
_KEY = re.compile(r"""(\s*)((?:["']?[\w-]+["']?\s*\.\s*)*["']?[\w-]+["']?)(\s*=\s*)""")
_SCALAR = re.compile(r""""[^"]*"|'[^']*'|[^#\s]+""")


def settings_file(workspace: Path | None, environment: Mapping[str, str] | None = None) -> Path:
    """Return the file to write to: the workspace's, else the user's."""
    environment = os.environ if environment is None else environment
    return (workspace or user_config_folder(environment)) / FILE_NAME


def find_overrides(names: Mapping[str, Value], environment: Mapping[str, str]) -> list[str]:
    """Return the variables of the environment that are stronger than what a file says."""
    variables = [setting_named(name).variable for name in names]
    return [variable for variable in variables if variable in environment]


def write_settings(
    workspace: Path | None,
    values: Mapping[str, Value],
    environment: Mapping[str, str] | None = None,
) -> Path:
    """Write values to the file of a workspace, or of the user, whole or not at all."""
    environment = os.environ if environment is None else environment
    file = settings_file(workspace, environment)
    try:
        old = file.read_bytes() if file.exists() else None
        _replace(file, edit((old or b"").decode(), values).encode())
        try:
            _check(workspace, values, environment)
        except ConfigError:
            _restore(file, old)
            raise
    except (OSError, ValueError) as error:
        lines = ", ".join(f"{name} = {to_toml(value)}" for name, value in values.items())
        raise ConfigError(f"{file} cannot be changed ({error})", f"Set {lines} there") from error
    return file


class _CannotEdit(ValueError):
    """A file is written in a way that only its owner can change."""


def _check(
    workspace: Path | None, values: Mapping[str, Value], environment: Mapping[str, str]
) -> None:
    """Raise an error unless the values hold now, or would but for the environment."""
    hidden = {setting_named(name).variable for name in values}
    rest = {name: value for name, value in environment.items() if name not in hidden}
    held = load(workspace, rest)
    for name, value in values.items():
        if held[name] != value:
            raise ConfigError(
                f"{name} is {to_toml(held[name])} ({held.origins[name]}) after {to_toml(value)} was"
                " written, which was taken back",
                f"Look whether another program writes {FILE_NAME}",
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


# -- the text --------------------------------------------------------------------------------------


def edit(text: str, values: Mapping[str, Value]) -> str:
    """Return TOML with values set; a name is ``table.key``. Comments and order stay."""
    before = tomllib.loads(text)
    for name, value in values.items():
        text = _set_value(text, name, to_toml(value))
    try:
        done = tomllib.loads(text) == _merge(before, values)
    except tomllib.TOMLDecodeError:
        done = False
    if not done:
        tables = " and ".join(sorted({f"[{name.partition('.')[0]}]" for name in values}))
        raise _CannotEdit(f"it does not write {tables} as a table of plain lines")
    return text


def _merge(tables: Mapping[str, Any], values: Mapping[str, Value]) -> dict[str, Any]:
    merged = {**tables}
    for name, value in values.items():
        table, _, key = name.partition(".")
        merged[table] = {**merged.get(table, {}), key: value}
    return merged


def _set_value(text: str, name: str, value: str) -> str:
    """Return TOML with one value set: in its line, beside others of its table, or at the end."""
    lines = _LINE.findall(text)
    end = "\r\n" if "\r\n" in text else "\n"
    table, _, key = name.partition(".")
    header = first_dotted = None
    for number, inside, keys in _places(lines):
        if not keys:
            header = number if inside == table and header is None else header
        elif ".".join(filter(None, (inside, keys))) == name:
            lines[number] = _changed_keys(lines[number], value)
            return "".join(lines)
        elif not inside and keys.startswith(f"{table}.") and first_dotted is None:
            first_dotted = number
    if header is not None:
        complete = "" if lines[header].endswith("\n") else end
        lines.insert(header + 1, f"{complete}{key} = {value}{end}")
    elif first_dotted is not None:
        lines.insert(first_dotted, f"{name} = {value}{end}")
    else:
        complete = "" if text.endswith("\n") or not text else end
        blank = end if text else ""
        lines.append(f"{complete}{blank}[{table}]{end}{key} = {value}{end}")
    return "".join(lines)


def _places(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the headers (no key) and the keys: the line, the table it is in, the key."""
    table = ""
    for number, line in enumerate(lines):
        if header := _HEADER.match(line):
            table = header[1]
            yield number, table, ""
        elif key := _KEY.match(line):
            yield number, table, re.sub(r"[\s\"']", "", key[2])


def _changed_keys(line: str, value: str) -> str:
    """Return a line with another value; a comment behind it stays."""
    start = _KEY.match(line)
    assert start is not None
    return line[: start.end()] + _SCALAR.sub(lambda _: value, line[start.end() :], count=1)
