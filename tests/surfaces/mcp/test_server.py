"""The MCP server, used through the protocol's own client: in this process and as a process."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, TextContent, TextResourceContents

from memwell import Memory
from memwell.embed.unrelated_baseline import QUESTIONS
from memwell.surfaces.mcp.model_server import shorten_schema
from memwell.surfaces.mcp.server import create_server
from memwell.token_estimate import count_tokens
from tests.conftest import EXAMPLES, REPOSITORY, Write
from tests.support.cli import run
from tests.support.servers import Server as ProviderServer
from tests.support.servers import serving, silent, well, without_proxies
from tests.support.waiting import wait_until

TOOLS = {
    "memory_search",
    "memory_get",
    "memory_recall",
    "memory_list",
    "memory_note",
    "memory_store",
    "memory_supersede",
    "memory_forget",
    "memory_status",
}
MCP = (sys.executable, "-m", "memwell", "mcp")
PATIENCE = 60.0
"""Seconds: generous, for busy machines. No test passes because it waited."""


@pytest.fixture(autouse=True)
def embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")


@pytest.fixture
def notes(workspace: Path, write: Write) -> Path:
    write("MEMORY.md", "# Pets\n\nThe cat is named Miso.\n\n# Doors\n\nThe door code is 4711.\n")
    write(
        "memory/long.md",
        "".join(f"The {n}. step of the launch is number {n}.\n" for n in range(250)),
    )
    with Memory(workspace=workspace) as memory:
        memory.index()
    return workspace


# -- in the process --------------------------------------------------------------------------------


def use_client(
    ask: Callable[[Client], Awaitable[Any]], memory: Memory, woken: list[int] | None = None
) -> Any:
    """Run a function with a client of this memory's server; return its result."""

    async def ask_it() -> Any:
        async with Client(create_server(memory, lambda: (woken or []).append(1))) as client:
            return await ask(client)

    return anyio.run(ask_it)


def call_tool(memory: Memory, tool: str, **arguments: Any) -> CallToolResult:
    result = use_client(lambda client: client.call_tool(tool, arguments), memory)
    assert isinstance(result, CallToolResult)
    return result


def answer_of(memory: Memory, tool: str, **arguments: Any) -> dict[str, Any]:
    result = call_tool(memory, tool, **arguments)
    assert not result.is_error, text(result)
    assert isinstance(result.structured_content, dict)
    assert json.loads(text(result)) == result.structured_content
    return result.structured_content


def error_of(memory: Memory, tool: str, **arguments: Any) -> str:
    result = call_tool(memory, tool, **arguments)
    assert result.is_error
    assert "Traceback" not in text(result)
    return text(result)


