"""What a hybrid search costs on PostgreSQL: 100,000 passages of 200 tenants.

One tenant has half of them, the others share the rest alike. Compared are the same memory in
files, and the SQL that people write by hand: one table with a `tsvector` and a `vector`, each with
its index, and their ranks fused. The words of a question are joined by OR there, since hardly a
passage holds all of them. Query vectors are made up and cost nothing on either side; as they say
little, no hit is dropped for being irrelevant. In the end the large tenant gets indexes of its own,
and is asked again, by turns with the SQL by hand.
"""

from __future__ import annotations

import gc
import random
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import compress
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

import psycopg
from tests.support.postgres import cluster

from bench import corpus, data
from bench.measure import seconds, temporary_home
from bench.results import Row, at_least
from bench.sentences import Collection
from bench.stand_in import WordSums
from memwell import Memory
from memwell.config.fields import Value
from memwell.memory.tenants import as_tenant
from memwell.store.postgres.agent_indexes import SMALLEST
from memwell.store.postgres.build_indexes import build
from memwell.store.postgres.roles import role
from memwell.store.postgres.server import Server

_LARGE, _SMALL, _TENANTS = 50_000, 251, 200
_ASKED = 100
"""Questions to the large tenant, and as many to small ones."""
_FEW = 20
"""Small tenants that are asked: their connections stay open."""
_WARM = 1
_K = 6
_SEED = 9
_PARTS = 20
OPTIONS = {"shared_buffers": "1GB", "maintenance_work_mem": "1GB", "max_connections": "500"}
_ROLE = "memwell_bench"
_BY_SUMS: dict[str, Value] = {"embedding.chain": ("sums",), "sync.on_search": False}
"""Whoever searches a shared memory need not have its notes at hand to look through."""

# By hand: as it stands in many a blog post, with an index for each of its conditions.
_TABLE = """
    ANALYZE;
    CREATE TABLE public.by_hand (
        id bigint PRIMARY KEY, tenant text NOT NULL, content text NOT NULL,
        words tsvector GENERATED ALWAYS AS (to_tsvector('english', content)) STORED,
        embedding vector(384)
    );
    INSERT INTO public.by_hand (id, tenant, content, embedding)
        SELECT c.id, c.tenant, c.text, v.vector FROM memwell.chunks c
        JOIN memwell.vectors v ON v.tenant = c.tenant AND v.agent = c.agent
            AND v.chunk_id = c.id AND v.window_number = 0;
    CREATE INDEX ON public.by_hand (tenant);
    CREATE INDEX ON public.by_hand USING gin (words);
    CREATE INDEX ON public.by_hand USING hnsw (embedding vector_cosine_ops);
    ANALYZE
"""
_BY_HAND = """
    WITH by_words AS (
        SELECT id, rank() OVER (ORDER BY ts_rank_cd(words, query) DESC) AS place
        FROM public.by_hand, to_tsquery('english', %(words)s) AS query
        WHERE tenant = %(tenant)s AND words @@ query
        ORDER BY ts_rank_cd(words, query) DESC LIMIT 20
    ), by_meaning AS (
        SELECT id, rank() OVER (ORDER BY embedding <=> %(vector)s::vector) AS place
        FROM public.by_hand WHERE tenant = %(tenant)s
        ORDER BY embedding <=> %(vector)s::vector LIMIT 20
    )
    SELECT id, content,
           coalesce(1.0 / (60 + w.place), 0) + coalesce(1.0 / (60 + m.place), 0) AS score
    FROM by_words w FULL JOIN by_meaning m USING (id) JOIN public.by_hand USING (id)
    ORDER BY score DESC LIMIT %(k)s
"""


@dataclass(frozen=True, slots=True)
class Tenant:
    """Who has passages."""

    name: str
    size: int
    source: int
    """Which set its texts and its questions are of."""


Way = Callable[[Tenant, str], int]


def run() -> list[Row]:
    """Write everything, then ask each question all three ways by turns."""
    chance = random.Random(_SEED)
    tenants = [
        Tenant(f"tenant-{number:03}", _SMALL if number else _LARGE, number % len(corpus.SETS))
        for number in range(_TENANTS)
    ]
    asked = [tenants[0]] * _ASKED + chance.choices(tenants[1 : _FEW + 1], k=_ASKED)
    questions = [[one.text for one in data.labelled_set(name).questions] for name in corpus.SETS]
    pairs = [(tenant, chance.choice(questions[tenant.source])) for tenant in asked]
    with temporary_home() as folder, cluster(**OPTIONS) as server:
        url = server.url()
        write(folder, url, tenants)
        for statement in role(_ROLE):
            server.execute(statement)
        with psycopg.connect(url, autocommit=True) as by_hand, ExitStack() as open_ones:
            by_hand.execute(_TABLE)
            by_hand.execute("VACUUM ANALYZE")  # which the server would do while it is asked
            ways = _Ways(folder, server.url(user=_ROLE), by_hand, open_ones)
            taken = _measured(ways.all, pairs)
            by_hand.execute("CREATE EXTENSION pg_textsearch")
            with closing(Server(url, tenants[0].name)) as owner:
                build(owner, None, SMALLEST, lambda built: None)
            large = {"server, own indexes": ways.on_server, "by hand, again": ways.by_hand}
            taken |= _measured(large, pairs[:_ASKED])
    return _rows(pairs, taken)


