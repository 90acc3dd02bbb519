"""A database that an older memwell made: its rows, indexes, policies and grants survive the steps."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pytest

from memwell import Memory
from memwell.store.contract.query import Word, WordQuery
from memwell.store.postgres import migrate as migrating
from memwell.store.postgres import textsearch
from memwell.store.postgres.build_indexes import BuildReport
from memwell.store.postgres.health import run_checks
from memwell.store.postgres.keywords import PostgresKeywords
from memwell.store.postgres.migrate import migrate
from memwell.store.postgres.migrations import MIGRATIONS
from memwell.store.postgres.posting_lists import PostingRow, to_numbers
from memwell.store.postgres.postings import LAST
from memwell.store.postgres.schema import OWNERS, TABLES
from memwell.store.postgres.spaces import PostgresSpaces
from memwell.store.postgres.tokenizer import COLUMN_BITS
from memwell.store.words.normalise import WORDS_VERSION
from memwell.store.words.query import ranking_words
from memwell.store.words.scoring import COLUMN_WEIGHTS
from tests.postgres.test_security import connected, count, fill
from tests.support.postgres import build_agent_indexes, new_database, server, shared

RELEASED = 6
"""The number of migrations before the one that renames."""
DIGEST = "5d5ba8d2038692d1f0d8699c86d68f6a3632871e959e8a957ef8e42c96ec7cb5"
"""The digest of their SQL without comments."""
TENANT = "mine"
OLD_NAMES = {
    "workspace_list": "registered",
    "cooldowns": "rests",
    "vector_cache": "cached",
    "vocabulary": "words",
    "chunk_texts": "spoken",
    "pending_erasures": "unfinished",
    "vector_index": "near",
    "text_index": "said",
}
Connection = psycopg.Connection[Any]


def old(text: str) -> str:
    """A table, or SQL, with the old names."""
    for new_name, old_name in OLD_NAMES.items():
        text = re.sub(rf"\b{new_name}(?=\b|_)", old_name, text)
    return text


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a database that this memwell made, with rows in its tables and indexes."""
    url = new_database()
    for extension in ("vector", "pg_textsearch"):
        shared().execute(f"CREATE EXTENSION {extension} SCHEMA public", name_of(url))
    fill(url, TENANT, tmp_path_factory.mktemp("filled"))
    assert len(build_agent_indexes(TENANT, url).built) == 2
    return url