def text(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.fixture
def annas(notes: Path) -> Iterator[Memory]:
    with Memory(workspace=notes, user="anna") as memory:
        yield memory


def test_every_tool_says_when_to_use_it_what_it_changes_and_what_it_returns(annas: Memory) -> None:
    listed = use_client(lambda client: client.list_tools(), annas).tools
    assert {tool.name for tool in listed} == TOOLS
    for tool in listed:
        assert "Use it" in tool.description
        assert tool.output_schema["type"] == "object"
    hints = {tool.name: tool.annotations for tool in listed}
    writing = {name for name in TOOLS if not hints[name].read_only_hint}
    assert writing == {"memory_note", "memory_store", "memory_supersede", "memory_forget"}
    assert [name for name in writing if hints[name].destructive_hint] == ["memory_forget"]


def test_every_tool_and_argument_is_documented(annas: Memory) -> None:
    page = (REPOSITORY / "docs" / "mcp.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    for tool in use_client(lambda client: client.list_tools(), annas).tools:
        for argument in tool.input_schema["properties"]:
            assert f"`{argument}`" in rows[tool.name]


def test_a_hit_in_a_document_cites_the_place_in_it(notes: Path) -> None:
    cells: list[dict[str, object]] = [
        {"cell_type": "markdown", "metadata": {}, "source": source}
        for source in ("The boiler is serviced in May.", "The gutter is cleaned in October.")
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (notes / "memory" / "house.ipynb").write_text(json.dumps(notebook))
    with Memory(workspace=notes) as memory:
        memory.index(notes)
        best = answer_of(memory, "memory_search", query="when is the gutter cleaned")["hits"][0]
        assert best["citation"] == "memory/house.ipynb#cell=2"
        read = answer_of(memory, "memory_get", path=best["citation"])
    assert "October" in read["text"]
    assert "May" not in read["text"]


def test_hits_are_snippets_and_their_citations_can_be_read(annas: Memory) -> None:
    found = answer_of(annas, "memory_search", query="which step of the launch is number 7")
    assert 1 <= len(found["hits"]) <= 5
    assert all(len(hit["text"]) <= 310 for hit in found["hits"])
    best = found["hits"][0]
    whole = answer_of(
        annas, "memory_search", query="which step of the launch is number 7", k=1, full=True
    )
    read = answer_of(annas, "memory_get", path=best["citation"])
    assert whole["hits"][0]["text"].strip() == read["text"].strip()
    assert len(read["text"]) > 310
    assert "superseded_by" not in read  # what says nothing costs nothing


def test_a_note_is_read_in_pieces_that_join(annas: Memory) -> None:
    lines, at, pieces = [], 1, 0
    while at:
        piece = answer_of(annas, "memory_get", path="memory/long.md", from_line=at)
        lines += piece["text"].split("\n")
        at, pieces = piece.get("next_line", 0), pieces + 1
    assert pieces == 3
    assert lines == [f"The {n}. step of the launch is number {n}." for n in range(250)]
    few = answer_of(annas, "memory_get", path="memory/long.md", from_line=250, lines=9)
    assert few == {"citation": "memory/long.md#L250-L250", "text": lines[-1]}


@pytest.mark.parametrize(
    "path",
    [
        "../outside.md",
        "memory/../../outside.md",
        "..%2Foutside.md",
        "/etc/passwd",
        "~/outside.md",
        "link.md",
        "../outside.md#L1-L2",
        "a\0b.md",
        "",
        "memwell.toml",
    ],
)
def test_nothing_outside_of_the_workspace_can_be_read(
    annas: Memory, notes: Path, path: str
) -> None:
    outside = notes.parent / "outside.md"
    outside.write_text("hidden treasure\n", encoding="utf-8")
    (notes / "link.md").symlink_to(outside)
    (notes / "memwell.toml").write_text("# hidden treasure\n", encoding="utf-8")
    assert "hidden" not in error_of(annas, "memory_get", path=path)

    async def read(client: Client) -> None:
        with pytest.raises(MCPError) as error:
            await client.read_resource(f"memwell://note/{path}")
        assert "hidden" not in str(error.value)

    use_client(read, annas)


def test_a_fact_is_stored_found_superseded_and_forgotten(annas: Memory) -> None:
    old = answer_of(annas, "memory_store", text="The standup is at 9:30.", tags=["standup"])
    assert old["outcome"] == "added"
    assert (
        answer_of(annas, "memory_store", text="the standup is at 9:30")["outcome"] == "reinforced"
    )
    (hit,) = answer_of(annas, "memory_search", query="when is the standup", kind="fact")["hits"]
    assert hit["citation"] == old["citation"]
    new = answer_of(annas, "memory_supersede", id=old["citation"], text="The standup is at 14:15.")
    assert (new["outcome"], new["instead_of"]) == ("superseded", "The standup is at 9:30.")
    (hit,) = answer_of(annas, "memory_search", query="when is the standup", kind="fact")["hits"]
    assert hit["text"] == "The standup is at 14:15."
    read = answer_of(annas, "memory_get", path=old["citation"])
    assert (read["superseded_by"], read["tags"]) == (new["citation"], ["standup"])
    assert "14:15" in answer_of(annas, "memory_recall", message="When is the standup?")["block"]
    assert answer_of(annas, "memory_status")["facts"] == 1
    gone = answer_of(annas, "memory_forget", ids=[old["citation"], new["citation"]])
    assert gone["count"] == 2
    assert answer_of(annas, "memory_search", query="when is the standup", kind="fact")["hits"] == []


def test_what_a_recalled_block_cites_can_be_read(annas: Memory) -> None:
    stored = answer_of(annas, "memory_store", text="The standup is at 14:15.")
    block = answer_of(annas, "memory_recall", message="When is the standup?")["block"]
    (cited,) = [
        line.split(", ")[0].split("] ")[1] for line in block.splitlines() if "] fact " in line
    ]
    assert answer_of(annas, "memory_get", path=cited)["citation"] == stored["citation"]


def test_a_note_whose_name_begins_like_a_fact_is_a_note(annas: Memory, write: Write) -> None:
    annas.index(write("fact sheet.md", "It is a note.\n"), embed=False)
    assert answer_of(annas, "memory_get", path="fact sheet.md")["text"] == "It is a note."


def test_writing_wakes_what_embeds(annas: Memory) -> None:
    woken: list[int] = [0]
    use_client(
        lambda client: client.call_tool("memory_store", {"text": "The roof leaks."}), annas, woken
    )
    assert woken == [0, 1]


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("memory_store", {"text": "thanks!"}, "Write a sentence of at least three words"),
        (
            "memory_store",
            {"text": "The key is sk-abcdefghijklmnopqrstuvwxyz123456."},
            "Leave the secret out",
        ),
        (
            "memory_supersede",
            {"id": "fact:none", "text": "It rains here."},
            "There is no fact 'none'",
        ),
        ("memory_forget", {"ids": ["fact:none"]}, "There is no fact 'none'"),
        ("memory_get", {"path": "MEMORY.md", "from_line": 99}, "Ask for lines between 1 and 7"),
        ("memory_search", {"query": "cat", "k": 0}, "greater than or equal to 1"),
        ("memory_search", {}, "The argument query is missing."),
        ("memory_search", {"query": " "}, "The query is empty. Write a question"),
        ("memory_search", {"query": "cat", "k": 500}, "The argument k = 500 is wrong. It should"),
        ("memory_search", {"query": "cat", "kind": "x" * 99}, "It should be 'note' or 'fact'"),
        ("memory_get", {"path": "none.md"}, "Use a citation that memory_search"),
        ("memory_get", {"path": "fact:none"}, "Use a citation that memory_search"),
        ("memory_note", {"text": " "}, "The note is empty. Give it some text"),
        ("memory_recall", {"message": "cat", "budget": 0}, "greater than or equal to 1"),
        ("memory_drop", {}, "Unknown tool"),
    ],
)
def test_an_error_says_what_was_wrong_and_the_remedy(
    annas: Memory, tool: str, arguments: dict[str, Any], said: str
) -> None:
    told = error_of(annas, tool, **arguments)
    assert said in told
    assert not re.search("`memwell|pydantic|validation error|Error executing|secrets to", told)


def test_an_error_that_only_the_user_can_remedy_is_for_the_user(workspace: Path) -> None:
    with Memory() as memory:
        told = error_of(memory, "memory_note", text="The launch went well.")
    assert "Tell the user: Name one with --workspace" in told


def test_the_tool_list_is_short(annas: Memory) -> None:
    tools = use_client(lambda client: client.list_tools(), annas).tools
    read = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        for tool in tools
    ]
    assert count_tokens(json.dumps(read)) <= 1300
    assert '"title"' not in json.dumps(read)
    search = next(tool for tool in tools if tool.name == "memory_search")
    described = search.input_schema["properties"]["query"]["description"]
    for filter in ("path:", "tag:", "after:", "before:", '"exact phrase"', "-word"):
        assert filter in described
    assert search.input_schema["properties"]["kind"] == {"enum": ["note", "fact"], "type": "string"}


