"""A large agent on PostgreSQL, before and after `memwell store index`.

Made-up passages: vectors of 384 dimensions around 200 centres, and 60 words each out of 60,000, as
often as in a language. Searched by a role whom the rules on rows bind, among two workspaces, of
which one holds one passage in two hundred. What answers in between is a real server from a wheel.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from statistics import median
from typing import Any

import numpy as np
import psycopg
from tests.support.postgres import cluster

from bench.results import Row, at_least
from memwell.search.parse import parse
from memwell.store.contract.query import Filters, Match, WordQuery
from memwell.store.postgres.agent_indexes import SMALLEST
from memwell.store.postgres.build_indexes import BuiltIndex, build
from memwell.store.postgres.index import PostgresIndex
from memwell.store.postgres.migrate import migrate
from memwell.store.postgres.posting_changes import CHUNKS, TOKENS
from memwell.store.postgres.postings import ROWS_VERSION
from memwell.store.postgres.roles import role
from memwell.store.postgres.server import Server

SIZES = (20_000, 100_000)
DIMENSIONS, CENTRES = 384, 200
WORDS, LENGTH = 60_000, 60
QUESTIONS = 15
TENANT, AGENT, APP = "acme", "main", "app"
_OF = f"'{TENANT}', '{AGENT}'"
Asked = Callable[[Any], list[Match]]


def run() -> list[Row]:
    """Measure an agent of each size."""
    return [row for size in SIZES for row in _measured(size)]


def _measured(size: int) -> Iterator[Row]:
    with cluster() as server:
        _fill(server.url(), size)
        index = PostgresIndex(Server(server.url(user=APP), TENANT), AGENT)
        with closing(index), closing(Server(server.url(), TENANT)) as owner:
            before = {name: _timed(ask, asked) for name, ask, asked in _questions(index)}
            built: list[BuiltIndex] = []
            build(owner, None, SMALLEST, built.append)
            sizes = server.execute(
                "SELECT CASE WHEN relname LIKE 'vector%' THEN 'hnsw' ELSE 'bm25' END,"
                " pg_relation_size(oid) / 1e6 FROM pg_class WHERE relkind = 'i'"
                " AND relname ~ '^(vector|text)_index_'"
            )
            texts = server.execute(
                "SELECT sum(pg_total_relation_size(oid)) / 1e6 FROM pg_class"
                " WHERE relname ~ '^chunk_texts_.$'"
            )
            after = {name: _timed(ask, asked) for name, ask, asked in _questions(index)}
        for name, (ms, found) in before.items():
            yield Row(f"{size:,}: {name}, without", ms, "ms")
            now, again = after[name]
            yield Row(f"{size:,}: {name}, with", now, "ms")
            yield Row(f"{size:,}: {name}, top ten", _same(found, again), "share", at_least(0.95))
        for one in built:
            yield Row(f"{size:,}: {one.what} built in", one.seconds, "s")
        for kind, megabytes in sizes:
            yield Row(f"{size:,}: {kind} takes", float(megabytes), "MB")
        yield Row(f"{size:,}: texts take, with their bm25", float(texts[0][0]), "MB")


def _questions(index: PostgresIndex) -> Iterator[tuple[str, Asked, Sequence[Any]]]:
    """Yield what is asked, how, and with what."""
    with index.reading() as reader:
        roots = {root: key for key, root, *_ in reader.notes.workspaces()}
    everywhere, rare = Filters(workspaces=(*roots.values(),)), Filters(workspaces=(roots["/rare"],))

    def near(filters: Filters) -> Asked:
        def ask(vector: Any) -> list[Match]:
            with index.reading() as reader:
                space = reader.spaces.live()
                assert space
                return reader.vectors.nearest(space, vector, WordQuery(filters=filters), 100)

        return ask

    def words(text: str) -> list[Match]:
        query = parse(text).query
        with index.reading() as reader:
            return reader.keywords.search(WordQuery(query.any_of, filters=everywhere), 100)

    vectors = _vectors(QUESTIONS, np.random.default_rng(2))
    yield "meaning", near(everywhere), vectors
    yield "meaning, one in 200 passes", near(rare), vectors
    chance = random.Random(3)
    yield "words, a question", words, [_text(chance, 4, 4) for _ in range(QUESTIONS)]
    yield "words, none of them rare", words, [_text(chance, 6, 0) for _ in range(3)]


def _text(chance: random.Random, common: int, other: int) -> str:
    """Words as a question has them: some of the commonest, and some that are not."""
    numbers = [chance.randrange(3, 40) for _ in range(common)]
    numbers += [chance.randrange(100, 5_000) for _ in range(other)]
    return " ".join(f"w{number:x}" for number in numbers)


def _timed(ask: Asked, asked: Sequence[Any]) -> tuple[float, list[list[Match]]]:
    """Return the median time, once all is warm, and what was found."""
    for one in asked[:3]:
        ask(one)
    times, found = [], []
    for one in asked:
        begun = time.perf_counter()
        found.append(ask(one))
        times.append((time.perf_counter() - begun) * 1000)
    return median(times), found


def _same(one: list[list[Match]], other: list[list[Match]]) -> float:
    """Return which share of the ten best is the same."""
    tops = [[{match.chunk_id for match in found[:10]} for found in each] for each in (one, other)]
    return sum(len(a & b) for a, b in zip(*tops, strict=True)) / sum(map(len, tops[0]))


# -- an agent of some size -------------------------------------------------------------------------


def _vectors(count: int, chance: Any) -> Any:
    centres = np.random.default_rng(1).normal(size=(CENTRES, DIMENSIONS))
    found = centres[chance.integers(CENTRES, size=count)] + chance.normal(size=(count, DIMENSIONS))
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def _fill(url: str, size: int) -> None:
    """Write the rows of an agent as its owner can, all at once."""
    chance = np.random.default_rng(0)
    share = 1 / (np.arange(WORDS) + 3.0)
    bounds = np.cumsum(share / share.sum())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pg_textsearch")
        migrate(connection)
        for statement in role(APP):
            connection.execute(statement)
        connection.execute("SET search_path TO memwell, public; SET statement_timeout TO 0")
        connection.execute("SET session_replication_role TO replica")  # what is made up fits
        connection.execute(
            "INSERT INTO indexes (tenant, agent, words_version, chunks, tokens)"
            f" VALUES ({_OF}, {ROWS_VERSION}, {size}, {size * LENGTH})"
        )
        connection.execute(
            "INSERT INTO workspaces (tenant, agent, id, root, owner)"
            f" VALUES ({_OF}, 1, '/usual', ''), ({_OF}, 2, '/rare', '')"
        )
        connection.execute(
            "INSERT INTO spaces (tenant, agent, id, fingerprint, provider, model, dimensions,"
            f" settings, state, opened_at) VALUES ({_OF}, 3, 'f', 'p', 'm', {DIMENSIONS}, '{{}}',"
            " 'live', '')"
        )
        connection.execute(
            "INSERT INTO notes (tenant, agent, id, workspace_id, path, size, mtime_ns, read_ns,"
            " hash, recipe, title, names, meta, tags, links, owner)"
            f" SELECT {_OF}, n, CASE WHEN n %% 200 = 7 THEN 2 ELSE 1 END, n || '.md', 1, 1, 1, '',"
            " 'r', '', '', '{}', '{}', '{}', '' FROM generate_series(1, %s) AS n",
            (size,),
        )
        connection.execute(
            "INSERT INTO chunks (tenant, agent, id, note_id, seq, start_line, end_line, heading,"
            f" overlap, text, owner) SELECT {_OF}, n, n, 0, 1, 1, '', 0, repeat('x ', 200), ''"
            " FROM generate_series(1, %s) AS n",
            (size,),
        )
        cursor = connection.cursor()
        with cursor.copy("COPY vectors FROM STDIN") as copy:
            for key, vector in enumerate(_vectors(size, chance).tolist(), 1):
                copy.write_row((TENANT, AGENT, key, 3, 0, str(vector), ""))
        rows: Counter[int] = Counter()
        with cursor.copy("COPY postings FROM STDIN") as copy:
            for key in range(1, size + 1):
                found = Counter(np.searchsorted(bounds, chance.random(LENGTH)).tolist())
                rows.update(found.keys())
                copy.write(
                    "".join(
                        f"{TENANT}\t{AGENT}\tw{word:x}\t{key}\t{count}\t{LENGTH}"
                        f"\t{{{','.join(map(str, range(count)))}}}\t\n"
                        for word, count in found.items()
                    )
                )
        columns = "(tenant, agent, token, document_frequency)"
        with cursor.copy(f"COPY vocabulary {columns} FROM STDIN") as copy:
            for word, count in rows.items():
                copy.write_row((TENANT, AGENT, f"w{word:x}", count))
            for name, count in ((CHUNKS, size), (TOKENS, size * LENGTH)):
                copy.write_row((TENANT, AGENT, name, count))
        connection.execute("SELECT setval('ids', 1000000)")
    # Whoever writes stores the postings as arrays.
    with closing(PostgresIndex(Server(url, TENANT), AGENT)) as index, index.writing():
        pass
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
