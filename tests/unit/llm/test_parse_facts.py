"""The facts in a model's answer, whatever surrounds them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memwell.llm.parse_facts import (
    MAX_ANSWER,
    MAX_CHARACTERS,
    MAX_FACTS,
    MAX_TAGS,
    MAX_WORD,
    FoundFact,
    parse_facts,
)

Rows = list[dict[str, Any]]

A = {"text": "The harbour opens at six.", "category": "fact", "tags": ["harbour", "hours"]}
B = {"text": 'Say "please", [always] {twice}, ok?', "category": "rule", "tags": []}


def lines(rows: Rows) -> str:
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)


def fenced(rows: Rows) -> str:
    return f"```jsonl\n{lines(rows)}\n```"


def prose(rows: Rows) -> str:
    return f"Sure! Here's what I found in {{the file}} [1]:\n\n{lines(rows)}\n\nAnything else?"


def a_list(rows: Rows) -> str:
    return json.dumps(rows)


def a_pretty_list(rows: Rows) -> str:
    return f"```json\n{json.dumps(rows, indent=2)}\n```\n"


def an_object(rows: Rows) -> str:
    return json.dumps({"count": 1e3, "complete": True, "facts": rows})


def a_pretty_object(rows: Rows) -> str:
    return "Facts: " + json.dumps({"facts": rows, "note": None}, indent=1)


def bullets(rows: Rows) -> str:
    return "\n".join(f"- {line}" for line in lines(rows).split("\n"))


def numbers(rows: Rows) -> str:
    return "\n".join(f"{at}. `{line}`" for at, line in enumerate(lines(rows).split("\n"), 1))


def fences_each(rows: Rows) -> str:
    return "\n\n".join(f"Fact:\n```\n{lines([row])}\n```" for row in rows)


def on_one_line(rows: Rows) -> str:
    return lines(rows).replace("\n", " ")


def commas_after(rows: Rows) -> str:
    return ",\n".join(json.dumps(row) for row in rows) + ","


def commas_within(rows: Rows) -> str:
    """A comma before every end of an object and of a list."""
    return "[" + "".join(f"{_commas(row)}," for row in rows) + "]"


def _commas(row: dict[str, Any]) -> str:
    tags = "".join(f"{json.dumps(tag)}, " for tag in row["tags"])
    text, category = json.dumps(row["text"]), json.dumps(row["category"])
    return f'{{"text": {text}, "category": {category}, "tags": [{tags}], }}'


def twice(rows: Rows) -> str:
    return f"{lines(rows)}\n{lines(rows)}"


def a_half_line_after(rows: Rows) -> str:
    return f'{lines(rows)}\n{{"text": "The rest of this was never wri'


def a_half_list(rows: Rows) -> str:
    return json.dumps([*rows, {"text": "x"}]).removesuffix('x"}]')


def a_half_object(rows: Rows) -> str:
    whole = json.dumps({"facts": [*rows, {"text": "x"}]}, indent=2)
    return "```json\n" + whole.rpartition('"x"')[0]


WRAPPINGS: list[Callable[[Rows], str]] = [
    lines,
    fenced,
    prose,
    a_list,
    a_pretty_list,
    an_object,
    a_pretty_object,
    bullets,
    numbers,
    fences_each,
    on_one_line,
    commas_after,
    commas_within,
    twice,
    a_half_line_after,
    a_half_list,
    a_half_object,
]


# The text is one line, without control characters and without repeated spaces.
words = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=12)
sentences = st.lists(words, min_size=1, max_size=6).map(" ".join)
facts = st.fixed_dictionaries(
    {
        "text": sentences,
        "category": st.one_of(st.just(""), words),
        "tags": st.lists(words, max_size=4, unique=True),
    }
)
many_facts = st.lists(facts, max_size=8, unique_by=lambda fact: str(fact["text"]).casefold())


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_facts_come_out_of(wrapping: Callable[[Rows], str]) -> None:
    assert parse_facts(wrapping([A, B])) == [A, B]


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@settings(max_examples=30)
@given(rows=many_facts)
def test_any_facts_come_out_of(wrapping: Callable[[Rows], str], rows: Rows) -> None:
    assert parse_facts(wrapping(rows)) == rows


def as_it_should_be(found: list[FoundFact]) -> bool:
    texts = [fact["text"] for fact in found]
    return (
        len(found) <= MAX_FACTS
        and all(0 < len(text) <= MAX_CHARACTERS and text == text.strip() for text in texts)
        and len({text.casefold() for text in texts}) == len(texts)
        and all(set(fact) == {"text", "category", "tags"} for fact in found)
        and bool(json.dumps(found, ensure_ascii=False).encode())
    )


pieces = st.sampled_from(
    [
        '{"text": "',
        '"}',
        "{",
        "}",
        "[",
        "]",
        '"',
        ",",
        ":",
        "\\",
        "\\u12",
        "\\ud800",
        "\n",
        "```",
        "- ",
        "1.",
        "null",
        "1e9",
        '"text"',
        '"facts"',
        "a",
        " ",
        "\x00",
        "\ud800",
        "é",
    ]
)


@given(st.one_of(st.text(), st.lists(pieces, max_size=40).map("".join)))
def test_any_text_is_survived(answer: str) -> None:
    assert as_it_should_be(parse_facts(answer))


@given(many_facts, st.sampled_from(WRAPPINGS), st.integers(min_value=0))
def test_an_answer_may_end_anywhere(rows: Rows, wrapping: Callable[[Rows], str], at: int) -> None:
    whole = wrapping(rows)
    found = parse_facts(whole[: at % (len(whole) + 1)])
    assert as_it_should_be(found)
    assert [fact["text"] for fact in found] == [row["text"] for row in rows][: len(found)]


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text()),
    lambda inner: st.one_of(
        st.lists(inner), st.dictionaries(st.sampled_from(["text", "facts", "tags", "x"]), inner)
    ),
)


@given(json_values)
def test_any_json_is_survived(value: object) -> None:
    assert as_it_should_be(parse_facts(json.dumps(value)))


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "No facts.",
        "{}",
        "[]",
        '{"facts": []}',
        "null",
        '{"fact": "x"}',
        '{"text": 5}',
        '{"text": null}',
        '{"text": " \\n "}',
        '"a string"',
        "The set {a, b} and [a link](https://host).",
        "- [ ] to do\n- [x] done",
        '{"text": "cut',
        '{"category": "fact", "tags": ["a", "b"]}',
        '{"text": x, "tags":\n["a", "b"',
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"' * 100_000,
    ],
)
def test_what_is_no_fact_is_dropped(answer: str) -> None:
    assert parse_facts(answer) == []


@pytest.mark.parametrize(
    ("answer", "texts"),
    [
        ('["one", "two"]', ["one", "two"]),
        ('{"facts": ["one", "two", {"text": "three"}, 4]}', ["one", "two", "three"]),
        ('```json\n["one", "tw', ["one"]),
        ('{"text": "one", "category": "fa', ["one"]),
        ('{"text": "one", "tags": ["a", "b', ["one"]),
        ('{"text": "hal\n{"text": "two"}', ["two"]),
        ('{"text": "one", \n{"text": "two"}', ["two"]),
        ('[{"text": "one"} {"text": "two"}]', ["one", "two"]),
        ('{"text": "a line\nand another"}', ["a line and another"]),
        ('{"text": "Tea"}\n{"text": " TEA "}\n{"text": "tea"}', ["Tea"]),
        ('{"text": "half \\ud83d a sign"}', ["half \ufffd a sign"]),
        ('{"text": "one", "more": {"deep": [1, -2.5e3, true]}}', ["one"]),
        ('{"result": {"facts": ["one"]}}', []),
        ('{"items": [{"text": "one"}, "two"]}', ["one"]),
        ('> - {"text": "quoted"}', ["quoted"]),
    ],
)
def test_odd_answers(answer: str, texts: list[str]) -> None:
    assert [fact["text"] for fact in parse_facts(answer)] == texts


def test_number_and_length_are_limited() -> None:
    found = parse_facts("\n".join(json.dumps({"text": f"Fact {at}"}) for at in range(900)))
    assert [fact["text"] for fact in found] == [f"Fact {at}" for at in range(MAX_FACTS)]
    (words_,) = parse_facts(json.dumps({"text": "four " * 900, "tags": [*map(str, range(99))]}))
    assert words_["text"] == " ".join(["four"] * (MAX_CHARACTERS // 5))
    assert len(words_["tags"]) == MAX_TAGS
    (letters,) = parse_facts(json.dumps({"text": "x" * 9_000, "category": "y" * 900}))
    assert letters["text"] == "x" * MAX_CHARACTERS
    assert letters["category"] == "y" * MAX_WORD


def test_categories_and_tags_of_another_kind_are_dropped() -> None:
    row = {"text": "one", "category": ["x"], "tags": ["a", 5, None, " ", "a", "b c"]}
    assert parse_facts(json.dumps(row)) == [{"text": "one", "category": "", "tags": ["a", "b c"]}]
    assert parse_facts('{"text": "one", "tags": "a"}')[0]["tags"] == []


@pytest.mark.parametrize(
    "piece", ['{"a":[', "[\n", '{"text": "x', '{"a":"\\', " \t", "- ", '{"a":[1,', "{ ", '{"x":"{"']
)
def test_a_hostile_answer_takes_linear_time(piece: str) -> None:
    def processor_seconds(characters: int) -> float:
        answer = piece * (characters // len(piece))
        times = []
        for _ in range(3):
            begun = time.thread_time()
            parse_facts(answer)
            times.append(time.thread_time() - begun)
        return min(times)

    eighth, whole = processor_seconds(MAX_ANSWER // 8), processor_seconds(MAX_ANSWER)
    # Linear work grows 8 times, quadratic work 64 times. The floor leaves out the clock's noise.
    assert whole < 24 * max(eighth, 0.002)
