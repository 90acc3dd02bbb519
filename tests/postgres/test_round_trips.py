"""A search on PostgreSQL asks the server few times: each round trip costs a network delay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from memwell import Memory
from memwell.config.fields import Value
from tests.conftest import Write
from tests.support.postgres import app_url, new_tenant

MOST = 24


def test_a_search_takes_few_round_trips(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, animal in (("Miso", "cat"), ("Rex", "dog"), ("Pip", "budgie")):
        write(f"{animal}.md", f"# The {animal}\n\nThe {animal} is named {name}.\n")
    settings: dict[str, Value] = {
        "store.url": app_url(),
        "store.tenant": new_tenant(),
        "embedding.chain": ("test",),
    }
    with Memory(workspace=workspace, settings=settings) as memory:
        memory.index(workspace)
        memory.remember("The horse is named Bella.")
        memory.search("what is the cat called")
        sent: list[str] = []
        execute = psycopg.Cursor.execute

        def counting(self: Any, query: Any, *values: Any, **options: Any) -> Any:
            sent.append(str(query))
            return execute(self, query, *values, **options)

        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Cursor, "execute", counting)
            assert memory.search("what is the dog called").hits[0].path == "dog.md"
    assert len(sent) <= MOST, "\n".join(
        f"{n} {' '.join(sql.split())[:110]}" for n, sql in enumerate(sent)
    )
