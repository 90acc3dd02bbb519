"""Erased texts leave no byte in any file of the home, and secrets do not leave the machine."""

from __future__ import annotations

import datetime as dt
import random
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from memwell import Memory
from memwell.embed.openai import OpenAI
from memwell.embed.testing import WordCounts
from memwell.store.sqlite.facts import SqliteFacts
from tests.conftest import Write
from tests.support.cli import run, run_json
from tests.support.servers import serving, without_proxies
from tests.support.states import index_file

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.embed.providers import Factory


def _files_with(folder: Path, texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return each file below a folder that contains one of the texts, in any case."""
    wanted = {text.casefold().encode() for text in texts}
    found = []
    for file in folder.rglob("*"):
        content = file.read_bytes().lower() if file.is_file() else b""
        found += [
            (str(file.relative_to(folder)), text.decode()) for text in wanted if text in content
        ]
    return found


def _marks(count: int, seed: int) -> list[str]:
    chosen = random.Random(seed)
    return [f"zq{chosen.getrandbits(60):015x}" for _ in range(count)]


# -- forgotten facts -------------------------------------------------------------------------------


def _forget_half(home: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget half of so many facts: some alone, the others by one command."""
    chosen = random.Random(count)
    ids: dict[str, str] = {}
    for third in range(3):
        with Memory(settings={"embedding.chain": ()}) as memory:
            for mark in _marks(count, count)[third::3]:
                words = [f"word{chosen.getrandbits(16)}" for _ in range(chosen.randrange(5, 40))]
                ids[mark] = memory.remember(" ".join([mark, *words])).fact.id
        with Memory() as memory:
            memory.fill()
            memory.search("word1")
    with monkeypatch.context() as later:
        at = dt.datetime.now(dt.UTC) + dt.timedelta(days=2)
        later.setenv("MEMWELL_NOW", at.isoformat())
        with Memory() as memory:
            memory.remember("This fact lets a backup of all facts be written.")
    with Memory() as memory:
        gone = chosen.sample([*ids], count // 2)
        alone = gone[: min(count // 10, 100)]
        for mark in alone:
            report = memory.forget(ids[mark])
            assert (report.pending, report.backups) == (False, ())
        report = memory.forget(*(ids[mark] for mark in gone[len(alone) :]))
        assert (report.count, report.pending) == (len(gone) - len(alone), False)
        assert _files_with(home, gone) == []
    assert _files_with(home, gone) == []
    with Memory() as memory:
        kept = [mark for mark in ids if mark not in gone]
        assert {memory.facts.get(ids[mark]).text.split()[0] for mark in kept} == {*kept}
        assert memory.search(kept[0]).hits[0].text.split()[0] == kept[0]
        assert memory.verify() == []


@pytest.fixture(params=["scan", "lancedb"])
def embedded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every memory of a test vectors, in one of the backends."""
    if request.param == "lancedb":
        pytest.importorskip("lancedb")
    monkeypatch.setenv("MEMWELL_VECTORS_BACKEND", request.param)
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")


def test_no_file_has_a_byte_of_forgotten_facts(
    home: Path, embedded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _forget_half(home, 60, monkeypatch)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_no_file_has_a_byte_of_1500_forgotten_facts(
    home: Path, embedded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _forget_half(home, 3_000, monkeypatch)


def test_edited_facts_leave_no_byte(home: Path, embedded: None) -> None:
    marks = _marks(40, 4)
    with Memory(agent="one") as one, Memory(agent="two") as two:
        ids = [one.remember(f"{mark} is the lamp.", scope="global").fact.id for mark in marks]
        for memory in (one, two):
            memory.fill()
            memory.search("lamp")
        for number, fact in enumerate(ids[:20]):
            one.facts.edit(fact, text=f"The door number {number} is open.")
        assert _files_with(home, marks[:20]) == []
        for memory in (one, two):
            texts = [hit.text for hit in memory.search("door", kind="fact", k=30).hits]
            assert len({text for text in texts if text.startswith("The door")}) == 20
            assert memory.search(marks[30], kind="fact").hits[0].path == ids[30]
    with Memory(agent="one") as one:
        assert one.restore("latest").facts == 1
        assert [fact["text"] for fact in _exported(one)] == ["The door number 0 is open."]


def _exported(memory: Memory) -> list[dict[str, str]]:
    from memwell.facts.export_import import export_facts

    return export_facts(memory.facts)


def test_a_text_that_is_edited_back_is_found(home: Path) -> None:
    with Memory() as memory, Memory() as reader:
        fact = memory.remember("The Zqlamp is green.").fact.id
        memory.search("green")
        with reader.facts.store.for_viewer(reader.viewer):  # delays the erasure
            memory.facts.edit(fact, text="The door is green.")
            memory.facts.edit(fact, text="The Zqlamp is green.")
            memory.search("green")
        memory.facts.edit(fact, text="The roof is green.")
        assert _files_with(home, ["Zqlamp", "door"]) == []
        memory.facts.edit(fact, text="The Zqlamp is green.")
        assert [hit.text for hit in memory.search("green").hits] == ["The Zqlamp is green."]


def test_an_import_that_replaces_a_text_leaves_no_byte(home: Path, workspace: Path) -> None:
    run("remember", "The Zqlamp is green.", cwd=workspace)
    run("search", "lamp", cwd=workspace)
    exported = run("export", cwd=workspace).stdout
    later = exported.replace("Zqlamp", "door").replace('"confirmed_at": "2', '"confirmed_at": "3')
    done = run("import", "-", cwd=workspace, stdin=later)
    assert "1 updated" in done.stdout, done.stderr
    assert _files_with(home, ["Zqlamp"]) == []
    assert "The door is" in run("search", "green", cwd=workspace).stdout


def test_pruned_facts_leave_no_byte_in_backups(
    home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("remember", "The Zqlamp is green.", "--decay", "checkpoint", cwd=workspace)
    assert [name for name, _ in _files_with(home / "backups", ["Zqlamp"])]
    monkeypatch.setenv("MEMWELL_NOW", "2060-01-01T00:00:00+00:00")
    assert run_json("facts", "prune", cwd=workspace) == {"pruned": 1}
    assert _files_with(home, ["Zqlamp"]) == []


# -- deleted notes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("noticed_by", ["search", "index"])
def test_a_deleted_note_is_gone_after_the_sync_that_noticed_it(
    home: Path, workspace: Path, write: Write, noticed_by: str, embedded: None
) -> None:
    marks = _marks(120, 17)
    for number, mark in enumerate(marks):
        write(
            f"memory/{number}.md", f"# {mark}a\n\nAbout lamps\n\n## Part\n\n{mark} is {mark}z " * 8
        )
    with Memory(workspace=workspace) as memory:
        memory.index()
        order = random.Random(1).sample(range(120), 60)
        for start in range(0, 60, 15):
            for number in order[start : start + 15]:
                (workspace / f"memory/{number}.md").unlink()
            memory.search("lamps") if noticed_by == "search" else memory.index()
            gone = [marks[number] for number in order[: start + 15]]
            assert _files_with(home, gone) == []
        kept = next(number for number in range(120) if number not in order)
        assert memory.search(marks[kept], mode="words").hits[0].path == f"memory/{kept}.md"


# -- secrets ---------------------------------------------------------------------------------------

SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


def test_a_remote_provider_gets_no_secret(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_proxies(monkeypatch)
    write("a.md", f"# Access\n\nThe token of the build is {SECRET}, as Mia said.\n")
    write("b.md", f"- the lamp is green\n- deploy with {SECRET}\n- the door is open\n")
    with serving() as server:
        remote: Any = partial(OpenAI, model="m", base_url=server.url, key="k", dimensions=4)
        seen: list[str] = []
        embedders: dict[str, Factory] = {"there": remote, "here": partial(_Listening, seen)}
        for chain in ("there", "here"):
            monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", chain)
            with Memory(workspace=workspace, embedders=embedders) as memory:
                memory.index(workspace)
                memory.search(f"who said {SECRET}")
                memory.remember(f"The key is {SECRET}.", secrets="allow")
                memory.fill()
        sent = [text for request in server.requests for text in request.texts]
    assert [text for text in sent if SECRET in text] == []
    assert [text for text in sent if "[redacted" in text and "as Mia said" in text]
    assert [text for text in sent if "who said [redacted" in text]
    assert [text for text in seen if SECRET in text and "as Mia said" in text]
    assert [text for text in seen if "[redacted" in text] == []


class _Listening(WordCounts):
    """A local provider that keeps the texts it gets."""

    def __init__(self, seen: list[str]) -> None:
        super().__init__()
        self._seen = seen

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        self._seen.extend(texts)
        return super().embed_documents(texts)


# -- races -----------------------------------------------------------------------------------------


def test_a_sync_does_not_write_a_forgotten_fact_back(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process reads the facts for its index, and another one forgets one of them meanwhile."""
    word = "Zebulon"
    with Memory() as slow, Memory() as quick:
        fact = quick.remember(f"{word} waters the plants.").fact
        quick.search("plants")
        slow.facts.edit(fact.id, importance=0.9)  # so that there is something to sync
        changed_since = SqliteFacts.changed_since
        forgotten: list[str] = []

        def forget_meanwhile(facts: SqliteFacts, revision: int) -> object:
            found = changed_since(facts, revision)
            if not forgotten:
                forgotten.append(fact.id)
                assert quick.forget(fact.id).count == 1
            return found

        monkeypatch.setattr(SqliteFacts, "changed_since", forget_meanwhile)
        assert slow.search("plants").hits == ()
    with apsw.Connection(str(index_file(home))) as connection:
        texts = [text for (text,) in connection.execute("SELECT text FROM chunks")]
    assert [text for text in texts if word in text] == []


# -- checksums -------------------------------------------------------------------------------------


def test_doctor_reports_missing_page_checksums(workspace: Path) -> None:
    assert "checksum" not in run("doctor", cwd=workspace).stdout
    script = (
        "import sys, apsw; apsw.__file__ = '/nowhere/apsw.so'\n"
        "from memwell.surfaces import cli; sys.exit(cli.run(('doctor',)))"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=workspace, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "has no page checksums" in done.stdout + done.stderr
