"""The documentation is true: what it shows is what happens, and nothing is missing from it."""

from __future__ import annotations

import doctest
import re
import shutil
from collections import Counter
from pathlib import Path

import click
import pytest

from memwell import Memory
from memwell.config.settings import SETTINGS
from memwell.surfaces.cli import COMMANDS, cli
from tests.conftest import EXAMPLES, REPOSITORY
from tests.support.documents import documents, rewritten, sandbox
from tests.support.embedders import embedding_once


@pytest.mark.slow
@pytest.mark.parametrize("page", documents(), ids=lambda page: page.name)
def test_blocks_run_and_print_what_they_show(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if "$ curl " in text and shutil.which("curl") is None:
        pytest.skip(f"{page.name} shows curl, which is not installed here")
    assert rewritten(text) == text, "run `make docs` and read the difference"


@pytest.mark.parametrize("name", ["README.md", "docs/python.md"])
def test_python_blocks_run_and_print_what_they_show(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    blocks = re.findall(r"```pycon\n(.*?)```", text, re.S)
    assert blocks
    shared: dict[str, object] = {}
    monkeypatch.delenv("MEMWELL_EMBEDDING_CHAIN")
    with sandbox() as folder, embedding_once():
        monkeypatch.chdir(folder)
        for block in blocks:
            test = doctest.DocTestParser().get_doctest(block, shared, name, name, 0)
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
            assert runner.run(test, clear_globs=False).failed == 0
            shared = test.globs


def test_python_page_names_every_public_method() -> None:
    text = (REPOSITORY / "docs" / "python.md").read_text(encoding="utf-8")
    for name in (name for name in vars(Memory) if not name.startswith("_")):
        assert re.search(rf"\b{name}\b", text), name


def options(command: click.Command) -> list[str]:
    return [
        name
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for name in parameter.opts
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    text = (REPOSITORY / "docs" / "commands.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## `memwell ([\w-]+)[^\n]*\n(.*?)(?=^## |\Z)", text, re.S | re.M))
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.help
    common = text.split("\n## ")[0]
    for option in options(command):
        assert f"`{option}" in sections[name] + common, f"{name} {option}"


def test_no_command_is_documented_that_does_not_exist() -> None:
    text = (REPOSITORY / "docs" / "commands.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## `memwell ([\w-]+)", text, re.M)) == set(COMMANDS)


def test_every_setting_is_documented() -> None:
    text = (REPOSITORY / "docs" / "configuration.md").read_text(encoding="utf-8")
    for setting in SETTINGS:
        assert f"| `{setting.name}` |" in text


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*documents(), REPOSITORY / "CONTRIBUTING.md", REPOSITORY / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", ["docs/reliability.md", "SECURITY.md"])
def test_pages_of_promises_name_only_tests_that_exist(page: str) -> None:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    defined = {
        name
        for file in (REPOSITORY / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.M)
    }
    assert {*re.findall(r"`(test_\w+)`", text)} <= defined
    for name in re.findall(r"`(tests/[\w/.]+)`", text):
        assert (REPOSITORY / name).exists(), name


def test_reliability_page_lists_every_attack() -> None:
    text = (REPOSITORY / "docs" / "reliability.md").read_text(encoding="utf-8")
    parts = {file.stem.removeprefix("test_") for file in (REPOSITORY / "tests/soak").glob("test_*")}
    assert {*re.findall(r"^\| `(\w+)` \|", text, re.M)} == parts


def test_contributing_names_every_package_and_only_files_that_exist() -> None:
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    source = REPOSITORY / "src" / "memwell"
    for package in source.iterdir():
        if (package / "__init__.py").exists():
            assert f"{package.name}/" in text, package
    for name in re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py|\.md)?)`", text):
        assert (source / name).exists() or (REPOSITORY / name).exists(), name


# -- the example workspace -------------------------------------------------------------------------


def sentences(text: str) -> list[str]:
    """The sentences, items and rows of a note that are long enough to be somebody's words."""
    body = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
    pieces = re.split(r"(?<=[.!?。！？])\s*|\n", body)
    plain = (" ".join(re.findall(r"\w+", piece)).lower() for piece in pieces)
    return [piece for piece in plain if len(piece.split()) >= 4 or len(piece) >= 12]


def test_the_example_workspace_is_large_and_varied_enough() -> None:
    from memwell.ingest.chunk import chunk

    files = sorted(EXAMPLES.rglob("*.md"))
    assert len(files) >= 45
    assert sum(len(chunk(file.read_text(encoding="utf-8"))) for file in files) >= 120
    names = {file.relative_to(EXAMPLES).as_posix() for file in files}
    assert {"MEMORY.md", "USER.md", "AGENTS.md", "TOOLS.md"} <= names
    for folder in (
        "skills",
        "memory",
        "protocols",
        "profiles",
        "runbooks",
        "reference",
        "languages",
    ):
        assert any(name.startswith(f"{folder}/") for name in names), folder


def test_no_sentence_of_the_examples_stands_in_two_files() -> None:
    counted = Counter(
        sentence
        for file in EXAMPLES.rglob("*.md")
        for sentence in {*sentences(file.read_text(encoding="utf-8"))}
    )
    assert [sentence for sentence, count in counted.items() if count > 1] == []
