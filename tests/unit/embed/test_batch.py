"""Batches over real HTTP: retries, halves, and who is at fault."""

from __future__ import annotations

import math
import random
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from memwell.embed.batch import PROBE_TEXT, RefusedText, embed_batch
from memwell.errors import ProviderFailing, ProviderUnavailable
from memwell.net.retry import RetryPolicy
from tests.support.remote_embedders import Clock, Kind, assert_keeps_the_key
from tests.support.servers import (
    Act,
    Handler,
    Request,
    Server,
    altered,
    answered,
    cut_short,
    hung_up,
    raw,
    status,
    unit,
    unless,
    vector,
    well,
)

if TYPE_CHECKING:
    from memwell.embed.base import Matrix


def test_a_failing_provider_is_tried_again(server: Server, kind: Kind) -> None:
    clock = Clock()
    server.script = [status(500), hung_up, cut_short, raw(b"{")]
    rows = embed_batch(kind.at(server.url), ["a"], sleep=clock.sleep, jitter=random.Random(1))
    assert rows_of(rows) == [[unit("a")]]
    assert len(server.requests) == 5
    chance = random.Random(1)
    assert clock.slept == [chance.uniform(0, longest) for longest in (1, 2, 4, 8)]


def rows_of(outcomes: list[Matrix | RefusedText]) -> list[Any]:
    """Return the rows of each text as lists, rounded like the expected ones."""
    return [
        outcome
        if isinstance(outcome, RefusedText)
        else [unit_like(row) for row in outcome.astype(float).tolist()]
        for outcome in outcomes
    ]


def unit_like(row: list[float]) -> list[float]:
    """Return the exact unit vector of the server that a row stands for."""
    length = round(-row[1] / row[3])
    assert np.allclose(row, unit("x" * length), atol=1e-6)
    return unit("x" * length)


def test_pauses_grow_up_to_the_longest(server: Server, kind: Kind) -> None:
    class Longest(random.Random):
        def uniform(self, a: float, b: float) -> float:
            return b

    clock = Clock()
    server.usually = status(503)
    with pytest.raises(ProviderFailing, match="503"):
        embed_batch(
            kind.at(server.url),
            ["a", "bb"],
            sleep=clock.sleep,
            jitter=Longest(),
            retry=RetryPolicy(attempts=6, first=1.0, longest=5.0),
        )
    assert clock.slept == [1, 2, 4, 5, 5]
    assert len(server.requests) == 6


def test_the_pause_that_was_asked_for_is_kept(server: Server, kind: Kind) -> None:
    clock = Clock()
    server.script = [status(429, Retry_After="7"), status(503, Retry_After="120")]
    assert rows_of(embed_batch(kind.at(server.url), ["a"], sleep=clock.sleep)) == [[unit("a")]]
    assert clock.slept == [7, 120]


def test_too_long_a_pause_is_not_waited_for(server: Server, kind: Kind) -> None:
    clock = Clock()
    server.usually = status(429, Retry_After="121")
    with pytest.raises(ProviderFailing, match="429") as caught:
        embed_batch(kind.at(server.url), ["a", "bb"], sleep=clock.sleep)
    assert caught.value.retry_after == 121
    assert clock.slept == []
    assert len(server.requests) == 1


def test_work_that_is_stopped_ends_at_once(server: Server, kind: Kind) -> None:
    stop = threading.Event()
    stop.set()
    for act in (status(503), status(500), raw(b"{")):
        server.requests.clear()
        server.usually = act
        with pytest.raises(ProviderFailing, match="Stopped") as caught:
            embed_batch(kind.at(server.url), ["a", "bb"], sleep=stop.wait)
        assert len(server.requests) == 1
        assert_keeps_the_key(caught.value)


@pytest.mark.parametrize("act", [status(401), status(404), status(302, Location="http://x")])
def test_an_unavailable_provider_is_not_tried_again(server: Server, kind: Kind, act: Act) -> None:
    server.usually = act
    with pytest.raises(ProviderUnavailable):
        embed_batch(kind.at(server.url), ["a", "bb"], sleep=Clock().sleep)
    assert len(server.requests) == 1


def test_an_empty_batch_sends_no_request(server: Server, kind: Kind) -> None:
    assert embed_batch(kind.at(server.url), []) == []
    assert not server.requests


def test_too_large_a_batch_is_halved(server: Server, kind: Kind) -> None:
    texts = ["x" * size for size in (1, 2, 3, 4, 5)]
    server.usually = unless(lambda sent: len(sent) > 2, status(413))
    clock = Clock()
    assert rows_of(embed_batch(kind.at(server.url), texts, sleep=clock.sleep)) == [
        [unit(t)] for t in texts
    ]
    assert server.asked == [texts, texts[:2], texts[2:], texts[2:3], texts[3:]]
    assert clock.slept == []


