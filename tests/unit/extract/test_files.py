"""`ingest-files`: facts out of real files, by rule and by models over real HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memwell import Memory
from memwell.errors import MemwellError
from memwell.extract.files import IngestReport
from memwell.extract.source_files import split_text
from memwell.model import Fact
from memwell.store.contract.values import FactFilter
from tests.conftest import Write
from tests.support import cli
from tests.support.llm_servers import (
    FACT,
    PROVIDERS,
    Set,
    configured,
    held_back,
    says,
    sent,
    setter,
)
from tests.support.servers import Act, Server, raw, silent, status
from tests.support.waiting import wait_until

TOOLS = """# Ports

- The database listens on port 5432 of heron.
- The dashboard listens on port 3000 of plover.
"""
DATABASE, DASHBOARD = (
    "The database listens on port 5432 of heron.",
    "The dashboard listens on port 3000 of plover.",
)


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch) -> Set:
    return setter(monkeypatch)


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(provider: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A language model that is configured, in the protocol of each provider."""
    with configured(provider, monkeypatch) as started:
        yield started


def ingest(root: Path, *paths: str, dry_run: bool = False) -> IngestReport:
    with Memory(fallback_workspace=root) as memory:
        report = memory.ingest_files(root, paths=paths, dry_run=dry_run)
        report.failures += memory.notices
        return report


def facts(*, superseded: bool = False) -> list[Fact]:
    with Memory() as memory:
        return memory.facts.find(FactFilter(superseded=superseded))


def texts() -> set[str]:
    """What is held true, without the headings that the rules put in front."""
    return {fact.text.removeprefix("Ports: ") for fact in facts()}


def history(fact: Fact) -> list[tuple[str, str]]:
    with Memory() as memory:
        return [(event.what, event.detail) for event in memory.facts.history(fact.id)]


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return cli.run("ingest-files", *arguments, cwd=cwd)


# -- by rule ---------------------------------------------------------------------------------------


def test_facts_are_taken_by_rule_without_a_model(workspace: Path, write: Write) -> None:
    write("TOOLS.md", TOOLS)
    report = ingest(workspace)
    assert (report.files, report.found, report.added, report.by) == (1, 2, 2, "rules")
    assert (report.failures, report.refused, report.calls) == ([], [], 0)
    assert texts() == {DATABASE, DASHBOARD}
    for fact in facts():
        assert (fact.source, fact.category, fact.decay_class) == ("ingest", "technical", "stable")
        assert fact.tags == ("ingest",)
        line = 3 if "5432" in fact.text else 4
        assert fact.origin == f"TOOLS.md#L{line}-L{line}"


def test_running_it_again_stores_nothing_and_changes_nothing(workspace: Path, write: Write) -> None:
    write("TOOLS.md", TOOLS)
    ingest(workspace)
    before = facts()
    report = ingest(workspace)
    assert (report.unchanged, report.added, report.reinforced, report.duplicates) == (1, 0, 0, 2)
    assert facts() == before
    assert [history(fact) for fact in before] == [[("added", "ingest")]] * 2


def test_without_its_ledger_nothing_is_stored_twice(
    workspace: Path, write: Write, home: Path
) -> None:
    write("TOOLS.md", TOOLS)
    ingest(workspace)
    before = facts()
    (home / "agents" / "main" / "ingested.json").write_text("{", encoding="utf-8")
    report = ingest(workspace)
    assert (report.added, report.reinforced, report.duplicates, report.expired) == (0, 0, 2, 0)
    assert facts() == before


def test_a_changed_file_supersedes_what_it_no_longer_says(workspace: Path, write: Write) -> None:
    write("TOOLS.md", TOOLS)
    ingest(workspace)
    write("TOOLS.md", TOOLS.replace("5432", "6543"))
    report = ingest(workspace)
    assert (report.superseded, report.added, report.expired, report.duplicates) == (1, 0, 0, 1)
    assert texts() == {DATABASE.replace("5432", "6543"), DASHBOARD}
    (old,) = (fact for fact in facts(superseded=True) if "5432" in fact.text)
    (new,) = (fact for fact in facts() if "6543" in fact.text)
    assert old.superseded_by == new.id
    assert new.origin == "TOOLS.md#L3-L3"
    with Memory() as memory:
        assert "5432" not in memory.recall("port of the database on heron").block


