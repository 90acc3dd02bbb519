"""The views for finding something: the first view, search, timeline. Other modules have the rest.

The script requests parts of views.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse

from memwell.errors import NotFoundError
from memwell.memory import Memory
from memwell.model import SearchResult
from memwell.store.contract.values import FactFilter
from memwell.surfaces.http.viewer import ViewerMemory
from memwell.surfaces.web.home import describe_home
from memwell.surfaces.web.languages import COOKIE, LANGUAGES
from memwell.surfaces.web.render import HERE, PageRoute, page
from memwell.surfaces.web.timeline import heat_map, list_events

_HITS = 20
_MOST_HITS = 200
_FACETS = 6
_STATIC = ("memwell.css", "memwell.js", "map.js", "memwell.svg")
_FILTER = re.compile(r"(?<!\S)-?(?:path|tag|after|before):(?:\"[^\"]*\"|[^\s()\"]+)")
_YEAR_SECONDS = 365 * 24 * 3600

HitCount = Annotated[int, Query(ge=1, le=_MOST_HITS)]

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


@router.get("/language")
def language(to: str, back: str = "/") -> RedirectResponse:
    """Show the page in another language from now on."""
    is_here = re.match(r"/(?![/\\])", back) is not None
    answer = RedirectResponse(back if is_here else "/", 303)
    if to in LANGUAGES:
        answer.set_cookie(COOKIE, to, max_age=_YEAR_SECONDS, samesite="strict")
    return answer


# -- searching -------------------------------------------------------------------------------------


@router.get("/")
def search(
    request: Request, memory: ViewerMemory, q: str = "", kind: str = "", k: HitCount = _HITS
) -> HTMLResponse:
    """Show the search form with the hits of a query, or the first view."""
    return page(request, "search.html", **_search_values(memory, q, kind, k))


@router.get("/hits")
def hits(
    request: Request, memory: ViewerMemory, q: str = "", kind: str = "", k: HitCount = _HITS
) -> HTMLResponse:
    """Show the hits alone; the script puts them below the form."""
    return page(request, "_hits.html", **_search_values(memory, q, kind, k))


def _search_values(memory: Memory, query: str, kind: str, k: int) -> dict[str, Any]:
    values: dict[str, Any] = {"query": query, "kind": kind, "result": None, "home": None}
    if not query.strip():
        return {**values, "home": describe_home(memory)}
    begun = time.perf_counter()
    result = memory.search(query, k=k, kind=kind or None, explain=True)
    elapsed = time.perf_counter() - begun

    def address(new_query: str, count: int = _HITS) -> str:
        fields = {"q": new_query, "kind": kind, **({"k": count} if count != _HITS else {})}
        return f"/?{urlencode(fields)}"

    more = address(query, min(2 * k, _MOST_HITS)) if len(result.hits) == k < _MOST_HITS else ""
    without = {text: _cut_out(query, text) for text in _FILTER.findall(query)}
    return {
        **values,
        "result": result,
        "milliseconds": round(1000 * elapsed),
        "more": more,
        "filters": [(text, address(rest)) for text, rest in without.items()],
        "facets": [
            (text, count, address(f"{query} {text}")) for text, count in _facets(result, query)
        ],
    }


def _cut_out(query: str, part: str) -> str:
    return " ".join(query.replace(part, " ", 1).split())


def _facets(result: SearchResult, query: str) -> list[tuple[str, int]]:
    """Return filters that would keep some of the hits, the most useful first."""
    notes = [hit for hit in result.hits if hit.kind == "note"]
    counts = Counter(f"path:{hit.path.split('/')[0]}/" for hit in notes if "/" in hit.path)
    counts += Counter(f"tag:{tag}" for hit in notes for tag in hit.tags)
    return [
        (text, count)
        for text, count in counts.most_common()
        if count < len(notes) and text not in query and _FILTER.fullmatch(text)
    ][:_FACETS]


@router.get("/why")
def why(request: Request, memory: ViewerMemory, q: str, path: str) -> HTMLResponse:
    """Explain why a note is or is not among the hits."""
    return page(request, "why.html", query=q, why=memory.why(q, path.strip(), k=_HITS))


# -- the timeline ----------------------------------------------------------------------------------


@router.get("/timeline")
def timeline(request: Request, memory: ViewerMemory, year: str | None = None) -> HTMLResponse:
    """Show notes and facts by date, a year at a time."""
    notes, facts = memory.contents.notes(), memory.facts.find(FactFilter())
    days = [(note.date or "")[:10] for note in notes] + [fact.created_at[:10] for fact in facts]
    years = sorted({day[:4] for day in days}, reverse=True)
    chosen = year if year in years else next(iter(years), "")
    events = list_events(
        memory,
        [note for note in notes if (note.date or "")[:4] == chosen],
        [fact for fact in facts if fact.created_at[:4] == chosen],
    )
    heat = heat_map(int(chosen), days) if chosen.isdigit() and int(chosen) else []
    return page(
        request,
        "timeline.html",
        years=years,
        year=chosen,
        events=events,
        heat=heat,
        days={event.day for event in events},
    )
