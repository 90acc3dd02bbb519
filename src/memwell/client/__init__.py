"""A client of `memwell serve`: the methods and results of `Memory`, over HTTP.

>>> from memwell.client import Client
>>> with Client(token="…") as client:
...     for hit in client.search("what is the name of the cat").hits:
...         print(hit.path, hit.text)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

from memwell.errors import HomeError, MemwellError, NotAllowedError, NotFoundError

if TYPE_CHECKING:
    import httpx2

    from memwell.facts.erase import EraseReport
    from memwell.facts.recall import Recall
    from memwell.facts.service import RememberResult
    from memwell.model import Excerpt, Fact, FactEvent, IndexReport, SearchResult
    from memwell.reports import Status
    from memwell.search.why import Why

T = TypeVar("T")
_ERRORS: dict[int, type[MemwellError]] = {
    401: NotAllowedError,
    403: NotAllowedError,
    404: NotFoundError,
    503: HomeError,
}


class Client:
    """A connection to a server; threads may share it.

    Args:
        url: the address of the server.
        token: `memwell serve token local` prints the owner's.
        timeout: seconds after which a request is given up.

    """

    def __init__(
        self, url: str = "http://127.0.0.1:8765", *, token: str = "", timeout: float = 30.0
    ) -> None:
        import httpx2

        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._url = url.rstrip("/")
        self._http = httpx2.Client(base_url=self._url, headers=headers, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # -- finding -----------------------------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        k: int | None = None,
        min_score: float | None = None,
        mode: str | None = None,
        fusion: str | None = None,
        diversity: str | None = None,
        context: str | None = None,
        group: str | None = None,
        kind: str | None = None,
        include_superseded: bool = False,
        as_of: str | None = None,
        explain: bool = False,
    ) -> SearchResult:
        """Find the passages that answer `query`, best first, as `Memory.search` does."""
        from memwell.model import SearchResult

        return self._send(SearchResult, "POST", "/api/search", _given(locals()))

    def why(self, query: str, path: str, *, k: int | None = None, mode: str | None = None) -> Why:
        """Explain at which rank a note is among the hits of a query, or why it is not."""
        from memwell.search.why import Why

        return self._send(Why, "POST", "/api/why", _given(locals()))

    def recall(
        self,
        message: str,
        *,
        budget: int | None = None,
        include_superseded: bool = False,
        as_of: str | None = None,
    ) -> Recall:
        """Return a block of the memories that fit a message."""
        from memwell.facts.recall import Recall

        return self._send(Recall, "POST", "/api/recall", _given(locals()))

    def get(self, reference: str) -> Excerpt:
        """Read a note, or the lines of it that ``PATH#L3-L9`` names."""
        from memwell.model import Excerpt

        return self._send(Excerpt, "GET", f"/api/get?reference={quote(reference, safe='')}")

    # -- writing -----------------------------------------------------------------------------------

    def note(self, text: str) -> Excerpt:
        """Append `text` to today's log of the server's workspace."""
        from memwell.model import Excerpt

        return self._send(Excerpt, "POST", "/api/note", {"text": text})

    def remember(
        self,
        text: str,
        *,
        category: str = "fact",
        tags: Sequence[str] = (),
        origin: str = "",
        importance: float = 0.5,
        confidence: float = 1.0,
        decay_class: str = "permanent",
        scope: str | None = None,
        valid_from: str | None = None,
        secrets: str = "refuse",
    ) -> RememberResult:
        """Store a fact, or reinforce the one that says the same."""
        from memwell.facts.service import RememberResult

        return self._send(RememberResult, "POST", "/api/remember", _given(locals()))

    def supersede(
        self,
        old: str,
        text: str,
        *,
        category: str = "fact",
        tags: Sequence[str] = (),
        origin: str = "",
        importance: float = 0.5,
        confidence: float = 1.0,
        decay_class: str = "permanent",
        valid_from: str | None = None,
        secrets: str = "refuse",
    ) -> RememberResult:
        """Store a fact in place of the one with the id `old`."""
        from memwell.facts.service import RememberResult

        return self._send(RememberResult, "POST", "/api/supersede", _given(locals()))

    def forget(self, *ids: str, predecessors: bool = False) -> EraseReport:
        """Remove facts, and with `predecessors` those that they superseded."""
        from memwell.facts.erase import EraseReport

        body = {"ids": ids, "predecessors": predecessors}
        return self._send(EraseReport, "POST", "/api/forget", body)

    # -- facts and state ---------------------------------------------------------------------------

    def facts(
        self,
        *,
        category: str | None = None,
        tag: str | None = None,
        scope: str | None = None,
        source: str | None = None,
        include_superseded: bool = False,
        as_of: str | None = None,
        limit: int = 1000,
    ) -> list[Fact]:
        """Return facts, the newest first."""
        from memwell.model import Fact

        parameters = _given(locals())
        kind = dict[str, list[Fact]]
        found = self._send(kind, "GET", "/api/facts", parameters=parameters)
        return found["facts"]

    def fact(self, fact_id: str) -> Fact:
        """Return a fact."""
        from memwell.model import Fact

        return self._send(Fact, "GET", f"/api/facts/{quote(fact_id, safe='')}")

    def history(self, fact_id: str) -> list[FactEvent]:
        """Return the events of a fact, and of the facts that it superseded."""
        from memwell.model import FactEvent

        path = f"/api/facts/{quote(fact_id, safe='')}/history"
        return self._send(dict[str, list[FactEvent]], "GET", path)["events"]

    def export(self, layout: str = "jsonl") -> str:
        """Return the facts that the token's viewer sees, with their history."""
        return self._request("GET", f"/api/export?format={quote(layout)}").text

    def index(self) -> list[IndexReport]:
        """Sync the server's workspaces with their files now."""
        from memwell.model import IndexReport

        return self._send(dict[str, list[IndexReport]], "POST", "/api/index")["reports"]

    def status(self) -> Status:
        """Return the state of the index."""
        from memwell.reports import Status

        return self._send(Status, "GET", "/api/status")

    # -- requests ----------------------------------------------------------------------------------

    def _send(
        self,
        kind: type[T],
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> T:
        """Send a request and return the response as an object of a type."""
        from pydantic import TypeAdapter

        response = self._request(method, path, body, parameters)
        return TypeAdapter(kind).validate_json(response.content)

    def _request(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> httpx2.Response:
        import httpx2

        try:
            response = self._http.request(method, path, json=body, params=parameters)
        except httpx2.TimeoutException as error:
            raise MemwellError(f"{self._url} did not answer in time", "Try again later") from error
        except httpx2.HTTPError as error:
            raise MemwellError(
                f"No server answers at {self._url} ({error})", "Start it with `memwell serve`"
            ) from error
        if response.is_success:
            return response
        raise _ERRORS.get(response.status_code, MemwellError)(_message(response))


def _given(values: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a method that are not None, without the type it imported."""
    return {
        name: value
        for name, value in values.items()
        if name != "self" and value is not None and not isinstance(value, type)
    }


def _message(response: httpx2.Response) -> str:
    """Return the message of an error, in the form that every route answers with."""
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"The server answered with status {response.status_code}"
