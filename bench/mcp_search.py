"""What a search costs through a warm server over standard input and output, against Python."""

from __future__ import annotations

import os
import random
import sys
import time
from functools import partial
from pathlib import Path
from statistics import median

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from bench import data, start
from bench.measure import seconds, temporary_home
from bench.results import Row, at_most
from memwell import Memory
from memwell.surfaces.background import SERVER_SETTINGS

_SEED = 8
_ASKED = 40
_K = 5


def run() -> list[Row]:
    """Ask both ways by turns: 10,000 chunks, made-up vectors, the default model for queries."""
    root = data.workspace("k8s-en")
    with temporary_home("bench") as folder:
        notes = folder / "notes"
        start._copy_some(root, notes)
        with Memory() as memory:
            memory.index(notes, embed=False)
        start._fill(folder)
        os.environ["MEMWELL_EMBEDDING_CHAIN"] = "memwell"
        begun, served, called = anyio.run(_measured, notes)
    through, directly = 1000 * median(served), 1000 * median(called)
    detail = {"served_s": served, "called_s": called}
    return [
        Row("search through MCP / from Python", through / directly, "times", at_most(3), detail),
        Row("  through a warm stdio server", through, "ms"),
        Row("  from Python", directly, "ms"),
        Row("  from the start to the tools of the server", begun, "s"),
    ]


async def _measured(notes: Path) -> tuple[float, list[float], list[float]]:
    """Return how long the server took to begin, and each search by it and by Python."""
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "memwell", "mcp"], env={**os.environ}, cwd=notes
    )
    before = time.perf_counter()
    served, called = [], []
    with Memory(workspace=notes, settings=SERVER_SETTINGS) as memory:
        async with Client(stdio_client(command)) as client:
            await client.list_tools()
            begun = time.perf_counter() - before
            for query in _queries(notes):
                asked = time.perf_counter()
                result = await client.call_tool("memory_search", {"query": query, "k": _K})
                served.append(time.perf_counter() - asked)
                assert not result.is_error
                called.append(seconds(partial(memory.search, query, k=_K)))
    return begun, served[_ASKED:], called[_ASKED:]


def _queries(notes: Path) -> list[str]:
    """Return names of notes as questions, the first half to warm both up."""
    names = [Path(path).stem.replace("-", " ") for path in data.note_paths(notes)]
    return random.Random(_SEED).sample(names, 2 * _ASKED)
