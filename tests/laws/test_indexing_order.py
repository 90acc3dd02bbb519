"""The same notes give the same answers, in whatever order they were indexed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from memwell import Memory
from memwell.config.fields import Value
from tests.conftest import EXAMPLES
from tests.postgres.test_same_answers import cases

_STEP = 15
"""Notes that are indexed at a time."""


@pytest.fixture(scope="module")
def memories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Memory, Memory]]:
    """The example notes in two orders; the second also had notes that are gone or were moved."""
    folder = tmp_path_factory.mktemp("orders")
    settings: dict[str, Value] = {"embedding.chain": ("test",), "sync.on_search": False}
    notes = sorted(path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("*.md"))
    with (
        Memory(folder / "one", settings=settings) as one,
        Memory(folder / "other", settings=settings) as other,
    ):
        _index(one, folder / "a", notes)
        random.Random(3).shuffle(notes)
        (folder / "b").mkdir()
        (folder / "b" / "gone.md").write_text("A note about the standup and the cat.\n" * 30)
        (folder / "b" / "before.md").write_bytes((EXAMPLES / notes[0]).read_bytes())
        _index(other, folder / "b", notes)
        (folder / "b" / "gone.md").unlink()
        (folder / "b" / "before.md").unlink()
        other.index(folder / "b")
        yield one, other


def _index(memory: Memory, folder: Path, notes: list[Path]) -> None:
    for start in range(0, len(notes), _STEP):
        for note in notes[start : start + _STEP]:
            (folder / note).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(EXAMPLES / note, folder / note)
        memory.index(folder)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "differ"), [("hybrid", 1e-6), ("words", 1e-9)])
def test_two_orders_of_indexing_give_the_same_answers(
    memories: tuple[Memory, Memory], mode: str, differ: float
) -> None:
    """Cosines are of float32 and differ by rounding, with the place of a vector in memory."""
    asked = cases()
    assert len(asked) >= 500
    for query in asked:
        one, other = (memory.search(query, mode=mode).hits for memory in memories)
        assert [(hit.path, hit.start_line) for hit in one] == [
            (hit.path, hit.start_line) for hit in other
        ], query
        assert [hit.score for hit in other] == pytest.approx([hit.score for hit in one], abs=differ)