def test_what_nothing_took_the_place_of_expires_and_comes_back_with_the_file(
    workspace: Path, write: Write
) -> None:
    write("TOOLS.md", TOOLS)
    ingest(workspace)
    (dashboard,) = (fact for fact in facts() if "dashboard" in fact.text)
    write("TOOLS.md", TOOLS.replace(f"- {DASHBOARD}\n", ""))
    report = ingest(workspace)
    assert (report.superseded, report.expired) == (0, 1)
    assert texts() == {DATABASE}
    assert history(dashboard)[-1] == ("expired", "TOOLS.md no longer says it")
    write("TOOLS.md", TOOLS)
    assert ingest(workspace).added == 1
    assert texts() == {DATABASE, DASHBOARD}


def test_a_file_that_is_gone_takes_its_facts_along(workspace: Path, write: Write) -> None:
    write("TOOLS.md", TOOLS)
    write("AGENTS.md", f"# Ports\n\n- {DATABASE}\n")
    assert ingest(workspace).added == 2
    (workspace / "TOOLS.md").unlink()
    report = ingest(workspace)
    assert (report.gone, report.expired) == (1, 1)
    assert texts() == {DATABASE}, "the other file still says it"
    (workspace / "AGENTS.md").unlink()
    assert ingest(workspace).expired == 1
    assert texts() == set()


def test_facts_point_to_where_they_stand_now(workspace: Path, write: Write) -> None:
    write("skills/a.md", TOOLS)
    ingest(workspace)
    write("skills/a.md", "\n\n" + TOOLS)
    assert ingest(workspace).duplicates == 2
    assert {fact.origin for fact in facts()} == {"skills/a.md#L5-L5", "skills/a.md#L6-L6"}
    (workspace / "skills" / "a.md").rename(workspace / "skills" / "b.md")
    report = ingest(workspace)
    assert (report.added, report.duplicates, report.expired) == (0, 2, 0)
    assert {fact.origin for fact in facts()} == {"skills/b.md#L5-L5", "skills/b.md#L6-L6"}


def test_files_of_the_same_name_in_two_workspaces_are_two_files(
    workspace: Path, tmp_path: Path, write: Write
) -> None:
    write("TOOLS.md", TOOLS)
    other = tmp_path / "other"
    other.mkdir()
    (other / "TOOLS.md").write_text("# Oven\n\n- The oven needs ten minutes to 200 degrees.\n")
    ingest(workspace)
    report = ingest(other)
    assert (report.added, report.superseded, report.expired) == (1, 0, 0)
    assert len(facts()) == 3


def test_a_fact_that_was_told_before_is_reinforced(workspace: Path, write: Write) -> None:
    write("TOOLS.md", TOOLS)
    ingest(workspace)
    told = next(fact.text for fact in facts() if "5432" in fact.text)
    with Memory() as memory:
        memory.forget(*(fact.id for fact in facts()))
        memory.remember(told)
    write("TOOLS.md", TOOLS + "\n")
    report = ingest(workspace)
    assert (report.added, report.reinforced) == (1, 1)
    write("TOOLS.md", "# Ports\n\nNothing.\n")
    assert ingest(workspace).expired == 1
    assert [fact.text for fact in facts()] == [told], "it was not the file that told it"


def test_secrets_are_refused_with_the_place(workspace: Path, write: Write) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    write("TOOLS.md", f"# Access\n\n- The token of the mirror is {token} for now.\n")
    report = ingest(workspace)
    (refused,) = report.refused
    assert refused.startswith("TOOLS.md#L3-L3: Not remembered: it contains a secret")
    assert token not in refused
    assert facts() == []


# -- which files -----------------------------------------------------------------------------------


def test_globs_name_files_inside_of_the_workspace(workspace: Path, write: Write) -> None:
    write("skills/deep/er/one.md", TOOLS)
    write("skills/.hidden/two.md", TOOLS)
    write("docs/api.md", TOOLS)
    write("docs/binary.md", "")
    (workspace / "docs" / "binary.md").write_bytes(bytes(range(256)) * 4 + bytes(1000))
    assert ingest(workspace).files == 1
    report = ingest(workspace, "docs/*.md", "docs/api.md", "nothing/*.md")
    assert (report.files, report.failures) == (2, ["docs/binary.md: not a text file"])


