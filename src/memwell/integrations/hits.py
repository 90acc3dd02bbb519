"""A hit as frameworks want it: a text with metadata."""

from __future__ import annotations

from typing import Any

from memwell.model import Hit


def hit_metadata(hit: Hit) -> dict[str, Any]:
    """Return the place, date and score of a hit; `Memory.get` reads the citation of a note."""
    place = f"fact:{hit.path}" if hit.kind == "fact" else hit.cite(hit.path)
    fields = {
        "citation": place,
        "source": hit.path,
        "kind": hit.kind,
        "title": hit.title,
        "heading": " > ".join(hit.heading),
        "date": hit.date,
        "score": round(hit.score, 4),
    }
    return {name: value for name, value in fields.items() if value not in (None, "")}
