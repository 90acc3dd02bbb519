"""A cloned folder, its notes and any query can do no harm."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from memwell import Memory
from tests.conftest import Write
from tests.support.cli import run_process as run


def run_json(*arguments: str, cwd: Path) -> Any:
    return json.loads(run(*arguments, "--json", cwd=cwd).stdout)


# -- the memwell.toml of a folder ------------------------------------------------------------------


def test_a_folder_is_trusted_until_its_file_changes(
    workspace: Path, write: Write, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHO", "wren")
    write("MEMORY.md", "apple\n")
    write("memwell.toml", 'agent = "${WHO}"\n[search]\nk = 3\n')

    def read() -> list[object]:
        rows = run_json("config", cwd=workspace)["settings"]
        return [rows[name]["value"] for name in ("agent", "search.k")]

    assert read() == ["main", 3]
    inside = workspace / "memory"
    inside.mkdir()
    assert run_json("trust", cwd=inside) == {
        "file": str(workspace / "memwell.toml"),
        "trusted": True,
    }
    assert (read(), Memory(workspace=workspace).agent) == (["${WHO}", 3], "wren")
    assert "memwell trust" not in run("search", "apple", cwd=workspace).stderr
    write("memwell.toml", 'agent = "${WHO}"\n[search]\nk = 4\n')
    assert read() == ["main", 4]
    assert run("trust", str(workspace), cwd=home.parent).returncode == 0
    assert read() == ["${WHO}", 4]
    assert run("trust", "--remove", str(workspace), cwd=home.parent).returncode == 0
    assert run("trust", "--remove", str(workspace), cwd=home.parent).returncode == 1
    assert read() == ["main", 4]
    (workspace / "memwell.toml").unlink()
    assert "memwell.toml cannot be read" in run("trust", cwd=workspace).stderr


def test_one_notice_names_all_that_a_folder_may_not_set(workspace: Path, write: Write) -> None:
    write("MEMORY.md", "apple\n")
    lines = {
        "agent": '"x"',
        "store.url": '"postgresql://elsewhere/x"',
        "embedding.chain": '["openai"]',
        "embedding.openai.base_url": '"http://elsewhere"',
        "llm.default": '"openai:x"',
        "remote.base_url": '"http://elsewhere"',
        "vectors.lance_uri": '"/elsewhere"',
        "search.hyde_enabled": "true",
        "facts.lifetimes": '["permanent=1d"]',
    }
    write("memwell.toml", "".join(f"{name} = {value}\n" for name, value in lines.items()))
    with Memory(workspace=workspace) as memory:
        memory.search("apple")
        (notice,) = memory.notices
        assert set(memory.settings.origins) <= {"embedding.chain"}  # which the tests set
    assert all(name in notice for name in lines)


# -- control characters ----------------------------------------------------------------------------

ESCAPES = "\x1b]0;owned\x07\x1b[2J \x9b31m \x7f pass\rword"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def test_json_is_escaped_and_complete(workspace: Path, write: Write) -> None:
    write("MEMORY.md", f"The zebra {ESCAPES} is striped.\n")
    done = run("get", "MEMORY.md", "--json", cwd=workspace)
    assert not CONTROL.search(done.stdout)
    assert json.loads(done.stdout)["text"] == f"The zebra {ESCAPES} is striped."


# -- any text is a valid query ---------------------------------------------------------------------

WORDS = [f"{first}{second}ra" for first in "bcdfghjklmnprst" for second in "aeioubcdfgh"]


@pytest.fixture
def zebras(write: Write) -> None:
    for number in range(60):
        text = " ".join([WORDS[number], *(f"{word}{number}" for word in WORDS)])
        write(f"memory/{number}.md", f"---\ntags: [x{number}, y]\n---\nzebra a b {text}\n")


@pytest.mark.usefixtures("zebras")
def test_a_limit_leaves_the_rest_of_the_query(workspace: Path) -> None:
    with Memory(workspace=workspace) as memory:
        memory.index()

        def find(query: str) -> tuple[set[str], tuple[str, ...]]:
            result = memory.search(query, k=100)
            return {hit.path for hit in result.hits}, result.notices

        every = {f"memory/{number}.md" for number in range(60)}
        filters = " ".join(f"-tag:x{number}" for number in range(32))
        assert find(f"zebra {filters}") == ({f"memory/{n}.md" for n in range(32, 60)}, ())
        found, (notice,) = find(f"zebra {filters} -tag:x40")
        assert (len(found), "more than 32 filters" in notice) == (28, True)
        found, (notice,) = find("zebra " + "(" * 21 + "unheard OR quagga" + ")" * 21)
        assert (found, "more than 20 parentheses" in notice) == (every, True)
        assert find("zebra AND " + "(" * 20 + "a OR quagga" + ")" * 20) == (every, ())
        found, (*_, notice) = find("zebra " + "NOT unheard " * 64 + "NOT a")
        assert (found, "more than 64 operators" in notice) == (every, True)
        found, _ = find("zebra NOT a " + "AND zebra " * 64)
        assert not found  # an excluded word is never searched for
