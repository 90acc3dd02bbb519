"""Cutting notes into chunks: laws for any text, and cases by hand."""

from __future__ import annotations

import itertools

from hypothesis import example, given, settings
from hypothesis import strategies as st

from memwell.ingest.chunk import chunk
from memwell.ingest.markdown import Kind, blocks
from memwell.token_estimate import count_tokens

LINES = st.sampled_from(
    [
        "# One",
        "## Two",
        "### Three ###",
        "Title",
        "=====",
        "---",
        "",
        "",
        "  ",
        "text of a paragraph.",
        "A longer sentence. And one more! Is it? Yes.",
        "- item",
        "  - nested",
        "    deeper text",
        "1. first",
        "* * *",
        "```",
        "~~~~",
        "```python",
        "    indented",
        "| a | b |",
        "|---|---|",
        "| 1 | 2 |",
        "> quoted",
        "会议改到下午三点。明天再说！",
        "#hashtag",
        "#",
        "word " * 60,
        "x" * 300,
        "漢" * 120,
        "\t- tab",
        "\r",
        "+++",
    ]
)
NOTES = st.one_of(
    st.lists(LINES, max_size=60).map("\n".join),
    st.text(max_size=400),
    st.text(alphabet="#`~-=|* \n\tab1.", max_size=300),
)
SIZES = st.tuples(st.integers(1, 120), st.integers(0, 60))


@settings(max_examples=250)
@given(NOTES, SIZES)
def test_without_their_overlap_the_chunks_give_the_text_back(
    text: str, sizes: tuple[int, int]
) -> None:
    size, overlap = sizes
    chunks = chunk(text, size=size, overlap=overlap)
    joined = "".join(part.text[part.overlap :] for part in chunks)
    assert joined == text if text.strip() else joined in ("", text)


@settings(max_examples=250)
@given(NOTES, SIZES, st.integers(1, 50))
def test_every_span_points_at_the_chunks_own_lines(
    text: str, sizes: tuple[int, int], first_line: int
) -> None:
    lines = text.split("\n")
    for part in chunk(text, size=sizes[0], overlap=sizes[1], first_line=first_line):
        start, end = part.start_line - first_line, part.end_line - first_line
        assert 0 <= start <= end < len(lines)
        stripped = part.text.strip()
        assert stripped in "\n".join(lines[start : end + 1])
        if stripped:
            assert stripped[0] in lines[start]
            assert stripped[-1] in lines[end]


@example(
    "b. b漢字 ab ab ba 漢漢漢漢漢漢漢漢\n漢ab 漢\n", (5, 17)
)  # a chunk shorter than its overlap
@settings(max_examples=250)
@given(NOTES, SIZES)
def test_overlap_repeats_the_end_of_the_chunk_before(text: str, sizes: tuple[int, int]) -> None:
    chunks = chunk(text, size=sizes[0], overlap=sizes[1])
    for before, part in itertools.pairwise(chunks):
        if part.overlap:
            assert before.text.endswith(part.text[: part.overlap])
            assert count_tokens(part.text[: part.overlap]) <= sizes[1]
            assert before.heading == part.heading


@given(st.lists(LINES, max_size=60).map("\n".join))
@example("word " * 60 + "\n=====\n" + "word " * 60)
@settings(max_examples=250)
def test_no_chunk_ends_in_a_heading_unless_the_note_does(text: str) -> None:
    lines = [line + "\n" for line in text.split("\n")]
    last_lines_of_headings = {
        max(number for number in range(block.first, block.end) if lines[number].strip()) + 1
        for block in blocks(lines)
        if block.kind is Kind.HEADING
    }
    for part in chunk(text, size=100, overlap=20)[:-1]:
        assert part.end_line not in last_lines_of_headings


def test_a_heading_opens_a_chunk_and_every_chunk_knows_its_heading_path() -> None:
    text = "# House\n\nIntro.\n\n## Kitchen\n\nStove.\n\n### Oven\n\nHot.\n\n## Bath\n\nTub.\n"
    assert [(part.heading, part.start_line, part.end_line) for part in chunk(text)] == [
        (("House",), 1, 3),
        (("House", "Kitchen"), 5, 7),
        (("House", "Kitchen", "Oven"), 9, 11),
        (("House", "Bath"), 13, 15),
    ]


