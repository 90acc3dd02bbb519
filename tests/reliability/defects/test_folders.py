"""A cloned folder, its notes and any query can do no harm."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import Write
from tests.reliability.defects.support import add_token, find_crash, run, run_json, serve

SECRET = "sk-clone-must-not-see-4711"


# -- D8, D20, D21: the memwell.toml of a folder ----------------------------------------------------


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
    workspace: Path, write: Write, home: Path, monkeypatch: pytest.MonkeyPatch, line: str, name: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    write("MEMORY.md", "apple\n")
    write("memwell.toml", f"{line}\n")
    found = run("search", "apple", cwd=workspace)
    written = run("note", "a pear", cwd=workspace)
    shown = run("config", cwd=workspace)
    told = [done.stdout + done.stderr for done in (found, written, shown)]
    assert [text for text in told if SECRET in text] == []
    files = [*workspace.rglob("*"), *home.rglob("*")]
    assert [path for path in files if SECRET in str(path)] == []
    assert (found.returncode, "MEMORY.md" in found.stdout) == (0, True)
    (notice,) = [text for text in found.stderr.splitlines() if "memwell trust" in text]
    assert name in notice
    assert str(workspace / "memwell.toml") in notice


def test_reliability_d08_no_message_shows_the_content_of_a_variable(
    workspace: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    (tmp_path / "config").mkdir()
    file = tmp_path / "config" / "memwell.toml"
    file.write_text('[search]\nk = "${OPENAI_API_KEY}"\n')
    failed = run("search", "apple", cwd=workspace)
    assert SECRET not in failed.stderr
    assert "search.k = '${OPENAI_API_KEY}'" in failed.stderr
    file.write_text('[note]\nfolder = "${OPENAI_API_KEY}"\n')
    shown = run("config", cwd=workspace)
    assert SECRET not in shown.stdout + shown.stderr
    assert 'note.folder = "${OPENAI_API_KEY}"' in shown.stdout
    file.write_text('[note]\nfolder = "../${OPENAI_API_KEY}"\n')
    write("MEMORY.md", "apple\n")
    failed = run("note", "a pear", cwd=workspace)
    assert SECRET not in failed.stderr
    assert "/${OPENAI_API_KEY}/" in failed.stderr


@pytest.mark.parametrize("folder", ["../../outside", "{tmp}/outside", "memory/../../outside"])
def test_reliability_d20_a_note_stays_in_the_workspace(
    workspace: Path, write: Write, tmp_path: Path, folder: str
) -> None:
    write("MEMORY.md", "apple\n")
    write("memwell.toml", f'[note]\nfolder = "{folder.format(tmp=tmp_path)}"\n')
    done = run("note", "a pear", cwd=workspace)
    outside = [*tmp_path.rglob("outside"), *tmp_path.parent.glob("outside")]
    assert outside == []
    assert (done.returncode, done.stdout[:7]) == (0, "memory/")
    assert "note.folder" in done.stderr
    assert "memwell trust" in done.stderr


def test_reliability_d20_a_link_does_not_lead_a_note_away(
    workspace: Path, write: Write, tmp_path: Path
) -> None:
    target = tmp_path / "profile"
    target.write_text("untouched\n")
    write("MEMORY.md", "apple\n")
    write("memory/other.md", "pear\n")
    (workspace / "memory" / "2026-02-10.md").symlink_to(target)
    failed = run("note", "a pear", "--now", "2026-02-10T14:15", cwd=workspace)
    assert (target.read_text(), failed.returncode) == ("untouched\n", 3)
    assert "outside of the workspace" in failed.stderr


def test_reliability_d20_the_user_gets_a_message_about_a_folder_elsewhere(
    workspace: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_NOTE_FOLDER", str(tmp_path / "outside"))
    write("MEMORY.md", "apple\n")
    failed = run("note", "a pear", cwd=workspace)
    assert find_crash(failed) == ""
    assert not (tmp_path / "outside").exists()
    assert failed.returncode == 3
    assert "Set note.folder" in failed.stderr


def test_reliability_d21_a_folder_does_not_choose_the_agent(workspace: Path, write: Write) -> None:
    assert run("remember", "Anna likes kryptonite", "--agent", "anna", cwd=workspace).stdout
    write("memwell.toml", 'agent = "anna"\n')
    listed = run("facts", "list", cwd=workspace)
    assert "kryptonite" not in listed.stdout
    assert "agent" in listed.stderr
    assert "memwell trust" in listed.stderr


# -- D15: reading notes ----------------------------------------------------------------------------

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
    assert run("index", str(workspace), cwd=workspace).returncode == 0
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
    assert run("get", "MEMORY.md", cwd=workspace).stdout == "apple\n"
    for path in ("drafts/secret.md", str(workspace / "drafts" / "secret.md")):
        failed = run("get", path, cwd=workspace)
        assert (failed.returncode, failed.stdout) == (3, ""), path
        assert "There is no note" in failed.stderr


@pytest.mark.parametrize("on_search", ["true", "false"])
def test_reliability_d15_a_note_over_the_limit_is_not_read(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch, on_search: str
) -> None:
    monkeypatch.setenv("MEMWELL_SYNC_ON_SEARCH", on_search)
    write("grows.md", "apple\n")
    assert run("index", str(workspace), cwd=workspace).returncode == 0
    write("grows.md", "apple\n" * 2_000_000)
    failed = run("get", "grows.md#L1-L2", cwd=workspace)
    assert (failed.returncode, failed.stdout) == (3, "")
    assert "over the limit of 10 MB" in failed.stderr
    assert "scan.max_file_mb" in failed.stderr


# -- D22: control characters -----------------------------------------------------------------------

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
        assert CONTROL.findall(done.stdout + done.stderr) == [], command
    lines = run("get", "MEMORY.md", cwd=workspace).stdout.split("\n")
    assert lines[2].startswith("\tThe zebra \N{REPLACEMENT CHARACTER}]0;owned")


# -- D12: any text is a valid query ----------------------------------------------------------------

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
def zebras(workspace: Path, write: Write) -> Path:
    """A workspace in which every note is about zebras."""
    for number in range(60):
        text = " ".join([WORDS[number], *(f"{word}{number}" for word in WORDS)])
        write(f"memory/{number}.md", f"---\ntags: [x{number}, y]\n---\nzebra a b {text}\n")
    assert run("index", cwd=workspace).returncode == 0
    return workspace


@pytest.mark.parametrize("name", QUERIES)
def test_reliability_d12_any_text_is_a_valid_query(zebras: Path, name: str) -> None:
    query = QUERIES[name]
    searched = run("search", "--", query, cwd=zebras)  # the limit of a test ends what takes minutes
    assert find_crash(searched) == ""
    assert searched.returncode in (0, 1)  # 1: nothing is found
    assert "more than" in searched.stderr
    for command in (["why", "--", query, "memory/1.md"], ["recall", "--", query]):
        done = run(*command, cwd=zebras)
        assert (find_crash(done), done.returncode in (0, 1)) == ("", True), done.stderr


def test_reliability_d12_and_d15_hold_over_http(zebras: Path, write: Write) -> None:
    write("drafts/secret.md", "hidden treasure\n")
    token = add_token("laptop", cwd=zebras)
    with serve(zebras) as server:
        owner = server.as_owner_of(token)
        for name, query in QUERIES.items():
            status, answer = owner.ask("POST", "/api/search", {"query": query})
            assert status < 500, (name, answer)
        assert owner.ask("GET", "/api/get?reference=drafts/secret.md")[0] == 404
        assert owner.ask("POST", "/api/search", {"query": "zebra"})[0] == 200
