"""A store on another machine, asked along with the index: whatever speaks OpenAI's vector stores.

Opt-in: it is asked only where ``remote.base_url`` and ``remote.vector_store`` name it, and is sent
the query, nothing else. Where it is slow or fails the index answers alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any
from urllib.parse import quote

from memwell.config.providers import OPENAI_URL, RemoteSettings
from memwell.embed.base import EmbeddingError
from memwell.model import Hit, Leg
from memwell.net.client import JsonClient
from memwell.net.responses import SettingNames
from memwell.search.remote_merge import REMOTE, RemoteResult

_SECTION = SettingNames("remote", "MEMWELL_REMOTE_KEY")
_MOST_HITS = 50
"""What the protocol lets one ask for."""
_MOST_BYTES = 16 * 1024 * 1024


def remote_store(settings: RemoteSettings) -> RemoteStore | None:
    """Return the store that the settings name, if they do."""
    if not (settings.base_url and settings.vector_store):
        return None
    return RemoteStore(settings.base_url, settings.vector_store, settings.key, settings.timeout)


class RemoteStore:
    """A vector store behind ``/vector_stores/ID/search``."""

    def __init__(self, base_url: str, store: str, key: str, timeout: float) -> None:
        self._path = f"/vector_stores/{quote(store, safe='')}/search"
        self._store = store
        self._service = JsonClient(
            base_url,
            key,
            vendor=OPENAI_URL,
            header="Authorization",
            scheme="Bearer ",
            settings=_SECTION,
            timeout=timeout,
            most_bytes=_MOST_BYTES,
        )

    def begin(self, text: str, limit: int) -> Callable[[], RemoteResult]:
        """Begin to ask; what is returned waits for the answer, and never fails."""
        answer: Future[RemoteResult] = Future()
        ask = threading.Thread(
            target=lambda: answer.set_result(self._request(text, limit)), daemon=True
        )
        ask.start()
        return answer.result

    def _request(self, text: str, limit: int) -> RemoteResult:
        body = {"query": text, "max_num_results": min(limit, _MOST_HITS)}
        try:
            page = self._service.post(self._path, body)
        except EmbeddingError as error:
            return (), Leg(REMOTE, False, error.what)
        try:
            hits = [self._hit(found) for found in page["data"]]
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            return (), Leg(REMOTE, False, "the answer is no page of search results")
        return sorted(hits, key=lambda hit: -hit.relevance), Leg(REMOTE, True, detail=self._where)

    @property
    def _where(self) -> str:
        return f"{self._service.server.host} {self._store}"

    def _hit(self, found: dict[str, Any]) -> Hit:
        text = "\n".join(str(part["text"]) for part in found["content"])
        score = min(1.0, max(0.0, float(found["score"])))
        lines = text.count("\n") + 1
        return Hit(str(found["filename"]), self._where, 1, lines, score, score, text)
