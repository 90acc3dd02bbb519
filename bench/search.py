"""The processor time of a warm search, step by step, in workspaces of several sizes.

Real notes (til) with the default model, and generated ones with vectors of counted words. The
workspaces and their indexes are kept in the user's cache folder. Each search is measured in a
process that has searched before, as a server has.
"""

from __future__ import annotations

import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import platformdirs

from bench import corpus, data
from bench.measure import temporary_home
from bench.results import Row, at_most
from memwell import Memory
from memwell.embed.onnx_embedder import OnnxEmbedder
from memwell.embed.testing import WordCounts
from memwell.memory.refresh import WorkspaceSync
from memwell.search import pipeline
from memwell.search.highlight import Highlighter
from memwell.search.retrieve import HYBRID, Retrieval

SIZES = {2_000: None, 20_000: None, 100_000: 25.0}
MILLION = {1_000_000: 100.0}
"""Passages, and the most milliseconds that a search among them should take."""
_WORDS_TARGET = 40.0
"""For a search by words alone."""
_TIL_TARGET = 12.0
_NOTES_TARGET = 1.3
_PER_NOTE = 20
_DIMENSIONS = 384
_SEED = 5
_QUESTIONS, _ROUNDS = 40, 5
_FILTER = "path:generated/0* "
_TIL_QUESTIONS = Path(__file__).parent.parent / "tests" / "quality" / "til_questions.jsonl"
_CACHE = Path(platformdirs.user_cache_dir("memwell-bench", appauthor=False)) / "search"

_STEPS: dict[str, tuple[Any, str]] = {
    "settings and workspace": (Memory, "_target_scope"),
    "looking for changes": (WorkspaceSync, "plan_refresh"),
    "embedding the query": (OnnxEmbedder, "embed_query"),
    "keyword search": (Retrieval, "_search_keywords"),
    "vector search": (Retrieval, "_search_vectors"),
    "scores of the other search, neighbours": (Retrieval, "_complete_scores"),
    "fusion and calibration": (Retrieval, "candidates"),
    "texts, near copies": (pipeline, "select_hits"),
    "highlights": (Highlighter, "spans"),
}


class _Clock:
    """The processor time of each step."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)

    def wrap(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            begun = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.spent[step] += time.thread_time() - begun

        return timed


def run() -> list[Row]:
    """Measure til, the number of notes, and passages up to a hundred thousand."""
    rows = _measure_til()
    rows += _measure_notes()
    for size, most in SIZES.items():
        rows += _measure_generated(size, most)
    return rows


def run_million() -> list[Row]:
    """Measure a million passages: 15 minutes the first time, 5 later, and 8 GB of disk."""
    return [row for size, most in MILLION.items() for row in _measure_generated(size, most)]


def _measure_til() -> list[Row]:
    cases = _TIL_QUESTIONS.read_text(encoding="utf-8").splitlines()
    questions = [json.loads(case)["query"] for case in cases]
    with _memory(_CACHE / "til", data.workspace("til"), "memwell") as memory:
        return _rows("til, 2,276 passages", memory, questions, _TIL_TARGET)


def _measure_notes() -> list[Row]:
    """Compare the same passages among 500 notes and among 20,000 short ones."""
    spent = []
    for notes in (500, 20_000):
        folder = _CACHE / f"notes-{notes}"
        _write_notes(folder / "notes", 500, 1, "generated")
        _write_notes(folder / "notes", notes - 500, 1, "other", "# Empty\n\nzzz\n")
        with _memory(folder / "home", folder / "notes", "") as memory:
            total, _ = _measure(memory, questions())
            spent.append(total)
    ratio = spent[1] / spent[0]
    detail = {"500": spent[0], "20000": spent[1]}
    return [Row("20,000 notes / 500 notes", ratio, "times", at_most(_NOTES_TARGET), detail)]


def _measure_generated(size: int, most: float | None) -> list[Row]:
    folder = _CACHE / f"passages-{size}"
    _write_notes(folder / "notes", size // _PER_NOTE, _PER_NOTE, "generated")
    name = f"{size:,} passages"
    with _memory(folder / "home", folder / "notes", "counted") as memory:
        rows = _rows(name, memory, questions(), most)
        filtered, _ = _measure(memory, [f"{_FILTER}{text}" for text in questions()])
        by_words, _ = _measure(memory, questions(), mode="words")
    return [
        *rows,
        Row("  with a filter on paths", filtered, "ms"),
        Row("  by words alone", by_words, "ms", at_most(_WORDS_TARGET)),
    ]


def _rows(name: str, memory: Memory, questions: Sequence[str], most: float | None) -> list[Row]:
    total, steps = _measure(memory, questions)
    others = total - sum(steps.values())
    return [
        Row(f"{name}, hybrid search", total, "ms", at_most(most) if most else None),
        *(Row(f"  {step}", spent, "ms") for step, spent in steps.items()),
        Row("  all else", others, "ms"),
    ]


def _measure(
    memory: Memory, questions: Sequence[str], mode: str = HYBRID
) -> tuple[float, dict[str, float]]:
    """Return the median of the processor time of a search, and the mean of each step, in ms."""
    search = partial(memory.search, mode=mode)
    for question in questions[:5]:
        search(question)
    totals = [_spend(partial(search, question)) for _ in range(_ROUNDS) for question in questions]
    clock = _Clock()
    with ExitStack() as stack:
        for step, (owner, name) in _STEPS.items():
            stack.enter_context(patch.object(owner, name, clock.wrap(step, getattr(owner, name))))
        for question in questions:
            search(question)
    steps = {step: 1000 * spent / len(questions) for step, spent in clock.spent.items()}
    return median(totals), steps


def _spend(action: Callable[[], object]) -> float:
    begun = time.process_time()
    action()
    return 1000 * (time.process_time() - begun)


def questions() -> list[str]:
    """Return some questions of the labelled sets."""
    texts = [case.text for name in corpus.SETS for case in data.labelled_set(name).questions]
    return _sample(texts)


def _sample(texts: list[str]) -> list[str]:
    return random.Random(_SEED).sample(texts, _QUESTIONS)


def _write_notes(folder: Path, notes: int, per_note: int, name: str, text: str = "") -> None:
    """Write generated notes, unless they are there."""
    done = folder.parent / f"{name}-written"
    if done.exists():
        return
    chance = random.Random(_SEED)
    collections = [] if text else [*corpus._collections()]
    for number in range(notes):
        file = folder / name / f"{number // 100:04}" / f"{number:06}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        parts = [chance.choice(collections).sample(chance) for _ in range(0 if text else per_note)]
        sections = [f"# Part {part}\n\n{passage}\n" for part, passage in enumerate(parts)]
        file.write_text(text or "\n".join(sections), encoding="utf-8")
    done.touch()


@contextmanager
def _memory(home: Path, notes: Path, chain: str) -> Iterator[Memory]:
    """Lend a memory of notes, which are indexed and embedded the first time."""
    with (
        temporary_home(chain),
        Memory(
            home,
            workspace=notes,
            embedders={"counted": partial(WordCounts, dimensions=_DIMENSIONS)},
            settings={"sync.cheap_files": 1_000_000},
        ) as memory,
    ):
        if not (home / "agents").exists():
            memory.index(notes)
        memory.search("begin")
        yield memory
