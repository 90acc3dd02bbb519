"""Objects kept as small JSON files, each written whole or not at all, and lists of them."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from fastapi import Query
from pydantic import BaseModel, Field

from memwell.errors import NotFoundError
from memwell.files import make_private_folder, private_file
from memwell.surfaces.openai.schemas import FileId, Owned, Page

_ID = re.compile(r"[a-z]{2,4}[-_][0-9a-f]{28}")
"""What an id looks like. It names a file: nothing else may."""

R = TypeVar("R", bound=Owned)


def new_id(prefix: str) -> str:
    """Return an id; one that is made later is greater."""
    return f"{prefix}{time.time_ns():016x}{secrets.token_hex(6)}"


def now() -> int:
    """Return the time in seconds, as it is shown."""
    return int(time.time())


class Records(Generic[R]):
    """The objects of one kind in a folder."""

    def __init__(self, folder: Path, kind: type[R]) -> None:
        self._folder = folder
        self._kind = kind

    def get(self, wanted: str, owner: str) -> R:
        """Return an object of an owner; those of others are as if they were not there."""
        found = self.find(wanted)
        if found is None or found.owner != owner:
            name = wanted.encode("utf-8", "replace").decode()[:80]
            raise NotFoundError(f"There is no {name!r} here", "List what there is")
        return found

    def find(self, wanted: str) -> R | None:
        """Return an object, whoever owns it, if it is there."""
        if not _ID.fullmatch(wanted):
            return None
        try:
            return self._kind.model_validate_json(self._file(wanted).read_bytes())
        except FileNotFoundError:
            return None

    def put(self, record: R) -> R:
        """Keep an object, in place of what was kept of it."""
        make_private_folder(self._folder)
        with private_file(self._file(record.id)) as part:
            part.write_text(record.model_dump_json(), encoding="utf-8")
        return record

    def remove(self, wanted: str) -> None:
        """Keep an object no longer."""
        self._file(wanted).unlink(missing_ok=True)

    def ids(self) -> list[str]:
        """Return the ids of all objects."""
        return [file.stem for file in self._folder.glob("*.json") if _ID.fullmatch(file.stem)]

    def __iter__(self) -> Iterator[R]:
        found = (self.find(one) for one in self.ids())
        return (record for record in found if record is not None)

    def of(self, owner: str) -> list[R]:
        """Return the objects of an owner."""
        return [record for record in self if record.owner == owner]

    def _file(self, wanted: str) -> Path:
        return self._folder / f"{wanted}.json"


class PageRequest(BaseModel):
    """Which part of a list is asked for."""

    limit: Annotated[int, Field(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"
    after: FileId | None = None
    before: FileId | None = None


Asked = Annotated[PageRequest, Query()]


def page(
    records: Iterable[R], asked: PageRequest, shown: Callable[[R], Any] = lambda kept: kept
) -> Any:
    """Return the part of a list that is asked for, each object as it is shown.

    Ids are in the order of time, so that a list goes on after one that was deleted meanwhile.
    """
    found = {record.id: record for record in records}
    first, last = asked.after or "", asked.before or "~"
    if asked.order == "desc":
        first, last = asked.before or "", asked.after or "~"
    ids = sorted((one for one in found if first < one < last), reverse=asked.order == "desc")
    # Those right before one, not the first of all.
    chosen = ids[-asked.limit :] if asked.before else ids[: asked.limit]
    return Page(
        data=[shown(found[one]) for one in chosen],
        first_id=chosen[0] if chosen else None,
        last_id=chosen[-1] if chosen else None,
        has_more=len(ids) > len(chosen),
    )
