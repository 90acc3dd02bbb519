"""Editing memwell.toml without touching the rest of the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memwell import config
from memwell.config.edit import edit, write_settings
from memwell.config.trust import trust
from memwell.errors import ConfigError

WEIGHT = {"search.words_weight": 0.6}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "[search]\nwords_weight = 0.6\n"),
        ('agent = "wren"', 'agent = "wren"\n[search]\nwords_weight = 0.6\n'),
        ("[search]\nwords_weight = 0.4 # mine\n", "[search]\nwords_weight = 0.6 # mine\n"),
        ("[search]\nwords_weight=0.4# mine\nk = 3", "[search]\nwords_weight=0.6# mine\nk = 3"),
        ("[search] # x\n# few\nk = 3\n", "[search] # x\nwords_weight = 0.6\n# few\nk = 3\n"),
        ("[search]", "[search]\nwords_weight = 0.6\n"),
        ("[ 'search' ]\r\nk = 3\r\n", "[ 'search' ]\r\nwords_weight = 0.6\r\nk = 3\r\n"),
        ('[search]\n"words_weight" = 1\n', '[search]\n"words_weight" = 0.6\n'),
        ("search.words_weight = 0.4\n[scan]\n", "search.words_weight = 0.6\n[scan]\n"),
        ("search . k = 3\n", "search .words_weight = 0.6\nsearch . k = 3\n"),
        (
            "[search]\nk = 3\n[scan]\nextra = []\n",
            "[search]\nwords_weight = 0.6\nk = 3\n[scan]\nextra = []\n",
        ),
        (
            '[search]\nevergreen = [\n  "words_weight",\n]\n',
            '[search]\nwords_weight = 0.6\nevergreen = [\n  "words_weight",\n]\n',
        ),
        (
            "[search]\nk = 3\n\n# about scan\n[scan]\n",
            "[search]\nwords_weight = 0.6\nk = 3\n\n# about scan\n[scan]\n",
        ),
        ("search = { k = 3 }\n", "search = { k = 3, words_weight = 0.6}\n"),
        ('[search]\nwords_weight = """0"""\n', "[search]\nwords_weight = 0.6\n"),
        (
            'agent = """\n[search]\n"""\n',
            'agent = """\n[search]\n"""\n\n[search]\nwords_weight = 0.6\n',
        ),
        (
            "# words_weight = 0.1\n[scan]\n",
            "# words_weight = 0.1\n[scan]\n\n[search]\nwords_weight = 0.6\n",
        ),
    ],
)
def test_a_value_is_set_and_the_rest_of_the_file_stays(text: str, expected: str) -> None:
    assert edit(text, WEIGHT) == expected


def test_several_values_are_set() -> None:
    values: dict[str, str | float] = {"search.fusion": "rrf", "search.vector_weight": 0.5}
    assert edit("[search]\nfusion = 'standard' # best\n", values) == (
        '[search]\nvector_weight = 0.5\nfusion = "rrf" # best\n'
    )


COMMENT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=9)


@given(st.lists(COMMENT, min_size=4, max_size=4), st.permutations(["k = 3", "mode = 'words'"]))
def test_any_comment_stays(comments: list[str], keys: list[str]) -> None:
    one, two, three, four = (f"# {comment}" for comment in comments)
    text = f"{one}\n[search] {two}\n{keys[0]} {three}\n{keys[1]}\n\n{four}\n"
    added = "words_weight = 0.6\n"
    assert edit(text, WEIGHT).replace(added, "") == text


@pytest.mark.parametrize(
    "text",
    ["search = 3\n", "[search\n", "[search]\nk = 3\nk = 4\n"],
)
def test_a_file_that_cannot_be_edited_is_left_alone(workspace: Path, text: str) -> None:
    file = workspace / "memwell.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"cannot be changed .*Set search\.words_weight = 0\.6"):
        write_settings(workspace, WEIGHT)
    assert file.read_text() == text
    assert [*workspace.iterdir()] == [file]


def test_a_file_keeps_its_mode_and_a_link_stays_one(workspace: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text("[search]\nk = 3\n")
    real.chmod(0o640)
    (workspace / "memwell.toml").symlink_to(real)
    assert write_settings(workspace, WEIGHT) == workspace / "memwell.toml"
    assert (workspace / "memwell.toml").is_symlink()
    assert real.read_text() == "[search]\nwords_weight = 0.6\nk = 3\n"
    assert real.stat().st_mode & 0o777 == 0o640
    assert config.load(workspace).search.words_weight == 0.6


def test_without_a_workspace_the_users_file_is_made(tmp_path: Path) -> None:
    assert write_settings(None, WEIGHT) == tmp_path / "config" / "memwell.toml"
    assert config.load(None).search.words_weight == 0.6


@pytest.mark.parametrize("before", [None, "[search]\nk = 3 # few\n"])
def test_a_file_is_restored_if_the_new_value_is_invalid(
    workspace: Path, before: str | None
) -> None:
    file = workspace / "memwell.toml"
    if before:
        file.write_text(before)
    with pytest.raises(ConfigError, match=r"search\.words_weight = 7 .* between 0 and 1"):
        write_settings(workspace, {"search.words_weight": 7})
    assert (file.read_text() if file.exists() else None) == before


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a file where the folder should be")
    with pytest.raises(ConfigError, match=r"memwell\.toml cannot be changed .*Set search\.words_"):
        write_settings(None, WEIGHT)


def test_a_trusted_file_stays_trusted(workspace: Path, home: Path) -> None:
    file = workspace / "memwell.toml"
    file.write_text('agent = "wren"\n')
    trust(home, file)
    write_settings(workspace, WEIGHT)
    assert config.load(workspace).agent == "wren"
    file.write_text('agent = "robin"\n')
    write_settings(workspace, WEIGHT)
    assert config.load(workspace).agent == "main"
