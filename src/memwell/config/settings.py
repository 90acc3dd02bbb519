"""Every setting in one object, by section: ``settings.search.k``.

The sections declare each setting once: its name, its default and the reason for it. Names in
``memwell.toml``, environment variables, ``memwell config`` and docs/configuration.md are derived
from these declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from memwell.config import sections
from memwell.config.fields import Section, Setting, Value, check, section, setting
from memwell.config.providers import EmbeddingSettings, LlmSettings, RemoteSettings
from memwell.errors import ConfigError


class Settings(Section):
    """The value of every setting, and where each came from."""

    store: sections.StoreSettings = section(sections.StoreSettings)
    tenants: sections.TenantsSettings = section(sections.TenantsSettings)
    agent: str = setting(
        "main", "The agent whose index is used. Each agent has its own under the home folder."
    )
    scan: sections.ScanSettings = section(sections.ScanSettings, safe=True)
    chunk: sections.ChunkingSettings = section(sections.ChunkingSettings, safe=True)
    embedding: EmbeddingSettings = section(EmbeddingSettings)
    vectors: sections.VectorsSettings = section(sections.VectorsSettings)
    search: sections.SearchSettings = section(sections.SearchSettings, safe=True)
    facts: sections.FactsSettings = section(sections.FactsSettings)
    backup: sections.BackupSettings = section(sections.BackupSettings)
    recall: sections.RecallSettings = section(sections.RecallSettings, safe=True)
    ingest: sections.IngestSettings = section(sections.IngestSettings)
    llm: LlmSettings = section(LlmSettings)
    remote: RemoteSettings = section(RemoteSettings)
    sync: sections.SyncSettings = section(sections.SyncSettings, safe=True)
    note: sections.NoteSettings = section(sections.NoteSettings, safe=True)
    origins: Mapping[str, str] = MappingProxyType({})
    """The file, the environment variable or the call that set a value, by name of the setting.
    A setting that has its default is not listed."""
    written: Mapping[str, Value] = MappingProxyType({})
    """Values in which a file refers to environment variables, as they are written there."""
    notices: tuple[str, ...] = ()
    """Sentences about settings that were ignored."""

    def get(self, name: str) -> Value:
        """Return the value of the setting called `name`, such as ``search.k``."""
        return SETTING_BY_NAME[name].get(self)

    def origin(self, name: str) -> str:
        """Return where the value of a setting came from."""
        return self.origins.get(name, "default")

    def get_masked(self, name: str) -> Value:
        """Return the value of a setting as people may see it."""
        value = self.written.get(name, self.get(name))
        return "***" if SETTING_BY_NAME[name].secret and value else value

    @property
    def api_keys(self) -> list[str]:
        """Every key that is set, so that none gets into a log."""
        values = [setting.get(self) for setting in SETTINGS if setting.name.endswith(".key")]
        return [str(value) for value in values if value]

    def check_combinations(self) -> None:
        """Raise an error for values that are valid alone but not together."""
        chunk, search = self.chunk, self.search
        if chunk.overlap * 2 > chunk.size:
            raise ConfigError(
                f"chunk.overlap = {chunk.overlap} is more than half of chunk.size = {chunk.size}"
                f" ({self.origin('chunk.overlap')})",
                "Lower chunk.overlap or raise chunk.size",
            )
        if not (search.vector_weight or search.text_weight):
            raise ConfigError(
                "search.vector_weight and search.text_weight are both 0", "Raise one of them"
            )

    def with_overrides(self, changes: Mapping[str, Value], origin: str = "the call") -> Settings:
        """Return a copy in which some values are replaced; each of them is checked."""
        checked = {
            name: check(setting_named(name), value, origin) for name, value in changes.items()
        }
        values = {setting.name: setting.get(self) for setting in SETTINGS}
        return Settings.build(
            {**values, **checked},
            origins={**self.origins, **dict.fromkeys(checked, origin)},
            written={name: text for name, text in self.written.items() if name not in checked},
            notices=self.notices,
        )


SETTINGS = tuple(Settings.list_settings())
"""All of them, in the order of the table in docs/configuration.md."""
SETTING_BY_NAME = {setting.name: setting for setting in SETTINGS}


def setting_named(name: str) -> Setting:
    """Return a setting, or raise an error that suggests the nearest name."""
    if name not in SETTING_BY_NAME:
        raise ConfigError(f"{name} is not a setting", suggest_name(name))
    return SETTING_BY_NAME[name]


def suggest_name(name: str) -> str:
    """Return the remedy for a name that is not the name of a setting."""
    import difflib

    near = difflib.get_close_matches(name, SETTING_BY_NAME, n=1, cutoff=0.5)
    suggestion = f"Did you mean {near[0]}? " if near else ""
    return f"{suggestion}`memwell config` lists all settings"
