"""The protocol at /mcp of `memwell serve`: real clients, several viewers, several workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support.cli import run
from tests.support.http_servers import Server, served

pytestmark = pytest.mark.process
READING = {"memory_search", "memory_get", "memory_recall", "memory_list", "memory_status"}
WRITING = {"memory_note", "memory_store", "memory_supersede", "memory_forget"}


def add_token(folder: Path, name: str, *options: str) -> str:
    return run("serve", "token", "add", name, *options, cwd=folder).stdout.strip()


async def use(server: Server, token: str, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """Return the names of the tools, and the answer to each call."""
    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(f"{server.address}/mcp", http_client=http)) as client,
    ):
        tools = await client.list_tools()
        answers = [await client.call_tool(name, arguments) for name, arguments in calls]
        return [{tool.name for tool in tools.tools}, *(one.structured_content for one in answers)]


def test_each_viewer_has_its_own_memory(workspace: Path, home: Path) -> None:
    (workspace / "MEMORY.md").write_text("# Memory\n\nThe lighthouse is painted every spring.\n")
    anna = add_token(workspace, "anna", "--user", "anna")
    ben = add_token(workspace, "ben", "--user", "ben")
    reader = add_token(workspace, "reader", "--rights", "read")
    with served(home, workspace, workers=2) as server:
        store = ("memory_store", {"text": "Anna likes the blue boat", "scope": "user"})
        search = ("memory_search", {"query": "blue boat"})
        tools, _, *found = anyio.run(use, server, anna, store, *[search] * 6)
        assert tools == READING | WRITING
        assert all("blue boat" in str(answer) for answer in found)
        _, others = anyio.run(use, server, ben, search)
        assert "blue boat" not in str(others)
        tools, note = anyio.run(use, server, reader, ("memory_search", {"query": "lighthouse"}))
        assert tools == READING
        assert "painted every spring" in str(note)


def test_a_client_without_a_token_is_refused(workspace: Path, home: Path) -> None:
    with served(home, workspace, no_token=False) as server:
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert server.ask("POST", "/mcp", call).status == 401
        foreign = {"origin": "http://example.org"}
        assert server.ask("POST", "/mcp", call, headers=foreign).status == 403
