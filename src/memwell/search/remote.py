"""Search in a vector store on another machine, through OpenAI's protocol for vector stores.

It is opt-in: memwell asks the store only if ``remote.base_url`` and ``remote.vector_store`` name
it, and sends it the query and nothing else. If the store is slow or fails, the results come from
the index alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any
from urllib.parse import quote

from memwell.config.providers import RemoteSettings
from memwell.errors import EmbeddingError
from memwell.model import Hit, Leg
from memwell.net.client import JsonClient
from memwell.net.responses import SettingNames
from memwell.net.vendors import OPENAI
from memwell.search.remote_merge import REMOTE, RemoteResult

_SETTINGS = SettingNames("remote", "MEMWELL_REMOTE_KEY")
_MAX_HITS = 50
"""The protocol's own limit."""
_MAX_BYTES = 16 * 1024 * 1024


def remote_store(settings: RemoteSettings) -> RemoteStore | None:
    """Return the store that the settings name, or None."""
    if not (settings.base_url and settings.vector_store):
        return None
    return RemoteStore(settings.base_url, settings.vector_store, settings.key, settings.timeout)


class RemoteStore:
    """A vector store behind ``/vector_stores/ID/search``."""

    def __init__(self, base_url: str, store: str, key: str, timeout: float) -> None:
        self._path = f"/vector_stores/{quote(store, safe='')}/search"
        self._store = store
        self._client = JsonClient(
            base_url, key, OPENAI, _SETTINGS, timeout=timeout, max_bytes=_MAX_BYTES
        )

    def begin(self, text: str, limit: int) -> Callable[[], RemoteResult]:
        """Begin to search; return a function that waits for the result and never raises."""
        result: Future[RemoteResult] = Future()
        threading.Thread(
            target=lambda: result.set_result(self._search(text, limit)), daemon=True
        ).start()
        return result.result

    def _search(self, text: str, limit: int) -> RemoteResult:
        body = {"query": text, "max_num_results": min(limit, _MAX_HITS)}
        try:
            page = self._client.post(self._path, body)
        except EmbeddingError as error:
            return (), Leg(REMOTE, False, error.what)
        try:
            hits = [self._hit(result) for result in page["data"]]
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            return (), Leg(REMOTE, False, "the answer is not a page of search results")
        return sorted(hits, key=lambda hit: -hit.relevance), Leg(REMOTE, True, detail=self._where)

    @property
    def _where(self) -> str:
        return f"{self._client.endpoint.host} {self._store}"

    def _hit(self, result: dict[str, Any]) -> Hit:
        text = "\n".join(str(part["text"]) for part in result["content"])
        score = min(1.0, max(0.0, float(result["score"])))
        lines = text.count("\n") + 1
        return Hit(str(result["filename"]), self._where, 1, lines, score, score, text)
