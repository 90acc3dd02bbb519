"""Facts from messages: precision and recall on labelled sets, and no facts from pasted text."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memwell.extract.chat import SPEAKER, facts_in_message, typed_text
from tests.conftest import REPOSITORY

DATA = REPOSITORY / "tests" / "support" / "data" / "hooks"


@dataclass(frozen=True)
class Score:
    right: int
    wrong: int
    missed: int

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.wrong)

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missed)


def texts(message: str) -> list[str]:
    return [fact.text for fact in facts_in_message(message)]


def score(name: str) -> Score:
    cases = [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]
    pairs = [({*texts(case["said"])}, {*case["facts"]}) for case in cases]
    return Score(
        sum(len(found & wanted) for found, wanted in pairs),
        sum(len(found - wanted) for found, wanted in pairs),
        sum(len(wanted - found) for found, wanted in pairs),
    )


def test_of_forty_labelled_messages_hardly_a_fact_is_none() -> None:
    found = score("labelled.jsonl")
    assert found.precision >= 0.95
    assert found.recall >= 0.95


def test_messages_that_were_labelled_after_the_rules_were_written_do_not_get_worse() -> None:
    found = score("held_out.jsonl")
    assert found.precision >= 0.95
    assert found.recall >= 0.85


@pytest.mark.parametrize(
    ("said", "category"),
    [
        ("I prefer tea.", "preference"),
        ("Never commit to main.", "rule"),
        ("We've decided to drop Python 3.10.", "decision"),
        ("Remember that the boiler is in the cellar.", "fact"),
    ],
)
def test_a_fact_is_of_the_kind_that_its_phrase_says(said: str, category: str) -> None:
    assert [fact.category for fact in facts_in_message(said)] == [category]


def test_what_says_i_is_told_with_who_said_it() -> None:
    assert texts("I prefer tea.") == [f"{SPEAKER}I prefer tea."]
    assert texts("Never use tap water.") == ["Never use tap water."]


def test_the_same_fact_is_told_once() -> None:
    assert texts("I prefer tea.\nI prefer tea.") == [f"{SPEAKER}I prefer tea."]


def test_a_quotation_of_several_sentences_is_not_the_persons() -> None:
    assert texts('He wrote "We tried it. I prefer tabs. It works." and left.') == []


def test_a_block_that_was_cut_off_is_not_the_persons() -> None:
    assert typed_text("Hello.\n<memwell-recall>\nI prefer tabs.") == "Hello."


def test_a_long_line_that_was_wrapped_is_one_sentence() -> None:
    said = "I prefer functions that are short enough to be read\nwithout scrolling."
    assert texts(said) == [SPEAKER + said.replace("\n", " ")]


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    for fact in facts_in_message(text):
        assert fact.text


@pytest.mark.parametrize(
    "piece", ["<a>", '"a. b ', "`", "I prefer ", "my ", "Our a ", "remember a "]
)
def test_a_text_that_was_made_to_be_slow_is_not(piece: str) -> None:
    def cost(pieces: int) -> float:
        begun = time.process_time()
        facts_in_message(piece * pieces)
        return time.process_time() - begun

    assert cost(20_000) < 10 * max(cost(5_000), 0.05)  # four times as long; squared, sixteen


@pytest.mark.parametrize("name", ["languages.jsonl", "languages_held_out.jsonl"])
def test_seven_other_languages_are_understood(name: str) -> None:
    found = score(name)
    assert found.precision >= 0.95
    assert found.recall >= 0.95


def test_the_next_sentence_may_begin_in_lower_case() -> None:
    said = "Btw my wife's name is Clara. ab jetzt bitte immer auf Deutsch antworten."
    assert texts(said) == [
        f"{SPEAKER}My wife's name is Clara.",
        "Ab jetzt bitte immer auf Deutsch antworten.",
    ]


@pytest.mark.parametrize(
    "said",
    [
        "My dentist is called that, but my boss is Dr. Sorensen of the harbour.",
        "Never deploy on holidays, e.g. on Christmas.",
        "Never deploy at night, i.e. after 10 p.m. or so.",
        "Always write tests, docs etc. before a release.",
        "Immer am 3. Mai den Boiler prüfen lassen.",
    ],
)
def test_an_abbreviation_does_not_end_a_sentence(said: str) -> None:
    assert not [text for text in texts(f"{said} Why?") if not text.endswith(said[-9:])]


@pytest.mark.parametrize("said", ["No me gusta el té.", "Não gosto de chá.", "Nein, ich mag Tee."])
def test_a_no_that_negates_the_sentence_stays_in_it(said: str) -> None:
    (fact,) = texts(said)
    assert fact.removeprefix(SPEAKER) in (said, "Ich mag Tee.")


def test_an_order_to_use_one_thing_instead_of_another_is_a_rule() -> None:
    (fact,) = facts_in_message("use uv instead of pip please")
    assert (fact.text, fact.category) == ("Use uv instead of pip please", "rule")
    assert facts_in_message("use this one instead of that") == []
