"""Reading settings from files and the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from memwell import config
from memwell.errors import ConfigError


def load(tmp_path: Path, text: str = "", **environment: str) -> config.Settings:
    (tmp_path / "memwell.toml").write_text(text)
    return config.load(tmp_path, {"MEMWELL_CONFIG": str(tmp_path / "user"), **environment})


def load_user(tmp_path: Path, text: str, **environment: str) -> config.Settings:
    """Load the settings with a file of the user and none of a workspace."""
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "memwell.toml").write_text(text)
    return config.load(None, {"MEMWELL_CONFIG": str(tmp_path / "user"), **environment})


def test_the_environment_wins_over_the_workspace_and_that_over_the_user(tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "memwell.toml").write_text(
        "[search]\nk = 3\nmin_score = 0.1\n[chunk]\nsize = 300\n"
    )
    loaded = load(tmp_path, "[search]\nk = 4\nmin_score = 0.2\n", MEMWELL_SEARCH_K="5")
    assert (loaded.search.k, loaded.search.min_score, loaded.chunk.size) == (5, 0.2, 300)
    assert loaded.origins["search.k"] == "$MEMWELL_SEARCH_K"
    assert loaded.origins["chunk.size"].endswith("user/memwell.toml")
    assert loaded.origin("agent") == "default"


def test_a_value_may_refer_to_environment_variables(tmp_path: Path) -> None:
    loaded = load_user(
        tmp_path, 'agent = "a-${WHO}"\n[scan]\nextra = ["${DIR}/*.md"]\n', WHO="wren", DIR="docs"
    )
    assert loaded.agent == "a-wren"
    assert loaded.scan.extra == ("docs/*.md",)
    assert loaded.get_masked("agent") == "a-${WHO}"
    assert loaded.get_masked("scan.extra") == ("${DIR}/*.md",)
    assert loaded.with_overrides({"agent": "b"}).get_masked("agent") == "b"


def test_a_variable_that_is_not_set_is_named(tmp_path: Path) -> None:
    message = r"refers to \$\{NOBODY\}, which is not set\. Set NOBODY"
    with pytest.raises(ConfigError, match=message):
        load_user(tmp_path, 'agent = "${NOBODY}"\n')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[search]\nkk = 3\n",
            r"sets search\.kk, which is not a setting\. Did you mean search\.k\?",
        ),
        ("[chunk]\nsizes = 3\n", r"Did you mean chunk\.size\?"),
        (
            "[search]\nk = 'six'\n",
            r"search\.k = 'six' .* should be a whole number\. The default is 6",
        ),
        ("[scan]\nmax_file_mb = inf\n", r"should be between 0\.001 and 1e\+06"),
        ("[search]\nk = true\n", r"should be a whole number"),
        ("[search]\nk = 0\n", r"search\.k = 0 .* should be between 1 and 100000"),
        ("[search]\nmin_score = 1.5\n", r"should be between 0 and 1"),
        ("[search]\nmin_score = nan\n", r"should be between 0 and 1"),
        ("[sync]\non_search = 1\n", r"should be true or false"),
        ("[scan]\nextra = 'x'\n", r"should be a list of strings"),
        (
            "[chunk]\nsize = 100\noverlap = 80\n",
            r"chunk\.overlap = 80 is more than half of chunk\.size",
        ),
        (f"a = {'[' * 50_000}\n", r"is not valid TOML"),
        ("[search\n", r"is not valid TOML"),
    ],
)
def test_an_error_names_the_value_and_the_remedy(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load(tmp_path, text)
    assert "memwell.toml" in str(caught.value) or "default" in str(caught.value)


def test_the_environment_is_checked_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\$MEMWELL_SEARCH_K"):
        load(tmp_path, MEMWELL_SEARCH_K="many")
    assert load(tmp_path, MEMWELL_SYNC_ON_SEARCH="off").sync.on_search is False
    assert load(tmp_path, MEMWELL_SCAN_EXTRA="a.md, docs/*.md").scan.extra == (
        "a.md",
        "docs/*.md",
    )


@pytest.mark.parametrize("text", ['["hash", "minilm"]', "hash,minilm", " hash , minilm ,"])
def test_a_list_in_the_environment_is_json_or_separated_by_commas(
    tmp_path: Path, text: str
) -> None:
    settings = load(tmp_path, MEMWELL_EMBEDDING_CHAIN=text)
    assert settings.embedding.chain == ("hash", "minilm")


def test_a_pattern_in_the_environment_is_not_taken_for_json(tmp_path: Path) -> None:
    settings = load(tmp_path, MEMWELL_SCAN_EXTRA="[ab]*.md, notes")
    assert settings.scan.extra == ("[ab]*.md", "notes")


def test_a_json_list_of_numbers_in_the_environment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="should be a list of strings"):
        load(tmp_path, MEMWELL_EMBEDDING_CHAIN="[1]")
