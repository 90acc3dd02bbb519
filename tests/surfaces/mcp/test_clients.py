"""`memwell mcp config` adds memwell to the files of clients and keeps everything else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import run

CLIENTS = {
    "claude-code": ("project/.mcp.json", ["mcpServers"]),
    "claude-desktop": (".config/Claude/claude_desktop_config.json", ["mcpServers"]),
    "cursor": (".cursor/mcp.json", ["mcpServers"]),
    "gemini-cli": (".gemini/settings.json", ["mcpServers"]),
    "openclaw": (".openclaw/openclaw.json", ["mcp", "servers"]),
    "opencode": (".config/opencode/opencode.json", ["mcp"]),
    "vscode": ("project/.vscode/mcp.json", ["servers"]),
    "windsurf": (".codeium/windsurf/mcp_config.json", ["mcpServers"]),
    "zed": (".config/zed/settings.json", ["context_servers"]),
}
DESKTOP = {"claude-desktop", "cursor", "vscode", "windsurf", "zed"}
"""Programs that are not started from a shell, so that they do not have its PATH."""
SCRIPTS = sysconfig.get_path("scripts")

each_client = pytest.mark.parametrize("client", CLIENTS)
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the folders are Linux's")


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """The folder of a user, with a project in it."""
    (tmp_path / "user" / "project").mkdir(parents=True)
    return tmp_path / "user"


def config(
    user: Path, *arguments: str, path: str = SCRIPTS, **variables: str
) -> subprocess.CompletedProcess[str]:
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MEMWELL_", "XDG_", "VIRTUAL_ENV"))
    }
    environment = {**clean, "HOME": str(user), "PATH": path, **variables}
    return run("mcp", "config", *arguments, cwd=user / "project", env=environment)


def servers(text: str, keys: list[str]) -> dict[str, Any]:
    settings = json.loads(text)
    for key in keys:
        settings = settings[key]
    assert isinstance(settings, dict)
    return settings


@each_client
def test_the_block_has_the_form_of_the_client(user: Path, client: str) -> None:
    done = config(user, client)
    command = str(Path(SCRIPTS) / "memwell") if client in DESKTOP else "memwell"
    started: dict[str, Any] = {"command": command, "args": ["mcp"]}
    if client == "vscode":
        started = {"type": "stdio", **started}
    if client == "opencode":
        started = {"type": "local", "command": [command, "mcp"]}
    assert servers(done.stdout, CLIENTS[client][1]) == {"memwell": started}
    assert [*user.rglob("*.json")] == []


def test_options_are_carried_over_and_the_workspace_is_named_in_full(user: Path) -> None:
    done = config(
        user, "cursor", "--workspace", ".", "--agent", "helper", "--user", "anna", "--session", "s1"
    )
    assert servers(done.stdout, ["mcpServers"])["memwell"]["args"] == [
        "mcp",
        "--workspace",
        str(user / "project"),
        "--agent",
        "helper",
        "--user",
        "anna",
        "--session",
        "s1",
    ]


def test_options_of_the_group_are_not_lost(user: Path) -> None:
    done = run("mcp", "--user", "anna", "config", "cursor", cwd=user)
    assert done.returncode == 2
    assert "after `config`" in done.stderr


def test_the_command_is_named_in_full_where_it_would_not_be_found(user: Path) -> None:
    done = config(user, "cursor", path=str(user))
    command = Path(servers(done.stdout, ["mcpServers"])["memwell"]["command"])
    assert command == Path(SCRIPTS) / "memwell"
    assert command.is_file()


def test_a_home_of_ones_own_is_carried_over_and_no_secret(user: Path) -> None:
    done = config(user, "cursor", MEMWELL_HOME="mine", MEMWELL_OPENAI_API_KEY="sk-secret")
    carried = {"MEMWELL_HOME": str(user / "project" / "mine")}
    assert servers(done.stdout, ["mcpServers"])["memwell"]["env"] == carried


@on_linux
@each_client
def test_a_file_is_made_where_there_is_none(user: Path, client: str) -> None:
    name, keys = CLIENTS[client]
    done = config(user, client, "--write")
    assert (done.returncode, done.stdout) == (0, f"{user / name} written\n")
    assert [*servers((user / name).read_text(encoding="utf-8"), keys)] == ["memwell"]
    assert [file for file in user.rglob("*") if file.is_file()] == [user / name]


@on_linux
@each_client
def test_what_others_wrote_stays_in_its_order(user: Path, client: str) -> None:
    name, keys = CLIENTS[client]
    file = user / name
    file.parent.mkdir(parents=True, exist_ok=True)
    others = {
        "zebra": {"command": "z", "timeout": 1.5},
        "memwell": {"command": "old"},
        "ant": {"url": "ünï"},
    }
    inner: dict[str, Any] = others
    for key in reversed(keys):
        inner = {"unknown": [1, None], key: inner, "last": {"deep": True}}
    before = json.dumps(inner, ensure_ascii=False)
    file.write_text(before, encoding="utf-8")
    file.chmod(0o600)
    assert config(user, client, "--write", "--user", "anna").returncode == 0
    text = file.read_text(encoding="utf-8")
    changed = servers(text, keys)["memwell"]
    assert (changed.get("args") or changed["command"][1:]) == ["mcp", "--user", "anna"]
    others["memwell"] = changed
    assert list(json.loads(text).items()) == list(inner.items())
    assert [*servers(text, keys)] == ["zebra", "memwell", "ant"]
    assert file.with_name(f"{file.name}.bak").read_text(encoding="utf-8") == before
    assert file.stat().st_mode & 0o777 == 0o600
    again = config(user, client, "--write", "--user", "anna")
    assert again.stdout == f"{file} already has it\n"
    assert file.with_name(f"{file.name}.bak").read_text(encoding="utf-8") == before


def test_a_link_stays_a_link(user: Path) -> None:
    (user / "dotfiles.json").write_text("{}", encoding="utf-8")
    (user / ".cursor").mkdir()
    (user / ".cursor" / "mcp.json").symlink_to(user / "dotfiles.json")
    assert config(user, "cursor", "--write").returncode == 0
    assert (user / ".cursor" / "mcp.json").is_symlink()
    assert "memwell" in (user / "dotfiles.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "text",
    [
        '{\n  // mine\n  "mcpServers": {}\n}',
        "[]",
        '{"mcpServers": []}',
        "{",
        '{"mcpServers": 1,}',
        "\udcff",
    ],
)
def test_a_file_that_cannot_be_merged_is_left_and_the_block_is_printed(
    user: Path, text: str
) -> None:
    file = user / "project" / ".mcp.json"
    content = text.encode(errors="surrogateescape")
    file.write_bytes(content)
    done = config(user, "claude-code", "--write")
    assert done.returncode == 3
    assert "memwell" in servers(done.stdout, ["mcpServers"])
    assert f"{file} was not changed" in done.stderr
    assert "Traceback" not in done.stderr
    assert file.read_bytes() == content
    assert [*file.parent.iterdir()] == [file]


def test_a_terminal_gets_the_path_while_a_virtual_environment_is_active(user: Path) -> None:
    done = config(user, "claude-code", VIRTUAL_ENV=str(Path(SCRIPTS).parent))
    command = servers(done.stdout, ["mcpServers"])["memwell"]["command"]
    assert command == str(Path(SCRIPTS) / "memwell")


def test_codex_keeps_the_comments_of_its_file(user: Path) -> None:
    file = user / ".codex" / "config.toml"
    file.parent.mkdir()
    before = '# mine\nmodel = "x"  # the good one\n\n[mcp_servers.other]\ncommand = "o"\n'
    file.write_text(before, encoding="utf-8")
    assert config(user, "codex", "--write").stdout == f"{file} written\n"
    text = file.read_text(encoding="utf-8")
    assert text.startswith(before)
    servers = tomllib.loads(text)["mcp_servers"]
    assert servers["memwell"] == {"command": "memwell", "args": ["mcp"]}
    assert servers["other"] == {"command": "o"}
    assert file.with_name("config.toml.bak").read_text(encoding="utf-8") == before
    assert config(user, "codex", "--write").stdout == f"{file} already has it\n"
    config(user, "codex", "--write", "--user", "anna")
    servers = tomllib.loads(file.read_text(encoding="utf-8"))["mcp_servers"]
    assert servers["memwell"]["args"] == ["mcp", "--user", "anna"]


@pytest.mark.parametrize("text", ["mcp_servers = 1\n", "[mcp_servers\n"])
def test_a_toml_file_that_cannot_be_merged_is_left(user: Path, text: str) -> None:
    file = user / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    done = config(user, "codex", "--write")
    assert done.returncode == 3
    assert tomllib.loads(done.stdout)["mcp_servers"]["memwell"]["args"] == ["mcp"]
    assert file.read_text(encoding="utf-8") == text


def test_codex_gets_a_file_where_there_is_none(user: Path) -> None:
    done = config(user, "codex", "--write", MEMWELL_HOME="mine")
    assert done.returncode == 0
    written = tomllib.loads((user / ".codex" / "config.toml").read_text(encoding="utf-8"))
    assert written["mcp_servers"]["memwell"]["env"]["MEMWELL_HOME"].endswith("/project/mine")


def test_an_unknown_client_is_answered_with_those_there_are(user: Path) -> None:
    done = config(user, "notepad")
    assert done.returncode == 2
    assert all(client in done.stderr for client in CLIENTS)
