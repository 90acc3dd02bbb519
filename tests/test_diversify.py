"""Diversity: by hand, its laws, and through the pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memwell import Memory, config
from memwell.errors import ConfigError, MemwellError
from memwell.search.diversify import jaccard, mmr, signs
from tests.conftest import Write

ROUTER = [
    ("Configured Omada router for the home network", 0.92),
    ("Configured the Omada router for the home network again", 0.89),
    ("Configured Omada router for the home network once more", 0.87),
    ("AdGuard filters the DNS of all devices", 0.80),
    ("VLAN for guests has its own range", 0.77),
]


def test_jaccard_by_hand() -> None:
    assert jaccard(signs("a b c"), signs("B c d")) == 2 / 4
    assert jaccard(signs("会议改到三点"), signs("会议改到四点")) == 5 / 7
    assert jaccard(signs(""), signs("...")) == 0.0


def test_mmr_by_hand() -> None:
    texts = ["a b", "a b", "c d"]
    # After the first, the second is worth .7 x .9 - .3 x 1 = .33, the third .7 x .5 = .35.
    assert mmr([1.0, 0.9, 0.5], texts, 3, 0.7) == [0, 2, 1]
    assert mmr([1.0, 0.9, 0.4], texts, 3, 0.7) == [0, 1, 2]
    assert mmr([1.0, 0.9, 0.5], texts, 3, 0.7, least=0.34) == [0, 2]


def test_copies_give_way_to_what_is_new() -> None:
    texts, relevances = [text for text, _ in ROUTER], [relevance for _, relevance in ROUTER]
    assert mmr(relevances, texts, 3, 0.7) == [0, 3, 4]
    assert mmr(relevances, texts, 3, 1.0) == [0, 1, 2]


@given(
    st.lists(st.tuples(st.floats(0, 1), st.text(max_size=20)), max_size=12),
    st.integers(1, 12),
    st.floats(0.01, 1),
)
def test_it_chooses_each_once_and_fewer_begin_more(
    hits: list[tuple[float, str]], k: int, balance: float
) -> None:
    relevances, texts = [one for one, _ in hits], [text for _, text in hits]
    chosen = mmr(relevances, texts, k, balance)
    assert len({*chosen}) == len(chosen) == min(k, len(hits))
    assert mmr(relevances, texts, k + 1, balance)[:k] == chosen
    if hits:
        assert relevances[chosen[0]] == pytest.approx(max(relevances))


def test_through_the_pipeline(memory: Memory, workspace: Path, write: Write) -> None:
    for number, (text, _) in enumerate(ROUTER[:3]):
        write(f"{number}.md", f"{text}.\n")
    write("3.md", "AdGuard filters DNS of all devices, configured on the Omada router as well.\n")
    write("4.md", "VLAN 30 isolates guests, which was configured in Omada when the router came.\n")
    for number in range(20):
        write(f"other{number}.md", f"something else entirely {number}\n")
    memory.index(workspace)
    plain = [hit.path for hit in memory.search("configured omada router", k=3).hits]
    diverse = [
        hit.path for hit in memory.search("configured omada router", k=3, diversity="mmr").hits
    ]
    assert {*plain} == {"0.md", "1.md", "2.md"}
    assert diverse[0] == plain[0]
    assert {"3.md", "4.md"} & {*diverse}
    with pytest.raises(MemwellError, match="'magic' is no diversity"):
        memory.search("omada", diversity="magic")


@pytest.mark.parametrize("value", ["-0.1", "1.1", "nan"])
def test_a_balance_that_is_none_is_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMWELL_SEARCH_MMR_LAMBDA", value)
    with pytest.raises(ConfigError, match=r"search\.mmr_lambda"):
        config.load(None)