def test_answers_are_short(tmp_path: Path) -> None:
    """The tokens of an answer with five hits; a whole passage costs more, if a model asks for it."""
    with Memory(settings={"embedding.chain": ()}) as memory:
        memory.index(EXAMPLES / "memory", embed=False)
        for query in ("what did Rod decide", "the pump", "Shanghai call", "standup", "garden plot"):
            short = call_tool(memory, "memory_search", query=query)
            assert count_tokens(text(short)) <= 700
            whole = call_tool(memory, "memory_search", query=query, full=True)
            assert count_tokens(text(whole)) >= count_tokens(text(short))
            recalled = call_tool(memory, "memory_recall", message=query, budget=200)
            assert count_tokens(text(recalled)) <= 200 + 30


def test_an_argument_named_title_stays_in_a_schema() -> None:
    schema = {"title": "T", "properties": {"title": {"title": "Title", "type": "string"}}}
    assert shorten_schema(schema) == {"properties": {"title": {"type": "string"}}}


def test_facts_are_listed_newest_first_up_to_a_limit(annas: Memory) -> None:
    for name in ("Miso", "Rex", "Kiki"):
        answer_of(annas, "memory_store", text=f"An animal is named {name}.", tags=["Pets"])
    listed = answer_of(annas, "memory_list", limit=2)
    assert [fact["text"][19:-1] for fact in listed["facts"]] == ["Kiki", "Rex"]
    assert listed["has_more"] is True
    assert len(answer_of(annas, "memory_list", tag="pets")["facts"]) == 3
    assert answer_of(annas, "memory_list", category="rule") == {"facts": []}


