"""Filters on the attributes of files, in the form of OpenAI's interface."""

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


class AttributeFilter(BaseModel):
    """Compares an attribute with a value or a list of values."""

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
    key: Key
    value: Value | Annotated[list[Value], Field(max_length=1000)]

    def matches(self, attributes: Mapping[str, Value]) -> bool:
        """Whether attributes match; a missing attribute differs from every value."""
        value = attributes.get(self.key)
        if self.type in ("eq", "in"):
            return self._is_one_of(value)
        if self.type in ("ne", "nin"):
            return not self._is_one_of(value)
        if isinstance(value, bool) or _kind(value) != _kind(self.value):
            return False
        return _ORDERED[self.type](value, self.value)

    def _is_one_of(self, value: Value | None) -> bool:
        others = self.value if isinstance(self.value, list) else [self.value]
        return any(_kind(value) == _kind(other) and value == other for other in others)


class CompoundFilter(BaseModel):
    """Requires all of its filters, or any of them."""

    type: Literal["and", "or"]
    filters: Annotated[list[Filter], Field(max_length=100)]

    def matches(self, attributes: Mapping[str, Value]) -> bool:
        """Whether attributes match."""
        combine = all if self.type == "and" else any
        return combine(filter.matches(attributes) for filter in self.filters)


Filter = Annotated[AttributeFilter | CompoundFilter, Field(discriminator="type")]
CompoundFilter.model_rebuild()


def _kind(value: object) -> type:
    """Return which values a value can equal: true is not 1, although Python says so."""
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)
