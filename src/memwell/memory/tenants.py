"""The memories of the tenants of one PostgreSQL server, which share connections and models."""

from __future__ import annotations

from copy import copy

from memwell.files import digest_of
from memwell.memory import Memory
from memwell.memory.shared import Shared
from memwell.memory.workspaces import Workspaces
from memwell.store.factory import open_other_tenant


def as_tenant(memory: Memory, tenant: str) -> Memory:
    """Return the memory of another tenant on the same server; it covers all its workspaces."""
    other = copy(memory)
    other.home = memory.root_home / "tenants" / digest_of(tenant).hex()
    stores = open_other_tenant(memory._index, tenant, other.home, memory.agent)
    other._index, other._fact_store = stores.index, stores.facts
    other._workspaces = Workspaces(stores.registry, stores.index)
    other._overrides = {**memory._overrides, "store.tenant": tenant}
    other._folder, other._workspace_required = None, False
    other._shared, other.notices = Shared(waits=True), []
    return other


def stored_bytes(memory: Memory) -> int:
    """Return the approximate size of all texts and vectors of an agent, whoever sees them."""
    return memory._index.bytes
