"""Passages that are mostly links."""

from __future__ import annotations

from pathlib import Path

import pytest

from memwell.memory import Memory
from memwell.search.link_lists import is_link_list
from tests.conftest import Write

INDEX = """\
# Recipes

* [Bread with caraway](bread/caraway.md) - 2024-01-02
* [Soup of green peas](soup/peas.md) - 2024-02-03
* [Soup of red lentils](soup/lentils.md) - 2024-02-04
* [[Pickled plums]]
"""


def test_a_list_of_links_is_recognised() -> None:
    assert is_link_list(INDEX)
    assert is_link_list("https://a.example/1 https://a.example/2 <https://a.example/3>")
    assert not is_link_list("[one](a.md) [two](b.md)")
    assert not is_link_list("")
    prose = "Soak the peas the night before, then boil them for an hour with an onion and salt. "
    assert not is_link_list(f"See [bread](a.md), [peas](b.md) and [plums](c.md). {prose}")


def test_prose_with_long_addresses_and_images_is_not_a_list() -> None:
    address = (
        "https://docs.example.com/2026/a/very/long/path/to/a/page-about-lazy-loading#section-12"
    )
    assert not is_link_list(
        f"Most [browsers]({address}) load images late. I used it for [my slides]({address}), "
        f"and it saved time.\n\n![A screenshot of the network panel]({address})\n\nSee {address}."
    )


@pytest.mark.parametrize("chain", ["", "memwell"])
def test_a_list_of_links_ranks_behind_what_it_links_to(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch, chain: str
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", chain)
    write("README.md", INDEX)
    write(
        "soup/peas.md", "Soak the green ones overnight. The soup boils for an hour, with onion.\n"
    )
    write("soup/lentils.md", "The red ones need half an hour and no soaking.\n")
    write("bread/caraway.md", "Rye, water, salt and two spoons of seed.\n")
    with Memory() as memory:
        memory.index(workspace)
        found = memory.search("soup of green peas", explain=True).hits
    assert [hit.path for hit in found[:2]] == ["soup/peas.md", "README.md"]
    assert found[0].score >= found[1].score
    assert found[1].trace
    assert found[1].trace.kept_why == "mostly links"


def test_a_list_of_links_is_found_if_nothing_else_is(
    memory: Memory, workspace: Path, write: Write
) -> None:
    write("README.md", INDEX)
    write("other.md", "Something else entirely.\n")
    memory.index(workspace)
    assert [hit.path for hit in memory.search("caraway plums").hits] == ["README.md"]