@pytest.mark.parametrize("pattern", ["../x.md", "a/../../x.md", "/etc/passwd", "~/x.md", "C:\\x"])
def test_patterns_cannot_lead_out(workspace: Path, pattern: str) -> None:
    with pytest.raises(MemwellError, match="leads out of the workspace"):
        ingest(workspace, pattern)


def test_a_pattern_that_is_none_is_an_error(workspace: Path) -> None:
    with pytest.raises(MemwellError, match="not a file pattern"):
        ingest(workspace, "skills/**x.md")


def test_links_that_lead_out_are_not_followed(
    workspace: Path, tmp_path: Path, write: Write
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text(TOOLS, encoding="utf-8")
    write("real.md", TOOLS)
    (workspace / "TOOLS.md").symlink_to(outside / "secret.md")
    (workspace / "skills").symlink_to(outside)
    (workspace / "AGENTS.md").symlink_to(workspace / "real.md")
    report = ingest(workspace)
    assert report.files == 1
    assert "TOOLS.md: it is a link that leads out of the folder" in report.failures
    assert {fact.origin.partition("#")[0] for fact in facts()} == {"AGENTS.md"}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names are Unicode")
def test_a_name_that_is_no_text_is_left_out(workspace: Path) -> None:
    folder = os.fsencode(workspace / "skills")
    os.mkdir(folder)
    with open(folder + b"/\xff.md", "w") as file:
        file.write(TOOLS)
    report = ingest(workspace)
    assert (report.files, len(report.failures)) == (0, 1)
    assert report.failures[0].endswith("its name is not UTF-8")


def test_pieces_are_whole_lines_that_overlap() -> None:
    lines = [f"line {number:03}" for number in range(100)]  # of 8 characters
    cut = split_text("\n".join(lines), size=90, overlap=20)
    assert [(piece.start_line, piece.end_line) for piece in cut[:2]] == [(1, 10), (9, 18)]
    assert all(len(piece.text) <= 90 for piece in cut)
    for piece in cut:
        assert piece.text.split("\n") == lines[piece.start_line - 1 : piece.end_line]
    assert {number for piece in cut for number in range(piece.start_line, piece.end_line + 1)} == {
        *range(1, 101)
    }
    long = split_text("x" * 250 + "\nend", size=100, overlap=30)
    assert [(len(piece.text), piece.start_line, piece.end_line) for piece in long] == [
        (100, 1, 1),
        (100, 1, 1),
        (50 + 1 + 3, 1, 2),
    ]
    assert split_text("\n\n", size=100, overlap=10) == []


# -- the command -----------------------------------------------------------------------------------


def test_a_dry_run_lists_and_stores_nothing(workspace: Path, write: Write, home: Path) -> None:
    write("TOOLS.md", TOOLS)
    write("AGENTS.md", f"# Ports\n\n- {DATABASE}\n")
    done = run("--dry-run", cwd=workspace)
    assert done.returncode == 0
    assert done.stdout.count("added  TOOLS.md#L") == 2
    assert "Dry run, nothing is stored: 2 added, 0 reinforced, 1 duplicates" in done.stdout
    assert not home.exists()
    ingest(workspace)
    write("TOOLS.md", TOOLS.replace("3000", "3001"))
    report = ingest(workspace, dry_run=True)
    (change,) = report.changes
    assert (change.outcome, "3000" in change.instead_of) == ("superseded", True)
    assert texts() == {DATABASE, DASHBOARD}
    assert ingest(workspace).superseded == 1


def test_the_workspace_is_named_or_in_the_environment_or_here(
    workspace: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("TOOLS.md", TOOLS)
    other, third = tmp_path / "other", tmp_path / "third"
    other.mkdir()
    third.mkdir()

    def where(*arguments: str, cwd: Path) -> str:
        done = run("--dry-run", "--json", *arguments, cwd=cwd)
        return str(json.loads(done.stdout)["workspace"])

    assert where(cwd=workspace) == str(workspace)
    monkeypatch.setenv("OPENCLAW_WORKSPACE", str(other))
    assert where(cwd=workspace) == str(other)
    monkeypatch.setenv("MEMWELL_WORKSPACE", str(third))
    assert where(cwd=workspace) == str(third)
    assert where("--workspace", str(workspace), cwd=tmp_path) == str(workspace)
    missing = run("--workspace", str(tmp_path / "nowhere"), cwd=tmp_path)
    assert (missing.returncode, "does not exist" in missing.stderr) == (3, True)


def test_the_report_is_printed_and_nothing_to_read_is_said(workspace: Path, write: Write) -> None:
    nothing = run("--paths", "a.md,b/*.md", cwd=workspace)
    assert nothing.returncode == 1
    assert nothing.stderr == f"No file of {workspace} matches a.md, b/*.md\n"
    write("docs/api.md", TOOLS)
    done = run("--paths", "docs/*.md", "--user", "rod", cwd=workspace)
    assert done.stdout == (
        f"{workspace}: 1 file (0 unchanged), 1 piece, 2 facts found by rules\n"
        "2 added, 0 reinforced, 0 duplicates, 0 superseded, 0 expired, 0 refused, 0 failures\n"
    )
    assert done.stderr == "", "no progress but on a terminal"
    assert run("--paths", "../x", cwd=workspace).returncode == 3


# -- by a language model ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        FACT,
        f"```json\n{FACT}\n```",
        f'Here they are:\n{FACT}\n{{"text": "cut off in the mid',
        f'{{"facts": [{FACT},]}}',
    ],
    ids=["well", "fenced", "half-broken", "wrapped"],
)
def test_a_model_is_asked_and_read_whatever_it_wraps_its_answer_in(
    workspace: Path, write: Write, server: Server, provider: str, answer: str
) -> None:
    server.usually = says(answer)
    write("TOOLS.md", TOOLS)
    report = ingest(workspace)
    assert (report.by, report.calls, report.tokens) == (f"{provider}:a-model", 1, 19 + 10)
    assert (report.added, report.failures) == (1, [])
    (fact,) = facts()
    assert (fact.text, fact.category) == ("The harbour opens at six.", "fact")
    assert (fact.tags, fact.origin) == (("harbour", "ingest"), "TOOLS.md#L1-L5")
    assert TOOLS in sent(server.requests[0])
    assert ingest(workspace).unchanged == 1
    assert len(server.requests) == 1, "a file that is as it was is not paid for again"