def test_a_note_goes_to_the_log_of_the_day_and_is_found(annas: Memory, notes: Path) -> None:
    written = answer_of(annas, "memory_note", text="The rocket engine passed its test.")
    assert "rocket engine" in answer_of(annas, "memory_get", path=written["citation"])["text"]
    found = answer_of(annas, "memory_search", query="rocket engine test")
    assert found["hits"][0]["citation"].startswith(written["citation"].split("#")[0])


def test_hits_of_one_note_are_one_hit_that_names_the_other_lines(annas: Memory) -> None:
    found = answer_of(annas, "memory_search", query="which step of the launch is number 7")
    notes = [hit["citation"].split("#")[0] for hit in found["hits"]]
    assert len({*notes}) == len(notes)
    long = found["hits"][notes.index("memory/long.md")]
    assert 1 <= len(long["more_lines"]) <= 3
    read = answer_of(annas, "memory_get", path=f"memory/long.md#{long['more_lines'][0]}")
    assert "step of the launch" in read["text"]


def test_a_forgotten_fact_names_its_predecessors(annas: Memory) -> None:
    old = answer_of(annas, "memory_store", text="The standup is at 9:30.")["citation"]
    new = answer_of(annas, "memory_supersede", id=old, text="The standup is at 14:15.")["citation"]
    assert answer_of(annas, "memory_forget", ids=[new]) == {"count": 1, "predecessors": [old]}
    assert answer_of(annas, "memory_forget", ids=[old]) == {"count": 1}


def test_no_argument_changes_who_is_looking_or_where(
    annas: Memory, notes: Path, tmp_path: Path
) -> None:
    with Memory(user="ben", agent="other", session="s2") as bens:
        theirs = bens.remember("Ben hides the treasure in the cellar.").fact.id
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "MEMORY.md").write_text(
            "The treasure is gold.\n", encoding="utf-8"
        )
    with Memory() as elsewhere:
        elsewhere.index(tmp_path / "elsewhere")
    injected = {
        "user": "ben",
        "agent": "other",
        "session": "s2",
        "workspace": str(tmp_path / "elsewhere"),
        "viewer": {"user": "ben"},
        "scope": "global",
        "home": str(tmp_path),
    }
    tools = use_client(lambda client: client.list_tools(), annas).tools
    assert not {name for tool in tools for name in tool.input_schema["properties"]} & {*injected}
    harmless: dict[str, dict[str, Any]] = {
        "memory_search": {"query": "where is the treasure"},
        "memory_recall": {"message": "where is the treasure"},
        "memory_get": {"path": f"fact:{theirs}"},
        "memory_supersede": {"id": theirs, "text": "The chest is empty."},
        "memory_forget": {"ids": [theirs]},
        "memory_status": {},
    }
    for tool, arguments in harmless.items():
        answer = text(call_tool(annas, tool, **arguments, **injected))
        assert not [word for word in ("cellar", "gold", "elsewhere") if word in answer], answer
    stored = answer_of(annas, "memory_store", text="Anna paints boats.", **injected)["citation"]
    fact = annas.facts.get(stored.removeprefix("fact:"))
    assert (fact.scope, fact.target) == ("user", "anna")
    with Memory(user="ben", agent="other", session="s2") as bens:
        assert bens.facts.get(theirs).superseded_by is None


