"""The views of a memory that only read: search, notes, timeline, map, spaces, evaluation.

The views of facts are in fact_pages.py. The script requests parts of views.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse

from memwell.errors import NotFoundError
from memwell.memory import Memory
from memwell.store.contract.values import FactFilter
from memwell.surfaces.http.viewer import ViewerMemory
from memwell.surfaces.web import views
from memwell.surfaces.web.map import MOST_POINTS, Region, find_regions
from memwell.surfaces.web.render import HERE, PageRoute, page

_HITS = 20
_REPORT = "evaluation.html"
_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
_STATIC = ("memwell.css", "memwell.js", "memwell.svg")

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/favicon.ico")
def icon() -> FileResponse:
    """Send the icon to browsers that request it at the usual address."""
    return static("memwell.svg")


@router.get("/static/{name}")
def static(name: str) -> FileResponse:
    """Send a style sheet, script or icon."""
    if name not in _STATIC:
        raise NotFoundError(f"There is no file {name!r}", f"The files are {', '.join(_STATIC)}")
    return FileResponse(HERE / "static" / name, headers={"Cache-Control": "no-cache"})


# -- searching -------------------------------------------------------------------------------------


@router.get("/")
def search(request: Request, memory: ViewerMemory, q: str = "", kind: str = "") -> HTMLResponse:
    """Show the search form and, if there is a query, its hits."""
    return page(request, "search.html", **_search_values(memory, q, kind))


@router.get("/hits")
def hits(request: Request, memory: ViewerMemory, q: str = "", kind: str = "") -> HTMLResponse:
    """Show the hits alone; the script puts them below the form."""
    return page(request, "_hits.html", **_search_values(memory, q, kind))


def _search_values(memory: Memory, query: str, kind: str) -> dict[str, Any]:
    result = None
    if query.strip():
        result = memory.search(query, k=_HITS, kind=kind or None, explain=True)
    return {"query": query, "kind": kind, "result": result}


@router.get("/why")
def why(request: Request, memory: ViewerMemory, q: str, path: str) -> HTMLResponse:
    """Explain why a note is or is not among the hits."""
    return page(request, "why.html", query=q, why=memory.why(q, path.strip(), k=_HITS))


# -- browsing --------------------------------------------------------------------------------------


@router.get("/note")
def note_page(
    request: Request, memory: ViewerMemory, path: str, workspace: str = ""
) -> HTMLResponse:
    """Show a note, passage by passage."""
    note = views.find_note(memory, path, workspace)
    chunks = memory.contents.chunks(note.path, note.workspace)
    return page(request, "note.html", note=note, chunks=chunks)


@router.get("/timeline")
def timeline(request: Request, memory: ViewerMemory, year: str | None = None) -> HTMLResponse:
    """Show notes and facts by date, a year at a time."""
    events = views.timeline_events(memory.contents.notes(), memory.facts.find(FactFilter()))
    years = [*dict.fromkeys(event.day[:4] for event in events)]
    chosen = year if year in years else next(iter(years), "")
    shown = [event for event in events if event.day[:4] == chosen]
    return page(request, "timeline.html", years=years, year=chosen, events=shown)


@router.get("/map")
def map_page(request: Request) -> HTMLResponse:
    """Show an empty map; the script draws it."""
    return page(request, "map.html")


@router.get("/map/regions")
def map_regions(request: Request, memory: ViewerMemory, part: bool = False) -> HTMLResponse:
    """Show the map as a list."""
    template = "_regions.html" if part else "regions.html"
    shown = [(region, views.notes_of(region)) for region in _regions(memory)]
    return page(request, template, regions=shown)


@router.get("/map/points")
def map_points(memory: ViewerMemory) -> JSONResponse:
    """Send the points that the script draws."""
    return JSONResponse(views.map_drawing(_regions(memory)))


def _regions(memory: Memory) -> tuple[Region, ...]:
    points, vectors = memory.contents.sample_with_vectors(MOST_POINTS)
    return find_regions(tuple(points), vectors.tobytes())


# -- vector spaces and evaluation ------------------------------------------------------------------


@router.get("/spaces")
def spaces(request: Request, memory: ViewerMemory, part: bool = False) -> HTMLResponse:
    """Show the vector spaces and their progress."""
    return page(request, "_spaces.html" if part else "spaces.html", spaces=memory.spaces())


@router.get("/evaluation")
def evaluation(request: Request, memory: ViewerMemory) -> HTMLResponse:
    """Show whether there is a report, and how to make one."""
    file = memory.home / _REPORT
    written = dt.datetime.fromtimestamp(file.stat().st_mtime) if file.is_file() else None
    return page(request, "evaluation.html", file=file, written=written)


@router.get("/evaluation/report")
def report(memory: ViewerMemory) -> FileResponse:
    """Send the report of `memwell eval --html`; it contains its own styles."""
    file = memory.home / _REPORT
    if not file.is_file():
        raise NotFoundError(
            f"There is no report {file}", f"Run `memwell eval cases.yaml --html {file}`"
        )
    return FileResponse(file, headers={"Content-Security-Policy": _REPORT_POLICY})
