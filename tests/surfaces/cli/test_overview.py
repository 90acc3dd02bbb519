"""`memwell --help` and `memwell` alone: every command in a group, with an example that is valid."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click
import pytest

from memwell.surfaces.cli import COMMANDS, cli
from memwell.surfaces.cli.overview import CommandSummary, find_example, next_steps, read_groups
from tests.support.cli import run

ROWS = [row for _, rows in read_groups() for row in rows]


def test_every_command_is_in_one_group() -> None:
    assert sorted(row.name for row in ROWS) == sorted(COMMANDS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_an_example_is_a_valid_command(
    row: CommandSummary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = row.name
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for file in ("cases.yaml", "facts.jsonl"):  # arguments may have to exist
        Path(file).touch()
    Path("notes").mkdir()
    words = shlex.split(find_example(name).removeprefix('eval "$(').removesuffix(')"'))
    assert words[:2] == ["memwell", name]
    command: click.Command | None = cli
    arguments = words[1:]
    while isinstance(command, click.Group) and arguments:
        command = command.get_command(click.Context(command), arguments.pop(0))
    assert command is not None
    given = [os.path.expanduser(word) for word in arguments]
    with command.make_context(name, given):  # raises an error for an unknown option
        pass


def test_help_shows_every_summary_whole(tmp_path: Path) -> None:
    printed = run("--help", cwd=tmp_path).stdout
    for row in ROWS:
        assert f"{row.summary}\n" in printed
        assert f"$ {row.example}\n" in printed
    assert "Example:\n    memwell search" in run("search", "--help", cwd=tmp_path).stdout


def test_memwell_alone_names_the_first_step_and_then_the_next(tmp_path: Path) -> None:
    assert "memwell index ~/notes" in next_steps(tmp_path)
    (tmp_path / "memory.db").touch()
    assert "memwell index" not in next_steps(tmp_path)
    alone = run(cwd=tmp_path)
    assert alone.returncode == 0
    assert "memwell --help" in alone.stdout
