"""LlamaIndex: a retriever of passages and facts."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from memwell.integrations.hits import hit_metadata
from memwell.memory import Memory


class MemwellRetriever(BaseRetriever):
    """Finds the passages and facts that answer a query."""

    def __init__(self, memory: Memory, *, k: int = 6, kind: str | None = None, **more: Any) -> None:
        self._memory, self._k, self._kind = memory, k, kind
        super().__init__(**more)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self._memory.search(query_bundle.query_str, k=self._k, kind=self._kind).hits
        found = [(hit_metadata(hit), hit) for hit in hits]
        return [
            NodeWithScore(
                node=TextNode(id_=metadata["citation"], text=hit.text.strip(), metadata=metadata),
                score=hit.score,
            )
            for metadata, hit in found
        ]
