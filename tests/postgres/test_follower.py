"""A memory on a read-only replica."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from memwell import Memory
from memwell.config.fields import Value
from memwell.errors import ReadOnlyError
from memwell.facts.service import NewFact
from memwell.store.contract.values import FactFilter
from tests.support.cli import run
from tests.support.postgres import Cluster, cluster, new_role
from tests.support.waiting import wait_until


class Pair:
    """A server and its replica, used by a role with the rights that memwell needs."""

    def __init__(self, first: Cluster, follower: Cluster, folder: Path) -> None:
        self._first = first
        self._follower = follower
        self._folder = folder
        self._role = new_role(on=first)
        self.url = follower.url(user=self._role)

    def first(self) -> Memory:
        return self._memory(self._first.url(user=self._role))

    def follower(self) -> Memory:
        """The memory on the replica, as soon as it has everything from the first server."""
        (written,) = self._first.execute("SELECT pg_current_wal_lsn()")
        wait_until(lambda: self._follower.execute("SELECT pg_last_wal_replay_lsn()") >= [written])
        return self._memory(self.url)

    def _memory(self, url: str) -> Memory:
        own: dict[str, Value] = {"embedding.chain": ("test",), "store.url": url}
        return Memory(self._folder / "home", settings=own)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with cluster() as first, cluster(first) as follower:
        yield Pair(first, follower, tmp_path)


def test_a_replica_is_searched_and_refuses_writes_with_a_remedy(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "fox.md").write_text("The quick fox jumps over the fence.\n")
    with pair.first() as memory:
        memory.index(notes)
        expected = memory.search("quick fox")
        memory.remember("The fox is called Robin.", decay_class="active")
    with pair.follower() as memory:
        found = memory.search("quick fox", kind="note")
        assert [hit.text for hit in found.hits] == [hit.text for hit in expected.hits]
        assert found.freshness.note == ""
        monkeypatch.setenv("MEMWELL_NOW", f"{dt.date.today() + dt.timedelta(days=5)}")
        assert "Robin" in memory.recall("what is the fox called").block  # which would renew it
        monkeypatch.delenv("MEMWELL_NOW")

    with pair.first() as memory:
        memory.facts.remember(NewFact("The hedgehog is called Mecki."))  # not in the index yet
    (notes / "new.md").write_text("A hedgehog came by.\n")
    with pair.follower() as memory:
        found = memory.search("quick fox", kind="note")  # from what it has
        assert [hit.text for hit in found.hits] == [hit.text for hit in expected.hits]
        assert "can only be read" in found.freshness.note
        for write in (
            lambda: memory.remember("A third animal."),
            lambda: memory.index(notes),
            lambda: memory.forget(memory.facts.find(FactFilter())[0].id),
        ):
            with pytest.raises(ReadOnlyError, match=r"can only be read. To write"):
                write()

    done = run("--store", pair.url, "remember", "Nothing is stored here.", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "can only be read" in done.stderr
    checks = json.loads(run("--store", pair.url, "doctor", "--json", cwd=tmp_path).stdout)["checks"]
    (server,) = (check for check in checks if check["name"] == "PostgreSQL")
    assert server["ok"]
    assert "replica of another server" in server["detail"]
