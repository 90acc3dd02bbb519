"""Filters on the attributes of files, as OpenAI's interface writes them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from memwell.surfaces.openai.schemas import Key, Value

_ORDERED: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


class Comparison(BaseModel):
    """One attribute against a value, or several of them."""

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
    key: Key
    value: Value | Annotated[list[Value], Field(max_length=1000)]

    def fits(self, attributes: Mapping[str, Value]) -> bool:
        """Whether attributes are as they should be; one that is missing is unlike any value."""
        held = attributes.get(self.key)
        if self.type in ("eq", "in"):
            return self._is_one(held)
        if self.type in ("ne", "nin"):
            return not self._is_one(held)
        if isinstance(held, bool) or _kind(held) != _kind(self.value):
            return False
        return _ORDERED[self.type](held, self.value)

    def _is_one(self, held: Value | None) -> bool:
        wanted = self.value if isinstance(self.value, list) else [self.value]
        return any(_kind(held) == _kind(one) and held == one for one in wanted)


class Compound(BaseModel):
    """All of some filters, or any of them."""

    type: Literal["and", "or"]
    filters: Annotated[list[Filter], Field(max_length=100)]

    def fits(self, attributes: Mapping[str, Value]) -> bool:
        """Whether attributes are as they should be."""
        every = all if self.type == "and" else any
        return every(part.fits(attributes) for part in self.filters)


Filter = Annotated[Comparison | Compound, Field(discriminator="type")]
Compound.model_rebuild()


def _kind(value: object) -> type:
    """What a value can be compared with: true is not 1, though Python takes it for that."""
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)