def test_a_heading_without_a_body_joins_the_next_section() -> None:
    (part,) = chunk("# House\n\n## Kitchen\n\nStove.\n")
    assert part.heading == ("House", "Kitchen")
    assert part.text == "# House\n\n## Kitchen\n\nStove.\n"


def test_underlined_headings_count_and_a_rule_under_two_lines_does_not() -> None:
    text = "Top\n===\n\none\ntwo\n---\n\nSub\n---\n\nbody\n"
    assert [part.heading for part in chunk(text)] == [("Top",), ("Top", "Sub")]


def test_headings_inside_code_are_code() -> None:
    text = "# Real\n\n```sh\n# not a heading\n```\n\n- item\n\n  ```\n  # nor this\n  ```\n"
    assert [part.heading for part in chunk(text)] == [("Real",)]


def test_a_fence_a_table_and_an_item_are_not_cut_unless_alone_too_large() -> None:
    fence = "```\n" + "code line\n" * 12 + "```\n"
    table = "| a | b |\n|---|---|\n" + "| cell | cell |\n" * 8
    item = "- item\n" + "  more of it\n" * 9
    filler = "Some words that fill the paragraph up. " * 4
    text = f"# T\n\n{filler}\n\n{fence}\n{filler}\n\n{table}\n{filler}\n\n{item}"
    chunks = chunk(text, size=60, overlap=0)
    for whole in (fence, table, item):
        assert any(whole.strip() in part.text for part in chunks)
    assert all(count_tokens(part.text) <= 70 for part in chunks)


def test_a_block_that_is_too_large_is_divided_at_lines() -> None:
    text = "```\n" + "".join(f"line {number}\n" for number in range(200)) + "```\n"
    chunks = chunk(text, size=50, overlap=10)
    assert len(chunks) > 5
    assert all(part.text.endswith("\n") for part in chunks)
    assert all(count_tokens(part.text) <= 50 for part in chunks)


def test_a_line_without_an_end_is_divided_at_sentences_then_words_then_anywhere() -> None:
    sentences = "This is a sentence of about ten tokens or so. " * 40
    assert all(part.text.rstrip().endswith(".") for part in chunk(sentences, size=50, overlap=0))
    words = "word " * 500
    assert all(part.text.endswith(" ") for part in chunk(words, size=50, overlap=0)[:-1])
    assert max(len(part.text) for part in chunk("x" * 5000, size=50, overlap=0)) <= 200


def test_a_cjk_character_is_a_token() -> None:
    assert count_tokens("four") == 1
    assert count_tokens("会议改到三点") == 6
    assert all(len(part.text) <= 40 for part in chunk("会议改到三点。" * 50, size=40, overlap=8))


def test_short_sections_stay_whole_at_the_default_size() -> None:
    text = "# T\n\n" + "word " * 310
    assert len(chunk(text)) == 1


def test_rst_headings() -> None:
    text = "Title\n=====\n\nbody\n\nSub\n~~~\n\nmore\n"
    assert [part.heading for part in chunk(text, rst=True)] == [("Title",), ("Title", "Sub")]


def test_blocks_agree_with_a_full_parser_on_real_pages() -> None:
    import re

    from markdown_it import MarkdownIt

    from tests.conftest import shared_set

    parser = MarkdownIt("commonmark").enable("table").disable("inline")
    agreed = different = 0
    for file in sorted(shared_set("workspaces/til").rglob("*.md")):
        text = re.sub(r"\A---\n.*?\n---\n", "", file.read_text(encoding="utf-8"), flags=re.S)
        lines = [line + "\n" for line in text.split("\n")]
        theirs = {
            token.map[0]
            for token in parser.parse(text)
            if token.type == "heading_open" and token.level == 0 and token.map
        }
        ours = {
            next(number for number in range(block.first, block.end) if lines[number].strip())
            for block in blocks(lines)
            if block.kind is Kind.HEADING
        }
        agreed += len(theirs & ours)
        different += len(theirs ^ ours)
    assert different / (agreed + different) < 0.005
