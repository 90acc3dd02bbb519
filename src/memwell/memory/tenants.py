"""The memories of the tenants of one PostgreSQL server, which share connections and models."""

from __future__ import annotations

from copy import copy
from pathlib import Path

from memwell.files import digest_of
from memwell.memory import Memory
from memwell.memory.shared import Shared
from memwell.memory.workspaces import Workspaces
from memwell.store.factory import open_other_tenant


def as_tenant(memory: Memory, tenant: str) -> Memory:
    """Return the memory of another tenant on the same server; it covers all its workspaces."""
    other = copy(memory)
    other.home = home_of(memory.root_home, tenant)
    _share_connections(other, memory, tenant)
    other._overrides = {**memory._overrides, "store.tenant": tenant}
    other._folder, other._workspace_required = None, False
    other.shared, other.notices = Shared(waits=True), []
    return other


def share_connections(memory: Memory, other: Memory, tenant: str) -> None:
    """Let a memory that has not been used yet share the connections of another one to a server."""
    if other._index.shared:
        _share_connections(memory, other, tenant)


def _share_connections(memory: Memory, other: Memory, tenant: str) -> None:
    stores = open_other_tenant(other._index, tenant, memory.home, memory.agent)
    memory._index, memory._fact_store = stores.index, stores.facts
    memory._workspaces = Workspaces(stores.registry, stores.index)


def home_of(home: Path, tenant: str) -> Path:
    """Return the folder in the home of a server that has the files of a tenant."""
    return home / "tenants" / digest_of(tenant).hex()


def stored_bytes(memory: Memory) -> int:
    """Return the approximate size of the texts and vectors of all agents, whoever sees them."""
    return sum(index.bytes for index in memory._fact_store.indexes())