def test_notes_and_facts_are_resources_and_recall_is_a_prompt(annas: Memory) -> None:
    stored = answer_of(annas, "memory_store", text="The standup is at 14:15.")["citation"]

    async def read(client: Client) -> None:
        await uses_resources(client, stored)
        with pytest.raises(MCPError, match="There is no fact 'none'"):
            await client.read_resource("memwell://fact/none")
        with pytest.raises(MCPError, match=r"There is no note 'none\.md'"):
            await client.read_resource("memwell://note/none.md")

    use_client(read, annas)


async def uses_resources(client: Client, stored: str) -> None:
    templates = (await client.list_resource_templates()).resource_templates
    assert {one.uri_template for one in templates} == {
        "memwell://note/{+path}",
        "memwell://fact/{id}",
    }
    assert [str(one.uri) for one in (await client.list_resources()).resources] == [
        "memwell://facts"
    ]
    assert "Miso" in await content(client, "memwell://note/MEMORY.md")
    assert "step" in await content(client, "memwell://note/memory/long.md")
    fact = await content(client, f"memwell://fact/{stored.removeprefix('fact:')}")
    assert await content(client, "memwell://facts") == f"{stored} {fact}"
    (prompt,) = (await client.list_prompts()).prompts
    assert (prompt.name, [one.name for one in prompt.arguments or []]) == ("recall", ["message"])
    (message,) = (await client.get_prompt("recall", {"message": "When is the standup?"})).messages
    assert isinstance(message.content, TextContent)
    assert "14:15" in message.content.text
    assert message.content.text.endswith("When is the standup?")


async def content(client: Client, uri: str) -> str:
    (found,) = (await client.read_resource(uri)).contents
    assert isinstance(found, TextResourceContents)
    return found.text


# -- real processes --------------------------------------------------------------------------------


@asynccontextmanager
async def over_stdio(cwd: Path, *options: str, mode: Any = "auto") -> AsyncIterator[Client]:
    server = StdioServerParameters(
        command=MCP[0], args=[*MCP[1:], *options], env={**os.environ}, cwd=cwd
    )
    with (cwd.parent / "stderr.txt").open("a") as log:
        async with Client(stdio_client(server, log), mode=mode) as client:
            yield client
    assert "Traceback" not in (cwd.parent / "stderr.txt").read_text(encoding="utf-8")


@asynccontextmanager
async def over_http(cwd: Path) -> AsyncIterator[Client]:
    with http_server(cwd) as url:
        async with Client(url) as client:
            yield client


