"""Ten files of each format go in, and a question finds the right page, cell or line."""

from __future__ import annotations

from pathlib import Path

import pytest

from memwell import Memory
from tests.support.made_files import (
    MAKERS,
    PARTS,
    make_eml,
    markdown,
    marker,
    run_libreoffice,
    run_pandoc,
    sentence,
)

NAMES = [f"file{letter}" for letter in "abcdefghij"]
ALL = {"scan.formats": (*MAKERS, "markdown")}


@pytest.mark.process
@pytest.mark.parametrize("kind", MAKERS)
def test_a_question_finds_the_place_in_one_of_ten_files(kind: str, workspace: Path) -> None:
    make, place = MAKERS[kind]
    files = [make(workspace, name) for name in NAMES]
    with Memory(settings=ALL) as memory:
        (report,) = memory.index(workspace)
        assert (report.added, report.problems) == (10, ())
        for at, name in enumerate(NAMES):
            number = at % PARTS
            hit, *others = memory.search(marker(name, number)).hits
            assert not others
            assert hit.path == files[at].name
            assert hit.position == place(number) or hit.start_line == place(number)
            at_place = f"#{hit.position}" if hit.position else f"#L{hit.start_line}-L{hit.end_line}"
            read = memory.get(f"{hit.path}{at_place}").text
            assert marker(name, number) in read
            assert marker(name, (number + 1) % PARTS) not in read
        (again,) = memory.index(workspace)
        assert (again.unchanged, again.touched) == (10, 0)


@pytest.mark.process
def test_a_message_has_the_date_of_its_header(workspace: Path) -> None:
    make_eml(workspace, "a")
    with Memory() as memory:
        memory.index(workspace)
        (hit,) = memory.search(marker("a", 0)).hits
    assert (hit.date, hit.title) == ("2025-03-03", "Part 0 – café")


@pytest.mark.process
@pytest.mark.parametrize("suffix", ["docx", "epub", "org", "rst", "ipynb", "html"])
def test_pandoc_writes_what_is_read(suffix: str, workspace: Path, tmp_path: Path) -> None:
    source = tmp_path / "manual.md"
    source.write_text(markdown("p"), encoding="utf-8")
    run_pandoc(source, workspace / f"manual.{suffix}")
    with Memory(settings=ALL | {"scan.formats": (*MAKERS, "rst")}) as memory:
        memory.index(workspace)
        (hit,) = memory.search(marker("p", 3)).hits
    assert hit.heading[-1] == "Part 3"
    assert sentence("p", 3) in " ".join(hit.text.split())


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["docx", "pdf"])
def test_libreoffice_writes_what_is_read(suffix: str, workspace: Path) -> None:
    source = workspace / "manual.rtf"
    source.write_text(rf"{{\rtf1\ansi Part\par {sentence('l', 0)}\par}}", encoding="ascii")
    run_libreoffice(source, suffix)
    with Memory() as memory:
        memory.index(workspace)
        (hit,) = memory.search(marker("l", 0)).hits
    assert hit.path == f"manual.{suffix}"