def test_a_category_that_is_none_is_technical(
    workspace: Path, write: Write, server: Server
) -> None:
    server.usually = says('{"text": "The harbour opens at six.", "category": "boats"}')
    write("TOOLS.md", TOOLS)
    ingest(workspace)
    assert [fact.category for fact in facts()] == ["technical"]


def test_a_model_that_finds_nothing_is_believed(
    workspace: Path, write: Write, server: Server
) -> None:
    write("TOOLS.md", TOOLS)
    for answer in ("", "```json\n[]\n```"):
        server.usually = says(answer)
        write("TOOLS.md", TOOLS + " " * len(answer))
        report = ingest(workspace)
        assert (report.found, report.failures) == (0, [])
    assert facts() == []


def test_pieces_that_fail_go_by_rule_and_are_counted(
    workspace: Path, write: Write, server: Server, setting: Set
) -> None:
    setting(ingest_chunk_size=100, ingest_overlap=0)
    first = "# One\n\n- The oven needs ten minutes to reach 200 degrees.\n" + "\n" * 60
    write("TOOLS.md", first + TOOLS)
    server.script = [held_back, says("I would rather not.")]
    report = ingest(workspace)
    filtered, unreadable = report.failures
    assert filtered.startswith("TOOLS.md#L1-L")
    assert "will not answer this" in filtered
    assert unreadable.endswith("the answer contains no readable fact")
    assert any("oven" in fact.text for fact in facts())
    assert any("The harbour opens" in fact.text for fact in facts()), "the third piece"


@pytest.mark.parametrize("wrong", ["key", "budget", "name"])
def test_a_model_that_cannot_be_had_leaves_the_rest_to_the_rules(
    workspace: Path, write: Write, server: Server, setting: Set, wrong: str
) -> None:
    if wrong == "key":
        server.usually = status(401, {"message": "Incorrect API key provided"})
    elif wrong == "budget":
        setting(llm_max_calls=1)
    else:
        setting(llm_ingest="nobody")
    write("AGENTS.md", "# Oven\n\n- The oven needs ten minutes to reach 200 degrees.\n")
    write("TOOLS.md", TOOLS)
    report = ingest(workspace, "AGENTS.md", "TOOLS.md")
    (notice,) = report.failures
    assert "by rule" in notice or "rules extract the rest" in notice
    assert len(server.requests) == (0 if wrong == "name" else 1)
    assert {DATABASE, DASHBOARD} <= texts()
    assert ("The harbour opens at six." in texts()) == (wrong == "budget")


