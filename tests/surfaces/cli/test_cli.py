"""The command line: output, exit status, terminals and signals."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from memwell import __version__
from tests.conftest import EXAMPLES, Write
from tests.support.cli import run, run_json, run_process


@pytest.fixture
def notes(workspace: Path, write: Write) -> Path:
    write(
        "MEMORY.md", "# Pets\n\nThe cat is named Miso.\n\n# Doors\n\nThe door code is 4711. #home\n"
    )
    write("memory/2026-02-10.md", "# Tuesday\n\nStandup is at 14:15 now.\n")
    assert run("index", cwd=workspace).returncode == 0
    return workspace


def test_index_says_what_it_did(workspace: Path, write: Write) -> None:
    write("MEMORY.md", "# One\n\ntext\n")
    write("memory/a.md", "more\n")
    first = run("index", cwd=workspace)
    assert first.stdout == f"{workspace}: 2 added; 2 chunks written\n"
    assert first.stderr == ""
    (workspace / "memory/a.md").unlink()
    assert run("index", ".", cwd=workspace).stdout == (
        f"{workspace}: 1 deleted, 1 unchanged; 0 chunks written\n"
    )


def test_search_shows_path_line_heading_and_marked_words(notes: Path) -> None:
    found = run("search", "what is the name of the cat", "-k", "1", cwd=notes)
    assert found.returncode == 0
    place, text = found.stdout.splitlines()
    assert re.fullmatch(r"MEMORY\.md:1  Pets  0\.\d\d", place)
    assert text == "  The «cat» is «named» Miso."


def test_json_has_the_keys_of_the_contract(notes: Path) -> None:
    result = run_json("search", "cat", cwd=notes)
    (hit,) = result["hits"]
    assert set(hit) >= {
        *("path", "workspace", "start_line", "end_line", "score", "relevance", "text", "kind"),
        *("title", "heading", "date", "tags", "marks"),
    }
    assert (hit["path"], hit["workspace"], hit["start_line"], hit["end_line"]) == (
        *("MEMORY.md", str(notes)),
        1,
        3,
    )
    assert hit["kind"] == "note"
    assert 0 < hit["score"] <= 1
    assert set(result) == {"query", "hits", "legs", "freshness", "suggestions", "notices", "order"}


@pytest.mark.process
def test_a_process_prints_and_exits_like_a_command_run_here(notes: Path) -> None:
    for arguments in (["search", "cat"], ["search", "qwertz"], ["nonsense"], ["index", "/nowhere"]):
        there, here = run_process(*arguments, cwd=notes), run(*arguments, cwd=notes)
        assert (there.returncode, there.stdout, there.stderr) == (
            here.returncode,
            here.stdout,
            here.stderr,
        )


def test_exit_status_says_hits_none_usage_failure(notes: Path, tmp_path: Path) -> None:
    assert run("search", "cat", cwd=notes).returncode == 0
    nothing = run("search", "qwertz", cwd=notes)
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (1, "", "Nothing found.\n")
    assert run("search", "cat", "--nonsense", cwd=notes).returncode == 2
    assert run("nonsense", cwd=notes).returncode == 2
    missing = run("index", "/does/not/exist", cwd=notes)
    assert missing.returncode == 3
    assert missing.stderr == (
        "Error: /does/not/exist does not exist. Check the spelling, or name another folder\n"
    )


def test_did_you_mean(notes: Path) -> None:
    assert "Did you mean: standup?" in run("search", "standpu", cwd=notes).stderr
    assert "Did you mean search?" in run("serch", "x", cwd=notes).stderr


def test_a_query_may_begin_with_a_minus(notes: Path) -> None:
    result = run("search", "-cat", "door", "--files-only", cwd=notes)
    assert result.stdout == "MEMORY.md\n"


@pytest.mark.parametrize("k", ["0", "-3", "1000000"])
def test_an_invalid_number_of_hits_is_named(notes: Path, k: str) -> None:
    refused = run("search", "cat", "-k", k, cwd=notes)
    assert refused.returncode == 3
    assert (
        f"k = {k} is not a valid number of hits. Use a number from 1 to 100,000" in refused.stderr
    )


def test_an_invalid_threshold_is_named(notes: Path) -> None:
    assert (
        "min_score = 1.5 is not between 0 and 1"
        in run("search", "cat", "--min-score", "1.5", cwd=notes).stderr
    )


def test_outside_of_any_workspace_all_are_searched(notes: Path, tmp_path: Path) -> None:
    assert run("search", "cat", "--files-only", cwd=tmp_path).stdout == "MEMORY.md\n"
    refused = run("index", cwd=tmp_path)
    assert refused.returncode == 3
    assert "There is no workspace around" in refused.stderr
    assert "`memwell index .`" in refused.stderr


def test_get_reads_lines_as_the_file_is_now(notes: Path) -> None:
    assert run("get", "MEMORY.md#L3-L5", cwd=notes).stdout == "The cat is named Miso.\n\n# Doors\n"
    assert run("get", "MEMORY.md:3", cwd=notes).stdout == "The cat is named Miso.\n"
    assert run_json("get", "MEMORY.md#L3", cwd=notes)["end_line"] == 3
    beyond = run("get", "MEMORY.md#L30-L40", cwd=notes)
    assert beyond.returncode == 3
    assert "MEMORY.md has 7" in beyond.stderr


@pytest.mark.parametrize(
    "reference", ["../secret.md", "/etc/passwd", "../../etc/passwd", "nope.md", "memory"]
)
def test_get_reads_nothing_else(notes: Path, tmp_path: Path, reference: str) -> None:
    (tmp_path / "secret.md").write_text("secret")
    refused = run("get", reference, cwd=notes)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "There is no note" in refused.stderr


def test_note_appends_to_todays_log_and_is_found_at_once(notes: Path) -> None:
    now = ("--now", "2026-02-10T09:30")
    assert (
        run("note", "The plumber comes on Friday.", *now, cwd=notes).stdout
        == "memory/2026-02-10.md:5\n"
    )
    assert run("note", *now, cwd=notes, stdin="from\nstdin\n").stdout == "memory/2026-02-10.md:9\n"
    assert (
        run("note", "new day", "--now", "2026-02-11T10:00", cwd=notes).stdout
        == "memory/2026-02-11.md:3\n"
    )
    assert (notes / "memory/2026-02-10.md").read_text() == (
        "# Tuesday\n\nStandup is at 14:15 now.\n"
        "\n## 09:30\n\nThe plumber comes on Friday.\n\n## 09:30\n\nfrom\nstdin\n"
    )
    assert run("search", "plumber", "--files-only", cwd=notes).stdout == "memory/2026-02-10.md\n"
    assert (
        run("get", "memory/2026-02-10.md:7", cwd=notes).stdout == "The plumber comes on Friday.\n"
    )
    assert "is not a time" in run("note", "x", "--now", "soon", cwd=notes).stderr
    assert "The note is empty" in run("note", "  ", cwd=notes).stderr


def test_status_doctor_and_config(notes: Path) -> None:
    status = run_json("status", "--deep", cwd=notes)
    assert status["version"] == __version__
    assert status["words"] == "ready"
    assert status["deep"] == {"integrity": "ok"}
    assert [(row["notes"], row["chunks"]) for row in status["workspaces"]] == [(2, 3)]
    assert f"{notes}: 2 notes, 3 chunks, synced" in run("status", cwd=notes).stdout
    doctor = run("doctor", cwd=notes)
    assert doctor.returncode == 0, doctor.stdout
    assert all(check["ok"] for check in run_json("doctor", cwd=notes)["checks"])
    assert run_json("config", "search.k", cwd=notes)["settings"]["search.k"]["value"] == 6
    (notes / "memwell.toml").write_text("[search]\nkay = 3\n")
    broken = run("search", "cat", cwd=notes)
    assert broken.returncode == 3
    assert "Did you mean search.k?" in broken.stderr


def test_doctor_names_what_is_wrong_and_the_remedy(notes: Path, home: Path) -> None:
    home.chmod(0o755)
    notes.rename(notes.with_name("away"))
    doctor = run("doctor", cwd=home)
    assert doctor.returncode == 1
    assert f"{home} was open to other users" in doctor.stderr
    assert f"memwell reset --workspace {notes}" in doctor.stdout


@pytest.mark.process
def test_reset_asks_and_touches_no_note(notes: Path, home: Path) -> None:
    assert run("reset", cwd=notes, stdin="n\n").returncode == 130
    assert run_process("reset", cwd=notes, stdin="n\n").returncode == 130
    assert (home / "agents/main/index.db").exists()
    assert run("reset", "--yes", cwd=notes).stdout == "Done.\n"
    assert not (home / "agents/main/index.db").exists()
    assert run("search", "cat", "--files-only", cwd=notes).stdout == "MEMORY.md\n"
    assert run("reset", "--yes", "--workspace", str(notes), cwd=notes).returncode == 0
    assert run_json("status", cwd=home)["workspaces"] == []
    assert (notes / "MEMORY.md").exists()


def test_bad_files_are_reported_and_the_others_are_indexed(workspace: Path, write: Write) -> None:
    write("good.md", "apple\n")
    write("folder.md/inner.md", "apple pie\n")
    (workspace / "latin.md").write_bytes(b"caf\xe9 apple\n")
    (workspace / "binary.md").write_bytes(bytes(range(256)) * 40 + bytes(4000))
    with open(workspace / "huge.md", "wb") as file:
        file.truncate(200_000_000)
    indexed = run("index", ".", cwd=workspace)
    assert indexed.returncode == 0
    assert (
        "huge.md: skipped, 200 MB is over the limit of 10 MB (raise scan.max_file_mb"
        in indexed.stderr
    )
    assert "latin.md: not valid UTF-8 from byte 3 on, invalid bytes replaced" in indexed.stderr
    assert "binary.md: skipped, it holds binary data" in indexed.stderr
    found = run("search", "apple", "--files-only", cwd=workspace).stdout.splitlines()
    assert sorted(found) == ["folder.md/inner.md", "good.md", "latin.md"]


def test_a_file_that_is_not_a_note_is_refused(workspace: Path, write: Write) -> None:
    write("scan.png", "x")
    refused = run("index", "scan.png", cwd=workspace)
    assert refused.returncode == 3
    assert "scan.png is not a note. memwell reads .md" in refused.stderr


@pytest.mark.process
def test_progress_is_shown_on_a_terminal_only(workspace: Path, write: Write) -> None:
    write("a.md", "apple\n")
    reader, writer = pty.openpty()
    shown = run_process("index", ".", cwd=workspace, stderr=writer)
    os.close(writer)
    assert b"indexing" in os.read(reader, 10_000)
    os.close(reader)
    assert "indexing" not in shown.stdout
    write("b.md", "banana\n")
    assert run("index", ".", cwd=workspace).stderr == ""


@pytest.mark.process
def test_colour_on_a_terminal(notes: Path) -> None:
    reader, writer = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    assert run_process("search", "cat", cwd=notes, stdout=writer, env=environment).returncode == 0
    os.close(writer)
    shown = os.read(reader, 10_000).decode()
    os.close(reader)
    assert "\x1b[33m" in shown
    assert "«" not in shown


@pytest.mark.process
def test_watch_reports_each_sync_and_stops_at_a_signal(notes: Path, write: Write) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "memwell", "watch", "--json"],
        cwd=notes,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "Watching; stop with Ctrl-C.\n"
    assert process.stdout is not None
    # The file system reports only what changes after the watch has begun: write until it is seen.
    for number in range(60):
        write(f"memory/new{number}.md", "fresh\n")
        if select.select([process.stdout], [], [], 0.5)[0]:
            break
    assert json.loads(process.stdout.readline())["report"]["added"] >= 1
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    process.stdout.close()
    process.stderr.close()


def test_eval_measures_a_labelled_set(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    documents = [
        {"id": "d1", "text": "The cat sleeps.", "group": "g1"},
        {"id": "d2", "text": "The cat eats.", "group": "g2"},
        {"id": "d3", "title": "Dogs", "text": "They bark at noon."},
    ]
    queries = [
        {"id": "q1", "text": "cat", "group": "g1", "category": "pets"},
        {"id": "q2", "text": "dogs"},
        {"id": "unanswered", "text": "cat"},
    ]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    (folder / "qrels.tsv").write_text("q1\td1\t1\nq2\td3\t2\nq2\td2\t0\n")
    result = run_json("eval", str(folder), "--run", str(tmp_path / "run"), cwd=tmp_path)
    assert (result["queries"], result["documents"]) == (2, 3)
    assert set(result["metrics"].values()) == {1.0}
    assert result["categories"]["pets"]["recall@10"] == 1
    rows = [line.split("\t") for line in (tmp_path / "run").read_text().splitlines()]
    assert [row[:3] for row in rows] == [["q1", "d1", "1"], ["q2", "d3", "1"]]
    (folder / "qrels.tsv").write_text("q1 d1 1\n")
    broken = run("eval", str(folder), cwd=tmp_path)
    assert broken.returncode == 3
    assert "qrels.tsv:1 is not query, document and grade between tabs" in broken.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(tmp_path: Path, shell: str) -> None:
    assert "_MEMWELL_COMPLETE" in run("completion", shell, cwd=tmp_path).stdout


def test_the_seeds_sql_runs_on_the_views(notes: Path, home: Path) -> None:
    import sqlite3

    connection = sqlite3.connect(home / "agents/main/index.db")
    statement = "SELECT content, chunk_id, rank FROM memory_fts WHERE content MATCH ? ORDER BY rank LIMIT 24"
    for expression in ("cat named", '"named Miso"', "door AND (code OR key)"):
        rows = connection.execute(statement, (expression,)).fetchall()
        assert len(rows) == 1
        assert rows[0][2] < 0
    (source,) = connection.execute(
        "SELECT source_file FROM memory_fts WHERE content MATCH 'miso'"
    ).fetchone()
    assert source == "MEMORY.md"
    columns = [row[1] for row in connection.execute("PRAGMA table_info(memory_embeddings)")]
    assert columns == [
        "id",
        "content",
        "embedding",
        "source_file",
        "chunk_index",
        "created_at",
        "model_name",
    ]
    assert connection.execute("SELECT count(*) FROM memory_embeddings").fetchone() == (0,)
    connection.close()


def test_the_examples_answer_what_the_readme_promises(tmp_path: Path) -> None:
    assert run("index", str(EXAMPLES), cwd=tmp_path).returncode == 0
    for query, path in [
        ("what is the name of the cat", "home/pets.md"),
        ("会议", "languages/zh-meeting.md"),
        ('"ERR_NGX_502"', "runbooks/nginx-502.md"),
        ("bm25rank", "reference/search-scoring.md"),
        ("hybrid.vector", "reference/search-scoring.md"),
        ("हिन्दी", "languages/hi-lessons.md"),
        ("ภาษาไทย", "languages/th-cooking.md"),
    ]:
        found = run("search", query, "--files-only", "-k", "3", cwd=tmp_path)
        assert found.stdout.splitlines()[:1] == [path], query


# -- meaning ---------------------------------------------------------------------------------------


@pytest.fixture
def embedded(notes: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The notes with vectors of the test provider."""
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    told = run("index", cwd=notes)
    assert told.stdout.splitlines()[1:] == ["words (test): 3 embedded"]
    return notes


