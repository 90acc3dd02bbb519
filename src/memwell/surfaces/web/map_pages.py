"""The views of the map: the picture, its points for the script, and the same as a list."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse

from memwell.memory import Memory
from memwell.store.contract.values import MapPoint
from memwell.surfaces.http.viewer import ViewerMemory
from memwell.surfaces.web.map import MOST_POINTS, Region, find_regions
from memwell.surfaces.web.region_names import name_regions
from memwell.surfaces.web.render import PageRoute, page
from memwell.surfaces.web.views import fact_link, hit_link, note_link

_READ = 40
"""Passages near the centre of a region from which its name is taken."""
_HITS = 50
_WEAK_HITS = 10
_CACHED = 2

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/map")
def map_page(request: Request, q: str = "") -> HTMLResponse:
    """Show an empty map; the script draws it."""
    return page(request, "map.html", query=q)


@router.get("/map/regions")
def map_regions(request: Request, memory: ViewerMemory, part: bool = False) -> HTMLResponse:
    """Show the map as a list."""
    template = "_regions.html" if part else "regions.html"
    shown = [(name, _notes_of(region)) for name, region in _named_regions(memory)]
    return page(request, template, regions=shown)


@router.get("/map/points")
def map_points(memory: ViewerMemory) -> JSONResponse:
    """Send the points that the script draws."""
    dates = {(note.path, note.workspace): note.date or "" for note in memory.contents.notes()}
    named = _named_regions(memory)
    return JSONResponse(
        {
            "regions": [[name, region.x, region.y] for name, region in named],
            "points": [
                [
                    round(x, 4),
                    round(y, 4),
                    number,
                    point.title,
                    _link(point),
                    _folder(point),
                    dates.get((point.path, point.workspace), "")[:10],
                ]
                for number, (_, region) in enumerate(named)
                for point, (x, y) in zip(region.passages, region.positions.tolist(), strict=True)
            ],
        }
    )


@router.get("/map/hits")
def map_hits(memory: ViewerMemory, q: str) -> JSONResponse:
    """Send the addresses of the passages that answer a query; the script highlights them."""
    if not q.strip():
        return JSONResponse([])
    hits = memory.search(q, k=_HITS, group="passages").hits
    strong = [hit for hit in hits if not hit.weak] or hits[:_WEAK_HITS]
    return JSONResponse([hit_link(hit) for hit in strong])


class _NameCache:
    """Keeps the names of the last maps: reading passages takes longer than drawing."""

    def __init__(self) -> None:
        self._kept: list[tuple[tuple[Region, ...], list[str]]] = []

    def names(self, memory: Memory, regions: tuple[Region, ...]) -> list[str]:
        """Return the names of regions; `find_regions` returns the same object for the same map."""
        for known, names in self._kept:
            if known is regions:
                return names
        titles = [region.passages[0].title for region in regions]
        texts = [_read_passages(memory, region.passages[:_READ]) for region in regions]
        names = name_regions(texts, titles)
        self._kept = [(regions, names), *self._kept][:_CACHED]
        return names


_NAMES = _NameCache()


def _named_regions(memory: Memory) -> list[tuple[str, Region]]:
    points, vectors = memory.contents.sample_with_vectors(MOST_POINTS)
    regions = find_regions(tuple(points), vectors.tobytes())
    return [*zip(_NAMES.names(memory, regions), regions, strict=True)]


def _read_passages(memory: Memory, points: Sequence[MapPoint]) -> list[str]:
    """Return the texts of passages with their titles."""
    places = [(point.path, point.workspace, point.start_line) for point in points]
    texts = memory.contents.texts(places)
    return [f"{point.title}\n{text}" for point, text in zip(points, texts, strict=True)]


def _notes_of(region: Region) -> list[tuple[str, str]]:
    """Return the titles and links of a region's notes, each once, from its centre outwards."""
    notes = {(point.path, point.workspace): point for point in reversed(region.passages)}
    return [(point.title, _link(point)) for point in reversed(notes.values())]


def _folder(point: MapPoint) -> str:
    if point.kind == "fact":
        return "facts"
    folder, slash, _ = point.path.partition("/")
    return folder if slash else "."


def _link(point: MapPoint) -> str:
    if point.kind == "fact":
        return fact_link(point.path)
    return note_link(point.path, point.workspace, point.start_line)