@pytest.mark.parametrize("act", [silent, raw(b'{"choices": [{"candidates": [{')])
def test_a_file_that_the_rules_read_is_read_by_the_model_when_it_is_back(
    workspace: Path, write: Write, server: Server, setting: Set, act: Act
) -> None:
    write("TOOLS.md", TOOLS)
    setting(llm_timeout=0.2)
    server.usually = act
    report = ingest(workspace)
    assert len(report.failures) == 1
    assert texts() == {DATABASE, DASHBOARD}
    setting(llm_timeout=5)
    server.usually = says(FACT)
    report = ingest(workspace)
    assert (report.added, report.expired) == (1, 0), "the file still says all of it"
    assert texts() == {DATABASE, DASHBOARD, "The harbour opens at six."}
    setting(llm_default="")
    assert ingest(workspace).unchanged == 1


@pytest.mark.process
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_whoever_is_interrupted_goes_on_from_there(
    workspace: Path, write: Write, server: Server, how: signal.Signals
) -> None:
    for name in ("a", "b", "c"):
        write(f"skills/{name}.md", f"# {name}\n\n- The {name} server listens on port 80.\n")
    fact = '{"text": "The NAME server listens on port 80."}'
    server.script = [says(fact.replace("NAME", "a")), silent]
    process = subprocess.Popen(
        [sys.executable, "-m", "memwell", "ingest-files"],
        cwd=workspace,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: len(server.requests) >= 2)
    process.send_signal(how)
    assert process.wait(60) != 0
    assert texts() == {"The a server listens on port 80."}
    server.script = [says(fact.replace("NAME", name)) for name in ("b", "c")]
    report = ingest(workspace)
    assert (report.unchanged, report.added, report.calls, report.failures) == (1, 2, 2, [])
    assert len(texts()) == 3
    for name in ("a", "b", "c"):
        (workspace / "skills" / f"{name}.md").unlink()
    assert (ingest(workspace).expired, texts()) == (3, set())


def test_a_dry_run_asks_the_model_and_stores_nothing(
    workspace: Path, write: Write, server: Server
) -> None:
    write("TOOLS.md", TOOLS)
    report = ingest(workspace, dry_run=True)
    assert (report.added, report.calls, facts()) == (1, 1, [])
    assert ingest(workspace).added == 1


def test_what_a_model_is_sent_is_logged(
    workspace: Path, write: Write, server: Server, setting: Set, tmp_path: Path
) -> None:
    setting(llm_log=tmp_path / "llm.jsonl")
    write("TOOLS.md", TOOLS)
    ingest(workspace)
    (line,) = (tmp_path / "llm.jsonl").read_text(encoding="utf-8").splitlines()
    assert TOOLS in json.loads(line)["messages"][1]["content"]
    assert json.loads(line)["answer"] == FACT
    setting(llm_log=tmp_path)
    write("TOOLS.md", TOOLS + "\n")
    (notice,) = ingest(workspace).failures
    assert notice.startswith("llm.log = ")


def test_a_changed_file_is_read_by_the_model_again_and_supersedes(
    workspace: Path, write: Write, server: Server
) -> None:
    write("TOOLS.md", TOOLS)
    ingest(workspace)
    server.usually = says(FACT.replace("at six", "at seven"))
    write("TOOLS.md", TOOLS + "\nIt opens later.\n")
    report = ingest(workspace)
    assert (report.superseded, report.added, report.expired) == (1, 0, 0)
    assert texts() == {"The harbour opens at seven."}


def test_what_a_file_holds_of_secrets_is_not_sent(
    workspace: Path, write: Write, server: Server
) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    write("TOOLS.md", f"# Access\n\n- The token of the mirror is {token} for now.\n")
    ingest(workspace)
    assert token not in json.dumps(server.requests[0].body)


def test_a_workspace_cannot_have_notes_sent_away(workspace: Path, write: Write) -> None:
    for line in (
        'llm.default = "openai:x"',
        'llm.openai.base_url = "http://evil"',
        "search.hyde_enabled = true",
    ):
        write("memwell.toml", line + "\n")
        with Memory(workspace=workspace) as memory:
            assert not memory.settings.llm.default
            assert not memory.settings.search.hyde_enabled
            assert line.split()[0] in memory.notices[0]