@pytest.mark.parametrize("code", [400, 413, 422])
def test_one_text_that_is_refused_does_not_sink_the_others(
    server: Server, kind: Kind, code: int
) -> None:
    texts = ["a", "bb", "ccc", "bad", "eeeee"]
    server.usually = unless(lambda sent: "bad" in sent, status(code, {"message": "not this"}))
    *good, bad, last = rows_of(embed_batch(kind.at(server.url), texts, sleep=Clock().sleep))
    assert [*good, last] == [[unit("a")], [unit("bb")], [unit("ccc")], [unit("eeeee")]]
    assert isinstance(bad, RefusedText)
    assert bad.reason == f"{server.url.split('/')[2]} answered {code}: not this"


def nan_for(bad: str) -> Act:
    """Answer with NaN for one text, and well for the others of its batch."""

    def act(handler: Handler, request: Request) -> None:
        vectors = [[math.nan] * 4 if text == bad else vector(text) for text in request.texts]
        handler.answer(200, answered(request, vectors))

    return act


@pytest.mark.parametrize(
    "act", [nan_for("bad"), unless(lambda sent: "bad" in sent, status(500))], ids=["nan", "500"]
)
def test_one_text_that_is_answered_wrongly_does_not_sink_the_others(
    server: Server, kind: Kind, act: Act
) -> None:
    texts = ["a", "bb", "bad", "dddd"]
    server.usually = act
    outcomes = rows_of(embed_batch(kind.at(server.url), texts, sleep=Clock().sleep))
    assert [outcomes[at] for at in (0, 1, 3)] == [[unit("a")], [unit("bb")], [unit("dddd")]]
    assert isinstance(outcomes[2], RefusedText)
    halves = [["a", "bb"], ["bad", "dddd"], ["bad", "dddd"], ["bad"], ["bad"], ["dddd"]]
    assert server.asked == [texts] * 5 + [[PROBE_TEXT]] + halves


def test_a_lone_text_is_blamed_only_if_a_plain_one_is_taken(server: Server, kind: Kind) -> None:
    server.usually = nan_for("bad")
    (outcome,) = embed_batch(kind.at(server.url), ["bad"], sleep=Clock().sleep)
    assert isinstance(outcome, RefusedText)
    server.usually = altered(lambda vectors: [[0.0] * 4 for _ in vectors])
    with pytest.raises(ProviderFailing, match="zeros"):
        embed_batch(kind.at(server.url), ["bad"], sleep=Clock().sleep)


@pytest.mark.parametrize("act", [status(500), raw(b"{"), altered(lambda vectors: [])])
def test_a_provider_that_answers_everything_wrongly_is_at_fault(
    server: Server, kind: Kind, act: Act
) -> None:
    server.usually = act
    with pytest.raises(ProviderFailing) as caught:
        embed_batch(kind.at(server.url), ["a", "bb", "ccc", "dddd"], sleep=Clock().sleep)
    assert len(server.requests) == 5 + 1
    assert_keeps_the_key(caught.value)


def test_if_every_text_is_answered_wrongly_the_provider_is_at_fault(
    server: Server, kind: Kind
) -> None:
    server.usually = unless(lambda sent: sent != [PROBE_TEXT], status(500))
    with pytest.raises(ProviderFailing, match="every text"):
        embed_batch(kind.at(server.url), ["a", "bb", "ccc", "dddd"], sleep=Clock().sleep)
    assert len(server.requests) == 5 + 1 + 2 * (2 * 4 - 2)


def test_a_provider_that_refuses_everything_is_unavailable(server: Server, kind: Kind) -> None:
    server.usually = status(400, {"message": "no"})
    with pytest.raises(ProviderUnavailable, match="refuses every text") as caught:
        embed_batch(kind.at(server.url), ["a", "bb", "ccc", "dddd"], sleep=Clock().sleep)
    assert server.asked[-1] == [PROBE_TEXT]
    assert_keeps_the_key(caught.value)


def test_texts_that_are_all_refused_are_each_refused(server: Server, kind: Kind) -> None:
    server.usually = unless(lambda sent: sent != [PROBE_TEXT], status(400))
    outcomes = embed_batch(kind.at(server.url), ["a", "bb", "ccc", "dddd"], sleep=Clock().sleep)
    assert [type(outcome) for outcome in outcomes] == [RefusedText] * 4
    assert len(server.requests) == (2 * 4 - 1) + 1


@pytest.mark.parametrize("count", [1, 2, 7, 16])
def test_the_number_of_requests_is_bounded(server: Server, kind: Kind, count: int) -> None:
    """The worst that can be: every batch fails until its last attempt, which is refused."""
    attempts = 3
    seen: dict[str, int] = {}

    def worst(handler: Handler, request: Request) -> None:
        batch = repr(request.texts)
        seen[batch] = seen.get(batch, 0) + 1
        refused = seen[batch] % attempts == 0
        act = well if request.texts == [PROBE_TEXT] else status(413 if refused else 503)
        act(handler, request)

    server.usually = worst
    texts = ["x" * size for size in range(1, count + 1)]
    outcomes = embed_batch(
        kind.at(server.url), texts, sleep=Clock().sleep, retry=RetryPolicy(attempts=attempts)
    )
    assert [type(outcome) for outcome in outcomes] == [RefusedText] * count
    assert len(server.requests) == attempts * (2 * count - 1) + 1
