"""Remote providers under test, the servers that they ask, and the checks that all tests share."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from memwell.embed.base import Embedder
from memwell.embed.gemini import Gemini
from memwell.embed.openai import OpenAI
from memwell.errors import EmbeddingError, WrongAnswer
from tests.support.servers import Server, serving, without_proxies

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

KEY = "sk-not-for-anybodys-eyes-7Q"
PRIVATE = "a note that is nobody's business"
DIMENSIONS = 4


@dataclass(frozen=True)
class Kind:
    """A provider under test."""

    provider: Callable[..., OpenAI | Gemini]
    model: str
    section: str
    variable: str

    def at(
        self, url: str, key: str = KEY, dimensions: int = DIMENSIONS, timeout: float = 5.0
    ) -> Any:
        """Create the provider for the server at an address."""
        return self.provider(
            model=self.model, base_url=url, key=key, dimensions=dimensions, timeout=timeout
        )


OPENAI_KIND = Kind(OpenAI, "text-embedding-3-small", "embedding.openai", "OPENAI_API_KEY")
GEMINI_KIND = Kind(Gemini, "gemini-embedding-001", "embedding.gemini", "GEMINI_API_KEY")


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as started:
        yield started


@pytest.fixture
def other_server() -> Iterator[Server]:
    """Another host, which must not see a key."""
    with serving() as started:
        yield started


@pytest.fixture(params=[OPENAI_KIND, GEMINI_KIND], ids=["openai", "gemini"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kind:
    without_proxies(monkeypatch)
    assert isinstance(request.param, Kind)
    return request.param


def fails(provider: Embedder, expected: type[EmbeddingError], *says: str) -> EmbeddingError:
    """Return the error of a provider; it holds these words, and neither a text nor a key."""
    with pytest.raises(expected) as caught:
        provider.embed_documents([PRIVATE, "bb"])
    assert PRIVATE not in repr(caught.value)
    assert type(caught.value) in (expected, WrongAnswer)
    for words in says:
        assert words in str(caught.value)
    assert_keeps_the_key(caught.value)
    return caught.value


def assert_keeps_the_key(error: BaseException) -> None:
    lines = traceback.TracebackException.from_exception(error, capture_locals=True).format()
    for text in (str(error), repr(error), "".join(lines), *map(str, vars(error).values())):
        assert KEY not in text
        assert KEY[3:] not in text


def same(matrix: Matrix, rows: list[list[float]]) -> bool:
    assert matrix.dtype == np.float32
    return matrix.shape == (len(rows), DIMENSIONS) and np.allclose(matrix, rows, atol=1e-6)


@dataclass
class Clock:
    """A clock that only the sleeps of a test move."""

    now: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
