"""The application: one memory, what is done beside it, and what can be asked.

request ▶ counted ▶ guarded (whose address, page, token) ▶ limited ▶ route ▶ Memory
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from fastapi import FastAPI

from memwell import __version__
from memwell.embed.providers import Factory
from memwell.memory import Memory
from memwell.surfaces.background import Background
from memwell.surfaces.hook_socket import HookServer
from memwell.surfaces.http import api, login, metrics
from memwell.surfaces.http.errors import add_error_handlers, log
from memwell.surfaces.http.limits import LIMITS, Limits, LimitsMiddleware, RunningRequests
from memwell.surfaces.http.metrics import Metrics, MetricsMiddleware
from memwell.surfaces.http.security import GuardMiddleware, names_of
from memwell.surfaces.http.tokens import Tokens
from memwell.surfaces.http.viewer import memory_of
from memwell.surfaces.openai import files as file_routes
from memwell.surfaces.openai import store_files, vector_stores
from memwell.surfaces.openai.indexing import Indexer
from memwell.surfaces.openai.stores import VectorStores
from memwell.surfaces.web.pages import routes


def create_app(
    memory: Memory,
    *,
    names: frozenset[str] = names_of(),
    reachable: bool = False,
    limits: Limits = LIMITS,
    embedders: Mapping[str, Factory] | None = None,
) -> FastAPI:
    """Return the application that answers from a memory, which its caller opens and closes.

    The memory should be opened with the settings `UNHURRIED`: it is kept in step beside. Where
    other machines can reach the server, it must be told: it is `reachable`.
    """
    background, under_way = (
        Background(memory, lambda event: log.info("%s", event)),
        RunningRequests(),
    )
    files = file_routes.Files(memory.home)
    stores = VectorStores(memory.home, files)
    indexer = Indexer(stores, embedders, memory.settings.store.url)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with background, indexer, HookServer(memory):
            yield
            await under_way.wait_until_done()

    # No page of documentation: it would be fetched from elsewhere. /openapi.json describes all.
    app = FastAPI(
        title="memwell", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None
    )
    app.state.memory, app.state.background, app.state.metrics = memory, background, Metrics()
    app.state.files, app.state.stores, app.state.indexer = files, stores, indexer
    add_error_handlers(app)
    for part in (api, file_routes, vector_stores, store_files, metrics, login):
        app.include_router(part.router)
    app.include_router(routes(memory_of))
    app.add_middleware(LimitsMiddleware, limits=limits, under_way=under_way)
    app.add_middleware(
        GuardMiddleware, tokens=Tokens(memory.home), names=names, reachable=reachable
    )
    app.add_middleware(MetricsMiddleware, metrics=app.state.metrics)
    return app
