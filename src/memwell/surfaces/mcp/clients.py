"""The configuration files of MCP clients, and how memwell is added to them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memwell.platform import CURRENT, WINDOWS
from memwell.platform.folders import user_config_folder
from memwell.surfaces.command import absolute_path, find_command
from memwell.surfaces.json_file import JSON, TOML, FileFormat, edit_file

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
    is_desktop: bool = False
    """Whether it is started without the PATH of a shell."""
    joins_command: bool = False
    """Whether the command and its arguments are one list, and `env` is called environment."""

    @property
    def file(self) -> Path:
        """Its configuration file."""
        return self.folder() / self.name

    @property
    def format(self) -> FileFormat:
        """How its file is written."""
        return TOML if self.name.endswith(".toml") else JSON


def _claude_desktop() -> Path:
    return user_config_folder("Claude", roaming=True)


def _config_folder() -> Path:
    """Return the folder in which programs with Unix habits keep their settings, on any system."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def _zed() -> Path:
    roaming = os.environ.get("APPDATA") if CURRENT == WINDOWS else None
    return Path(roaming) / "Zed" if roaming else _config_folder() / "zed"


CLIENTS = {
    "claude-code": Client(Path.cwd, ".mcp.json"),
    "claude-desktop": Client(_claude_desktop, "claude_desktop_config.json", is_desktop=True),
    "codex": Client(Path.home, ".codex/config.toml", ("mcp_servers",)),
    "cursor": Client(Path.home, ".cursor/mcp.json", is_desktop=True),
    "gemini-cli": Client(Path.home, ".gemini/settings.json"),
    "openclaw": Client(Path.home, ".openclaw/openclaw.json", ("mcp", "servers")),
    "opencode": Client(
        _config_folder, "opencode/opencode.json", ("mcp",), {"type": "local"}, joins_command=True
    ),
    "vscode": Client(
        Path.cwd, ".vscode/mcp.json", ("servers",), {"type": "stdio"}, is_desktop=True
    ),
    "windsurf": Client(Path.home, ".codeium/windsurf/mcp_config.json", is_desktop=True),
    "zed": Client(_zed, "settings.json", ("context_servers",), is_desktop=True),
}


def server_entry(client: Client, options: Sequence[str]) -> dict[str, Any]:
    """Return the object by which a client starts memwell, with options of `memwell mcp`."""
    values = {name: os.environ.get(name) for name in _PATH_VARIABLES}
    variables = {name: absolute_path(value) for name, value in values.items() if value}
    command, arguments = find_command(is_desktop=client.is_desktop), ["mcp", *options]
    if client.joins_command:
        started: dict[str, Any] = {"command": [command, *arguments]}
        named = {"environment": variables}
    else:
        started, named = {"command": command, "args": arguments}, {"env": variables}
    return {**client.extra_fields, **started, **(named if variables else {})}


def config_block(client: Client, entry: Mapping[str, Any]) -> str:
    """Return a client's configuration that contains only memwell."""
    return client.format.dump(client.format.merge({}, (*client.keys, _NAME), entry))


def install(client: Client, entry: Mapping[str, Any]) -> Path | None:
    """Add memwell to a client's configuration and return the file; None if it was there already.

    The old file is kept as a copy whose name ends with ``.bak``.
    """
    is_new = edit_file(
        client.file,
        lambda settings: client.format.merge(settings, (*client.keys, _NAME), entry),
        "Add the block above to it by hand",
        backup=True,
        format=client.format,
    )
    return client.file.resolve() if is_new else None
