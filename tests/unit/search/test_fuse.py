"""Fusion and relevance: formulas by hand, laws, and whole searches."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memwell import Memory, config
from memwell.errors import ConfigError, MemwellError
from memwell.search.calibrate import logit, relevance, small_corpus_gain
from memwell.search.fuse import (
    FUSIONS,
    MEANING,
    WORDS,
    Evidence,
    Fusion,
    fuse,
    fused,
    fusion_for,
    weight_of_words,
)
from memwell.search.fuse_others import NORMALISERS
from tests.conftest import Write
from tests.support.embedders import Faulty

SCORES = st.dictionaries(
    st.integers(1, 30),
    st.integers(0, 2000).map(lambda hundredths: hundredths / 100),
    min_size=1,
    max_size=12,
)
METHODS = [
    *(Fusion(method) for method in FUSIONS),
    *(Fusion("weighted", normaliser=name) for name in NORMALISERS),
]


def best_first(scores: dict[int, float]) -> list[int]:
    return sorted(scores, key=lambda chunk: (-scores[chunk], chunk))


def words(scores: dict[int, float], **more: float) -> Evidence:
    return Evidence(WORDS, scores, best_first(scores), **more)  # type: ignore[arg-type]


def meaning(scores: dict[int, float], **more: float) -> Evidence:
    return Evidence(MEANING, scores, best_first(scores), **more)  # type: ignore[arg-type]


def test_standard_by_hand() -> None:
    """Two candidates are one deviation above and below the mean, whatever their scores."""
    by_words = Evidence(WORDS, {1: 8.0, 2: 2.0}, [1, 2], covered={1: 1.0, 2: 1.0})
    parts = fuse([by_words, meaning({1: 0.3, 2: 0.7})], Fusion())
    weight = 0.21 / math.sqrt(2 * math.log(3))
    assert fused(parts[1]) == pytest.approx(weight - (1 - weight))
    assert fused(parts[2]) == pytest.approx((1 - weight) - weight)


def test_the_weight_of_words_by_hand() -> None:
    chance = math.sqrt(2 * math.log(150))
    assert weight_of_words(1.0, chance, 150, Fusion()) == pytest.approx(0.21)
    assert weight_of_words(0.4, chance, 150, Fusion()) == pytest.approx(0.21)
    assert weight_of_words(0.1, chance, 150, Fusion()) == pytest.approx(0.21 / 4)
    assert weight_of_words(0.0, chance, 150, Fusion()) == 0.0
    assert weight_of_words(1.0, 2 * chance, 150, Fusion()) == pytest.approx(0.21 * 2)
    assert weight_of_words(1.0, 10 * chance, 150, Fusion()) == 0.6


def test_words_without_spaces_weigh_more_by_hand() -> None:
    chance = math.sqrt(2 * math.log(150))
    chinese = fusion_for("会议改到几点 room 7", Fusion())
    assert weight_of_words(0.2, chance, 150, chinese) == pytest.approx(0.6)
    assert weight_of_words(0.05, chance, 150, chinese) == pytest.approx(0.6 / 4)
    for text in ("", "7 / 9", "when is the 会议 of the team"):
        assert fusion_for(text, Fusion()) == Fusion()


def test_one_leg_alone_keeps_the_scale_of_its_unit() -> None:
    alone = Evidence(WORDS, {1: 8.0, 2: 2.0}, [1, 2], unit=4.0)
    assert {chunk: fused(parts) for chunk, parts in fuse([alone], Fusion()).items()} == {
        1: 2.0,
        2: 0.5,
    }


@pytest.mark.parametrize("method", FUSIONS)
def test_a_third_leg_fuses_the_same_way(method: str) -> None:
    """The first of all three legs stays first; a leg that repeats another changes no order."""
    by_words, by_meaning = {1: 8.0, 2: 2.0, 3: 1.0}, {1: 0.7, 2: 0.3, 3: 0.2}
    third = Evidence("notes", by_meaning, [1, 2, 3])
    found = fuse([words(by_words), meaning(by_meaning), third], Fusion(method))
    assert sorted(found, key=lambda chunk: -fused(found[chunk])) == [1, 2, 3]
    assert [part.leg for part in found[1]] == ["words", "meaning", "notes"]
    assert found[1][1].weight == found[1][2].weight


def test_rrf_by_hand() -> None:
    parts = fuse([words({1: 8.0, 2: 2.0}), meaning({2: 0.7, 3: 0.3})], Fusion("rrf"))
    best = (0.7 + 0.3) / 61
    assert fused(parts[1]) == pytest.approx((0.3 / 61) / best)
    assert fused(parts[2]) == pytest.approx((0.3 / 62 + 0.7 / 61) / best)
    assert fused(parts[3]) == pytest.approx((0.7 / 62) / best)
    both_first = fuse([words({1: 8.0}), meaning({1: 0.7})], Fusion("rrf"))
    assert fused(both_first[1]) == pytest.approx(1.0)


def test_weighted_by_hand() -> None:
    parts = fuse([words({1: 3.0, 2: 1.0}), meaning({1: 0.2, 2: 0.6})], Fusion("weighted"))
    assert fused(parts[1]) == pytest.approx(0.7 * 0.2 + 0.3 * 3 / 4)
    assert fused(parts[2]) == pytest.approx(0.7 * 0.6 + 0.3 * 1 / 2)


def test_the_weight_of_a_leg_without_results_goes_to_the_other() -> None:
    parts = fuse([words({1: 3.0})], Fusion("weighted"))
    assert fused(parts[1]) == pytest.approx((0.7 + 0.3) * 3 / 4)
    assert fused(fuse([words({1: 3.0})], Fusion("rrf"))[1]) == pytest.approx(1.0)


def test_a_short_passage_gets_credit_for_its_neighbours() -> None:
    alone = Evidence(WORDS, {1: 2.0, 2: 2.0, 3: 0.0}, [1, 2])
    helped = Evidence(WORDS, {1: 2.0, 2: 2.0, 3: 0.0}, [1, 2], neighbour_credit={2: 1.5})
    before, after = (fuse([leg], Fusion()) for leg in (alone, helped))
    assert fused(before[1]) == fused(before[2])
    assert fused(after[2]) > fused(after[1])


@pytest.mark.parametrize("fusion", METHODS, ids=lambda one: f"{one.method} {one.normaliser}")
@given(by_words=SCORES, by_meaning=SCORES)
def test_the_parts_of_a_trace_add_up_and_one_leg_alone_keeps_its_order(
    fusion: Fusion, by_words: dict[int, float], by_meaning: dict[int, float]
) -> None:
    parts = fuse([words(by_words), meaning(by_meaning)], fusion)
    assert parts.keys() == by_words.keys() | by_meaning.keys()
    for said in parts.values():
        assert fused(said) == math.fsum(part.weight * part.evidence for part in said)
        assert math.isfinite(fused(said))
    for leg in (words(by_words), meaning(by_meaning)):
        alone = fuse([leg], fusion)
        order = [fused(alone[chunk]) for chunk in leg.found]
        assert order == sorted(order, reverse=True)


@given(by_words=SCORES, by_meaning=SCORES, scale=st.floats(0.1, 10), shift=st.floats(-5, 5))
def test_standard_does_not_depend_on_the_scale_of_a_leg(
    by_words: dict[int, float], by_meaning: dict[int, float], scale: float, shift: float
) -> None:
    moved = {chunk: score * scale + shift for chunk, score in by_meaning.items()}
    before = fuse([words(by_words), meaning(by_meaning)], Fusion())
    after = fuse([words(by_words), meaning(moved)], Fusion())
    for chunk in before:
        assert fused(after[chunk]) == pytest.approx(fused(before[chunk]), abs=1e-3)


# -- relevance -------------------------------------------------------------------------------------


def test_relevance_by_hand() -> None:
    assert relevance(0.0) == 0.5
    assert relevance(2.0) == pytest.approx(1 / (1 + math.exp(-2.0)))
    assert relevance(logit(None, None)) < 1e-100
    assert logit(8.0, 1.0) == pytest.approx(0.42 * 8 + 2.3 - 3.15)
    assert logit(8.0, None) == pytest.approx(0.58 * 8 - 3.2)
    assert logit(None, 1.0) == pytest.approx(5.5 - 3.4)


def test_a_cosine_counts_more_among_few_passages() -> None:
    assert small_corpus_gain(1000) == small_corpus_gain(1_000_000) == 0.0
    expected = math.sqrt(2 * math.log(1000)) - math.sqrt(2 * math.log(12))
    assert small_corpus_gain(12) == pytest.approx(expected)
    assert small_corpus_gain(1) == small_corpus_gain(3) > small_corpus_gain(12)


def test_a_passage_with_most_words_is_not_weak_without_a_cosine() -> None:
    assert relevance(logit(None, 0.5)) > config.load(None, {}).search.min_score


@given(above=st.none() | st.floats(-1e6, 1e6), covered=st.none() | st.floats(-1e6, 1e6))
def test_relevance_is_between_0_and_1_and_grows_with_each_score(
    above: float | None, covered: float | None
) -> None:
    assert 0 <= relevance(logit(above, covered)) <= 1
    if above is not None:
        assert logit(above + 1, covered) >= logit(above, covered)
    if covered is not None:
        assert logit(above, covered + 1) >= logit(above, covered)


# -- through the pipeline --------------------------------------------------------------------------


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, workspace: Path, write: Write) -> Memory:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "mine")
    for number in range(12):
        write(f"{number}.md", f"# Note {number}\n\n" + "the cat sleeps " * number + "by the door")
    opened = Memory(embedders={"mine": Faulty})
    opened.index(workspace)
    return opened


@pytest.mark.parametrize("method", FUSIONS)
def test_a_search_explains_itself(memory: Memory, method: str) -> None:
    hits = memory.search("the cat", fusion=method, explain=True).hits
    assert hits
    for hit in hits:
        assert hit.trace is not None
        assert hit.trace.fused == math.fsum(part.contribution for part in hit.trace.parts)
        assert hit.trace.relevance == hit.relevance
        assert {part.leg for part in hit.trace.parts} == {"words", "meaning"}
    scores = [hit.trace.fused for hit in hits if hit.trace]
    assert scores == sorted(scores, reverse=True)
    assert memory.search("the cat").hits[0].trace is None


@pytest.mark.parametrize("method", FUSIONS)
def test_more_hits_begin_with_the_same_hits_and_a_threshold_only_removes(
    memory: Memory, method: str
) -> None:
    def found(**options: float) -> list[int]:
        result = memory.search("the cat sleeps", fusion=method, **options)  # type: ignore[arg-type]
        return [int(hit.path.removesuffix(".md")) for hit in result.hits]

    everything = found(k=12)
    for k in range(1, 12):
        assert found(k=k) == everything[:k]
    for least in (0.2, 0.5, 0.8):
        kept = found(k=12, min_score=least)
        assert kept == [number for number in everything if number in kept]


def test_the_same_text_comes_once_and_lists_its_other_locations(
    memory: Memory, workspace: Path, write: Write
) -> None:
    write("logs/a.md", "Configured the Omada router.\n")
    write("logs/b.md", "configured   the OMADA router.")
    memory.index(workspace)
    hit, *others = memory.search("omada router").hits
    assert (hit.path, hit.also) == ("logs/b.md", ("logs/a.md:1",))  # the last of equal ones
    assert "logs/a.md" not in {other.path for other in others}


def test_any_number_of_hits_may_be_asked_for(memory: Memory, workspace: Path) -> None:
    """More hits than SQLite allows parameters; the first hits are always the same."""
    sections = "\n\n".join(
        f"# Part {number}\n\nthe cat " + "purrs " * number for number in range(1, 300)
    )
    (workspace / "many.md").write_text(sections)
    memory.index(workspace)
    few = memory.search("the cat", k=50, group="passages").hits
    many = memory.search("the cat", k=100_000, group="passages").hits
    assert len(many) > 300
    assert [hit.text for hit in many[:50]] == [hit.text for hit in few]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("search.vector_weight", "-1"),
        ("search.text_weight", "nan"),
        ("search.rrf_k", "-1"),
        ("search.fusion", "magic"),
        ("search.normaliser", "none"),
    ],
)
def test_invalid_settings_are_named(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.setting_named(name).variable, value)
    with pytest.raises(ConfigError, match=name):
        config.load(None)


def test_weights_that_are_all_zero_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMWELL_SEARCH_VECTOR_WEIGHT", "0")
    monkeypatch.setenv("MEMWELL_SEARCH_TEXT_WEIGHT", "0")
    with pytest.raises(ConfigError, match="both 0"):
        config.load(None)


def test_an_invalid_fusion_is_named(memory: Memory) -> None:
    with pytest.raises(MemwellError, match="'magic' is not a fusion"):
        memory.search("cat", fusion="magic")
