"""Ranking on the example notes, with queries in five styles and the default settings.

The queries were written without regard to how memwell ranks, and none is changed because it fails.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from memwell import Memory
from tests.conftest import EXAMPLES
from tests.quality.suite import (
    STYLES,
    Case,
    K,
    Outcome,
    content_stems,
    figures,
    load,
    passing,
    run,
    summary,
)
from tests.support.embedders import embedding_once


@dataclass(frozen=True)
class Floors:
    """The counts of today for one model. None is ever lowered."""

    found: int
    """Of 120 queries, those that find their note. The target of criterion 5 is 108, then 114."""
    kept: int
    """Of the queries without a common word whose note vector search alone ranks among the first
    three, those that hybrid search answers, too. The target of criterion 3 is all of them."""
    notes: int
    """Of 20 notes, those that pass."""


FLOORS = {"memwell": Floors(107, 30, 20), "minilm": Floors(107, 30, 20)}
FULL_ANSWERS = 48
"""Of the 48 queries without a common word, those with six hits. The target of criterion 3 is 48."""

CASES = load()
WORDLESS = [case for case in CASES if case.style in ("vague", "cross-domain")]

# Asked of another memory, these found nothing; each is asked here of a note of the same kind.
REPORTED = {
    "how should I evaluate if a claim is actually true": "protocols/falsification-first.md",
    "how to think about problems and verify information": "protocols/verification-method.md",
    "what to do when a task seems impossible": "protocols/tenacity.md",
    "tone adjustment strangers conversation style": "protocols/audience-calibration.md",
    "what does Michael value and how does he think": "profiles/michael.md",
    "should I respond to this message or stay quiet": "protocols/group-chat.md",
    "where to send urgent notifications": "protocols/notification-routing.md",
    "how should I behave when talking to people who aren't Michael": "protocols/audience-calibration.md",
}
STILL_FAILING = {
    "quality assurance checklist before making claims": "protocols/before-asserting.md",
    "responsive design mobile-first": "projects/lookout-dashboard.md",
    "which telegram bot should I send this to": "protocols/notification-routing.md",
}


@pytest.fixture(scope="session", params=["memwell", pytest.param("minilm", marks=pytest.mark.slow)])
def model(request: pytest.FixtureRequest) -> str:
    """The default model, and the one that was the default before."""
    return str(request.param)


@pytest.fixture(scope="session")
def floors(model: str) -> Floors:
    return FLOORS[model]


@pytest.fixture(scope="session")
def notes(model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """The example notes, indexed once."""
    folder = tmp_path_factory.mktemp("quality")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("MEMWELL_")]:
            patch.delenv(name)
        patch.setenv("MEMWELL_CONFIG", str(folder / "config"))
        patch.setenv("MEMWELL_EMBEDDING_CHAIN", model)
        with Memory(home=folder / "home") as memory, embedding_once():
            memory.index(EXAMPLES)
            yield memory


@pytest.fixture(autouse=True)
def chosen_chain(
    request: pytest.FixtureRequest, home: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Use the model of the test instead of none."""
    if "model" in request.fixturenames:
        monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", request.getfixturevalue("model"))


@pytest.fixture(scope="session")
def words(notes: Memory) -> list[Outcome]:
    return run("words", notes)


@pytest.fixture(scope="session")
def meaning(notes: Memory) -> list[Outcome]:
    return run("meaning", notes)


@pytest.fixture(scope="session")
def hybrid(notes: Memory) -> list[Outcome]:
    return run("hybrid", notes)


def missed(outcomes: list[Outcome]) -> list[Case]:
    return [outcome.case for outcome in outcomes if outcome.rank is None]


RATCHET = pytest.mark.filterwarnings("default:.* is above its floor")


def check_floor(name: str, count: int, floor: int, details: object) -> None:
    """Fail below a floor; above it, warn until the floor is raised."""
    assert count >= floor, f"{name} was {floor} and is {count}: {details}"
    if count > floor:
        warnings.warn(
            f"{name} is above its floor: set {name} = {count} in {__name__}", stacklevel=2
        )


# -- the suite itself ------------------------------------------------------------------------------


def test_the_suite_is_large_enough() -> None:
    assert len(CASES) >= 80
    counted = Counter(case.note for case in CASES)
    assert len(counted) >= 12
    assert min(counted.values()) >= 6


def test_the_styles_are_even_and_every_note_is_asked_for_in_each() -> None:
    counted = Counter(case.style for case in CASES)
    assert counted.keys() == {*STYLES}
    assert max(counted.values()) - min(counted.values()) <= 2
    asked = {(case.note, case.style) for case in CASES}
    assert asked == {(case.note, style) for case in CASES for style in STYLES}


