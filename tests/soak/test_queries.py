"""Random queries, by a grammar and of random characters: each is answered."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from memwell import Memory, MemwellError
from memwell.surfaces.background import SERVER_SETTINGS
from tests.soak.conftest import print_figures, sizes

NOTES = {
    "cat.md": "---\ntags: [pets, home]\ndate: 2026-01-07\n---\n# Pets\n\nThe cat is named Miso.",
    "runbooks/nginx.md": "# ERR_NGX_502\n\nRestart `nginx` and call bm25RankToScore(x1, 2.5).",
    "work/会议.md": "# 会议记录\n\n数据库什么时候迁移？ 下周三下午。 #会议",
    "ภาษา.md": "ภาษาไทยไม่มีช่องว่าง\n\nहिन्दी में भी।",
    "list.md": "- milk\n- eggs (6)\n- [ ] bread\n\n| a | b |\n|---|---|\n| 1 | zebra |\n",
    "links.md": "See [[cat]] and [the runbook](runbooks/nginx.md). Café naïve coöperate.",
}
WORDS = [
    *(
        "cat",
        "the",
        "Miso",
        "会议",
        "猫",
        "ภาษา",
        "हिन्दी",
        "nginx",
        "x1",
        "a_b.c",
        "camelCase",
        "2.5",
    ),
    *(
        "ERR_NGX_502",
        "café",
        "e\u0301",
        "🐈",
        "I'm",
        "C++",
        "rank",
        "content",
        "v1.2-rc",
        "a" * 300,
    ),
    *("yesterday", "last", "week", "since", "January", "2026-01-07", "im März", "先週", "--help"),
]
FILTERS = [
    "path:",
    "tag:",
    "after:",
    "before:",
    "-path:",
    "-tag:",
    "content:",
    "NEAR(",
    "^",
    "{a b}",
]
VALUES = [
    "*",
    "work/**",
    '"a b"',
    "2026",
    "2026-13-45",
    "yesterday",
    "pets",
    "../x",
    "[",
    "",
    "%",
    "'",
]
JOINTS = [" ", " ", " ", " AND ", " OR ", " NOT ", "", "  ", "\n", "\t", " -", "\0", ", ", ":"]
ODD = [
    *(
        "\ud800",
        "\U000e0001",
        "\u202e",
        "\ufeff",
        "\u200d",
        "\uffff",
        "ﷺ",
        "İ",
        "ß",
        "ſ",
        "\x1b[2J",
    ),
    *(
        '"',
        "''",
        ";",
        "--",
        "\\",
        "%00",
        "${HOME}",
        "<b>",
        "*",
        "(",
        ")",
        "))",
        "((",
        "?",
        "~",
        "\x7f",
    ),
]
MODES = ["hybrid", "words", "meaning", None]


def grammar_query(chance: random.Random, depth: int = 0) -> str:
    """A query as the grammar has it, now and then broken."""
    parts = []
    for _ in range(chance.choice([1, 1, 2, 3, 5, 12])):
        kind = chance.random()
        if kind < 0.45:
            part = chance.choice(WORDS)
        elif kind < 0.6:
            part = chance.choice(FILTERS) + chance.choice(VALUES)
        elif kind < 0.7:
            part = f'"{chance.choice(WORDS)} {chance.choice(WORDS)}"'
        elif kind < 0.8:
            part = chance.choice(WORDS)[: chance.randint(1, 4)] + "*"
        elif kind < 0.9 and depth < 6:
            part = f"({grammar_query(chance, depth + 1)})"
        else:
            part = chance.choice(ODD)
        parts += [part, chance.choice(JOINTS)]
    query = "".join(parts)
    return query * chance.choice([3, 50, 400]) if chance.random() < 0.002 else query


def random_text(chance: random.Random) -> str:
    """Characters of one script, or of any."""
    start = chance.choice([0, 0, 0x300, 0x600, 0xE00, 0x3040, 0x4E00, 0xAC00, 0x1F300, 0xD7F0])
    width = chance.choice([0x80, 0x800, 0x10000])
    return "".join(chr(start + chance.randrange(width)) for _ in range(chance.randint(0, 40)))


def queries(count: int) -> Iterator[str]:
    for number in range(count):
        chance = random.Random(number)
        yield random_text(chance) if number % 3 == 0 else grammar_query(chance)


@pytest.fixture
def filled(home: Path, workspace: Path) -> Iterator[Memory]:
    for name, text in NOTES.items():
        file = workspace / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    settings = {**SERVER_SETTINGS, "embedding.chain": ("test",)}
    with Memory(settings=settings) as memory:
        memory.index(workspace)
        memory.remember("The cat Miso likes the zebra on Monday.")
        memory.remember("部署在星期一。")
        memory.fill()
        yield memory


@sizes(sample=300, whole=100_000)
def test_any_text_is_a_valid_query(filled: Memory, size: int) -> None:
    figures: Counter[str] = Counter(queries=0, answered=0, hits=0, documented_errors=0)
    for number, query in enumerate(queries(size)):
        figures["queries"] += 1
        try:
            hits = ask(filled, query, number)
        except MemwellError as error:
            figures["documented_errors"] += bool(error.remedy)
        except Exception as error:
            raise AssertionError(f"query {number}: {query!r}") from error
        else:
            figures["answered"] += 1
            figures["hits"] += hits
    assert figures["answered"] + figures["documented_errors"] == size
    assert figures["hits"] > size  # they reach the ranking
    print_figures("queries", **figures)


def ask(memory: Memory, query: str, number: int) -> int:
    """Search with changing options, and now and then recall and explain."""
    explain = number % 50 == 0
    result = memory.search(query, k=3, mode=MODES[number % len(MODES)], explain=explain)
    assert len(result.hits) <= 3
    assert all(0 <= hit.score <= 1 for hit in result.hits)
    if number % 50 == 1:
        memory.recall(query)
    if number % 50 == 2:
        memory.why(query, "cat.md")
    return len(result.hits)
