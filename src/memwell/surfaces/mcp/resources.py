"""Notes and facts as resources, and recall as a prompt."""

from __future__ import annotations

from typing import Annotated

from mcp import MCPError
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp_types import INVALID_PARAMS
from pydantic import Field

from memwell.memory import Memory
from memwell.store.contract.values import FactFilter
from memwell.surfaces.mcp.model_server import translate_errors
from memwell.surfaces.mcp.results import FACT_PREFIX

_LISTED = 200
"""How many facts are listed, the newest first."""


class Resources:
    """The notes, facts and recalled blocks that a client can show or add to a conversation."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def note(self, path: str) -> str:
        """A note, read from its file now."""
        return self._memory.get(path).text

    def fact(self, id: str) -> str:
        """A remembered fact."""
        return self._memory.facts.get(id).text

    def facts(self) -> str:
        """The current facts, the newest first."""
        facts = self._memory.facts.find(FactFilter(), _LISTED)
        return "\n".join(f"{FACT_PREFIX}{fact.id} {' '.join(fact.text.split())}" for fact in facts)

    def recall(self, message: Annotated[str, Field(description="What to recall for.")]) -> str:
        """The facts and passages for a message, followed by the message."""
        block = self._memory.recall(message).block
        return f"{block}\n\n{message}" if block else message


def add_resources(server: MCPServer, resources: Resources) -> None:
    """Offer the resources and the prompt on a server."""
    for uri, read, kind in (
        ("memwell://note/{+path}", resources.note, "text/markdown"),
        ("memwell://fact/{id}", resources.fact, "text/plain"),
        ("memwell://facts", resources.facts, "text/plain"),
    ):
        server.resource(uri, mime_type=kind)(translate_errors(read, ResourceNotFoundError))
    server.prompt()(translate_errors(resources.recall, lambda text: MCPError(INVALID_PARAMS, text)))
