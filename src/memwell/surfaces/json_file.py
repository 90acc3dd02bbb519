"""Changes the JSON and TOML files of other programs; the rest of such a file stays as it is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memwell.errors import ConfigError
from memwell.files import atomic_write

Edit = Callable[[dict[str, Any]], dict[str, Any]]
"""Returns a changed copy of an object; raises `ValueError` if it cannot be changed."""


def to_json(value: Mapping[str, Any]) -> str:
    """Return an object as such files have it."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _merge_json(settings: Any, keys: Sequence[str], value: Any) -> dict[str, Any]:
    """Return nested objects with a value under a path of keys, in the old order."""
    if not isinstance(settings, dict):
        raise ValueError(f"{json.dumps(settings)[:40]} is not an object")
    first, *others = keys
    inner = _merge_json(settings.get(first, {}), others, value) if others else value
    return {**settings, first: inner}


def _merge_toml(settings: dict[str, Any], keys: Sequence[str], value: Any) -> dict[str, Any]:
    """Return a document with a value under a path of keys; comments stay."""
    import tomlkit

    document = deepcopy(settings) or tomlkit.document()
    table: Any = document
    for key in keys[:-1]:
        table = table.setdefault(key, tomlkit.table(is_super_table=True))
        if not isinstance(table, dict):
            raise ValueError(f"{key} is not a table")
    if table.get(keys[-1]) != value:
        table[keys[-1]] = value
    return document


def _parse_toml(text: str) -> dict[str, Any]:
    import tomlkit

    return tomlkit.parse(text)


def _dump_toml(value: Mapping[str, Any]) -> str:
    import tomlkit

    return tomlkit.dumps(value)


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How a file is read, written and changed."""

    parse: Callable[[str], Any]
    dump: Callable[[Mapping[str, Any]], str]
    merge: Callable[[dict[str, Any], Sequence[str], Any], dict[str, Any]]
    """Returns a copy of an object with a value under a path of keys."""


JSON = FileFormat(json.loads, to_json, _merge_json)
TOML = FileFormat(_parse_toml, _dump_toml, _merge_toml)


def edit_file(
    file: Path, edit: Edit, remedy: str, *, backup: bool = False, format: FileFormat = JSON
) -> bool:
    """Change the object in a file; return False if the file has the change already.

    The file keeps its permissions, and a symbolic link stays a link. With `backup`, the old file is
    kept as a copy whose name ends with ``.bak``.
    """
    file = file.resolve()
    try:
        old = file.read_text(encoding="utf-8-sig") if file.exists() else ""
        settings = format.parse(old) if old.strip() else {}
        if not isinstance(settings, dict):
            raise ValueError(f"{json.dumps(settings)[:40]} is not an object")
        new = edit(settings)
        if new == settings:
            return False
        file.parent.mkdir(parents=True, exist_ok=True)
        if backup and old:
            shutil.copy2(file, file.with_name(f"{file.name}.bak"))
        with atomic_write(file, keep_permissions=True) as part:
            part.write_text(format.dump(new), encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} was not changed ({error})", remedy) from error
    return True
