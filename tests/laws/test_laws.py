"""Laws of a search for any query: traces add up, the order is stable, a smaller k gives a prefix."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from memwell import Memory
from memwell.model import Hit, SearchResult
from memwell.search.calibrate import relevance
from memwell.search.fuse import FUSIONS, MEANING, WORDS, Evidence, Fusion, fuse, fused
from memwell.search.retrieve import MODES
from tests.support.postgres import app_url, new_tenant

WORDS_OF_NOTES = (
    "cat",
    "dog",
    "key",
    "door",
    "router",
    "backup",
    "standup",
    "garden",
    "soup",
    "port",
    "night",
    "morning",
)
TODAY = dt.date(2026, 2, 10)
QUERIES = st.lists(st.sampled_from([*WORDS_OF_NOTES, "last week", "unheard"]), min_size=1).map(
    " ".join
)
TIMES = st.sampled_from(["", "in January", "before 2026-01-20"])

# Whole thousandths: of two floats that differ in the last bit only, a weight may make the same.
SCORES = st.integers(0, 30_000).map(lambda thousandths: thousandths / 1000)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def memory(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Memory]:
    """Forty notes, dated and not, with copies among them, and a model that counts words."""
    folder = tmp_path_factory.mktemp("laws")
    notes = folder / "notes"
    (notes / "memory").mkdir(parents=True)
    for number in range(40):
        words = [WORDS_OF_NOTES[(number * step + step) % 12] for step in range(1, 6)]
        text = f"# {words[0]}\n\n" + f"the {words[1]} and the {words[2]} " * (number % 5 + 1)
        name = f"memory/2026-01-{number % 28 + 1:02}" if number % 3 else f"note{number}"
        (notes / f"{name}.md").write_text(f"{text} {words[3]} {words[4]}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMWELL_CONFIG", str(folder / "config"))
        patch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
        on_server = request.param == "postgres"
        own = {"store.url": app_url(), "store.tenant": new_tenant()} if on_server else {}
        with Memory(folder / "home", settings=own) as opened:
            opened.index(notes)
            yield opened


def ask(memory: Memory, query: str, **options: object) -> SearchResult:
    return memory.search(query, today=TODAY, explain=True, **options)  # type: ignore[arg-type]


def places(hits: tuple[Hit, ...]) -> list[tuple[str, int]]:
    return [(hit.path, hit.start_line) for hit in hits]


@settings(max_examples=40)
@given(query=QUERIES, time=TIMES, fusion=st.sampled_from(FUSIONS), mode=st.sampled_from(MODES))
def test_a_trace_adds_up_to_the_score(
    memory: Memory, query: str, time: str, fusion: str, mode: str
) -> None:
    found = ask(memory, f"{query} {time}", k=40, fusion=fusion, mode=mode, min_score=0.0)
    assume(found.order == "score")
    for hit in found.hits:
        trace = hit.trace
        assert trace is not None
        assert trace.fused == math.fsum(part.contribution for part in trace.parts)
        assert all(part.contribution == part.weight * part.evidence for part in trace.parts)
        assert trace.best_logit is not None
        assert trace.relevance == relevance(trace.best_logit - trace.slope * trace.below_best)
        assert trace.relevance == hit.relevance
        lost = trace.fused * (1 - trace.kept)
        logit = trace.best_logit - trace.slope * (trace.below_best + lost) + trace.gain
        assert trace.score == hit.score == pytest.approx(relevance(logit), abs=1e-12)
        assert (trace.kept < 1 or trace.gain > 0) == bool(trace.kept_why)


@settings(max_examples=20)
@given(query=QUERIES, fusion=st.sampled_from(FUSIONS))
def test_the_order_is_the_same_each_time(memory: Memory, query: str, fusion: str) -> None:
    assert ask(memory, query, fusion=fusion).hits == ask(memory, query, fusion=fusion).hits


@settings(max_examples=40)
@given(query=QUERIES, fusion=st.sampled_from(FUSIONS), k=st.integers(1, 30))
def test_k_plus_one_hits_begin_with_the_k_hits(
    memory: Memory, query: str, fusion: str, k: int
) -> None:
    fewer = ask(memory, query, fusion=fusion, k=k, min_score=0.0).hits
    more = ask(memory, query, fusion=fusion, k=k + 1, min_score=0.0).hits
    assert places(more)[:k] == places(fewer)


@settings(max_examples=40)
@given(query=QUERIES, fusion=st.sampled_from(FUSIONS), least=st.floats(0, 1), more=st.floats(0, 1))
def test_a_higher_threshold_only_removes_hits(
    memory: Memory, query: str, fusion: str, least: float, more: float
) -> None:
    """A duplicate of a removed hit may take its place."""
    low, high = sorted((least, more))
    many = ask(memory, query, fusion=fusion, k=100, min_score=low).hits
    few = ask(memory, query, fusion=fusion, k=100, min_score=high).hits
    listed = {place for hit in many for place in hit.also}
    kept = [place for place in places(few) if "{}:{}".format(*place) not in listed]
    assert kept == [place for place in places(many) if place in kept]
    assert all(hit.relevance >= high for hit in few)


@given(
    st.dictionaries(st.integers(1, 30), SCORES, min_size=1),
    st.sampled_from([WORDS, MEANING]),
    st.sampled_from(FUSIONS),
)
def test_a_search_without_matches_does_not_change_the_order_of_the_other(
    scores: dict[int, float], leg: str, method: str
) -> None:
    found = sorted(scores, key=lambda chunk: (-scores[chunk], chunk))
    spoke = Evidence(leg, scores, found)
    silent = Evidence(MEANING if leg == WORDS else WORDS, {}, [])
    alone = fuse([spoke], Fusion(method))
    beside = fuse([spoke, silent], Fusion(method))
    order = sorted(alone, key=lambda chunk: (-fused(alone[chunk]), chunk))
    assert sorted(beside, key=lambda chunk: (-fused(beside[chunk]), chunk)) == order