def test_index_embeds_unless_told_not_to(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    assert run_json("index", "--no-embed", cwd=notes)["vectors"] is None
    monkeypatch.setenv("MEMWELL_EMBEDDING_ON_SEARCH", "0")
    found = run("search", "cat", cwd=notes)
    assert "meaning did not answer: no passage has been embedded yet" in found.stderr
    vectors = run_json("index", cwd=notes)["vectors"]
    assert (vectors["provider"], vectors["embedded"], vectors["left"]) == ("test", 3, 0)
    assert run_json("index", cwd=notes)["vectors"]["embedded"] == 0
    assert run("search", "cat", cwd=notes).stderr == ""


def test_the_mode_is_chosen_on_the_command_line(embedded: Path) -> None:
    legs = {
        mode: [
            leg["name"] for leg in run_json("search", "cat", "--mode", mode, cwd=embedded)["legs"]
        ]
        for mode in ("words", "meaning", "hybrid")
    }
    assert legs == {"words": ["words"], "meaning": ["meaning"], "hybrid": ["words", "meaning"]}
    assert run("search", "cat", "--mode", "telepathy", cwd=embedded).returncode == 2


def test_spaces_are_listed_switched_and_dropped(
    embedded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("spaces", cwd=embedded).stdout.startswith(
        "1  live     words (test), 64 dimensions, 100% of 3 passages"
    )
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test:other")
    assert run("index", cwd=embedded).returncode == 0
    states = [(s["id"], s["state"], s["model"]) for s in run_json("spaces", cwd=embedded)["spaces"]]
    assert states == [(2, "live", "other"), (1, "retired", "words")]
    assert "1  live" in run("spaces", "switch", "1", cwd=embedded).stdout
    refused = run("spaces", "drop", "1", cwd=embedded)
    assert refused.returncode == 3
    assert "Space 1 is live. Switch to another one first" in refused.stderr
    assert run("spaces", "drop", "2", cwd=embedded).returncode == 0
    assert [s["id"] for s in run_json("spaces", cwd=embedded)["spaces"]] == [1]
    assert run("spaces", "drop", cwd=embedded).returncode == 2


def test_status_and_doctor_report_the_providers(
    embedded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "meaning words (test), 100% of 3 passages" in run("status", cwd=embedded).stdout
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "gguf:/nowhere/model.gguf,test")
    status = run("status", cwd=embedded)
    assert "gguf: " in status.stderr
    assert run_json("status", cwd=embedded)["providers"][1] == {
        "name": "test",
        "usable": True,
        "detail": "words",
    }
    found = run("doctor", cwd=embedded)
    assert found.returncode == 1
    assert "FAIL provider gguf" in found.stdout
    assert "ok   provider test" in found.stdout


@pytest.mark.process
def test_embedding_progress_is_shown_on_a_terminal(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    for number in range(50):
        write(f"{number}.md", f"number {number}")
    controller, terminal = pty.openpty()
    done = run_process("index", ".", cwd=workspace, stderr=terminal)
    os.close(terminal)
    shown = os.read(controller, 100_000).decode()
    os.close(controller)
    assert "embedding" in shown
    assert "50/50" in shown
    assert "50/50" not in done.stdout


def test_a_question_without_a_common_word_finds_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offline, by the default model, as the demo promises."""
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "memwell")
    folder = tmp_path / "notes"
    for name in ("protocols", "home", "garden"):
        shutil.copytree(EXAMPLES / name, folder / name)
    assert run("index", str(folder), cwd=tmp_path).returncode == 0
    question = "what to do when a task seems impossible"
    (hit, *_) = run_json("search", question, "-k", "1", "-w", str(folder), cwd=tmp_path)["hits"]
    assert hit["path"] == "protocols/tenacity.md"
    common = {"what", "to", "do", "when", "a"}
    assert not ({*question.split()} - common) & {*re.findall(r"\w+", hit["text"].lower())}
