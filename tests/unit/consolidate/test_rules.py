"""Which facts a rule merges and which one supersedes another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memwell import Fact, Memory
from memwell.consolidate.plan import MERGE, SUPERSEDE
from memwell.consolidate.rules import candidate_pairs, find_pairs
from memwell.store.contract.values import FactFilter


def facts(memory: Memory, *texts: str) -> list[Fact]:
    for text in texts:
        assert memory.remember(text).outcome == "added", text
    return memory.facts.find(FactFilter())


@pytest.mark.parametrize(
    ("older", "newer", "kind"),
    [
        ("The cat is named Miso.", "Miso is the name of the cat that we have.", None),
        ("The deploys run on a quiet server.", "Deploy runs on the quiet servers.", MERGE),
        ("Anna likes Ben a lot.", "Ben likes Anna a lot.", None),
        ("The crane is in the yard.", "The crane is in the yard if it rains.", None),
        ("The crane is red.", "The harbour crane of the yard is out of order.", None),
        ("The door needs two keys.", "The doors need keys.", None),
        ("The boiler is in the cellar.", "The old boiler is in the damp cellar.", MERGE),
        ("The standup is at 9:30.", "The standup is at 14:15.", SUPERSEDE),
        ("The review is on Monday.", "The review is on Thursday.", SUPERSEDE),
        ("The cat is named Miso.", "The cat is named Kiki.", SUPERSEDE),
        ("The user says: My editor is vim.", "The user says: My editor is emacs.", SUPERSEDE),
        ("We use Redis for the job queue.", "We use Postgres for the job queue.", SUPERSEDE),
        ("The office is open on Sunday.", "The office is not open on Sunday.", SUPERSEDE),
        ("Der Termin ist am Montag.", "Der Termin ist am Freitag.", SUPERSEDE),
        ("会议在 10 点开始。", "会议在 11 点开始。", SUPERSEDE),
        ("I like black tea.", "I like black coffee.", None),
        ("Room 12 is painted blue.", "Room 13 is painted blue.", None),
        ("The cat is named Miso.", "The dog is named Rex.", None),
        ("Anna is tall.", "Anna is a baker.", None),
        ("The server has 8 cores.", "The harbour has a crane.", None),
    ],
)
def test_a_rule_decides(memory: Memory, older: str, newer: str, kind: str | None) -> None:
    pairs = find_pairs(facts(memory, older, newer))
    assert [pair.kind for pair in pairs] == ([kind] if kind else [])
    for pair in pairs:
        assert (pair.older.text, pair.newer.text) == (older, newer)


def test_facts_of_different_people_are_not_compared(memory: Memory) -> None:
    for name in ("anna", "ben"):
        memory.as_viewer(user=name).remember("The standup is at 9:30.", scope="user")
    memory.remember("The standup is at 14:15.")
    anna = memory.as_viewer(user="anna").facts.find(FactFilter())
    assert len(anna) == 2
    assert [*candidate_pairs(anna)] == []


def test_words_of_many_facts_bring_no_pairs_together(memory: Memory) -> None:
    (one,) = facts(memory, "The pump number zero is green.")
    many = [
        replace(one, id=f"{n:020}", text=f"thing{n} stands beside place{n}") for n in range(2_000)
    ]
    twin = replace(one, id="3", text="thing7 stands beside place8")
    assert [pair[0].id for pair in candidate_pairs([*many, twin])] == [many[7].id, many[8].id]
