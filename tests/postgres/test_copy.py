"""`memwell store copy` copies a memory from files to a server and back without a difference."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memwell import Memory
from memwell.config.fields import Value
from memwell.facts.export_import import export_facts
from memwell.facts.service import FactService, NewFact
from memwell.store.contract.values import FactFilter
from tests.conftest import EXAMPLES
from tests.postgres.test_same_answers import cases
from tests.support.cli import run
from tests.support.postgres import app_url, new_tenant, shared
from tests.support.waiting import wait_until

OWN: dict[str, Value] = {"embedding.chain": ("test",), "search.decay": "off"}
AGENTS = ("main", "helper")
VIEWERS = [("main", "", ""), ("main", "anna", "s1"), ("helper", "ben", ""), ("other", "eve", "s2")]
QUERIES = [
    *cases()[::6][:44],
    "door code",
    "when is the deploy",
    "Fact 3",
    "standup o'clock",
    "tag:cat",
    "where is the server",
]
FACTS = 42
LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
HANGING = """
import itertools, sys, threading
import memwell.store.copy.facts as facts, memwell.store.copy.index as notes
from memwell.surfaces.cli import main

def hanging(batches):
    def three_batches(*arguments):
        yield from itertools.islice(batches(*arguments), 3)
        threading.Event().wait()
    return three_batches

notes.AT_ONCE = facts.AT_ONCE = 3
if sys.argv.pop(1) == "facts":
    facts._batches = hanging(facts._batches)
else:
    notes.IndexCopy._batches = hanging(notes.IndexCopy._batches)
main()
"""
"""A copy that hangs after nine facts, or after the vectors of nine notes."""


@contextmanager
def opened(
    home: Path, tenant: str = "", agent: str = "main", user: str = "", session: str = ""
) -> Iterator[Memory]:
    """A memory in files, or on the server if a tenant is named."""
    server: dict[str, Value] = {"store.url": app_url(), "store.tenant": tenant}
    settings = OWN | (server if tenant else {})
    with Memory(home, agent=agent, user=user, session=session, settings=settings) as memory:
        yield memory


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two agents, notes, vectors, and facts of every scope and fate."""
    home = tmp_path_factory.mktemp("copied") / "first"
    with opened(home, user="anna", session="s1") as memory:
        memory.index(EXAMPLES, embed=False)
        keeper = memory.facts
        for number in range(30):
            what = ("cat", "deploy", "server", "standup")[number % 4]
            scope = ("global", "user", "agent", "session")[number % 4]
            told = NewFact(
                f"Fact {number}: the {what} is at {number} o'clock.", scope=scope, tags=("a", what)
            )
            keeper.remember(told)
        old = keeper.remember(NewFact("The door code is 4711.", scope="global")).fact
        new = keeper.supersede(old.id, NewFact("The door code is 4712.", scope="global")).fact
        keeper.supersede(new.id, NewFact("The door code is 4713.", scope="global"))
        keeper.reinforce(keeper.find(FactFilter())[0].id)
        keeper.promote(keeper.find(FactFilter(scope="session"))[0].id, "global")
        memory.search("door code")  # the index shows all of them, and one that is forgotten now
        memory.forget(keeper.remember(NewFact("The safe is behind the moon.")).fact.id)
        past = FactService(keeper.store, keeper.viewer, LONG_AGO)
        past.remember(NewFact("The fair is in town today.", decay_class="session", scope="global"))
        memory.search("door code", include_superseded=True)
        memory.fill()
    with opened(home, agent="helper", user="ben") as helper:
        helper.index(EXAMPLES / "projects", embed=False)
        for number in range(7):
            helper.facts.remember(NewFact(f"Ben's plot {number} has a pump.", scope="user"))
        helper.facts.remember(
            NewFact("Fact 1: the deploy is at 1 o'clock.", scope="user")
        )  # anna's
        helper.search("pump")
        helper.fill()
    return home


