"""The sections of settings: defaults, names, overrides, secrets."""

from __future__ import annotations

import pytest

from memwell.config.sections import SearchSettings
from memwell.config.settings import SETTINGS, Settings, setting_named
from memwell.errors import ConfigError

DEFAULTS = Settings()


def test_a_section_has_the_declared_defaults_and_the_values_it_is_given() -> None:
    assert (SearchSettings.k, SearchSettings().k, SearchSettings(k=3).k) == (6, 6, 3)
    assert DEFAULTS.search.k == setting_named("search.k").default
    with pytest.raises(TypeError, match="SearchSettings has no field kk"):
        SearchSettings(kk=3)  # type: ignore[call-arg]


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="SearchSettings is frozen"):
        DEFAULTS.search.k = 3  # type: ignore[misc]
    changed = DEFAULTS.with_overrides({"search.k": 3})
    assert (changed.search.k, changed.origin("search.k")) == (3, "the call")
    assert (DEFAULTS.search.k, DEFAULTS.origin("search.k")) == (6, "default")
    assert changed.search.min_score == DEFAULTS.search.min_score


def test_every_setting_can_be_overridden_by_its_name() -> None:
    for setting in SETTINGS:
        assert setting.get(DEFAULTS.with_overrides({setting.name: setting.default})) == (
            setting.default
        )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("search.kk", 3, r"search\.kk is not a setting\. Did you mean search\.k\?"),
        ("search.k", "3", r"search\.k = '3' \(the call\) should be a whole number"),
        ("search.k", True, r"should be a whole number"),
        ("search.min_score", 2, r"should be between 0 and 1\. The default is 0\.15"),
        ("search.mode", "both", r"should be one of hybrid, words, meaning"),
        ("scan.extra", [1], r"scan\.extra = \[1\] .* should be a list of strings"),
        ("llm.openai.key", 7, r"llm\.openai\.key = \*\*\* \(the call\) should be a string"),
    ],
)
def test_an_override_is_checked(name: str, value: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DEFAULTS.with_overrides({name: value})


def test_names_and_variables_of_nested_sections() -> None:
    setting = setting_named("embedding.sentence-transformers.model")
    assert setting.variable == "MEMWELL_EMBEDDING_SENTENCE_TRANSFORMERS_MODEL"
    changed = DEFAULTS.with_overrides({setting.name: "/models/a"})
    assert changed.embedding.sentence_transformers.model == "/models/a"
    assert changed.embedding.provider("sentence-transformers") == {"model": "/models/a"}
    assert changed.embedding.provider("another") == {}


def test_a_workspace_may_set_only_what_is_safe() -> None:
    safe = {one.name.split(".")[0] for one in SETTINGS if one.safe}
    assert safe == {"scan", "chunk", "search", "recall", "sync", "note"}
    assert [one.name for one in SETTINGS if not one.safe and one.path[0] in safe] == [
        "search.hyde_enabled",
        "search.hyde_model",
        "search.hyde_mode",
    ]


def test_keys_are_listed_and_masked_but_never_printed() -> None:
    keys = {"llm.openai.key": "sk-1", "remote.key": "sk-2", "store.url": "postgresql://u:p@h/d"}
    settings = DEFAULTS.with_overrides(keys)
    assert settings.api_keys == ["sk-1", "sk-2"]
    assert {settings.get_masked(name) for name in keys} == {"***"}
    assert "sk-" not in repr(settings) + repr(settings.llm.openai)
