"""Deduplication and diversity: formulas by hand, laws, and whole searches."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memwell import Memory, config
from memwell.errors import ConfigError, MemwellError
from memwell.search.diversify import Similarity, cluster, jaccard, mmr, word_set
from tests.conftest import Write

ROUTER = [
    ("Configured Omada router for the home network", 0.92),
    ("Configured the Omada router for the home network again", 0.89),
    ("Configured Omada router for the home network once more", 0.87),
    ("AdGuard filters the DNS of all devices", 0.80),
    ("VLAN for guests has its own range", 0.77),
]


def test_jaccard_by_hand() -> None:
    assert jaccard(word_set("a b c"), word_set("B c d")) == 2 / 4
    assert jaccard(word_set("会议改到三点"), word_set("会议改到四点")) == 5 / 7
    assert jaccard(word_set(""), word_set("...")) == 0.0


def by_words(texts: list[str]) -> Similarity:
    words = [word_set(text) for text in texts]
    return lambda one, other: jaccard(words[one], words[other])


def order(relevances: list[float], texts: list[str], k: int, balance: float) -> list[int]:
    return [at for at, _ in mmr(relevances, by_words(texts), k, balance)]


def test_mmr_by_hand() -> None:
    texts = ["a b", "a b", "c d"]
    # After the first, the second is worth .7 x .9 - .3 x 1 = .33, the third .7 x .5 = .35.
    assert order([1.0, 0.9, 0.5], texts, 3, 0.7) == [0, 2, 1]
    assert order([1.0, 0.9, 0.4], texts, 3, 0.7) == [0, 1, 2]


def test_clusters_by_hand() -> None:
    alike = by_words(["a b", "c d", "b a", "a b c", "e"])
    assert cluster(5, alike, 5, 0.6) == [[0, 2, 3], [1], [4]]
    assert cluster(5, alike, 2, 0.6) == [[0, 2, 3], [1]]
    assert cluster(5, alike, 5, 0.0) == [[0, 1, 2, 3, 4]]


def test_copies_move_down_behind_new_texts() -> None:
    texts, relevances = [text for text, _ in ROUTER], [relevance for _, relevance in ROUTER]
    assert order(relevances, texts, 3, 0.7) == [0, 3, 4]
    assert order(relevances, texts, 3, 1.0) == [0, 1, 2]


@given(
    st.lists(st.tuples(st.floats(0, 1), st.text(max_size=20)), max_size=12),
    st.integers(1, 12),
    st.floats(0.01, 1),
)
def test_mmr_chooses_each_once_and_a_larger_k_begins_with_the_same(
    hits: list[tuple[float, str]], k: int, balance: float
) -> None:
    relevances, texts = [one for one, _ in hits], [text for _, text in hits]
    chosen = order(relevances, texts, k, balance)
    assert len({*chosen}) == len(chosen) == min(k, len(hits))
    assert order(relevances, texts, k + 1, balance)[:k] == chosen
    if hits:
        assert relevances[chosen[0]] == pytest.approx(max(relevances))


@given(
    st.lists(st.tuples(st.floats(0, 1), st.text("abc ", max_size=8)), max_size=9),
    st.integers(1, 9),
    st.floats(0, 1),
)
def test_mmr_chooses_the_greatest_worth_of_all_that_are_left(
    hits: list[tuple[float, str]], k: int, balance: float
) -> None:
    values, alike = [value for value, _ in hits], by_words([text for _, text in hits])
    chosen: list[int] = []
    for at, worth in mmr(values, alike, k, balance):
        left = [other for other in range(len(hits)) if other not in chosen]
        worths = {
            other: balance * values[other]
            - (1 - balance) * max((alike(other, before) for before in chosen), default=0.0)
            for other in left
        }
        assert (at, worth) == (max(left, key=worths.__getitem__), max(worths.values()))
        chosen.append(at)


def test_mmr_compares_only_hits_that_may_be_the_next() -> None:
    compared: list[tuple[int, int]] = []

    def alike(one: int, other: int) -> float:
        compared.append((one, other))
        return 0.0

    # The second is worth .7 x .9 = .63 after its comparison. The others are worth less before it.
    assert [at for at, _ in mmr([1.0, 0.9, 0.8, 0.7], alike, 2, 0.7)] == [0, 1]
    assert compared == [(1, 0)]


@pytest.fixture
def routers(memory: Memory, workspace: Path, write: Write) -> Memory:
    """Three notes that say nearly the same, two that say something else, and many others."""
    for number, (text, _) in enumerate(ROUTER[:3]):
        write(f"{number}.md", f"{text}.\n")
    write("3.md", "AdGuard filters DNS of all devices, configured on the Omada router as well.\n")
    write("4.md", "VLAN 30 isolates guests, which was configured in Omada when the router came.\n")
    for number in range(20):
        write(f"other{number}.md", f"something else entirely {number}\n")
    memory.index(workspace)
    return memory


def test_mmr_through_the_pipeline(routers: Memory) -> None:
    plain = [hit.path for hit in routers.search("configured omada router", k=2).hits]
    diverse = routers.search("configured omada router", k=3, diversity="mmr", explain=True).hits
    assert {*plain} <= {"0.md", "1.md", "2.md"}
    assert diverse[0].path == plain[0]
    assert {"3.md", "4.md"} & {hit.path for hit in diverse}
    assert all(hit.trace and hit.trace.worth is not None for hit in diverse)
    with pytest.raises(MemwellError, match="'magic' is not a diversity"):
        routers.search("omada", diversity="magic")


def test_near_copies_are_one_hit_that_lists_the_others(routers: Memory) -> None:
    """0 and 2 differ by two words of eight, so does 1 from each of them."""
    hits = routers.search("configured omada router", explain=True).hits
    listed = {hit.path: {place.partition(":")[0] for place in hit.also} for hit in hits}
    together = {frozenset({path, *also}) for path, also in listed.items() if also}
    assert together
    assert all(group <= {"0.md", "1.md", "2.md"} for group in together)
    assert {"3.md", "4.md"} <= {*listed}
    assert all(hit.trace and hit.trace.copies == len(hit.also) for hit in hits)


@pytest.mark.parametrize("similarity", ["words", "vectors"])
def test_clusters_through_the_pipeline(
    routers: Memory, workspace: Path, similarity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    monkeypatch.setenv("MEMWELL_SEARCH_SIMILARITY", similarity)
    monkeypatch.setenv("MEMWELL_SEARCH_CLUSTER_SIMILARITY", "0.6")
    with Memory(workspace=workspace) as memory:
        memory.fill()
        hits = memory.search("configured omada router", diversity="cluster").hits
    (first, *_) = hits
    assert {first.path, *(place.partition(":")[0] for place in first.also)} >= {
        "0.md",
        "1.md",
        "2.md",
    }
    assert {"3.md", "4.md"} <= {hit.path for hit in hits}


@pytest.mark.parametrize("value", ["-0.1", "1.1", "nan"])
def test_an_invalid_balance_is_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMWELL_SEARCH_MMR_LAMBDA", value)
    with pytest.raises(ConfigError, match=r"search\.mmr_lambda"):
        config.load(None)
