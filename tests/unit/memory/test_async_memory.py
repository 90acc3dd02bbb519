"""`AsyncMemory` has the methods of `Memory` with the same types, and does not block the loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from inspect import iscoroutinefunction, isfunction
from pathlib import Path
from typing import Any

import pytest

from memwell import AsyncMemory, FactFilter, FactService, Memory, NoteBrowser
from memwell.memory import async_memory
from tests.conftest import Write
from tests.support.async_stub import STUB, stub


def test_the_stub_is_generated_from_memory() -> None:
    assert STUB.read_text(encoding="utf-8") == stub(), "run python -m tests.support.async_stub"


@pytest.mark.parametrize(
    ("awaited", "blocking"),
    [
        (AsyncMemory, Memory),
        (async_memory.AsyncFactService, FactService),
        (async_memory.AsyncNoteBrowser, NoteBrowser),
    ],
)
def test_every_public_method_can_be_awaited(awaited: type, blocking: type) -> None:
    names = {
        name
        for name, member in vars(blocking).items()
        if isfunction(member) and not name.startswith("_")
    } - {"as_viewer"}
    assert {name for name in names if iscoroutinefunction(getattr(awaited, name))} == names
    for name in names:
        assert getattr(awaited, name).__doc__ == getattr(blocking, name).__doc__


def test_a_program_uses_everything_by_awaiting_it(workspace: Path, write: Write) -> None:
    write("pets.md", "# Pets\n\nThe cat is named Miso.\n")

    async def use() -> None:
        async with AsyncMemory(user="anna") as memory:
            (report,) = await memory.index(workspace)
            assert report.added == 1
            found = await asyncio.gather(*(memory.search("cat") for _ in range(5)))
            assert {result.hits[0].path for result in found} == {"pets.md"}
            stored = await memory.remember("The dog is named Rex.")
            assert [fact.id for fact in await memory.facts.find(FactFilter())] == [stored.fact.id]
            assert next(note.path for note in await memory.contents.notes()) == "pets.md"
            assert await memory.as_viewer(user="ben").facts.find(FactFilter()) == []
            assert memory.memory.viewer.user == "anna"
            assert (await memory.forget(stored.fact.id)).count == 1

    asyncio.run(use())


def test_the_loop_goes_on_while_a_search_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search returns only after the loop has done something else."""
    went_on = threading.Event()

    def search(self: Memory, query: str) -> bool:
        return went_on.wait(30)

    in_thread: Callable[..., Any] = async_memory._in_thread(search)  # type: ignore[attr-defined]
    monkeypatch.setattr(AsyncMemory, "search", in_thread)

    async def use() -> None:
        async with AsyncMemory() as memory:
            waiting = asyncio.create_task(memory.search("cat"))
            await asyncio.sleep(0)
            went_on.set()
            assert await waiting is True  # type: ignore[comparison-overlap]

    asyncio.run(use())


@pytest.mark.process
def test_a_user_program_sees_the_types_of_what_it_awaits(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "from memwell import AsyncMemory\n"
        "async def main() -> None:\n"
        "    async with AsyncMemory() as memory:\n"
        "        reveal_type((await memory.search('cat')).hits[0].score)\n"
        "        await memory.remember('The cat is Miso.', importence=1)\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "program.py"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert 'Revealed type is "float"' in run.stdout.replace("builtins.", "")
    assert 'Unexpected keyword argument "importence"' in run.stdout
    assert run.stdout.count("error:") == 1
