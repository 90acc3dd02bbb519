"""Haystack: a retriever of passages and facts, as a component of a pipeline."""

from __future__ import annotations

from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict

from memwell.integrations.hits import hit_metadata
from memwell.memory import Memory


@component
class MemwellRetriever:
    """Finds the passages and facts that answer a query.

    Args:
        home, workspace, agent, user: as in `Memory`; a saved pipeline has them.
        top_k: the most documents.
        kind: "note" or "fact" excludes the other.

    """

    def __init__(
        self,
        home: str | None = None,
        workspace: str | None = None,
        agent: str | None = None,
        user: str = "",
        top_k: int = 6,
        kind: str | None = None,
    ) -> None:
        self._arguments = {"home": home, "workspace": workspace, "agent": agent, "user": user}
        self._memory = Memory(home, workspace=workspace, agent=agent, user=user)
        self.top_k, self.kind = top_k, kind

    def to_dict(self) -> dict[str, Any]:
        """Return the component as a saved pipeline has it."""
        fields = {**self._arguments, "top_k": self.top_k, "kind": self.kind}
        saved: dict[str, Any] = default_to_dict(self, **fields)
        return saved

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> MemwellRetriever:
        """Make the component of a saved pipeline."""
        made: MemwellRetriever = default_from_dict(cls, data)
        return made

    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: int | None = None) -> dict[str, list[Document]]:
        """Find documents, best first."""
        hits = self._memory.search(query, k=top_k or self.top_k, kind=self.kind).hits
        found = [(hit_metadata(hit), hit) for hit in hits]
        return {
            "documents": [
                Document(id=meta["citation"], content=hit.text.strip(), meta=meta, score=hit.score)
                for meta, hit in found
            ]
        }