@contextmanager
def http_server(cwd: Path, *options: str) -> Iterator[str]:
    command = [*MCP, "--http", "--port", "0", *(options or ["--no-token"])]
    with subprocess.Popen(
        command, cwd=cwd, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        try:
            line = process.stderr.readline()
            assert line.startswith("Listening on http://127.0.0.1:"), line
            yield line.split()[2].rstrip(";")
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == 0
        assert "Traceback" not in process.stderr.read()
        assert process.stdout.read() == ""


@pytest.mark.process
@pytest.mark.parametrize(
    "connect",
    [lambda cwd: over_stdio(cwd, mode="legacy"), over_stdio, over_http],
    ids=["stdio, older protocol", "stdio", "http"],
)
def test_a_client_uses_everything(
    connect: Any, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_RECALL_MIN_SCORE", "0.05")

    async def everything() -> None:
        async with connect(notes) as client:
            assert "Search it before you answer" in client.instructions
            assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
            old = await call(client, "memory_store", text="The standup is at 9:30.")
            new = await call(
                client, "memory_supersede", id=old["citation"], text="The standup is at 14:15."
            )
            found = await call(client, "memory_search", query="cat named Miso")
            assert found["hits"][0]["citation"].startswith("MEMORY.md#L1-L")
            assert (
                "Miso"
                in (await call(client, "memory_get", path=found["hits"][0]["citation"]))["text"]
            )
            assert (
                "14:15"
                in (await call(client, "memory_recall", message="When is the standup?"))["block"]
            )
            await uses_resources(client, new["citation"])
            status = await call(client, "memory_status")
            assert (status["facts"], status["workspaces"][0]["notes"]) == (1, 2)
            assert (await call(client, "memory_forget", ids=[new["citation"]]))["count"] == 1
            wrong = await client.call_tool("memory_get", {"path": "../x.md"})
            assert wrong.is_error
            assert "Use a citation that memory_search" in text(wrong)

    anyio.run(everything)


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text(result)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


def test_notes_that_change_are_found_while_it_runs(notes: Path, write: Write) -> None:
    async def edit() -> None:
        async with over_stdio(notes) as client:
            write("memory/new.md", "The kumquat tree blooms.\n")
            with anyio.fail_after(PATIENCE):
                while not (await call(client, "memory_search", query="kumquat"))["hits"]:
                    await anyio.sleep(0.05)

    anyio.run(edit)


def test_two_servers_share_one_memory(notes: Path) -> None:
    async def works(client: Client, name: str) -> None:
        for number in range(10):
            await call(client, "memory_store", text=f"The {name} box number {number} is full.")
            await call(client, "memory_search", query=f"{name} box")

    async def both() -> None:
        async with over_stdio(notes) as one, over_stdio(notes) as other:
            async with anyio.create_task_group() as group:
                group.start_soon(works, one, "red")
                group.start_soon(works, other, "blue")
            for client in (one, other):
                assert (await call(client, "memory_status"))["facts"] == 20
                for name in ("red", "blue"):
                    found = await call(
                        client, "memory_search", query=f"{name} box", kind="fact", k=20
                    )
                    assert sum(name in hit["text"] for hit in found["hits"]) == 10

    anyio.run(both)


def test_the_viewer_is_whom_the_command_names(notes: Path) -> None:
    async def as_anna() -> None:
        async with over_stdio(
            notes, "--user", "anna", "--session", "s1", "--agent", "helper"
        ) as client:
            await call(client, "memory_store", text="Anna likes tea.")
            status = await call(client, "memory_status")
            assert (status["agent"], status["user"], status["session"]) == ("helper", "anna", "s1")

    anyio.run(as_anna)
    with Memory(agent="helper", user="anna", session="s1") as memory:
        assert answer_of(memory, "memory_status")["facts"] == 1
    with Memory(agent="helper", user="anna", session="s2") as memory:
        assert answer_of(memory, "memory_status")["facts"] == 0


@contextmanager
def started(cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """A server that has answered the first request, its input still open."""
    with subprocess.Popen(
        MCP,
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            say(
                process,
                "initialize",
                1,
                protocolVersion="2025-06-18",
                capabilities={},
                clientInfo={"name": "test", "version": "1"},
            )
            assert process.stdout is not None
            assert (
                json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "memwell"
            )
            say(process, "notifications/initialized")
            yield process
        finally:
            process.kill()


def say(
    process: subprocess.Popen[str], method: str, number: int | None = None, **params: Any
) -> None:
    assert process.stdin is not None
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    process.stdin.write(json.dumps(message if number is None else {**message, "id": number}) + "\n")
    process.stdin.flush()


@pytest.mark.process
def test_nothing_but_the_protocol_is_on_standard_output(notes: Path, write: Write) -> None:
    write("memory/bad.md", "---\n: [\n---\n")  # reported on the other stream
    with started(notes) as process:
        for number, (tool, arguments) in enumerate(
            [
                ("memory_search", {"query": "cat"}),
                ("memory_get", {"path": "none.md"}),
                ("memory_store", {}),
            ],
            2,
        ):
            say(process, "tools/call", number, name=tool, arguments=arguments)
        assert process.stdout is not None
        answers = [json.loads(process.stdout.readline()) for _ in range(3)]
        assert {answer["id"] for answer in answers} == {2, 3, 4}
        rest, log = process.communicate(timeout=PATIENCE)
        assert rest == ""
        assert "Traceback" not in log
        assert process.returncode == 0


@pytest.mark.process
def test_it_ends_when_its_client_goes(notes: Path) -> None:
    with started(notes) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


@contextmanager
def started_with(
    provider: ProviderServer, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[subprocess.Popen[str]]:
    """A server whose provider answers some requests, and then hangs: there are more."""
    baseline = 1 + len(QUESTIONS)
    provider.script, provider.usually = [well] * (baseline + 4), silent
    settings = {
        "CHAIN": "openai",
        "OPENAI_BASE_URL": provider.url,
        "OPENAI_KEY": "none",
        "OPENAI_DIMENSIONS": "4",
    }
    for setting, value in settings.items():
        monkeypatch.setenv(f"MEMWELL_EMBEDDING_{setting}", value)
    with started(workspace) as process:
        yield process


@pytest.mark.process
@pytest.mark.parametrize("name", [signal.SIGTERM, None])
def test_it_ends_without_waiting_for_the_embedding(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch, name: signal.Signals | None
) -> None:
    without_proxies(monkeypatch)
    for number in range(300):
        write(f"memory/{number}.md", f"# Note {number}\n\n" + f"Step {number} is a long one. " * 20)
    with serving() as provider, started_with(provider, workspace, monkeypatch) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdout = process.stdout

        def is_embedding() -> bool:
            say(process, "tools/call", 2, name="memory_status", arguments={})
            state = json.loads(stdout.readline())["result"]["structuredContent"]
            match = re.search(r"(\d+)% of [1-9]", state["meaning"])
            return match is not None and int(match[1]) > 0

        wait_until(is_embedding)
        process.send_signal(name) if name else process.stdin.close()
        assert process.wait(PATIENCE) == 0
    with Memory(workspace=workspace) as memory:
        (space,) = memory.spaces()
        assert 0 < space.embedded < space.chunks


@pytest.mark.process
@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_a_signal_though_its_input_is_open(notes: Path, name: signal.Signals) -> None:
    with started(notes) as process:
        process.send_signal(name)
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.process
def test_a_web_page_of_another_name_cannot_ask(notes: Path) -> None:
    with http_server(notes) as url:
        for header in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            request = Request(url, b"{}", {"Content-Type": "application/json", **header})
            with pytest.raises(HTTPError) as error:
                urlopen(request, timeout=PATIENCE)
            assert error.value.code in (403, 421)
            error.value.close()


@pytest.mark.process
def test_other_users_of_the_machine_need_a_token(notes: Path) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
    hello["clientInfo"] = {"name": "test", "version": "1"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    stranger = run("serve", "token", "add", "ben", "--user", "ben", cwd=notes).stdout.strip()
    owner = run("serve", "token", "local", cwd=notes).stdout.strip()
    with http_server(notes, "--user", "anna") as url:
        for token, status in (("", 401), (stranger, 401), (owner, 200)):
            headers = {**sent, "Authorization": f"Bearer {token}"}
            host, port = url.split("/")[2].split(":")
            with closing(HTTPConnection(host, int(port), timeout=PATIENCE)) as connection:
                connection.request("POST", "/mcp", json.dumps(call), headers)
                assert connection.getresponse().status == status


@pytest.mark.process
def test_other_machines_and_ports_in_use_are_refused_with_the_remedy(notes: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for options, remedy in (
            (["--host", "0.0.0.0"], "memwell serve"),
            (["--port", str(taken.getsockname()[1])], "Choose another --port"),
        ):
            command = [*MCP, "--http", *options]
            done = subprocess.run(command, cwd=notes, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stdout) == (3, "")
            assert remedy in done.stderr
            assert "Traceback" not in done.stderr


def test_a_server_prints_nothing_that_other_libraries_log(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pool logs each connection that it lost: a server whose log nobody read came to a stop."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])  # as in a process without pytest
    create_server(memory, lambda: None)
    assert root.handlers == []
