"""Export, import, backup, restore and verification of facts."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from memwell import Memory
from memwell.errors import HomeError, NotFoundError
from memwell.facts.comparison import normalised
from memwell.facts.export_import import export_facts, import_jsonl, to_jsonl, to_markdown
from memwell.facts.service import FactService, NewFact
from memwell.model import Viewer
from memwell.store.contract.values import FactFilter
from memwell.store.sqlite.database import Database, checksum_vfs
from memwell.store.sqlite.facts import SqliteFactStore
from memwell.store.sqlite.verify import verify
from tests.conftest import REPOSITORY
from tests.support.cli import run, run_json
from tests.support.waiting import wait_until

NOW = dt.datetime(2026, 2, 10, 12, tzinfo=dt.UTC)
ANNA, BEN = Viewer("anna", "main", "s1"), Viewer("ben", "main", "s2")
WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jetty"]
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"


@pytest.fixture
def store(home: Path) -> SqliteFactStore:
    return SqliteFactStore(home / "memory.db")


@pytest.fixture
def other(tmp_path: Path) -> SqliteFactStore:
    return SqliteFactStore(tmp_path / "other" / "memory.db")


def keeper(store: SqliteFactStore, viewer: Viewer = ANNA, now: dt.datetime = NOW) -> FactService:
    return FactService(store, viewer, now)


def text_of(store: SqliteFactStore, viewer: Viewer = ANNA) -> str:
    return to_jsonl(export_facts(keeper(store, viewer)))


def filled(store: SqliteFactStore) -> list[str]:
    """Facts with everything: tags, history, superseded, expiring, odd signs, other scopes."""
    told = keeper(store)
    standup = told.remember(NewFact("Standup is at 9:30.", tags=("Team", "time"))).fact
    later = keeper(store, now=NOW + dt.timedelta(days=2))
    new = later.supersede(standup.id, NewFact("Standup is at 14:15.", category="decision")).fact
    later.remember(NewFact("standup is at 14:15"))
    told.remember(NewFact("Two\nlines,\u2028a \x85 sign and 日本 🐈", scope="global", importance=1))
    told.remember(NewFact("Deploy is running.", decay_class="checkpoint", confidence=1 / 3))
    ben = keeper(store, BEN).remember(NewFact("Ben keeps a newt.", scope="user")).fact
    return [standup.id, new.id, ben.id]


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def damage(file: Path, *statements: str) -> None:
    """Change the content of a file, but keep its checksums valid."""
    connection = apsw.Connection(str(file), vfs=checksum_vfs())
    for statement in statements:
        connection.execute(statement)
    connection.close()


# -- export and import -----------------------------------------------------------------------------


def test_export_import_export_is_the_same_file(
    store: SqliteFactStore, other: SqliteFactStore
) -> None:
    filled(store)
    first = text_of(store)
    report = import_jsonl(first.encode(), keeper(other))
    assert (report.added, report.refused, report.left_out) == (4, [], {})
    assert text_of(other) == first
    again = import_jsonl(first.encode(), keeper(other))
    assert (again.added, again.updated, again.unchanged) == (0, 0, 4)
    ids = [json.loads(line)["id"] for line in first.split("\n") if line]
    assert ids == sorted(ids)
    assert verify(other.file.path, normalised) == []


def test_an_export_contains_the_facts_that_the_viewer_sees_and_their_history(
    store: SqliteFactStore,
) -> None:
    old, new, ben = filled(store)
    found = {fact["id"]: fact for fact in export_facts(keeper(store))}
    assert ben not in found
    assert [event["what"] for event in found[old]["events"]] == ["added", "superseded"]
    assert [event["what"] for event in found[new]["events"]] == ["added", "reinforced"]
    assert found[old]["superseded_by"] == new
    assert "newt" not in text_of(store)


def test_an_export_to_markdown(store: SqliteFactStore) -> None:
    old, new, _ = filled(store)
    text = to_markdown(export_facts(keeper(store)))
    assert "\n## decision\n\n- Standup is at 14:15." in text
    assert "- ~~Standup is at 9:30.~~  \n  2026-02-10 · session s1@anna · #team · #time" in text
    assert f"superseded by `{new}` · `{old}`" in text


@pytest.mark.parametrize(("chain", "mode"), [("", "words"), ("test", "hybrid")])
def test_fifty_queries_are_answered_the_same_after_import(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chain: str, mode: str
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", chain)
    chance = random.Random(7)
    with Memory() as memory:
        for number in range(200):
            words = " ".join(chance.choices(WORDS, k=6))
            memory.remember(f"Item {number} is near {words}.", tags=(chance.choice(WORDS),))
        content = to_jsonl(export_facts(memory.facts)).encode()
        queries = [" ".join(chance.sample(WORDS, 2)) for _ in range(50)]
        memory.fill()
        answers = [answer(memory, query, mode) for query in queries]
    with Memory(tmp_path / "other") as memory:
        assert import_jsonl(content, memory.facts).added == 200
        memory.search("anything")
        memory.fill()
        assert [answer(memory, query, mode) for query in queries] == answers
        assert to_jsonl(export_facts(memory.facts)).encode() == content
    assert all(answers)


def answer(memory: Memory, query: str, mode: str) -> list[tuple[str, str, float]]:
    hits = memory.search(query, mode=mode, k=10).hits
    return [(hit.path, hit.text, round(hit.score, 6)) for hit in hits]


def changed(line: str, **changes: Any) -> str:
    return json.dumps({**json.loads(line), **changes})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": "note"}, 'it is not an object of the kind "fact"'),
        ({"id": "../x"}, "id is not valid"),
        ({"id": 5}, "id is not a text"),
        ({"text": "  "}, "text is empty"),
        ({"text": "half \ud800 a pair"}, "text is not valid Unicode"),
        ({"importance": float("nan")}, "importance is not a number between 0 and 1"),
        ({"confidence": True}, "confidence is not a number"),
        ({"scope": "planet"}, "scope and target do not fit"),
        ({"scope": "global"}, "scope and target do not fit"),
        ({"created_at": "yesterday"}, "created_at is not a time"),
        ({"expires_at": "2026-02-10T12:00:00+09:00"}, "expires_at is not in UTC"),
        ({"confirmed_at": None}, "confirmed_at is not a text"),
        ({"decay_class": "never"}, "decay_class is not a known decay class"),
        ({"tags": "one"}, "tags is not a list"),
        ({"tags": ["one\ntwo"]}, "a tag has more than one line"),
        ({"events": [5]}, "events is not a list of objects"),
        (
            {"events": [{"at": "x", "what": "y", "detail": ""}]},
            "the time of an event is not a time",
        ),
        ({"superseded_by": "self", "id": "self"}, "self would supersede itself"),
        ({"text": "hello!"}, "it is too short to be a fact"),
        ({"text": f"The token is {TOKEN}"}, "it contains a secret (GitHub token)"),
    ],
)
def test_a_malformed_line_is_named_and_stops_nothing(
    store: SqliteFactStore, other: SqliteFactStore, changes: dict[str, Any], reason: str
) -> None:
    keeper(store).remember(NewFact("The cat is grey."))
    line = text_of(store).strip()
    wrong = changed(line, **{"id": "other", **changes})
    report = import_jsonl(f"{wrong}\n\n{line}\n".encode(), keeper(other))
    assert report.added == 1
    assert [(one.line, reason in one.reason) for one in report.refused] == [(1, True)]
    assert TOKEN not in str(report)


def test_a_line_that_is_not_json_or_lacks_a_field_is_named(store: SqliteFactStore) -> None:
    lines = [b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"kind": "fact", "id": "x"}']
    report = import_jsonl(b"\xef\xbb\xbf" + b"\r\n".join(lines), keeper(store))
    assert [one.line for one in report.refused] == [1, 2, 3, 4, 5]
    assert report.refused[4].reason.startswith("it lacks text, category")
    assert not store.file.path.exists()


def test_secrets_are_imported_with_trust(store: SqliteFactStore, other: SqliteFactStore) -> None:
    keeper(store).remember(NewFact(f"The token is {TOKEN}", secrets="allow"))
    content = text_of(store).encode()
    assert import_jsonl(content, keeper(other)).added == 0
    assert import_jsonl(content, keeper(other), trust=True).added == 1
    assert text_of(other).encode() == content


def test_facts_of_other_scopes_are_counted_and_not_shown(
    store: SqliteFactStore, other: SqliteFactStore
) -> None:
    filled(store)
    owner = Viewer("anna", "main", "s1")
    both = text_of(store, owner) + text_of(store, BEN)
    report = import_jsonl(both.encode(), keeper(other, BEN))
    assert report.left_out == {"session s1@anna": 3}
    assert report.added == 2  # Ben's own, and the global one
    assert report.unchanged == 1  # the global one is in both exports
    assert "Standup" not in str(report)
    assert "Standup" not in text_of(other, ANNA)


def test_an_id_of_another_scope_is_neither_overwritten_nor_revealed(store: SqliteFactStore) -> None:
    _, _, ben = filled(store)
    line = text_of(store, BEN).strip().split("\n")
    stolen = changed(next(one for one in line if ben in one), scope="user", target="anna")
    report = import_jsonl(stolen.encode(), keeper(store))
    assert [one.reason for one in report.refused] == [f"the id {ben} cannot be used here"]
    assert keeper(store, BEN).get(ben).text == "Ben keeps a newt."


def test_the_version_that_was_confirmed_last_stays(
    store: SqliteFactStore, other: SqliteFactStore
) -> None:
    fact = keeper(store).remember(NewFact("The cat is grey.")).fact
    before = text_of(store)
    import_jsonl(before.encode(), keeper(other))
    keeper(store, now=NOW + dt.timedelta(days=1)).remember(NewFact("the cat is grey"))
    after = text_of(store)
    assert import_jsonl(after.encode(), keeper(other)).updated == 1
    assert text_of(other) == after
    assert import_jsonl(before.encode(), keeper(other)).unchanged == 1
    assert text_of(other) == after
    keeper(store, now=NOW + dt.timedelta(days=2)).supersede(fact.id, NewFact("The cat is white."))
    report = import_jsonl(text_of(store).encode(), keeper(other))
    assert (report.added, report.updated) == (1, 1)  # superseding counts as a change
    assert text_of(other) == text_of(store)


def test_a_copy_a_cycle_and_a_narrower_scope_are_refused(
    store: SqliteFactStore, other: SqliteFactStore
) -> None:
    fact = keeper(store).remember(NewFact("The cat is grey.", scope="user")).fact
    line = text_of(store).strip()
    import_jsonl(line.encode(), keeper(other))
    newer = "2026-03-01T00:00:00.000+00:00"
    lines = [
        changed(line, id="copy", text="the CAT is grey"),
        changed(line, id="b", text="B is b", superseded_by="c"),
        changed(line, id="c", text="C is c", superseded_by="b"),
        changed(line, scope="session", target="s1", confirmed_at=newer),
    ]
    report = import_jsonl("\n".join(lines).encode(), keeper(other))
    assert [(one.line, one.reason) for one in report.refused] == [
        (1, f"the fact {fact.id} has the same text already"),
        (3, "c would supersede itself"),
        (4, f"{fact.id} exists already, in the wider scope user"),
    ]
    assert verify(other.file.path, normalised) == []


def test_a_forgotten_fact_can_be_imported_again_and_is_found(memory: Memory) -> None:
    fact = memory.remember("The hamster is called Pip.").fact
    content = to_jsonl(export_facts(memory.facts)).encode()
    assert memory.search("hamster", mode="words").hits
    memory.forget(fact.id)
    assert not memory.search("hamster", mode="words").hits
    import_jsonl(content, memory.facts)
    assert [hit.path for hit in memory.search("hamster", mode="words").hits] == [fact.id]
    with Memory(user="ben") as ben:
        ben.search("hamster", mode="words")
    assert [hit.path for hit in memory.search("hamster", mode="words").hits] == [fact.id]


# -- backup and restore ----------------------------------------------------------------------------


@pytest.mark.process
def test_a_backup_taken_while_others_remember_restores_and_verifies(
    home: Path, tmp_path: Path
) -> None:
    code = (
        "import sys\nfrom memwell import Memory\n"
        "with Memory() as memory:\n"
        "    for number in range(100_000):\n"
        "        memory.remember(f'Fact {number} of {sys.argv[1]}', tags=('load',))\n"
        "        print(number, flush=True)\n"
    )
    environment = {**os.environ, "MEMWELL_HOME": str(home)}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(child)],
            stdout=subprocess.PIPE,
            cwd=REPOSITORY,
            env=environment,
        )
        for child in range(2)
    ]
    try:
        for child in children:
            assert child.stdout
            child.stdout.readline()
        store = SqliteFactStore(home / "memory.db")

        def wait_for_more_than(facts: int) -> None:
            service = FactService(store, Viewer(agent="main"))
            wait_until(lambda: len(service.find(FactFilter())) > facts)

        saved = []
        for number in range(3):
            saved.append(store.file.backup(tmp_path / f"{number}.backup"))
            wait_for_more_than(saved[-1].facts)
        done = store.file.restore(tmp_path / "1.backup", NOW)  # while the children write
        assert done.facts == saved[1].facts
        wait_for_more_than(done.facts)
        assert all(child.poll() is None for child in children)
    finally:
        for child in children:
            child.kill()
            child.communicate()
    assert 0 < saved[0].facts < saved[1].facts < saved[2].facts
    assert verify(home / "memory.db", normalised) == []
    for number in range(3):
        assert verify(tmp_path / f"{number}.backup", normalised) == []
    fresh = SqliteFactStore(tmp_path / "other" / "memory.db")
    assert fresh.file.restore(tmp_path / "2.backup", NOW).kept is None
    assert len(FactService(fresh, Viewer(agent="main")).find(FactFilter())) == saved[2].facts
    assert verify(fresh.file.path, normalised) == []


def test_a_backup_of_what_is_still_in_the_log_reads_as_sound(
    store: SqliteFactStore, tmp_path: Path
) -> None:
    """Pages from the log had no checksums, so that a copy of 5,000 facts seemed damaged."""
    keeper(store).remember(NewFact("The cat is grey."))
    line = json.loads(text_of(store))
    many = (json.dumps({**line, "id": f"n{n}", "text": f"Fact {n} of many"}) for n in range(5000))
    assert import_jsonl("\n".join(many).encode(), keeper(store)).added == 5000
    assert store.file.backup(tmp_path / "a.backup").facts == 5001
    assert store.file.restore(tmp_path / "a.backup", NOW).facts == 5001
    assert verify(tmp_path / "a.backup", normalised) == []
    store.close()
    assert verify(store.file.path, normalised) == []


def test_after_restoring_a_search_shows_exactly_what_was_restored(
    memory: Memory, tmp_path: Path
) -> None:
    def found() -> set[str]:
        return {hit.text for hit in memory.search("hamster", mode="words", k=20).hits}

    pip = memory.remember("The hamster is called Pip.").fact
    lost = memory.remember("The hamster eats oats.").fact
    before, there = to_jsonl(export_facts(memory.facts)), found()
    database = memory.facts.store.require_file()
    database.backup(tmp_path / "a.backup")
    memory.supersede(pip.id, "The hamster is called Bolt.")
    memory.remember("The hamster sleeps.")
    memory.forget(lost.id)
    assert found() == {"The hamster is called Bolt.", "The hamster sleeps."}
    after, revision = to_jsonl(export_facts(memory.facts)), memory.facts.store.revision()
    done = database.restore(tmp_path / "a.backup", NOW)
    assert done.revision > revision
    assert found() == there
    assert to_jsonl(export_facts(memory.facts)) == before
    assert done.kept == str(memory.home / "memory.db.before-20260210-120000")
    again = database.restore(Path(done.kept), NOW)
    assert again.kept == f"{done.kept}-2"
    assert to_jsonl(export_facts(memory.facts)) == after
    assert found() == {"The hamster is called Bolt.", "The hamster sleeps."}
    memory.remember("The hamster runs.")
    assert "The hamster runs." in found()


def test_a_fact_promoted_since_the_backup_is_hidden_again(tmp_path: Path, workspace: Path) -> None:
    with Memory(user="anna") as anna, Memory(user="ben") as ben:
        fact = anna.remember("The parrot is called Quixote.", scope="user").fact
        database = anna.facts.store.require_file()
        database.backup(tmp_path / "a.backup")
        anna.facts.promote(fact.id, "global")
        assert ben.search("parrot", mode="words").hits
        database.restore(tmp_path / "a.backup", NOW)
        assert not ben.search("parrot", mode="words").hits
        assert anna.search("parrot", mode="words").hits


def test_a_damaged_or_deleted_memory_is_restored(memory: Memory, tmp_path: Path) -> None:
    memory.remember("The hamster is called Pip.")
    memory.facts.store.require_file().backup(tmp_path / "a.backup")
    memory.remember("The hamster is called Bolt.")
    assert len(memory.search("hamster", mode="words").hits) == 2
    memory.close()
    file = memory.home / "memory.db"
    for broken in (file.read_bytes()[:200] + b"x" * 9000, None):
        if broken:
            file.write_bytes(broken)
        else:
            file.unlink()
        with Memory() as other:
            done = other.facts.store.require_file().restore(tmp_path / "a.backup", NOW)
            hits = other.search("hamster", mode="words").hits
        assert [hit.text for hit in hits] == ["The hamster is called Pip."]
        assert (done.kept is None) == (broken is None)
        assert done.kept is None or Path(done.kept).read_bytes() == broken


def test_files_are_private_and_nothing_else_stays(store: SqliteFactStore, tmp_path: Path) -> None:
    filled(store)
    os.umask(os.umask(0o022))
    folder = tmp_path / "backups"
    folder.mkdir()
    store.file.backup(folder / "a.backup")
    with pytest.raises(HomeError, match=r"exists already.*--force"):
        store.file.backup(folder / "a.backup")
    store.file.backup(folder / "a.backup", force=True)
    done = store.file.restore(folder / "a.backup", NOW)
    assert [file.name for file in folder.iterdir()] == ["a.backup"]
    home = store.file.path.parent
    assert not [*home.glob("*.part*"), *home.glob(".*")]
    assert {mode(file) for file in (*home.glob("memory.db*"), folder / "a.backup")} == {0o600}
    assert done.kept is not None
    assert verify(Path(done.kept), normalised) == []


def test_a_file_that_is_not_a_backup_is_refused_and_nothing_changes(
    store: SqliteFactStore, tmp_path: Path
) -> None:
    filled(store)
    before = text_of(store)
    good = tmp_path / "good.backup"
    store.file.backup(good)
    (tmp_path / "text").write_text("Not a database at all. " * 500)
    whole = good.read_bytes()
    (tmp_path / "torn").write_bytes(whole[:5000] + bytes(4000) + whole[9000:])
    (tmp_path / "newer").write_bytes(whole)
    damage(tmp_path / "newer", "PRAGMA user_version = 99")
    (tmp_path / "empty").touch()
    with Database(tmp_path / "index").writing():
        pass
    reasons = {
        "text": "damaged",
        "torn": "damaged",
        "newer": "newer memwell",
        "empty": "not a memory.db",
        "index": "not a memory.db",
    }
    for name, reason in reasons.items():
        with pytest.raises(HomeError, match=reason):
            store.file.restore(tmp_path / name, NOW)
        assert any(reason in finding.what for finding in verify(tmp_path / name, normalised)), name
    with pytest.raises(NotFoundError, match="There is no file"):
        store.file.restore(tmp_path / "nothing", NOW)
    for memory in (store.file.path, Path(f"{store.file.path}-wal")):
        with pytest.raises(HomeError, match="is the memory itself"):
            store.file.backup(memory, force=True)
    with pytest.raises(HomeError, match="is the memory itself"):
        store.file.restore(store.file.path, NOW)
    assert text_of(store) == before
    assert not [*store.file.path.parent.glob("*.before-*")]


def test_a_backup_whose_facts_contradict_each_other_is_refused(
    store: SqliteFactStore, tmp_path: Path
) -> None:
    filled(store)
    before, file = text_of(store), tmp_path / "a.backup"
    store.file.backup(file)
    damage(
        file, "DROP INDEX one_of_a_kind", "UPDATE fact_rows SET folded = 'x', superseded_by = NULL"
    )
    with pytest.raises(HomeError, match="contradict each other"):
        store.file.restore(file, NOW)
    assert text_of(store) == before
    assert not [*store.file.path.parent.glob("*.before-*")]


# -- verify ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statements", "what"),
    [
        (["UPDATE fact_rows SET folded = 'x' WHERE id = 'OLD'"], "the normalised text does not"),
        (["UPDATE fact_rows SET superseded_by = 'OLD' WHERE id = 'NEW'"], "in a circle: NEW, OLD"),
        (
            ["UPDATE fact_rows SET expires_at = 'soon' WHERE id = 'NEW'"],
            "expires_at is not a time: NEW",
        ),
        (
            ["UPDATE fact_events SET at = '' WHERE fact_id = 'NEW'"],
            "time of an event is not a time: NEW",
        ),
        (
            ["INSERT INTO fact_tags VALUES ('nobody', 'x')"],
            "1 rows of fact_tags do not belong to any fact",
        ),
        (
            ["INSERT INTO fact_events VALUES ('nobody', '', '', '')"],
            "1 rows of fact_events do not belong",
        ),
        (
            [
                "DROP INDEX one_of_a_kind",
                "UPDATE fact_rows SET superseded_by = NULL, text ="
                " 'x', folded = 'x' WHERE id IN ('OLD', 'NEW')",
            ],
            "the same fact is in a scope twice",
        ),
        (["UPDATE revisions SET last = 1"], "the revision is above the counter"),
        (["DELETE FROM revisions"], "there are 0 revision counters"),
        (["DROP TABLE fact_events"], "its tables are not those of a memory"),
    ],
)
def test_verify_finds_damage(
    store: SqliteFactStore, workspace: Path, statements: list[str], what: str
) -> None:
    old, new, _ = filled(store)
    store.close()
    file = store.file.path
    assert run("verify", cwd=workspace).stdout == f"{file} is sound\n"
    named = [one.replace("OLD", old).replace("NEW", new) for one in statements]
    damage(file, "PRAGMA foreign_keys = OFF", *named)
    said = run("verify", cwd=workspace)
    assert said.returncode == 1
    expected = {what.replace("OLD", old).replace("NEW", new)}
    if "circle" in what:  # their times are equal, so either may be first
        expected.add(f"in a circle: {old}, {new}")
    assert any(one in said.stdout for one in expected), said.stdout
    assert "Standup" not in said.stdout


def test_verify_finds_a_flipped_bit(store: SqliteFactStore) -> None:
    filled(store)
    store.close()
    file = store.file.path
    content = bytearray(file.read_bytes())
    content[content.index(b"Ben keeps")] ^= 1
    file.write_bytes(content)
    assert any("damaged" in finding.what for finding in verify(file, normalised))
    with pytest.raises(HomeError, match="is damaged"):
        store.file.backup(file.with_name("a.backup"))
    assert not file.with_name("a.backup").exists()


# -- the command line ------------------------------------------------------------------------------


def test_the_commands(home: Path, workspace: Path, tmp_path: Path) -> None:
    assert run("verify", cwd=workspace).returncode == 0  # nothing is remembered, nothing wrong
    assert "Remember a fact first" in run("backup", "x", cwd=workspace).stderr
    run("remember", "Der Kater heißt Miso.", "--tag", "pets", cwd=workspace)
    shown = run("export", cwd=workspace).stdout
    assert run("export", "facts.jsonl", cwd=workspace).stdout == "1 fact written to facts.jsonl\n"
    file = workspace / "facts.jsonl"
    assert file.read_text(encoding="utf-8") == shown
    assert mode(file) == 0o600
    assert "## fact" in run("export", "--format", "markdown", cwd=workspace).stdout
    assert run_json("export", cwd=workspace)["facts"][0]["tags"] == ["pets"]
    assert run_json("backup", "a.backup", cwd=workspace)["facts"] == 1
    fact_id = json.loads(shown)["id"]
    run("forget", fact_id, cwd=workspace)
    done = run_json("import", "facts.jsonl", cwd=workspace)
    assert (done["added"], done["refused"], done["left_out"]) == (1, [], {})
    refused = run("import", "-", cwd=workspace, stdin="{\n").stderr
    assert refused.startswith("line 1: it is not JSON\n`memwell import FILE` reads what ")
    assert run("export", cwd=workspace).stdout == shown
    run("remember", "Der Hund heißt Rex.", cwd=workspace)
    assert run("restore", "a.backup", cwd=workspace).stdout.startswith("1 fact restored from")
    assert run("export", cwd=workspace).stdout == shown
    assert run_json("verify", "a.backup", cwd=workspace)["sound"] is True
    assert run("verify", "nothing", cwd=workspace).returncode == 3
    assert "every user" in run("backup", "--help", cwd=workspace).stdout
