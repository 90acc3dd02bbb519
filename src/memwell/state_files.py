"""Small files of JSON that make things better but are not needed: losing one costs nothing."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memwell.store.sqlite.filesystem import make_private_folder


def read_scratch(file: Path) -> dict[str, Any]:
    """Return what a file holds; nothing where it is missing or makes no sense."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_scratch(file: Path, values: Mapping[str, Any]) -> None:
    """Write a file whole, for the owner's eyes; where that fails it stays as it was."""
    part = file.with_name(f"{file.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        make_private_folder(file.parent)
        part.touch(mode=0o600)
        part.write_text(json.dumps(values), encoding="utf-8")
        part.replace(file)
    except OSError:
        part.unlink(missing_ok=True)
