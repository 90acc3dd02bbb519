"""What one user can find out about another's facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from memwell import Memory
from tests.support.postgres import app_url, new_tenant

SECRETS = [
    "Anna hides the kryptonite in Zanzibar.",
    "Anna flies to Zanzibar in April with Bertha.",
    "Anna's ZetaCode is ERR_NGX_502 and probes deploy things.",
    "Anna knows the bases of the sibolere, fifomase and geese.",
]
NOTES = {
    "a.md": "The deploy goes out on Monday.\n\nThe heron eats fish.\n",
    "b.md": "Probes are kept in the lab. ERR_NGX_404 is harmless.\n",
}
QUERIES = [
    *("kryptonite", "zanzibar", "Zanzibar April", "deploy", "probes", "heron fish", "kryp*"),
    *("zetac*", "ERR_NGX_502", "err_ngx", '"ben probes"', "kryptonight", "zanzibr", "bertha"),
    *(
        "what does Ben probe today",
        "deploy OR kryptonite",
        "deploy AND zanzibar",
        "probes -zanzibar",
        "sibolere",  # its stem, siboler, has another stem
        "fifomase",
        "geese at the bases",
    ),
]
Open = Callable[[str], AbstractContextManager[Memory]]


@pytest.fixture(params=["sqlite", "postgres"])
def open_memory(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens a memory of Ben, in a home of its own for each name."""

    @contextmanager
    def opened(name: str) -> Iterator[Memory]:
        settings: dict[str, Any] = {"embedding.chain": ("test",)}
        if request.param == "postgres":
            settings |= {"store.url": app_url(), "store.tenant": new_tenant()}
        with Memory(tmp_path / name, user="ben", settings=settings) as memory:
            yield memory

    return opened


def answers(open_memory: Open, notes: Path, name: str, secrets: list[str]) -> list[object]:
    """All that Ben can observe by searching, beside another user's facts."""
    observed: list[object] = []
    with open_memory(name) as ben:
        ben.index(notes)
        anna = ben.as_viewer(user="anna")
        for secret in secrets:
            anna.remember(secret, scope="user")
        ben.remember("Ben probes kryptonite and zanzibar today.", scope="user")
        ben.remember("Ben feeds geese at the sibolere and the fifomase.", scope="user")
        anna.search("kryptonite")
        for query in QUERIES:
            found = ben.search(query, explain=True)
            hits = [
                (hit.text, hit.score, hit.marks, hit.trace, hit.weak, hit.also)
                for hit in found.hits
            ]
            observed.append((query, hits, found.suggestions, found.notices))
        observed.append(ben.recall("what does Ben probe today").block[-60:])
    return observed


def test_reliability_d05_scores_tell_nothing_about_others(
    open_memory: Open, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for name, text in NOTES.items():
        (notes / name).write_text(text, encoding="utf-8")
    alone = answers(open_memory, notes, "alone", [])
    beside = answers(open_memory, notes, "beside", SECRETS)
    for one, other in zip(alone, beside, strict=True):
        assert one == other
