"""Which folders may set every setting: trusted.json in the home.

A folder may be a clone of a stranger's, so its memwell.toml may set only what is safe (see
`Setting.safe`). The user trusts one content of that file; a changed file is not trusted.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from memwell.errors import NotFoundError
from memwell.files import hold_lock, make_private_folder, private_file, read_state, write_errors

_FILE_NAME = "trusted.json"


def is_trusted(home: Path, file: Path, content: bytes) -> bool:
    """Whether the user trusts a configuration file with this content."""
    return read_state(home / _FILE_NAME).get(_key(file)) == _digest(content)


def trust(home: Path, file: Path) -> None:
    """Trust a configuration file as it is now."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise NotFoundError(
            f"{file} cannot be read ({error.strerror})", "Name a folder that has this file"
        ) from error
    _record(home, file, _digest(content))


def withdraw(home: Path, file: Path) -> bool:
    """Trust a configuration file no longer; return whether it was trusted before."""
    known = _key(file) in read_state(home / _FILE_NAME)
    if known:
        _record(home, file, None)
    return known


def _record(home: Path, file: Path, digest: str | None) -> None:
    path = home / _FILE_NAME
    with write_errors(path):
        make_private_folder(home)
        with hold_lock(path.with_suffix(".lock"), wait=True):
            state = {**read_state(path), _key(file): digest}
            with private_file(path) as part:
                kept = {name: value for name, value in state.items() if value}
                part.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


def _key(file: Path) -> str:
    return str(file.parent.resolve())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
