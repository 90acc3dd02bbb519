"""Where clients keep their list of servers, and how memwell is put on it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memwell.errors import ConfigError
from memwell.files import atomic_write

_NAME = "memwell"
_PLACES = ("MEMWELL_HOME", "MEMWELL_CONFIG")
"""Clients start servers with few variables of the environment: these would be missed."""


@dataclass(frozen=True, slots=True)
class Client:
    """A program that starts servers."""

    folder: Callable[[], Path]
    name: str
    """The file in the folder that it is configured by."""
    keys: tuple[str, ...] = ("mcpServers",)
    """Under which its servers stand in there."""
    also: Mapping[str, str] = field(default_factory=dict)
    """What it wants to be told of a server besides."""

    @property
    def file(self) -> Path:
        """Where it is configured."""
        return self.folder() / self.name


def _claude_desktop() -> Path:
    import platformdirs

    return platformdirs.user_config_path("Claude", appauthor=False, roaming=True)


CLIENTS = {
    "claude-code": Client(Path.cwd, ".mcp.json"),
    "claude-desktop": Client(_claude_desktop, "claude_desktop_config.json"),
    "cursor": Client(Path.home, ".cursor/mcp.json"),
    "openclaw": Client(Path.home, ".openclaw/openclaw.json", ("mcp", "servers")),
    "vscode": Client(Path.cwd, ".vscode/mcp.json", ("servers",), {"type": "stdio"}),
}


def entry(client: Client, options: Sequence[str]) -> dict[str, Any]:
    """Return how a client starts memwell, with options of `memwell mcp`."""
    named = {name: os.environ.get(name) for name in _PLACES}
    places = {name: full_block(value) for name, value in named.items() if value}
    started = {"command": _command(), "args": ["mcp", *options]}
    return {**client.also, **started, **({"env": places} if places else {})}


def block(client: Client, added: Mapping[str, Any]) -> str:
    """Return a client's configuration with nothing but memwell in it."""
    return _json(_merge({}, client.keys, added))


def install(client: Client, added: Mapping[str, Any]) -> Path | None:
    """Put memwell into a client's configuration, where all else stays; None if it was there.

    What the file was before is kept beside it, with ``.bak`` at the end of its name.
    """
    file = client.file.resolve()  # a link stays one
    try:
        old = file.read_text(encoding="utf-8-sig") if file.exists() else ""
        held = json.loads(old) if old.strip() else {}
        new = _merge(held, client.keys, added)
        if new == held:
            return None
        file.parent.mkdir(parents=True, exist_ok=True)
        if old:
            shutil.copy2(file, file.with_name(f"{file.name}.bak"))
        with atomic_write(file, keep_permissions=True) as part:
            part.write_text(_json(new), encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{file} was left as it is ({error})", "Put the block above into it"
        ) from error
    return file


def _merge(held: Any, keys: Sequence[str], added: Mapping[str, Any]) -> dict[str, Any]:
    """Return objects in objects with memwell under the last of `keys`, in the order they have."""
    if not isinstance(held, dict):
        raise ValueError(f"{json.dumps(held)[:40]} stands where an object should")
    if not keys:
        return {**held, _NAME: added}
    return {**held, keys[0]: _merge(held.get(keys[0], {}), keys[1:], added)}


def full_block(path: str) -> str:
    """Return a path that means the same in whatever folder a client starts a server."""
    return str(Path(path).expanduser().absolute())


def _command() -> str:
    """Return what starts memwell: its name, or its path where the name would not be found."""
    if shutil.which(_NAME):
        return _NAME
    installed = shutil.which(_NAME, path=sysconfig.get_path("scripts"))
    return installed or full_block(sys.argv[0])


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
