"""Hostile notes, made by Hypothesis: each is indexed, or named with the reason."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from memwell import Memory
from tests.soak.conftest import print_figures, sizes

TOGETHER = 10
"""Notes that are indexed at once: a bad one must not keep the others out."""
ENCODINGS = ["utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "shift-jis"]

WORDS = st.text(max_size=30) | st.sampled_from(["zebra", "会议", "ภาษาไทย", "#tag", "a" * 2_000])
VALUES = st.one_of(
    WORDS,
    st.sampled_from(
        [
            *("2026-13-45", "2026-02-30", "!!python/object:os.system", "&a [*a]", "{<<: {b: c}}"),
            *(
                "[" * 30,
                "{a: " * 30,
                "[a, b",
                '"',
                "0x1F",
                "1e999",
                "~",
                "- -",
                "|",
                ">-",
                "\t",
                "\0",
            ),
            *("!!binary x", "9" * 5_000, "2026-01-01T25:61:00Z", "? a", "[1, " * 50, "'", "%TAG !"),
        ]
    ),
)
KEYS = st.sampled_from(
    ["title", "tags", "date", "aliases", "tag", "a b", "", "0", "__class__", "?", "[x]", "a.b", "é"]
)


@st.composite
def front_matter(draw: st.DrawFn) -> str:
    """YAML, TOML or JSON, often broken; or none."""
    fields = draw(st.lists(st.tuples(KEYS, VALUES), max_size=6))
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return "+++\n" + "\n".join(f'{key} = "{value}"' for key, value in fields) + "\n+++\n"
    if kind == 1:
        return "+++\n" + "\n".join(f"[{key}.{value}]" for key, value in fields) + "\n+++\n"
    if kind == 2:
        return "---\n" + "\n".join(f"{key}: {value}" for key, value in fields)  # never closed
    if kind == 3:
        return ""
    return "---\n" + "\n".join(f"{key}: {value}" for key, value in fields) + "\n---\n"


@st.composite
def block(draw: st.DrawFn) -> str:
    """One structure of Markdown, sometimes many times, sometimes never closed."""
    text = draw(WORDS)
    count = draw(st.sampled_from([1, 1, 1, 2, 7, 300]))
    form = draw(
        st.sampled_from(
            [
                *(
                    "# {0}",
                    "####### {0}",
                    "{0}\n===",
                    "- {0}",
                    "  * {0}",
                    "1. {0}",
                    "> {0}",
                    "- [ ] {0}",
                ),
                *(
                    "| {0} | b |\n|---|:-:|\n| 1 |",
                    "|{0}|",
                    "|-",
                    "```{0}\ncode\n```",
                    "```\n{0}",
                    "~~~~",
                ),
                *(
                    "[[{0}]]",
                    "[[{0}|b#c]]",
                    "[{0}](../{0}.md)",
                    "[a]: {0}",
                    "![x]({0})",
                    "[[",
                    "]](",
                ),
                *(
                    "<div>{0}",
                    "<!-- {0}",
                    "<script>{0}</script>",
                    "---",
                    "***",
                    "#{0}",
                    "$${0}$$",
                    "    {0}",
                ),
                *(
                    "{0}",
                    "{0}\r",
                    "\u2028{0}",
                    "\x1b[31m{0}",
                    "\v{0}\f",
                    "**{0}",
                    "`{0}",
                    "\\{0}",
                    "[^1]: {0}",
                ),
            ]
        )
    )
    return f"{form.format(text)}\n" * count


CONTENTS = st.one_of(
    st.binary(max_size=300),
    st.tuples(front_matter(), st.lists(block(), max_size=6), st.sampled_from(ENCODINGS)).map(
        lambda parts: (parts[0] + "\n".join(parts[1])).encode(parts[2], "replace")
    ),
    st.tuples(front_matter(), st.lists(block(), max_size=3), st.binary(max_size=20)).map(
        lambda parts: (parts[0] + "\n".join(parts[1])).encode("utf-8", "replace") + parts[2]
    ),
)
NAMES = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20
).filter(lambda name: len(name.encode()) < 200)
NOTES = st.lists(st.tuples(NAMES, CONTENTS), min_size=TOGETHER, max_size=TOGETHER)


@sizes(sample=100, whole=10_000)
def test_every_note_is_indexed_or_named(home: Path, workspace: Path, size: int) -> None:
    figures: Counter[str] = Counter(notes=0, indexed=0, named=0, neither=0)
    is_sample = size < 1_000
    with Memory(settings={"embedding.chain": ("test",)}) as memory:

        @settings(
            max_examples=size // TOGETHER,
            derandomize=is_sample,
            database=None,
            phases=[Phase.generate] if is_sample else [Phase.generate, Phase.shrink],
            suppress_health_check=[*HealthCheck],
        )
        @given(NOTES)
        def check(notes: list[tuple[str, bytes]]) -> None:
            figures.update(index(memory, workspace, notes))

        check()
        assert memory.status(deep=True).deep["integrity"] == "ok"
    assert figures["notes"] >= size
    assert figures["indexed"] > size / 2
    print_figures("notes", **figures)


def index(memory: Memory, workspace: Path, notes: list[tuple[str, bytes]]) -> Counter[str]:
    """Index notes in place of those before; every one is in the index or among the problems."""
    for file in workspace.iterdir():
        file.unlink()
    (workspace / "good.md").write_text("zebra of a note without any fault\n")
    for number, (name, content) in enumerate(notes):
        with contextlib.suppress(OSError):  # a name that this file system refuses
            Path(os.fsdecode(f"{workspace}/{number}{name}.md")).write_bytes(content)
    (report,) = memory.index(workspace)
    indexed = {note.path for note in memory.contents.notes()}
    named = {problem.path for problem in report.problems}
    assert all(problem.what for problem in report.problems)
    written = {file.name for file in workspace.iterdir()}
    missing = written - indexed - named
    assert not missing
    assert "good.md" in {hit.path for hit in memory.search("zebra note without any fault").hits}
    assert not memory.notices
    return Counter(
        notes=len(written) - 1,  # without the good one
        indexed=len(written & indexed) - 1,
        named=len(written & named),
        neither=len(missing),
    )
