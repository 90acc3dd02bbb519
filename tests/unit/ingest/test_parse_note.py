"""Decoding files, and reading front matter, tags, links and dates."""

from __future__ import annotations

import codecs
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memwell.errors import BinaryFileError
from memwell.ingest.chunk_settings import ChunkSettings
from memwell.ingest.parse_note import date_in_path, decode, parse_note


def note(text: str, path: str = "a.md"):  # type: ignore[no-untyped-def]
    return parse_note(path, text, ChunkSettings())[0]


@pytest.mark.parametrize(
    "data",
    [
        "héllo\n".encode(),
        codecs.BOM_UTF8 + "héllo\n".encode(),
        "héllo\n".encode("utf-16"),
        codecs.BOM_UTF16_BE + "héllo\n".encode("utf-16-be"),
        "héllo\n".encode("utf-16-le"),
        "héllo\n".encode("utf-16-be"),
    ],
)
def test_unicode_in_its_usual_forms(data: bytes) -> None:
    assert decode(data) == ("héllo\n", "")


def test_broken_bytes_are_replaced_and_reported() -> None:
    text, wrong = decode(b"caf\xe9 au lait")
    assert text == "caf\ufffd au lait"
    assert wrong == "not valid UTF-8 from byte 3 on, invalid bytes replaced"


def test_nul_is_replaced_and_binary_refused() -> None:
    assert decode(b"some text and a \0 in it") == (
        "some text and a \ufffd in it",
        "NUL characters replaced",
    )
    with pytest.raises(BinaryFileError):
        decode(b"\x7fELF\0\0\0\0\0\0\0\x01\0\0\0\x02" * 20)


@given(st.binary(max_size=300))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    try:
        text, _ = decode(data)
    except BinaryFileError:
        return
    assert isinstance(text, str)
    assert "\0" not in text or data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data


@given(st.text(max_size=300))
def test_any_text_is_a_note(text: str) -> None:
    parsed, _ = parse_note("a.md", f"---\n{text}\n---\n{text}", ChunkSettings())
    json.dumps(parsed.meta)
    assert parsed.title


def test_front_matter_becomes_metadata_and_not_text() -> None:
    parsed = note(
        "---\ntitle: Tea\ntags: [drinks, home]\naliases: [chai, cha]\ndate: 2026-02-10\nrating: 5\n---\n# Heading\n\nbody #hot\n"
    )
    assert (parsed.title, parsed.date, parsed.tags) == (
        "Tea",
        "2026-02-10",
        ("drinks", "home", "hot"),
    )
    assert parsed.aliases == ("chai", "cha")
    assert parsed.meta["rating"] == 5
    assert parsed.meta["date"] == "2026-02-10"
    assert parsed.chunks[0].text == "# Heading\n\nbody #hot\n"
    assert (parsed.chunks[0].start_line, parsed.chunks[0].end_line) == (8, 10)


def test_toml_front_matter() -> None:
    assert note('+++\ntitle = "Tea"\ndate = 2026-02-10\n+++\nbody\n').date == "2026-02-10"


def test_broken_front_matter_is_read_line_by_line_and_reported() -> None:
    parsed, wrong = parse_note(
        "a.md", "---\ntitle: a: b: c\ntags: [x\n---\nbody\n", ChunkSettings()
    )
    assert parsed.title == "a: b: c"
    assert wrong.startswith("front matter is not valid (")
    assert parsed.chunks[0].text == "body\n"


def test_two_rules_around_text_are_not_front_matter() -> None:
    parsed = note("---\njust a sentence\n---\nbody\n")
    assert parsed.chunks[0].text.startswith("---\njust a sentence")


def test_a_note_of_front_matter_alone_can_still_be_found() -> None:
    assert "Tea" in note("---\ntitle: Tea\n---\n").chunks[0].text


def test_title_falls_back_to_the_first_heading_then_the_file_name() -> None:
    assert note("text\n\n# Head\n\nmore\n").title == "Head"
    assert note("text", "folder/my-note.md").title == "my-note"


def test_inline_tags_and_links_outside_code() -> None:
    parsed = note(
        "#one and #two/three, not#this #42 `#no`\n\n```\n#nor\n[[this]]\n```\n[[Note A]] [[b#part|shown]]\n"
    )
    assert parsed.tags == ("one", "two/three")
    assert parsed.links == ("Note A", "b")


def test_markdown_links_are_paths_and_addresses_are_not() -> None:
    parsed = note(
        '[one](two.md#part) [three](../four%20five.md "title") [six](</seven.md>) ![no](a.png)\n'
        "[no](https://elsewhere.example/a.md) [no](mailto:a@b.example) [no](#here) `[no](b.md)`\n"
    )
    assert parsed.links == ("./two.md", "../four five.md", "/seven.md")


def test_an_unfinished_markdown_link_takes_linear_time() -> None:
    assert note("[x](" + "a" * 200_000).links == ()


@pytest.mark.parametrize(
    ("path", "date"),
    [
        ("memory/2026-02-10.md", "2026-02-10"),
        ("memory/2026-02-10-standup.md", "2026-02-10"),
        ("2026/02/10.md", "2026-02-10"),
        ("log/20260210.md", "2026-02-10"),
        ("2025-01-01/notes-2026_02_10.md", "2026-02-10"),
        ("memory/2026-13-40.md", None),
        ("MEMORY.md", None),
        ("call-4915112345678.md", None),
    ],
)
def test_a_date_in_the_path(path: str, date: str | None) -> None:
    assert date_in_path(path) == date


def test_front_matter_wins_over_the_path_and_nonsense_does_not() -> None:
    assert note("---\ndate: 2025-05-05\n---\nx", "memory/2026-02-10.md").date == "2025-05-05"
    assert note("---\ndate: soon\n---\nx", "memory/2026-02-10.md").date == "2026-02-10"
