"""The views of a memory: search, notes, timeline, map, spaces, evaluation. None changes anything.

Those of facts are in fact_pages.py. What the script asks for is a part of a view.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse

from memwell.errors import NotFoundError
from memwell.memory import Memory
from memwell.store.sqlite.facts import FactFilter
from memwell.surfaces.web import fact_pages, views
from memwell.surfaces.web.map import MOST_POINTS, Region, find_regions
from memwell.surfaces.web.render import HERE, PageMemory, PageRoute, page

_HITS = 20
_REPORT = "evaluation.html"
_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
_STATIC = ("memwell.css", "memwell.js", "memwell.svg")

_pages = APIRouter(route_class=PageRoute, include_in_schema=False)


def routes(memory_of: Callable[[Request], Memory]) -> APIRouter:
    """Return the page; `memory_of` says which memory a request is about, as seen by whom."""

    def look_into(request: Request) -> None:
        request.state.memory = memory_of(request)

    router = APIRouter(dependencies=[Depends(look_into)])
    router.include_router(_pages)
    router.include_router(fact_pages.router)
    return router


@_pages.get("/favicon.ico")
def icon() -> FileResponse:
    """Send the sign of the page to those who ask where it usually is."""
    return static("memwell.svg")


@_pages.get("/static/{name}")
def static(name: str) -> FileResponse:
    """Send a file of the page."""
    if name not in _STATIC:
        raise NotFoundError(f"There is no file {name!r}")
    return FileResponse(HERE / "static" / name, headers={"Cache-Control": "no-cache"})


# -- searching -------------------------------------------------------------------------------------


@_pages.get("/")
def search(request: Request, memory: PageMemory, q: str = "", kind: str = "") -> HTMLResponse:
    """Show the form and, where something is asked, what is found."""
    return page(request, "search.html", **_search_values(memory, q, kind))


@_pages.get("/hits")
def hits(request: Request, memory: PageMemory, q: str = "", kind: str = "") -> HTMLResponse:
    """Show what is found, for the form that is there already."""
    return page(request, "_hits.html", **_search_values(memory, q, kind))


def _search_values(memory: Memory, query: str, kind: str) -> dict[str, Any]:
    asked = {"query": query, "kind": kind}
    if not query.strip():
        return asked | {"result": None, "hits": []}
    result = memory.search(query, k=_HITS, kind=kind or None, explain=True)
    return asked | {"result": result, "hits": views.to_shown_hits(result)}


@_pages.get("/why")
def why(request: Request, memory: PageMemory, q: str, path: str) -> HTMLResponse:
    """Say why a note is, or is not, among the hits."""
    found = memory.why(q, path.strip(), k=_HITS)
    bar = views.score_bar(found.trace) if found.trace else []
    explained = views.explain_score(found.trace) if found.trace else []
    return page(request, "why.html", query=q, why=found, bar=bar, explained=explained)


# -- looking around --------------------------------------------------------------------------------


@_pages.get("/note")
def note(request: Request, memory: PageMemory, path: str, workspace: str = "") -> HTMLResponse:
    """Show a note, passage by passage."""
    listed = views.find_note(memory, path, workspace)
    chunks = memory.contents.chunks(listed.path, listed.workspace)
    return page(request, "note.html", note=listed, chunks=chunks)


@_pages.get("/timeline")
def timeline(request: Request, memory: PageMemory, year: str | None = None) -> HTMLResponse:
    """Show notes and facts by date, a year at a time."""
    events = views.timeline_events(memory.contents.notes(), memory.facts.find(FactFilter()))
    years = [*dict.fromkeys(event.day[:4] for event in events)]
    chosen = year if year in years else next(iter(years), "")
    days = views.group_by_day(event for event in events if event.day[:4] == chosen)
    return page(request, "timeline.html", years=years, year=chosen, days=days)


@_pages.get("/map")
def map_page(request: Request) -> HTMLResponse:
    """Show the frame of the map, which the script fills."""
    return page(request, "map.html")


@_pages.get("/map/regions")
def map_regions(request: Request, memory: PageMemory, part: bool = False) -> HTMLResponse:
    """Show the map as a list."""
    template = "_regions.html" if part else "regions.html"
    shown = [(region, views.notes_of(region)) for region in _regions(memory)]
    return page(request, template, regions=shown)


@_pages.get("/map/points")
def map_points(memory: PageMemory) -> JSONResponse:
    """Send what the script draws."""
    return JSONResponse(views.map_drawing(_regions(memory)))


def _regions(memory: Memory) -> tuple[Region, ...]:
    spots, vectors = memory.contents.sample_with_vectors(MOST_POINTS)
    return find_regions(tuple(spots), vectors.tobytes())


# -- the machinery ---------------------------------------------------------------------------------


@_pages.get("/spaces")
def spaces(request: Request, memory: PageMemory, part: bool = False) -> HTMLResponse:
    """Show the vector spaces and how full they are."""
    return page(request, "_spaces.html" if part else "spaces.html", spaces=memory.spaces())


@_pages.get("/evaluation")
def evaluation(request: Request, memory: PageMemory) -> HTMLResponse:
    """Say whether there is a report, and how to make one."""
    file = memory.home / _REPORT
    written = dt.datetime.fromtimestamp(file.stat().st_mtime) if file.is_file() else None
    return page(request, "evaluation.html", file=file, written=written)


@_pages.get("/evaluation/report")
def report(memory: PageMemory) -> FileResponse:
    """Send the report that `memwell eval --html` wrote, which needs its own styles."""
    file = memory.home / _REPORT
    if not file.is_file():
        raise NotFoundError(f"There is no report {file}", f"memwell eval cases.yaml --html {file}")
    return FileResponse(file, headers={"Content-Security-Policy": _REPORT_POLICY})
