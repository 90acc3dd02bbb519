"""The configuration files of MCP clients, and how memwell is added to them."""

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

from memwell.platform.folders import user_config_folder
from memwell.surfaces.json_file import edit_file, to_json

_NAME = "memwell"
_PATH_VARIABLES = ("MEMWELL_HOME", "MEMWELL_CONFIG")
"""Clients start servers with few environment variables: these are written to the file."""


@dataclass(frozen=True, slots=True)
class Client:
    """A program that starts MCP servers."""

    folder: Callable[[], Path]
    name: str
    """The path of its configuration file in the folder."""
    keys: tuple[str, ...] = ("mcpServers",)
    """The keys that lead to the object with its servers."""
    extra_fields: Mapping[str, str] = field(default_factory=dict)
    """Further fields that it needs for a server."""

    @property
    def file(self) -> Path:
        """Its configuration file."""
        return self.folder() / self.name


def _claude_desktop() -> Path:
    return user_config_folder("Claude", roaming=True)


CLIENTS = {
    "claude-code": Client(Path.cwd, ".mcp.json"),
    "claude-desktop": Client(_claude_desktop, "claude_desktop_config.json"),
    "cursor": Client(Path.home, ".cursor/mcp.json"),
    "openclaw": Client(Path.home, ".openclaw/openclaw.json", ("mcp", "servers")),
    "vscode": Client(Path.cwd, ".vscode/mcp.json", ("servers",), {"type": "stdio"}),
}


def server_entry(client: Client, options: Sequence[str]) -> dict[str, Any]:
    """Return the object by which a client starts memwell, with options of `memwell mcp`."""
    values = {name: os.environ.get(name) for name in _PATH_VARIABLES}
    variables = {name: absolute_path(value) for name, value in values.items() if value}
    command = {"command": _command(), "args": ["mcp", *options]}
    return {**client.extra_fields, **command, **({"env": variables} if variables else {})}


def config_block(client: Client, entry: Mapping[str, Any]) -> str:
    """Return a client's configuration that contains only memwell."""
    return to_json(_merge({}, client.keys, entry))


def install(client: Client, entry: Mapping[str, Any]) -> Path | None:
    """Add memwell to a client's configuration and return the file; None if it was there already.

    The old file is kept as a copy whose name ends with ``.bak``.
    """
    is_new = edit_file(
        client.file,
        lambda settings: _merge(settings, client.keys, entry),
        "Add the block above to it by hand",
        backup=True,
    )
    return client.file.resolve() if is_new else None


def _merge(settings: Any, keys: Sequence[str], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested objects with memwell's entry under the last of `keys`, in the old order."""
    if not isinstance(settings, dict):
        raise ValueError(f"{json.dumps(settings)[:40]} is not an object")
    if not keys:
        return {**settings, _NAME: entry}
    return {**settings, keys[0]: _merge(settings.get(keys[0], {}), keys[1:], entry)}


def absolute_path(path: str) -> str:
    """Return a path that does not depend on the folder in which a client starts a server."""
    return str(Path(path).expanduser().absolute())


def _command() -> str:
    """Return the command that starts memwell: its name, or its path if PATH does not have it."""
    if shutil.which(_NAME):
        return _NAME
    installed = shutil.which(_NAME, path=sysconfig.get_path("scripts"))
    return installed or absolute_path(sys.argv[0])
