"""Lists in pages, as OpenAI's interface has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field

from memwell.surfaces.openai.schemas import FileId, Owned, Page

R = TypeVar("R", bound=Owned)


class PageRequest(BaseModel):
    """Which part of a list is asked for."""

    limit: Annotated[int, Field(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"
    after: FileId | None = None
    before: FileId | None = None


def page(
    records: Iterable[R],
    request: PageRequest,
    to_response: Callable[[R], Any] = lambda record: record,
) -> Any:
    """Return the requested part of a list.

    Ids are in the order of time, so the next page is right even if the object that `after` names
    was deleted meanwhile.
    """
    by_id = {record.id: record for record in records}
    first, last = request.after or "", request.before or "~"
    if request.order == "desc":
        first, last = request.before or "", request.after or "~"
    ids = sorted((id for id in by_id if first < id < last), reverse=request.order == "desc")
    # `before` asks for the ids directly before it, not for the first ones of the list.
    chosen = ids[-request.limit :] if request.before else ids[: request.limit]
    return Page(
        data=[to_response(by_id[id]) for id in chosen],
        first_id=chosen[0] if chosen else None,
        last_id=chosen[-1] if chosen else None,
        has_more=len(ids) > len(chosen),
    )
