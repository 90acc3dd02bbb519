"""How a process uses a server, as its operator sets it."""

from __future__ import annotations

from dataclasses import dataclass

from memwell.config.sections import StoreSettings, TenantsSettings

AUTO, ON = "auto", "on"
"""Whether the server prepares statements that repeat; "auto": if no pooler stands before it."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a process uses a server; by default as without settings."""

    prepare: str = StoreSettings().prepare
    slow_ms: int = StoreSettings().slow_ms
    """Statements that take longer are logged; 0 is none."""
    statement_seconds: float = TenantsSettings().statement_seconds
    """The server ends a statement that takes longer; 0 is none."""

    @property
    def statement_ms(self) -> int:
        """The same as PostgreSQL takes it."""
        return round(self.statement_seconds * 1000)


DEFAULTS = ServerOptions()
