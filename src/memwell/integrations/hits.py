"""A hit as frameworks want it: a text with metadata."""

from __future__ import annotations

from typing import Any

from memwell.model import Hit, cite_lines


def hit_metadata(hit: Hit) -> dict[str, Any]:
    """Return the place, date and score of a hit; `Memory.get` reads the citation of a note."""
    is_fact = hit.kind == "fact"
    place = f"fact:{hit.path}" if is_fact else cite_lines(hit.path, hit.start_line, hit.end_line)
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
