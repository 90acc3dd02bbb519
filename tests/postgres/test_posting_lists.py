"""Postings in rows, as the schema before step 10 has them, and as arrays: they find the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from memwell import Memory
from memwell.store.postgres import migrate as migrating
from memwell.store.postgres import posting_lists
from memwell.store.postgres.migrations import MIGRATIONS
from memwell.store.postgres.postings import POSTINGS_VERSION, ROWS_VERSION
from memwell.store.postgres.roles import role
from memwell.store.words.tree import Term
from tests.conftest import EXAMPLES
from tests.support.cluster import Cluster, cluster
from tests.support.postgres import app_url, new_tenant

pytestmark = pytest.mark.server
IN_ROWS = 9
"""The steps of a database with postings in rows."""
ROLE = "app"
QUERIES = (
    "when is the standup",
    '"the standup"',
    "stand*",
    "deploy -staging",
    "deploy AND (server OR cat)",
    "path:memory deploy",
    "bm25RankToScore",
)


@pytest.fixture(params=[None, "old"], ids=["service", "tenant"])
def rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A server with the schema before the step, and a role of the service or bound to a tenant."""
    with cluster() as made, psycopg.connect(made.url(), autocommit=True) as owner:
        with monkeypatch.context() as before:
            before.setattr(migrating, "MIGRATIONS", MIGRATIONS[:IN_ROWS])
            migrating.migrate(owner)
        for statement in role(ROLE, request.param):
            if "memwell.posting_lists" not in statement and "analyse_grown" not in statement:
                owner.execute(statement)
        yield made


def opened(made: Cluster, home: Path, tenant: str, user: str = "anna") -> Memory:
    settings: dict[str, Any] = {
        "store.url": made.url(user=ROLE),
        "store.tenant": tenant,
        "embedding.chain": ("test",),
        "sync.on_search": False,
    }
    return Memory(home, settings=settings, user=user)


def fill(memory: Memory) -> None:
    memory.index(EXAMPLES)
    memory.remember("The cat of Anna is named Zibeline.", scope="user")
    memory.remember("The deploy to the server is on Fridays.", scope="global")


def found(memory: Memory) -> list[tuple[str, int, float]]:
    return [
        (hit.path if hit.kind != "fact" else hit.text, hit.start_line, round(hit.score, 9))
        for query in QUERIES
        for hit in memory.search(query, mode="words").hits
    ]


def versions(made: Cluster) -> dict[str, int]:
    return dict(made.execute("SELECT tenant, words_version FROM memwell.indexes"))


def count(made: Cluster, table: str, tenant: str) -> int:
    ((rows,),) = made.execute(f"SELECT count(*) FROM memwell.{table} WHERE tenant = '{tenant}'")
    return int(rows)


def migrate(made: Cluster) -> None:
    with psycopg.connect(made.url(), autocommit=True) as owner:
        migrating.migrate(owner)


def test_an_index_in_rows_is_converted_when_it_is_written(
    rows: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posting_lists, "BLOCK", 7)
    with opened(rows, tmp_path, "old") as memory:
        fill(memory)
        expected = found(memory)
        assert len(expected) > 2 * len(QUERIES)
        assert versions(rows) == {"old": ROWS_VERSION}

        migrate(rows)  # while the process goes on
        assert found(memory) == expected
        assert (count(rows, "posting_lists", "old"), versions(rows)) == (0, {"old": ROWS_VERSION})

        told = memory.remember("The zebra is striped.", scope="user").fact
        assert memory.search("zebra", mode="words").hits[0].path == told.id
        assert versions(rows) == {"old": POSTINGS_VERSION}
        assert count(rows, "postings", "old") == 0
        memory.forget(told.id)
        assert found(memory) == expected
    with opened(rows, tmp_path, "old", user="ben") as other:
        assert other.search("zibeline", mode="words").hits == ()
    if rows.execute("SELECT 1 FROM memwell.role_bindings"):
        return
    with opened(rows, tmp_path, "new") as memory:  # written as arrays from the beginning
        fill(memory)
        assert found(memory) == expected
        before = lists_of(rows, "old")
        memory._index.rebuild_keyword_index()
        assert found(memory) == expected
    assert len(before) == count(rows, "posting_lists", "new")
    assert not [row for row in before if row[0] == "zebra"]


def lists_of(made: Cluster, tenant: str) -> list[Any]:
    return made.execute(
        "SELECT token, owner, block, chunks, lengths, places FROM memwell.posting_lists"
        f" WHERE tenant = '{tenant}' ORDER BY 1, 2, 3"
    )


def test_edits_in_many_blocks_leave_the_same_as_writing_all_anew(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posting_lists, "BLOCK", 3)
    settings: dict[str, Any] = {
        "store.url": app_url(),
        "store.tenant": new_tenant(),
        "embedding.chain": (),
    }
    with Memory(tmp_path / "home", settings=settings) as memory:
        for turn in range(4):
            for number in range(12):
                words = " ".join(f"w{(number * turn + n) % 17}" for n in range(9))
                (workspace / f"{number}.md").write_text(f"# Note {number}\n\nIt says {words}.\n")
            (workspace / f"{turn}.md").unlink()
            memory.index(workspace)
        with memory._index.reading() as reader:
            before = postings_in(reader)
        memory._index.rebuild_keyword_index()
        with memory._index.reading() as reader:
            assert postings_in(reader) == before
        assert memory._index.check_integrity() == []


def postings_in(reader: Any) -> dict[str, Any]:
    """The chunks, lengths and places of each word."""
    words = reader.keywords
    found = {}
    for token in sorted(words.vocabulary(1, 20)):
        one = words._postings.postings(Term((token,)))
        places: dict[int, list[int]] = {}
        for of, place in zip(one.of.tolist(), one.places.tolist(), strict=True):
            places.setdefault(int(one.chunks[of]), []).append(place)
        lengths = dict(zip(one.chunks.tolist(), one.lengths.tolist(), strict=True))
        found[token] = (words.document_frequency(token), lengths, places)
    return found