def copied(*arguments: str | Path, cwd: Path) -> dict[str, Any]:
    done = run("store", "copy", *map(str, arguments), "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr + done.stdout
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer["same"]
    assert answer["there"] == answer["arrived"]
    assert answer["conflicts"] == []
    return answer


def exports(home: Path, tenant: str = "") -> list[list[dict[str, Any]]]:
    found = []
    for agent, user, session in VIEWERS:
        with opened(home, tenant, agent, user, session) as memory:
            found.append(export_facts(memory.facts))
    return found


def changes(home: Path, tenant: str = "") -> list[str]:
    """The facts in the order in which they last changed."""
    with (
        opened(home, tenant, user="anna", session="s1") as memory,
        memory.facts.store.for_viewer(memory.viewer) as facts,
    ):
        return [fact.id for fact in facts.changed_since(0)[0]]


def histories(home: Path, tenant: str = "") -> list[list[tuple[str, str, str]]]:
    """The history of each fact and of the facts it superseded."""
    with opened(home, tenant, user="anna", session="s1") as memory:
        return [
            # Of events of the same millisecond no order is promised.
            sorted((event.at, event.fact_id, event.what) for event in memory.facts.history(fact.id))
            for fact in memory.facts.find(FactFilter())
        ]


def answers(home: Path, tenant: str = "") -> list[list[tuple[str, str, int, float]]]:
    """The hits and their scores, in keyword and hybrid mode."""
    with opened(home, tenant, user="anna", session="s1") as memory:
        return [
            [
                (hit.workspace, hit.path, hit.start_line, round(hit.score, 5))
                for hit in memory.search(query, k=6, mode=mode).hits
            ]
            for query in QUERIES
            for mode in ("words", "hybrid")
        ]


@pytest.mark.slow
def test_a_copy_to_the_server_and_back_gives_the_same_export_and_hits(
    first: Path, tmp_path: Path
) -> None:
    tenant, back = new_tenant(), tmp_path / "back"
    there = copied(first, app_url(), "--tenant", tenant, cwd=tmp_path)
    again = copied(app_url(), back, "--tenant", tenant, cwd=tmp_path)
    assert there["arrived"] == again["arrived"]
    assert there["agents"] == sorted(AGENTS)
    assert there["arrived"]["facts"] == FACTS
    assert there["arrived"]["vectors"] >= there["arrived"]["passages"] > 500
    assert exports(first) == exports(first, tenant) == exports(back)
    assert changes(first) == changes(first, tenant) == changes(back)
    assert histories(first) == histories(first, tenant) == histories(back)
    with opened(back) as memory:
        assert memory.fill().embedded == 0
        assert all(space.embedded == space.chunks for space in memory.spaces())
    wanted = answers(first)
    assert len(QUERIES) == 50
    assert any(wanted)
    assert answers(back) == wanted
    on_server = answers(tmp_path / "none", tenant)
    same = sum(one == other for one, other in zip(on_server, wanted, strict=True))
    assert same >= 0.95 * len(wanted)


def test_a_forgotten_fact_is_not_in_the_copy(first: Path, tmp_path: Path) -> None:
    tenant = new_tenant()
    copied(first, app_url(), "--tenant", tenant, cwd=tmp_path)
    with opened(tmp_path / "none", tenant, user="anna", session="s1") as memory:
        assert memory.search("moon", kind="fact", mode="words").hits == ()
        assert memory.search("fair", kind="fact", mode="words").hits == ()  # it has expired
        assert memory.search("4711", kind="fact", mode="words").hits == ()
        found = memory.search("4711", kind="fact", mode="words", include_superseded=True)
        assert "4711" in found.hits[0].text
    with opened(tmp_path / "none", tenant, user="eve") as memory:
        assert memory.search("deploy", kind="fact", mode="words").hits == ()
    for table, column in (("chunks", "text"), ("facts", "text"), ("posting_lists", "token")):
        assert not shared().execute(
            f"SELECT 1 FROM memwell.{table} WHERE tenant = '{tenant}' AND {column} LIKE '%safe is b%'"
        )


def test_copying_twice_changes_nothing(first: Path, tmp_path: Path) -> None:
    tenant = new_tenant()
    copied(first, app_url(), "--tenant", tenant, cwd=tmp_path)
    tables = (
        "facts",
        "fact_events",
        "revisions",
        "notes",
        "chunks",
        "posting_lists",
        "vectors",
        "spaces",
        "workspace_list",
        "workspaces",
    )
    before = [rows_of(table, tenant) for table in tables]
    copied(first, app_url(), "--tenant", tenant, cwd=tmp_path)
    assert [rows_of(table, tenant) for table in tables] == before


def rows_of(table: str, tenant: str) -> list[str]:
    asked = f"SELECT t::text FROM memwell.{table} t WHERE tenant = '{tenant}'"
    return sorted(row for (row,) in shared().execute(asked))


@pytest.mark.parametrize("table", ["facts", "vectors"])
def test_a_killed_copy_continues_where_it_stopped(first: Path, tmp_path: Path, table: str) -> None:
    tenant = new_tenant()
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            HANGING,
            table,
            "store",
            "copy",
            first,
            app_url(),
            "--tenant",
            tenant,
        ],
        stdout=subprocess.DEVNULL,
    )
    wait_until(lambda: len(rows_of(table, tenant)) >= 5)
    process.kill()
    process.wait()
    before = rows_of("facts", tenant), rows_of("notes", tenant)
    done = copied(first, app_url(), "--tenant", tenant, cwd=tmp_path)
    assert len(before[0]) < done["there"]["facts"] or len(before[1]) < done["there"]["notes"]
    assert {*before[0]} <= {*rows_of("facts", tenant)}  # not written again
    assert {*before[1]} <= {*rows_of("notes", tenant)}
    assert exports(first) == exports(first, tenant)
    assert changes(first) == changes(first, tenant)


