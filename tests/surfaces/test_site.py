"""The site builds without a warning, and its reference has everything that the code offers."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import REPOSITORY
from tests.support import reference

DOCS = REPOSITORY / "docs"


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_reference_page_is_what_the_code_says(name: str) -> None:
    written = (reference.FOLDER / name).read_text(encoding="utf-8")
    assert written == reference.PAGES[name](), "run `make docs` and read the difference"


def test_every_page_is_in_the_navigation_once() -> None:
    text = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(
        r": ([\w/.-]+\.md)$", str(yaml.safe_dump(yaml.safe_load(text)["nav"])), re.M
    )
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    assert sorted(listed) == sorted(pages)


@pytest.mark.process
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(REPOSITORY / "mkdocs.yml", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    home = (tmp_path / "build" / "site" / "index.html").read_text(encoding="utf-8")
    assert "Your notes in ten minutes" in home
    assert not re.findall(r'(?:src|rel="stylesheet" href)="(https?:[^"]*)', home)
    assert (tmp_path / "build" / "site" / "search.json").exists()
