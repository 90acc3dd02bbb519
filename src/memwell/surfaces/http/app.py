"""The application: one memory, its background work, and every route.

request ▶ metrics ▶ guard (host, origin, token) ▶ limits ▶ route ▶ Memory
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from anyio import CapacityLimiter
from fastapi import Depends, FastAPI
from starlette.routing import Route

from memwell import __version__
from memwell.embed.providers import Factory
from memwell.memory import Memory
from memwell.surfaces.background import Background
from memwell.surfaces.hook_socket import HookServer
from memwell.surfaces.http import api, login, metrics
from memwell.surfaces.http.audit import AUDIT_FILE, AuditMiddleware
from memwell.surfaces.http.errors import add_error_handlers, log
from memwell.surfaces.http.limits import LIMITS, LimitsMiddleware, RequestLimits, RunningRequests
from memwell.surfaces.http.metrics import MetricsMiddleware, ViewerMetrics
from memwell.surfaces.http.security import GuardMiddleware, host_names
from memwell.surfaces.http.tenant_requests import TenantRequests
from memwell.surfaces.http.tenants import TenantMemories
from memwell.surfaces.http.tokens import Tokens
from memwell.surfaces.http.viewer import SEARCH_THREADS, require_space
from memwell.surfaces.mcp.endpoint import PATH as MCP_PATH
from memwell.surfaces.mcp.endpoint import McpEndpoint
from memwell.surfaces.openai import embeddings, store_files, vector_stores
from memwell.surfaces.openai import files as files_routes
from memwell.surfaces.openai.indexing import Indexer
from memwell.surfaces.openai.records import RecordDatabase
from memwell.surfaces.openai.stores import VectorStores
from memwell.surfaces.web import fact_pages, map_pages, note_pages, pages, system_pages
from memwell.surfaces.web.render import add_not_found_page
from memwell.surfaces.worker_group import Group


def create_app(
    memory: Memory,
    *,
    names: frozenset[str] = host_names(),
    reachable: bool = False,
    local_token: str = "",
    limits: RequestLimits = LIMITS,
    embedders: Mapping[str, Factory] | None = None,
    group: Group | None = None,
) -> FastAPI:
    """Return the application that answers from a memory; the caller opens and closes the memory.

    Args:
        memory: opened with `SERVER_SETTINGS`, as a background thread syncs and embeds.
        names: the host names that the server answers to.
        reachable: whether other machines can reach the server.
        local_token: the token of the owner; with it, nobody gets in without a token.
        limits: of size, time and number of requests.
        embedders: makers of providers, shared by the memories of vector stores.
        group: the workers of this server, if it has several.

    """
    background = Background(memory, lambda event: log.info("%s", event), group)
    endpoint = McpEndpoint()
    folder = group.folder if group else None
    counters = ViewerMetrics(folder, memory.settings.tenants.named_in_metrics)
    running = RunningRequests()
    files = files_routes.Files(memory.home, RecordDatabase(memory.home))
    tenants = TenantMemories(memory, memory.settings.tenants, files.stored_bytes)
    stores = VectorStores(memory.home, files)
    indexer = Indexer(stores, memory, embedders, group)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with background, tenants, indexer, HookServer(memory), counters:
            async with endpoint.run():
                yield
                await running.wait_until_done()

    # Without the documentation pages: they load scripts from other servers. There is /openapi.json.
    app = FastAPI(
        title="memwell",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.memory, app.state.background, app.state.metrics = memory, background, counters
    app.state.reachable, app.state.tenants = reachable, tenants
    app.state.tokens = Tokens(memory.home, local_token, memory.viewer)
    app.state.files, app.state.stores, app.state.indexer = files, stores, indexer
    app.state.search_threads = CapacityLimiter(SEARCH_THREADS)
    app.state.embedding_models = embeddings.EmbeddingModels(memory, embedders)
    add_error_handlers(app)
    add_not_found_page(app)
    for module in (files_routes, vector_stores, store_files):
        app.include_router(module.router, dependencies=[Depends(require_space)])
    web = (pages, note_pages, fact_pages, map_pages, system_pages)
    for module in (api, embeddings, metrics, login, *web):
        app.include_router(module.router)
    requests = TenantRequests(memory.settings.tenants, group)
    app.router.routes.append(Route(MCP_PATH, endpoint, include_in_schema=False))
    app.add_middleware(LimitsMiddleware, limits=limits, running=running, tenants=requests)
    app.add_middleware(
        GuardMiddleware,
        tokens=app.state.tokens,
        names=names,
        reachable=reachable,
        tenants=requests,
        proxy_secret=memory.settings.tenants.proxy_secret,
    )
    app.add_middleware(MetricsMiddleware, metrics=app.state.metrics)
    if memory.settings.tenants.audit:
        app.add_middleware(AuditMiddleware, file=memory.home / AUDIT_FILE)
    return app
