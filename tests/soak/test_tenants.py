"""Many tenants behind one server and one pooler, while all of them are restarted.

A real `memwell serve` answers through PgBouncer in transaction mode. Clients remember and search for
tenants at random; each tenant has a token.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path

import psycopg
import pytest

from memwell.surfaces.http.tokens import Token, _digest
from tests.soak.conftest import SCALE
from tests.support.cluster import bouncer, cluster
from tests.support.http_servers import Server, served
from tests.support.postgres import new_role

pytestmark = pytest.mark.server
MOST_MEGABYTES = 400


@dataclass
class Load:
    """Clients that use a server until it is enough, and what they saw."""

    server: Server
    tenants: int
    acknowledged: dict[str, list[str]] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    foreign: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    enough: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run_client(self, number: int) -> None:
        chance = random.Random(number)
        while not self.enough.is_set():
            tenant = f"tenant-{chance.randrange(self.tenants):04d}"
            client = replace(self.server, token=token_of(tenant))
            if chance.random() < 0.4:
                text = f"The boat {chance.getrandbits(40):010x} of {tenant} is blue."
                if self._ask(client, "/api/remember", {"text": text}) is not None:
                    with self.lock:
                        self.acknowledged.setdefault(tenant, []).append(text)
            else:
                query = {"query": "boat", "mode": chance.choice(["words", "hybrid"]), "k": 20}
                answer = self._ask(client, "/api/search", query)
                hits = json.loads(answer)["hits"] if answer else []
                self.foreign += [hit["text"] for hit in hits if tenant not in hit["text"]]

    def _ask(self, client: Server, path: str, body: object) -> bytes | None:
        """Send a request; send it once more if it failed. A fact that is told twice is one fact."""
        told = ""
        for attempt in ("first", "second"):
            try:
                answer = client.ask("POST", path, body)
            except (OSError, HTTPException) as error:
                told = repr(error)
                continue
            if answer.status == 200:
                with self.lock:
                    self.outcomes[f"{path} {attempt}"] += 1
                return answer.body
            told = answer.body.decode()
        with self.lock:
            self.failures.append(f"{path}: {told[:300]}")
        return None


def token_of(tenant: str) -> str:
    return f"{tenant}-{'x' * 32}"


def write_tokens(home: Path, tenants: int) -> None:
    """Make a token for each tenant, as `memwell serve token add --tenant` does one by one."""
    home.mkdir(mode=0o700, parents=True)
    names = [f"tenant-{number:04d}" for number in range(tenants)]
    rows = [Token(name, _digest(token_of(name)), "ann", "", "", "write", name) for name in names]
    fields = [{slot: getattr(row, slot) for slot in Token.__slots__} for row in rows]
    (home / "tokens.json").write_text(json.dumps({"tokens": fields}))
    (home / "tokens.json").chmod(0o600)


def megabytes_of(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def run_load(home: Path, folder: Path, tenants: int, clients: int, seconds: float) -> Load:
    with cluster(max_connections="40") as database:
        role = new_role(on=database)
        write_tokens(home, tenants)
        with (
            bouncer(database, role, default_pool_size="20") as pooler,
            served(
                home,
                folder,
                MEMWELL_STORE_URL=pooler.url(role),
                MEMWELL_STORE_TENANT="own",
                MEMWELL_EMBEDDING_CHAIN="test",
            ) as server,
        ):
            load = Load(server, tenants)
            disturb: list[Callable[[], None]] = [
                lambda: (database.stop("fast"), database.start())[1],
                lambda: (pooler.stop(), pooler.start())[1],
                lambda: (database.stop("immediate"), database.start())[1],
            ]
            with ThreadPoolExecutor(clients) as threads:
                running = [threads.submit(load.run_client, number) for number in range(clients)]
                try:
                    for action in [*disturb, lambda: None]:
                        load.enough.wait(seconds / 4)
                        action()
                finally:
                    load.enough.set()
                for done in running:
                    done.result()
            assert server.process
            load.outcomes["megabytes"] = int(megabytes_of(server.process.pid))
            check(load, database.url())
    return load


def check(load: Load, url: str) -> None:
    """No acknowledged fact is lost, none is of another tenant, and none is there twice."""
    assert load.foreign == []
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT tenant, text FROM memwell.facts").fetchall()
    stored = Counter(rows)
    told = [(tenant, text) for tenant, texts in load.acknowledged.items() for text in texts]
    assert [one for one in told if stored[one] != 1] == []
    assert [row for row in rows if row[0] not in row[1]] == []
    assert load.failures == []


def test_forty_tenants_share_a_server_and_a_pooler(home: Path, workspace: Path) -> None:
    load = run_load(home / "served", workspace, tenants=40, clients=8, seconds=6)
    assert load.outcomes["/api/remember first"] > 20


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_thousand_tenants_share_a_server_and_a_pooler(home: Path, workspace: Path) -> None:
    started = time.monotonic()
    load = run_load(home / "served", workspace, 1_000, clients=50, seconds=300 * SCALE)
    assert load.outcomes["megabytes"] <= MOST_MEGABYTES
    print(f"\n{time.monotonic() - started:.0f} s: {dict(load.outcomes)}")  # noqa: T201