def test_the_notes_exist_and_are_of_many_kinds() -> None:
    targets = {case.note for case in CASES}
    assert [note for note in targets if not (EXAMPLES / note).is_file()] == []
    kinds = "protocols skills runbooks reference home garden projects profiles memory"
    assert {note.split("/")[0] for note in targets} == {*kinds.split()}


def test_no_query_is_asked_twice() -> None:
    plain = Counter(" ".join(sorted(content_stems(case.query))) for case in CASES)
    assert [query for query, count in plain.items() if count > 1] == []


def test_the_reported_queries_are_in_the_suite() -> None:
    asked = {case.query: case.note for case in CASES}
    assert {**REPORTED, **STILL_FAILING}.items() <= asked.items()


@pytest.mark.parametrize("case", WORDLESS, ids=lambda case: case.query)
def test_vague_and_cross_domain_queries_share_no_word_with_their_note(case: Case) -> None:
    text = (EXAMPLES / case.note).read_text(encoding="utf-8")
    assert content_stems(case.query) & content_stems(f"{case.note}\n{text}") == set()


def test_stems_of_content_words() -> None:
    assert content_stems("Which of the BOTS should I be sending this to?") == {"bot", "send"}


def test_figures_of_outcomes() -> None:
    outcomes = [
        Outcome(Case("", note, "direct"), rank)
        for note, ranks in {"a": [1, 2, 4, None, None], "b": [1, 2, None, None, None]}.items()
        for rank in ranks
    ]
    found = figures(outcomes)
    assert (found.queries, found.found, found.notes, found.notes_passing) == (10, 5, 2, 1)
    assert found.hit_rate == 0.5
    assert found.mrr == pytest.approx(0.325)


def test_keyword_search_alone_is_not_enough(words: list[Outcome]) -> None:
    assert summary(words)["overall"].hit_rate < 0.65, "the suite is too easy"


# -- what is asked of ranking ----------------------------------------------------------------------


def test_criterion_1_natural_language_returns_relevant_notes(hybrid: list[Outcome]) -> None:
    assert [case for case in missed(hybrid) if case.query in REPORTED] == []


def test_criterion_2_fusion_does_not_hurt_exact_terms(
    words: list[Outcome], meaning: list[Outcome], hybrid: list[Outcome]
) -> None:
    ranks = {outcome.case.query: outcome.rank for outcome in hybrid}
    assert ranks["falsification-first reasoning protocol"] == 1
    direct = [
        outcome.case
        for outcome in [*words, *meaning]
        if outcome.case.style == "direct" and outcome.rank
    ]
    assert [case for case in direct if ranks[case.query] is None] == []


@RATCHET
def test_criterion_3_missing_words_do_not_suppress_vector_search(
    notes: Memory, meaning: list[Outcome], hybrid: list[Outcome], floors: Floors
) -> None:
    """A note that vector search ranks high is not lost because the query has no word of it."""
    strong = {outcome.case for outcome in meaning if outcome.rank and outcome.rank <= 3}
    lost = [case for case in missed(hybrid) if case in strong and case in WORDLESS]
    hits = [len(notes.search(case.query, k=K).hits) for case in WORDLESS]
    check_floor("kept", len(strong.intersection(WORDLESS)) - len(lost), floors.kept, lost)
    check_floor("FULL_ANSWERS", hits.count(K), FULL_ANSWERS, hits)


def test_criterion_4_keyword_scores_have_a_gradient(notes: Memory) -> None:
    for case in CASES:
        if case.style in ("direct", "natural"):
            hits = notes.search(case.query, k=K, mode="words").hits
            scores = [hit.score for hit in hits]
            assert scores == sorted(scores, reverse=True)
            assert len({hit.relevance for hit in hits}) > len(hits) / 2, case.query


@RATCHET
def test_criterion_5_most_queries_find_their_note(hybrid: list[Outcome], floors: Floors) -> None:
    check_floor("found", figures(hybrid).found, floors.found, missed(hybrid))


def test_every_query_that_names_its_subject_finds_its_note(hybrid: list[Outcome]) -> None:
    assert [case for case in missed(hybrid) if case not in WORDLESS] == []


def test_the_three_queries_that_failed_longest_are_found(hybrid: list[Outcome]) -> None:
    assert [case for case in missed(hybrid) if case.query in STILL_FAILING] == []


@RATCHET
def test_nearly_every_note_passes(hybrid: list[Outcome], floors: Floors) -> None:
    failing = [note for note, passes in passing(hybrid).items() if not passes]
    check_floor("notes", figures(hybrid).notes_passing, floors.notes, failing)


def test_every_direct_query_has_its_note_among_the_first_three(hybrid: list[Outcome]) -> None:
    late = [
        outcome
        for outcome in hybrid
        if outcome.case.style == "direct" and (outcome.rank is None or outcome.rank > 3)
    ]
    assert late == []
