"""A cloned folder, its notes and any query can do no harm."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from memwell import Memory
from memwell.errors import MemwellError
from tests.conftest import Write
from tests.support.cli import run_process as run
from tests.support.http_servers import served


def run_json(*arguments: str, cwd: Path) -> Any:
    return json.loads(run(*arguments, "--json", cwd=cwd).stdout)


SECRET = "sk-clone-must-not-see-4711"


# -- the memwell.toml of a folder ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('[search]\nk = "${OPENAI_API_KEY}"', "search.k"),
        ('[note]\nfolder = "${OPENAI_API_KEY}"', "note.folder"),
        ('[scan]\nextra = ["a.md", "${OPENAI_API_KEY}"]', "scan.extra"),
        ('agent = "${OPENAI_API_KEY}"', "agent"),
    ],
)
def test_reliability_d08_a_folder_reads_no_environment_variable(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch, line: str, name: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    write("MEMORY.md", "apple\n")
    write("memwell.toml", f"{line}\n")
    found = run("search", "apple", cwd=workspace)
    assert (found.returncode, "MEMORY.md" in found.stdout) == (0, True)
    (notice,) = [text for text in found.stderr.splitlines() if "memwell trust" in text]
    assert name in notice
    assert str(workspace / "memwell.toml") in notice
    written = run("note", "a pear", cwd=workspace)
    assert SECRET not in found.stdout + found.stderr + written.stdout + written.stderr
    assert not [path for path in workspace.rglob("*") if SECRET in str(path)]


def test_reliability_d08_no_message_shows_the_content_of_a_variable(
    workspace: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    (tmp_path / "config").mkdir()
    file = tmp_path / "config" / "memwell.toml"
    file.write_text('[search]\nk = "${OPENAI_API_KEY}"\n')
    failed = run("search", "apple", cwd=workspace)
    assert "search.k = '${OPENAI_API_KEY}'" in failed.stderr
    file.write_text('[note]\nfolder = "${OPENAI_API_KEY}"\n')
    shown = run("config", cwd=workspace)
    assert 'note.folder = "${OPENAI_API_KEY}"' in shown.stdout
    assert SECRET not in failed.stderr + shown.stdout + shown.stderr
    file.write_text('[note]\nfolder = "../${OPENAI_API_KEY}"\n')
    write("MEMORY.md", "apple\n")
    failed = run("note", "a pear", cwd=workspace)
    assert "/${OPENAI_API_KEY}/" in failed.stderr
    assert SECRET not in failed.stderr


def test_reliability_d08_a_folder_is_trusted_until_its_file_changes(
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


def test_reliability_d08_one_notice_names_all_that_a_folder_may_not_set(
    workspace: Path, write: Write
) -> None:
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


@pytest.mark.parametrize("folder", ["../../outside", "{tmp}/outside", "memory/../../outside"])
def test_reliability_d20_a_note_stays_in_the_workspace(
    workspace: Path, write: Write, tmp_path: Path, folder: str
) -> None:
    write("MEMORY.md", "apple\n")
    write("memwell.toml", f'[note]\nfolder = "{folder.format(tmp=tmp_path)}"\n')
    done = run("note", "a pear", cwd=workspace)
    assert (done.returncode, done.stdout[:7]) == (0, "memory/")
    assert "note.folder" in done.stderr
    assert "memwell trust" in done.stderr
    assert not [*tmp_path.rglob("outside")]
    assert not (tmp_path.parent / "outside").exists()


def test_reliability_d20_a_link_does_not_lead_a_note_away(
    workspace: Path, write: Write, tmp_path: Path
) -> None:
    target = tmp_path / "profile"
    target.write_text("untouched\n")
    write("MEMORY.md", "apple\n")
    write("memory/other.md", "pear\n")
    (workspace / "memory" / "2026-02-10.md").symlink_to(target)
    failed = run("note", "a pear", "--now", "2026-02-10T14:15", cwd=workspace)
    assert (failed.returncode, target.read_text()) == (3, "untouched\n")
    assert "outside of the workspace" in failed.stderr


def test_reliability_d20_the_user_gets_a_message_about_a_folder_elsewhere(
    workspace: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_NOTE_FOLDER", str(tmp_path / "outside"))
    write("MEMORY.md", "apple\n")
    failed = run("note", "a pear", cwd=workspace)
    assert failed.returncode == 3
    assert "Set note.folder" in failed.stderr
    assert not (tmp_path / "outside").exists()


def test_reliability_d21_a_folder_does_not_choose_the_agent(workspace: Path, write: Write) -> None:
    assert run("remember", "Anna likes kryptonite", "--agent", "anna", cwd=workspace).stdout
    write("memwell.toml", 'agent = "anna"\n')
    listed = run("facts", "list", cwd=workspace)
    assert "kryptonite" not in listed.stdout
    assert "agent" in listed.stderr
    assert "memwell trust" in listed.stderr


# -- reading notes ---------------------------------------------------------------------------------

HIDDEN = {
    "ignored.md": "by .memwellignore",
    "private/diary.md": "by .gitignore",
    ".git/description.md": "a skipped folder",
    "node_modules/x/readme.md": "a skipped folder",
}


def test_reliability_d15_only_notes_of_the_workspace_are_read(
    workspace: Path, write: Write
) -> None:
    for path in HIDDEN:
        write(path, "hidden treasure\n")
    write("shown.md", "apple\n")
    write(".memwellignore", "ignored.md\n")
    write(".gitignore", "private/\n")
    (workspace / "link.md").symlink_to(workspace / "shown.md")
    with Memory() as memory:
        memory.index(workspace)
    for path in (*HIDDEN, "shown.md/../ignored.md"):
        failed = run("get", path, cwd=workspace)
        assert (failed.returncode, failed.stdout) == (3, ""), path
        assert "There is no note" in failed.stderr
    assert run("get", "shown.md", cwd=workspace).stdout == "apple\n"
    assert run("get", "link.md", cwd=workspace).stdout == "apple\n"
    assert run("get", str(workspace / "shown.md"), cwd=workspace).stdout == "apple\n"
    write("new.md", "pear\n")
    assert run("get", "new.md", cwd=workspace).stdout == "pear\n"
    write(".memwellignore", "ignored.md\nshown.md\n")
    assert run("get", "shown.md", cwd=workspace).returncode == 3


def test_reliability_d15_only_conventional_notes_of_an_agent_are_read(
    workspace: Path, write: Write
) -> None:
    write("MEMORY.md", "apple\n")
    write("drafts/secret.md", "hidden treasure\n")
    with Memory(workspace=workspace) as memory:
        assert memory.get("MEMORY.md").text == "apple"
        with pytest.raises(MemwellError, match="There is no note"):
            memory.get("drafts/secret.md")
        with pytest.raises(MemwellError, match="There is no note"):
            memory.get(str(workspace / "drafts" / "secret.md"))


@pytest.mark.parametrize("on_search", ["true", "false"])
def test_reliability_d15_a_note_over_the_limit_is_not_read(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch, on_search: str
) -> None:
    monkeypatch.setenv("MEMWELL_SYNC_ON_SEARCH", on_search)
    write("grows.md", "apple\n")
    with Memory() as memory:
        memory.index(workspace)
    write("grows.md", "apple\n" * 2_000_000)
    failed = run("get", "grows.md#L1-L2", cwd=workspace)
    assert (failed.returncode, failed.stdout) == (3, "")
    assert "over the limit of 10 MB" in failed.stderr
    assert "scan.max_file_mb" in failed.stderr


# -- control characters ----------------------------------------------------------------------------

ESCAPES = "\x1b]0;owned\x07\x1b[2J \x9b31m \x7f pass\rword"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def test_reliability_d22_control_characters_do_not_reach_the_terminal(
    workspace: Path, write: Write
) -> None:
    write("MEMORY.md", f"# Zebra {ESCAPES}\n\n\tThe zebra {ESCAPES} is striped.\n")
    write("memory/zebra \x1b[31m.md", f"Another zebra {ESCAPES}.\n")
    fact = run_json("remember", f"The zebra {ESCAPES} is called Zora.", cwd=workspace)["fact"]
    for command in (
        ["search", "zebra"],
        ["search", "zebra", "--context", "section"],
        ["search", "zebra", "--files-only"],
        ["search", f"path:{ESCAPES} zebra"],
        ["get", "MEMORY.md"],
        ["get", f"none{ESCAPES}.md"],
        ["recall", "What is the zebra called?"],
        ["why", "zebra", "memory/zebra \x1b[31m.md"],
        ["facts", "list"],
        ["facts", "show", fact["id"]],
        ["facts", "history", fact["id"]],
        ["index"],
    ):
        done = run(*command, cwd=workspace)
        assert done.stdout + done.stderr, command
        assert not CONTROL.search(done.stdout + done.stderr), (command, done)
    lines = run("get", "MEMORY.md", cwd=workspace).stdout.split("\n")
    assert lines[2].startswith("\tThe zebra \N{REPLACEMENT CHARACTER}]0;owned")


def test_reliability_d22_json_is_escaped_and_complete(workspace: Path, write: Write) -> None:
    write("MEMORY.md", f"The zebra {ESCAPES} is striped.\n")
    done = run("get", "MEMORY.md", "--json", cwd=workspace)
    assert not CONTROL.search(done.stdout)
    assert json.loads(done.stdout)["text"] == f"The zebra {ESCAPES} is striped."


# -- any text is a valid query ---------------------------------------------------------------------

WORDS = [f"{first}{second}ra" for first in "bcdfghjklmnprst" for second in "aeioubcdfgh"]
NUMBERS = range(3000)

QUERIES = {
    "path": "path:a " * 729,
    "paths": " ".join(f"path:a{n}" for n in NUMBERS),
    "not path": "-path:a " * 729,
    "tag": "tag:x " * 2187,
    "not tag": "-tag:x " * 2187,
    "not tags": "zebra " + " ".join(f"-tag:x{n}" for n in NUMBERS),
    "a long glob": f"zebra path:{'*a' * 30_000}",
    "not": "NOT " * 2187 + "zebra",
    "nots": "zebra " + " ".join(f"NOT {word}" for word in WORDS),
    "phrase": '"a b" ' * 6561,
    "phrases": " ".join(f'"{word} zebra"' for word in WORDS),
    "and": "a AND " * 2187 + "zebra",
    "or": " OR ".join(WORDS * 9),
    "prefix": "g* " * 19_683,
    "prefixes": " ".join(f"{word[:2]}*" for word in WORDS * 9),
    "nested": "(a AND " * 1500 + "zebra" + ")" * 1500,
    "parentheses": "zebra OR " + "(" * 9000 + "b" + ")" * 9000,
    "excluded": "zebra " + " ".join(f"-{word}" for word in WORDS * 9),
    "pasted": json.dumps([{word: f"{word} zebra"} for word in WORDS * 20]),
    "a megabyte": "zebra quagga " * 80_000,
}


@pytest.fixture
def zebras(write: Write) -> None:
    for number in range(60):
        text = " ".join([WORDS[number], *(f"{word}{number}" for word in WORDS)])
        write(f"memory/{number}.md", f"---\ntags: [x{number}, y]\n---\nzebra a b {text}\n")


@pytest.mark.usefixtures("zebras")
@pytest.mark.parametrize("name", QUERIES)
def test_reliability_d12_any_text_is_a_valid_query(workspace: Path, name: str) -> None:
    with Memory(workspace=workspace) as memory:
        memory.index()
        result = memory.search(QUERIES[name])  # the limit of a test ends one that takes minutes
        assert any("more than" in notice for notice in result.notices)
        memory.why(QUERIES[name], "memory/1.md")
        memory.recall(QUERIES[name])


@pytest.mark.usefixtures("zebras")
def test_reliability_d12_a_limit_leaves_the_rest_of_the_query(workspace: Path) -> None:
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


@pytest.mark.usefixtures("zebras")
def test_reliability_d12_and_d15_hold_over_http(workspace: Path, write: Write, home: Path) -> None:
    write("drafts/secret.md", "hidden treasure\n")
    with Memory(workspace=workspace) as memory:
        memory.index()
    with served(home, workspace) as server:
        for name, query in QUERIES.items():
            answer = server.ask("POST", "/api/search", {"query": query})
            assert answer.status < 500, (name, answer.body)
        assert server.ask("GET", "/api/get?reference=drafts/secret.md").status == 404
        assert server.ask("GET", "/api/get?reference=memory/1.md").status == 200
