"""Links between notes: resolved by path, name, title and alias, and used as filters."""

from __future__ import annotations

from pathlib import Path

import pytest

from memwell import Memory
from memwell.search.links import LinkFilters, LinkGraph, split_links
from memwell.store.contract.values import LinkedNote
from tests.conftest import Write
from tests.support.cli import run


def note(path: str, *targets: str, names: tuple[str, ...] = ()) -> LinkedNote:
    return LinkedNote(path, "w", names or (path,), targets)


def test_a_link_names_a_path_a_file_a_title_or_an_alias() -> None:
    boat = note("fleet/boat.md", names=("The Tern", "ship"))
    graph = LinkGraph([boat, note("a.md")])
    for name in (
        "fleet/boat",
        "fleet/boat.md",
        "Boat",
        "the tern",
        "SHIP",
        "boat#Engine",
        "boat|x",
    ):
        assert graph.find(name) == boat, name
    assert graph.find("nothing") is None


def test_of_several_notes_the_nearest_is_meant() -> None:
    near, far, short = note("x/y/log.md"), note("x/z/log.md"), note("log.md")
    graph = LinkGraph([far, near, short])
    assert graph.find("log", note("x/y/a.md")) == near
    assert graph.find("log", note("q/a.md")) == short
    assert graph.find("z/log", note("q/a.md")) == far
    assert graph.find("../z/log.md", note("x/y/a.md")) == far


def test_a_markdown_link_is_a_path_from_its_folder_or_from_the_workspace() -> None:
    inner, outer = note("x/y/log.md"), note("y/log.md")
    graph = LinkGraph([inner, outer, note("z.md")])
    assert graph.find("./y/log.md", note("x/a.md")) == inner
    assert graph.find("./y/log.md", note("q/a.md")) == outer
    assert graph.find("/y/log.md", note("x/a.md")) == outer
    assert graph.find("./log.md", note("q/a.md")) is None


def test_links_and_backlinks() -> None:
    a, b, c = note("a.md", "b", "b", "missing", "a"), note("b.md", "c"), note("c.md", "b")
    graph = LinkGraph([a, b, c])
    assert graph.links(a) == [b]
    assert graph.backlinks(b) == [a, c]
    assert graph.select(LinkFilters(backlinks=("b",))) == (frozenset(("a.md", "c.md")), [])
    assert graph.select(LinkFilters(links=("c",), backlinks=("c",))) == (frozenset(("b.md",)), [])
    assert graph.select(LinkFilters(links=("d",))) == (frozenset(), ["No note is called 'd'"])


@pytest.mark.parametrize(
    ("text", "rest", "filters"),
    [
        ("links:boat oil", "oil", LinkFilters(links=("boat",))),
        ('backlinks:"The Tern"', "path:*", LinkFilters(backlinks=("The Tern",))),
        ('"links:boat"', '"links:boat"', LinkFilters()),
        ("see mylinks:boat", "see mylinks:boat", LinkFilters()),
    ],
)
def test_filters_are_taken_out_of_a_query(text: str, rest: str, filters: LinkFilters) -> None:
    assert split_links(text) == (rest, filters)


@pytest.fixture
def vault(workspace: Path, write: Write) -> Path:
    (workspace / ".obsidian").mkdir()
    write(
        "boat.md", "---\naliases: [The Tern]\ntags: [fleet]\n---\nThe boat needs oil. ![[Engine]]\n"
    )
    write("parts/Engine.md", "The engine burns oil. `[[not a link]]`\n")
    write("log.md", "Sailed [[The Tern|her]] without oil. See [[fleet]].\n")
    write("other.md", "More oil.\n")
    return workspace


def test_queries_and_get_know_the_links_of_a_vault(vault: Path, memory: Memory) -> None:
    memory.index(vault)
    assert {hit.path for hit in memory.search("links:boat oil").hits} == {"parts/Engine.md"}
    assert {hit.path for hit in memory.search('backlinks:"The Tern" oil').hits} == {"log.md"}
    assert [hit.path for hit in memory.search("backlinks:Engine").hits] == ["boat.md"]
    unknown = memory.search("links:ghost oil")
    assert not unknown.hits
    assert "No note is called 'ghost'" in unknown.notices
    assert unknown.query == "links:ghost oil"
    read = memory.get("boat.md")
    assert (read.links, read.backlinks) == (("parts/Engine.md",), ("log.md",))
    assert memory.get("other.md").links == ()


@pytest.mark.process
def test_the_command_names_related_notes(vault: Path) -> None:
    run("index", ".", cwd=vault)
    read = run("get", "boat.md", cwd=vault)
    assert read.stdout.endswith("![[Engine]]\n")
    assert read.stderr == "links to: parts/Engine.md\nlinked from: log.md\n"
