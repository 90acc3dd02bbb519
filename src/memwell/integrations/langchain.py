"""LangChain: a retriever of passages and facts."""

from __future__ import annotations

from typing import Literal

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict

from memwell.integrations.hits import hit_metadata
from memwell.memory import Memory


class MemwellRetriever(BaseRetriever):
    """Finds the passages and facts that answer a query."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: Memory
    k: int = 6
    kind: Literal["note", "fact"] | None = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        hits = self.memory.search(query, k=self.k, kind=self.kind).hits
        return [Document(page_content=hit.text.strip(), metadata=hit_metadata(hit)) for hit in hits]
