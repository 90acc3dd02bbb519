"""A pytest plugin (-p tests.support.routed): PostgreSQL is a router before two servers.

At the end it writes what the router found to the file in ROUTER_REPORT, and the places in the code
that sent a statement.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from memwell.store.postgres import server as server_module
from memwell.store.postgres import session as session_module
from memwell.store.postgres.session import Session
from tests.support import postgres
from tests.support.cluster import cluster
from tests.support.router import Router, router, server_of, to_json

_open = ExitStack()
_places: set[tuple[str, int]] = set()


@cache
def _start() -> Router:
    folder = Path(_open.enter_context(tempfile.TemporaryDirectory(prefix="memwell-router-")))
    return _open.enter_context(router([_open.enter_context(cluster()) for _ in range(2)], folder))


def _url_of(tenant: str) -> str:
    """The address of the server that has a tenant: indexes are built there, not by the router."""
    chosen = _start().servers[server_of(tenant)]
    chosen.execute("CREATE EXTENSION IF NOT EXISTS pg_textsearch SCHEMA public")
    return chosen.url()


def pytest_configure(config: pytest.Config) -> None:
    """Put the router where tests look for the server, before they import it."""
    build = postgres.build_agent_indexes
    patch = pytest.MonkeyPatch()
    patch.setattr(postgres, "shared", _start)
    patch.setattr(postgres, "build_agent_indexes", lambda tenant: build(tenant, _url_of(tenant)))
    named = Session._named

    def record(self: Session, statement: str, values: dict[str, Any]) -> dict[str, Any]:
        own = (session_module.__file__, server_module.__file__, __file__)
        frame = sys._getframe(1)
        while frame.f_back and (
            frame.f_code.co_filename in own or "contextlib" in frame.f_code.co_filename
        ):
            frame = frame.f_back
        _places.add((Path(frame.f_code.co_filename).name, frame.f_lineno))
        return named(self, statement, values)

    patch.setattr(Session, "_named", record)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Write the report and stop the servers."""
    if _start.cache_info().currsize and (file := os.environ.get("ROUTER_REPORT")):
        found = {**json.loads(to_json(_start())), "places": sorted(_places)}
        Path(file).write_text(json.dumps(found))
    _open.close()