@pytest.fixture
def before(new: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a database with the old schema, and with the rows and indexes of the new one."""
    url = new_database()
    with psycopg.connect(url, autocommit=True) as target, monkeypatch.context() as patch:
        patch.setattr(migrating, "MIGRATIONS", MIGRATIONS[:RELEASED])
        migrate(target)
    with psycopg.connect(new) as source, psycopg.connect(url) as target:
        copy_as_before(source, target)
    return url


def name_of(url: str) -> str:
    return str(re.findall(r"/(test_\w+)\?", url)[0])


def copy_as_before(source: Connection, target: Connection) -> None:
    """Copy the rows of all tables, and the indexes of large agents, to a database with the old schema."""
    target.execute("SET session_replication_role TO replica; SET search_path TO memwell, public")
    copy_postings_as_before(source, target)
    for table in TABLES:
        if table in ("postings", "posting_lists"):
            continue
        rows_before = f"SELECT * FROM memwell.{table}"
        if table == "indexes":  # without blocks
            rows_before = "SELECT tenant, agent, words_version, chunks, tokens, has_texts FROM memwell.indexes"
        if table == "vocabulary":  # without owners
            rows_before = (
                "SELECT tenant, agent, token, sum(document_frequency) FROM memwell.vocabulary"
                " WHERE token NOT LIKE '#%' GROUP BY tenant, agent, token"
            )
        with (
            source.cursor().copy(f"COPY ({rows_before}) TO STDOUT") as rows,
            target.cursor().copy(f"COPY {old(table)} FROM STDIN") as copy,
        ):
            for row in rows:
                copy.write(row)
    target.execute(f"UPDATE indexes SET words_version = {WORDS_VERSION}")
    target.execute("CREATE EXTENSION pg_textsearch SCHEMA public")
    names = [name for name, _ in agent_indexes(source)]
    for _, definition in agent_indexes(source):
        target.execute(old(definition))
    text_index, part = old(names[0]), old(names[1])
    target.execute(f"ALTER INDEX {text_index} ATTACH PARTITION {part}")


def copy_postings_as_before(source: Connection, target: Connection) -> None:
    """Copy the postings, each as a row of its own."""
    weights = [*COLUMN_WEIGHTS.values()]
    lists = source.execute("SELECT * FROM memwell.posting_lists").fetchall()
    with target.cursor().copy("COPY postings FROM STDIN") as copy:
        for tenant, agent, token, owner, block, *columns in lists:
            for chunk, length, places in PostingRow(*map(to_numbers, columns)).parts():
                places[-1] -= LAST
                frequency = sum(weights[place >> COLUMN_BITS] for place in places)
                copy.write_row(
                    (tenant, agent, token, block + chunk, frequency, length, places, owner)
                )


def agent_indexes(connection: Connection) -> list[tuple[str, str]]:
    """The names and definitions of the indexes of large agents: two for texts, one for vectors."""
    return connection.execute(
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'memwell'"
        " AND indexname ~ '^(vector|text)_index_' ORDER BY 1"
    ).fetchall()


def catalogue(connection: Connection) -> dict[str, list[Any]]:
    """The definition of everything in the schema."""
    statements = {
        "relations": "SELECT relname, relkind, relrowsecurity, relforcerowsecurity,"
        " pg_get_expr(relpartbound, oid) FROM pg_class"
        " WHERE relnamespace = 'memwell'::regnamespace",
        "columns": "SELECT table_name, ordinal_position, column_name, data_type, is_nullable,"
        " column_default, collation_name FROM information_schema.columns"
        " WHERE table_schema = 'memwell'",
        "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes"
        " WHERE schemaname = 'memwell'",
        "constraints": "SELECT conname, conrelid::regclass::text, pg_get_constraintdef(oid)"
        " FROM pg_constraint WHERE connamespace = 'memwell'::regnamespace",
        "policies": "SELECT tablename, policyname, permissive, qual FROM pg_policies"
        " WHERE schemaname = 'memwell' AND policyname NOT LIKE 'bound%'",
        "parts": "SELECT inhparent::regclass::text, inhrelid::regclass::text FROM pg_inherits",
        "migrations": "SELECT number, name FROM memwell.migrations",
    }
    return {
        name: sorted(connection.execute(statement).fetchall(), key=str)
        for name, statement in statements.items()
    }


def rows_of(connection: Connection) -> dict[str, list[str]]:
    return {
        table: sorted(
            text for (text,) in connection.execute(f"SELECT t::text FROM memwell.{table} t")
        )
        for table in TABLES
    }


def found(url: str, home: Path, query: str) -> list[tuple[str, float]]:
    settings: dict[str, Any] = {
        "store.url": url,
        "store.tenant": TENANT,
        "embedding.chain": ("test",),
    }
    with Memory(home, settings=settings, user="anna") as memory:
        return [(hit.text, hit.relevance) for hit in memory.search(query).hits]


def test_released_migrations_do_not_change() -> None:
    statements = " ".join(statements for _, statements in MIGRATIONS[:RELEASED])
    without_comments = " ".join(re.sub(r"--.*", "", statements).split())
    assert sha256(without_comments.encode()).hexdigest() == DIGEST


def test_a_migrated_database_equals_a_new_one(new: str, before: str, tmp_path: Path) -> None:
    with (
        psycopg.connect(new) as source,
        psycopg.connect(before, autocommit=True) as target,
    ):
        migrate(target)
        kept = {*TABLES} - {"vocabulary", "indexes", "postings", "posting_lists"}
        assert {name: rows_of(target)[name] for name in kept} == {
            name: rows_of(source)[name] for name in kept
        }
        assert rows_of(target)["postings"]
        assert found(before, tmp_path, "miso")
        for table in ("vocabulary", "postings", "posting_lists"):
            assert rows_of(target)[table] == rows_of(source)[table]
        assert all(rows_of(source)[table] for table in OWNERS if table != "postings")
        assert catalogue(target) == catalogue(source)
        names = " ".join(name for name, *_ in catalogue(target)["relations"])
        assert not re.findall(rf"\b(?:{'|'.join(OLD_NAMES.values())})(?=\b|_)", names)


def test_a_migrated_database_still_uses_its_indexes(
    new: str, before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for query in ("cat named", "drink", "miso OR tea"):
        hits = found(before, tmp_path, query)
        assert hits
        assert hits == found(new, tmp_path, query)
    assert build_agent_indexes(TENANT, before) == BuildReport()  # no index is missing or unused
    monkeypatch.setattr(textsearch, "_SPARE", 1)
    monkeypatch.setattr(textsearch, "MANY_POSTINGS", 0)
    with server(before, TENANT) as opened, opened.reading("main") as session:
        (space,) = PostgresSpaces(session).all()
        assert space.location.startswith("vector_index_")
        vocabulary, miso = PostgresKeywords(session), WordQuery((Word("miso"),))
        clauses = ranking_words(miso, vocabulary).clauses
        (chunk,) = textsearch.find_candidates(vocabulary, miso, clauses, 1)
        assert "Miso" in session.value(
            "SELECT text FROM chunks WHERE tenant = %(tenant)s AND id = %(id)s", id=chunk
        )


def old_role(name: str, tenant: str = "", scope: str = "") -> Iterator[str]:
    """The statements by which old versions made a role, with policies of its own if it is bound."""
    yield f'CREATE ROLE "{name}" LOGIN'
    yield f'GRANT USAGE ON SCHEMA memwell TO "{name}"; GRANT USAGE ON memwell.ids TO "{name}"'
    yield f'GRANT SELECT ON memwell.migrations TO "{name}"'
    for table in (table for table in TABLES if table != "posting_lists"):
        yield f'GRANT SELECT, INSERT, UPDATE, DELETE ON memwell.{table} TO "{name}"'
        if tenant:
            rule = f"tenant = '{tenant}'"
            if table in OWNERS and table != "vocabulary":
                rule += f" AND {OWNERS[table]} IN ('', 'global:', '{scope}')"
            yield (
                f'CREATE POLICY "bound {name}" ON memwell.{table} AS RESTRICTIVE TO "{name}"'
                f" USING ({rule})"
            )


def test_grants_and_policies_survive_the_migration(before: str) -> None:
    plain, bound = f"role-{secrets.token_hex(6)}", f"role-{secrets.token_hex(6)}"
    with psycopg.connect(before, autocommit=True) as connection:
        for statement in (*old_role(plain), *old_role(bound, TENANT, "user:anna")):
            connection.execute(old(statement))
        migrate(connection)
    for name in (plain, bound):
        with server(shared().url(name_of(before), name), TENANT) as opened:
            with opened.unmigrated() as session:
                (rights,) = [check for check in run_checks(session) if check.name == "rights"]
            assert rights.ok, rights
    with connected(TENANT, "{*}", shared().url(name_of(before), plain)) as connection:
        assert count(connection, "chunk_texts", "owner = 'user:ben'") == 1
        connection.execute("SET memwell.tenant = 'another'")
        assert [table for table in TABLES if count(connection, table)] == []
    with connected(TENANT, "{*}", shared().url(name_of(before), bound)) as connection:
        for table, owner in OWNERS.items():
            # The role was bound before words had owners, and no index was written since.
            if table not in ("vocabulary", "posting_lists"):
                assert count(connection, table, f"{owner} = 'user:anna'") > 0
                assert count(connection, table, f"{owner} = 'user:ben'") == 0
        connection.execute("SET memwell.tenant = 'another'")
        assert [table for table in TABLES if count(connection, table)] == []
