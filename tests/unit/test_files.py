"""Files written whole, private folders, locks and state files."""

from __future__ import annotations

from pathlib import Path

import pytest

from memwell.errors import HomeError
from memwell.files import (
    atomic_write,
    hold_lock,
    make_private_folder,
    private_file,
    read_state,
    write_state,
)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("durable", [False, True])
def test_the_file_appears_when_it_is_complete(tmp_path: Path, durable: bool) -> None:
    file = tmp_path / "a.txt"
    with atomic_write(file, durable=durable) as part:
        part.write_text("new")
        assert not file.exists()
    assert [*tmp_path.iterdir()] == [file]
    assert file.read_text() == "new"
    assert mode(file) == 0o600


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")
    with pytest.raises(NotADirectoryError), atomic_write(file) as part:
        (part / "below a file").write_text("half")
    assert [*tmp_path.iterdir()] == [file]
    assert file.read_text() == "old"


def test_a_file_keeps_its_permissions_if_asked(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")
    file.chmod(0o640)
    with atomic_write(file, keep_permissions=True) as part:
        part.write_text("new")
    assert mode(file) == 0o640
    with atomic_write(file) as part:
        part.write_text("new")
    assert mode(file) == 0o600


def test_a_folder_that_is_missing_is_a_home_error(tmp_path: Path) -> None:
    file = tmp_path / "none" / "a.txt"
    with pytest.raises(HomeError, match="cannot be written"), private_file(file) as part:
        part.write_text("new")


def test_private_folders_are_for_one_user(tmp_path: Path) -> None:
    make_private_folder(tmp_path / "a" / "b")
    assert [mode(tmp_path / "a"), mode(tmp_path / "a" / "b")] == [0o700, 0o700]


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    file = tmp_path / "a.lock"
    with hold_lock(file, wait=False) as first, hold_lock(file, wait=False) as second:
        assert (first, second) == (True, False)
    with hold_lock(file, wait=True) as again:
        assert again


def test_a_state_file_that_makes_no_sense_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "state.json"
    assert read_state(file) == {}
    write_state(file, {"a": 1})
    assert read_state(file) == {"a": 1}
    for text in ("[1]", "{", "\x00"):
        file.write_text(text)
        assert read_state(file) == {}
    write_state(file / "below a file.json", {"a": 1})  # fails without a word
