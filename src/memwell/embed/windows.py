"""Windows: the parts of a long text that one vector covers each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

from memwell.token_estimate import count_tokens

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

T = TypeVar("T", bound=Sequence[object])

_REPEATED = 4
"""A quarter of a window is repeated in the next one, so that no sentence is cut in both."""


def windows(items: T, length: int) -> list[T]:
    """Cut a sequence into windows of at most `length`; each repeats the end of the previous one."""
    stride = length - length // _REPEATED
    starts = range(0, max(1, len(items) - length + stride), stride)
    return [items[start : start + length] for start in starts]  # type: ignore[misc]


def text_windows(text: str, tokens: int) -> list[str]:
    """Cut a text into windows of about `tokens`, for a model whose tokenizer is not available."""
    estimate = count_tokens(text)
    if estimate <= tokens:
        return [text]
    return windows(text, max(1, len(text) * tokens // estimate))


def split_rows(rows: Matrix, counts: Sequence[int]) -> list[Matrix]:
    """Divide the vectors of many windows among their texts."""
    ends = accumulate(counts)
    return [rows[end - count : end] for end, count in zip(ends, counts, strict=True)]


def empty_rows(dimensions: int) -> Matrix:
    """Return a matrix without rows, for a text without vectors."""
    import numpy as np

    return np.zeros((0, dimensions), dtype=np.float32)
