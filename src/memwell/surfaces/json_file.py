"""Changes the JSON files of other programs; the rest of such a file stays as it is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from memwell.errors import ConfigError
from memwell.files import atomic_write

Edit = Callable[[dict[str, Any]], dict[str, Any]]
"""Returns a changed copy of an object; raises `ValueError` if it cannot be changed."""


def to_json(value: Mapping[str, Any]) -> str:
    """Return an object as such files have it."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def edit_file(file: Path, edit: Edit, remedy: str, *, backup: bool = False) -> bool:
    """Change the object in a file; return False if the file has the change already.

    The file keeps its permissions, and a symbolic link stays a link. With `backup`, the old file is
    kept as a copy whose name ends with ``.bak``.
    """
    file = file.resolve()
    try:
        old = file.read_text(encoding="utf-8-sig") if file.exists() else ""
        settings = json.loads(old) if old.strip() else {}
        if not isinstance(settings, dict):
            raise ValueError(f"{json.dumps(settings)[:40]} is not an object")
        new = edit(settings)
        if new == settings:
            return False
        file.parent.mkdir(parents=True, exist_ok=True)
        if backup and old:
            shutil.copy2(file, file.with_name(f"{file.name}.bak"))
        with atomic_write(file, keep_permissions=True) as part:
            part.write_text(to_json(new), encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} was not changed ({error})", remedy) from error
    return True