def write(folder: Path, url: str, tenants: Sequence[Tenant], *, in_files: bool = True) -> None:
    """Write each tenant's notes as files, and index them on the server and in files."""
    chance = random.Random(_SEED)
    sources = [
        Collection(document.text for document in data.labelled_set(name).documents)
        for name in corpus.SETS
    ]
    for tenant in tenants:
        notes = folder / "notes" / tenant.name
        notes.mkdir(parents=True)
        for number, start in enumerate(range(0, tenant.size, _PARTS)):
            parts = range(min(_PARTS, tenant.size - start))
            texts = [f"## Part {part}\n\n{sources[tenant.source].sample(chance)}" for part in parts]
            (notes / f"{number:04}.md").write_text("\n\n".join(texts), encoding="utf-8")
        with on_server(folder, url, tenant) as memory:
            memory.index(notes)
        if in_files:
            with _in_files(folder, tenant) as memory:
                memory.index(notes)


def _in_files(folder: Path, tenant: Tenant) -> Memory:
    return Memory(folder / tenant.name, embedders={"sums": WordSums}, settings=_BY_SUMS)


def on_server(folder: Path, url: str, tenant: Tenant) -> Memory:
    """Open the memory of a tenant on a server."""
    own: dict[str, Value] = {**_BY_SUMS, "store.url": url, "store.tenant": tenant.name}
    return Memory(folder / "server", embedders={"sums": WordSums}, settings=own)


class _Ways:
    """The three ways of asking.

    Memories stay open, and those on the server share connections, as in `memwell serve`.
    """

    def __init__(
        self, folder: Path, url: str, by_hand: psycopg.Connection[Any], open_ones: ExitStack
    ) -> None:
        self._folder = folder
        self._url = url
        self._by_hand = by_hand
        self._open_ones = open_ones
        self._memories: dict[tuple[str, str], Memory] = {}
        self._service: Memory | None = None
        self._sums = WordSums()
        self.all = {"server": self.on_server, "files": self.in_files, "by hand": self.by_hand}

    def on_server(self, tenant: Tenant, question: str) -> int:
        """Search on PostgreSQL."""
        return len(self._memory("server", tenant).search(question, k=_K, min_score=0).hits)

    def in_files(self, tenant: Tenant, question: str) -> int:
        """Search in files."""
        return len(self._memory("files", tenant).search(question, k=_K, min_score=0).hits)

    def by_hand(self, tenant: Tenant, question: str) -> int:
        """Ask the table that was made by hand."""
        asked = {
            "tenant": tenant.name,
            "k": _K,
            "words": " | ".join(re.findall(r"\w+", question)),
            "vector": str(self._sums.embed_query(question)[0].tolist()),
        }
        return len(self._by_hand.execute(_BY_HAND, asked).fetchall())

    def _memory(self, kind: str, tenant: Tenant) -> Memory:
        if (kind, tenant.name) not in self._memories:
            self._memories[kind, tenant.name] = self._open(kind, tenant)
        return self._memories[kind, tenant.name]

    def _open(self, kind: str, tenant: Tenant) -> Memory:
        if kind == "server" and self._service:
            return as_tenant(self._service, tenant.name)
        if kind == "server":
            self._service = self._open_ones.enter_context(
                on_server(self._folder, self._url, tenant)
            )
            return self._service
        return self._open_ones.enter_context(_in_files(self._folder, tenant))


def _measured(
    ways: Mapping[str, Way], pairs: Sequence[tuple[Tenant, str]]
) -> dict[str, list[float]]:
    """Return how long each question took each way, by turns, after each was asked before.

    Python looks through the objects of the labelled sets now and then, for a tenth of a second; a
    server has none of them, so they are left out.
    """
    gc.collect()
    gc.freeze()
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(_WARM + 1):
        for tenant, question in pairs:
            for name, ask in ways.items():
                elapsed = seconds(partial(ask, tenant, question))
                if number == _WARM:
                    taken[name].append(1000 * elapsed)
    return taken


def _rows(pairs: Sequence[tuple[Tenant, str]], taken: dict[str, list[float]]) -> list[Row]:
    rows = []
    for title, size, least in (
        ("50,000 passages", _LARGE, (5, 7)),
        ("251 passages", _SMALL, (1, 1)),
    ):
        chosen = [tenant.size == size for tenant, _ in pairs]
        all_ways = {name: [*compress(found, chosen)] for name, found in taken.items()}
        some = {name: found for name, found in all_ways.items() if found}
        pairs_of_ways = (("server", "by hand"), ("server, own indexes", "by hand, again"))
        for (name, other), wanted in zip(pairs_of_ways, least, strict=True):
            if name in some:
                ratio = sum(some[other]) / sum(some[name])
                row = f"tenant of {title}: by hand / {name}"
                rows.append(Row(row, ratio, "times", at_least(wanted)))
        for name, found in some.items():
            rows += [
                Row(f"  {name}, mean", fmean(found), "ms"),
                Row(f"  {name}, p50", median(found), "ms"),
                Row(f"  {name}, p99", quantiles(found, n=100)[98], "ms"),
            ]
    return rows