def test_a_second_copy_brings_changes_and_deletions(first: Path, tmp_path: Path) -> None:
    home, tenant = tmp_path / "home", new_tenant()
    with opened(home) as memory:
        one, two, three = (
            memory.remember(f"The shed holds {what} today.", scope="global").fact
            for what in ("rakes", "spades", "hoses")
        )
        memory.search("shed")
    copied(home, app_url(), "--tenant", tenant, cwd=tmp_path)
    with opened(home) as memory:
        memory.forget(one.id)
        memory.supersede(two.id, "The shed holds forks by now.", scope="global")
        memory.facts.reinforce(three.id)
    copied(home, app_url(), "--tenant", tenant, cwd=tmp_path)
    with opened(tmp_path / "none", tenant) as memory:
        assert "rakes" not in str([hit.text for hit in memory.search("shed").hits])
        assert memory.facts.store.pending_erasures() == {}
    assert exports(home) == exports(home, tenant)


def test_a_target_with_other_facts_is_refused_without_into_existing(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for home, texts in ((one, ("Rakes are red.", "Hoses are blue.")), (two, ("hoses are blue",))):
        with opened(home) as memory:
            for text in texts:
                memory.facts.remember(NewFact(text, scope="global"))
    with opened(two) as memory:
        (theirs,) = memory.facts.find(FactFilter())
    refused = run("store", "copy", str(one), str(two), cwd=tmp_path)
    assert refused.returncode == 3
    assert theirs.id in refused.stderr
    assert "--into-existing" in refused.stderr
    added = run("store", "copy", str(one), str(two), "--into-existing", cwd=tmp_path)
    assert added.returncode == 1
    assert "Source and target differ." in added.stdout
    assert f"the same text is remembered already, as {theirs.id}" in added.stderr
    with opened(two) as memory:
        assert sorted(fact.text for fact in memory.facts.find(FactFilter())) == [
            "Rakes are red.",
            "hoses are blue",
        ]


def test_a_newer_version_in_the_target_stays_and_is_reported(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with opened(one) as memory:
        fact = memory.remember("Rakes are red.", scope="global").fact
    copied(one, two, cwd=tmp_path)
    with opened(two) as memory:
        memory.facts.edit(fact.id, text="Rakes are green.")
    done = run("store", "copy", str(one), str(two), cwd=tmp_path)
    assert done.returncode == 1
    assert f"not copied: {fact.id}" in done.stderr
    with opened(two) as memory:
        assert memory.facts.get(fact.id).text == "Rakes are green."
        assert [hit.text for hit in memory.search("rakes").hits] == ["Rakes are green."]


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("nowhere", "to", "There is no memory in"),
        ("from", "file", "is a file"),
        ("from", "from", "both the source and the target"),
        ("mysql://anna:hunter2@x/y", "to", "mysql:// is not the address of a memory"),
        ("from", "postgresql://anna:hunter2@127.0.0.1:1/none", "cannot be reached"),
        ("postgresql://anna:hunter2@[x/none", "to", "not an address of PostgreSQL"),
    ],
)
def test_a_wrong_address_is_named_without_its_password(
    source: str, target: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "from" / "agents").mkdir(parents=True)
    (tmp_path / "file").touch()
    done = run("store", "copy", source, target, cwd=tmp_path)
    assert done.returncode == 3
    assert said in done.stderr
    assert "hunter2" not in done.stderr
