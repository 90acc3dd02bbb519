"""Why the filters of a query match nothing: the first that no note satisfies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from memwell.search.time_filter import ANY_DATE
from memwell.store.contract.index import Reader
from memwell.store.contract.query import Filters


def explain_filters(filters: Filters, reader: Reader) -> Iterator[str]:
    """Yield a notice, if the filters of a query match no note."""
    if not filters.selects_content or reader.chunks.list_filtered(filters, 1):
        return
    single = [(f"path:{glob} matches no note", Filters((glob,))) for glob in filters.paths]
    single += [(f"No note has the tag {tag}", Filters(tags=(tag,))) for tag in filters.tags]
    if filters.after or filters.before:
        no_date = "No note has a date, so after: and before: match nothing (see scan.date)"
        single.append((no_date, Filters(after=ANY_DATE)))
        for name, date in (("after", filters.after), ("before", filters.before)):
            one = Filters(after=date) if name == "after" else Filters(before=date)
            single += [(f"No note is dated {name} {date}", one)] if date else []
    unmet = [
        notice
        for notice, one in single
        if not reader.chunks.list_filtered(replace(one, workspaces=filters.workspaces), 1)
    ]
    yield unmet[0] if unmet else "No note matches all the filters"
