"""A route for every verb of the memory, as JSON under /api.

What a verb takes and returns is what `Memory` takes and returns. Folders are not named from
afar: `index` refreshes those that `memwell index PATH` took in on the server's machine.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import PlainTextResponse
from pydantic import Field

from memwell.facts.erase import EraseReport
from memwell.facts.recall import Recall
from memwell.facts.service import NewFact, RememberResult
from memwell.memory import Memory
from memwell.model import Excerpt, Fact, FactEvent, IndexReport, SearchResult
from memwell.reports import Check, SpaceStatus, Status
from memwell.search.why import Why
from memwell.store.sqlite.facts import FactFilter
from memwell.surfaces.http.errors import FAILURES
from memwell.surfaces.http.viewer import ViewerMemory
from memwell.surfaces.serialise import to_jsonable

MOST_HITS = 1000
MOST_FACTS = 10_000

router = APIRouter(prefix="/api", tags=["memory"], responses=FAILURES)

Id = Annotated[str, Path(max_length=100)]
Number = Annotated[int, Path(ge=0, lt=2**63)]
Share = Annotated[float, Field(ge=0, le=1)]
HowMany = Annotated[int, Field(ge=1, le=MOST_HITS)]
Text = Annotated[str, Field(max_length=1_000_000)]
Mode = Literal["hybrid", "words", "meaning"]


# -- finding ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What a search is asked for; what is not said is as the settings have it."""

    query: Text
    k: HowMany | None = None
    min_score: Share | None = None
    mode: Mode | None = None
    fusion: Literal["standard", "rrf", "weighted"] | None = None
    diversity: Literal["off", "mmr", "cluster"] | None = None
    context: Literal["neighbours", "section"] | None = None
    kind: Literal["note", "fact"] | None = None
    include_superseded: bool = False
    as_of: str | None = None
    explain: bool = False


@dataclass(frozen=True, slots=True)
class WhyRequest:
    """A query, and the note that is or is not among its hits."""

    query: Text
    path: Annotated[str, Field(max_length=4096)]
    k: HowMany | None = None
    mode: Mode | None = None


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """What is said to an agent, and how many tokens may be recalled for it."""

    message: Text
    budget: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    include_superseded: bool = False
    as_of: str | None = None


@router.post("/search", response_model=SearchResult)
def search(asked: SearchRequest, memory: ViewerMemory) -> Any:
    """Find the passages that answer a query, best first."""
    return to_jsonable(memory.search(**asdict(asked)))


@router.post("/why", response_model=Why)
def why(asked: WhyRequest, memory: ViewerMemory) -> Any:
    """Say at which place a note is among the hits of a query, or why it is not."""
    return to_jsonable(memory.why(**asdict(asked)))


@router.post("/recall", response_model=Recall)
def recall(asked: RecallRequest, memory: ViewerMemory) -> Any:
    """Return what is remembered of a message, as a block for an agent's prompt."""
    return to_jsonable(memory.recall(**asdict(asked)))


@router.get("/get", response_model=Excerpt)
def get(reference: Annotated[str, Query(max_length=4096)], memory: ViewerMemory) -> Any:
    """Read a note, or the lines of it that PATH#L3-L9 names."""
    return to_jsonable(memory.get(reference))


# -- writing ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NoteRequest:
    """A text for today's log."""

    text: Text


@dataclass(frozen=True, slots=True)
class RememberRequest(NewFact):
    """A text to remember, and what is known of it."""

    source: str = "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class SupersedeRequest(RememberRequest):
    """A text to remember in place of the fact with the id `old`."""

    old: str


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """Facts, by their ids."""

    ids: Annotated[list[str], Field(min_length=1, max_length=1000)]


@router.post("/note", response_model=Excerpt)
def note(told: NoteRequest, memory: ViewerMemory, request: Request) -> Any:
    """Append a text to today's log of the workspace."""
    return _wake_background(request, memory.note(told.text))


@router.post("/remember", response_model=RememberResult)
def remember(told: RememberRequest, memory: ViewerMemory, request: Request) -> Any:
    """Keep a fact, or reinforce the one that says the same."""
    return _wake_background(request, memory.remember(**asdict(told)))


@router.post("/supersede", response_model=RememberResult)
def supersede(told: SupersedeRequest, memory: ViewerMemory, request: Request) -> Any:
    """Keep a fact in place of another, which is no longer held true."""
    return _wake_background(request, memory.supersede(**asdict(told)))


@router.post("/forget", response_model=EraseReport)
def forget(named: ForgetRequest, memory: ViewerMemory) -> Any:
    """Remove facts; nothing of them stays in memory or index."""
    return to_jsonable(memory.forget(*named.ids))


def _wake_background(request: Request, done: Any) -> Any:
    """Have what was written embedded, in the background."""
    request.app.state.background.wake()
    return to_jsonable(done)


# -- facts -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FactsResponse:
    """Some facts, the newest first."""

    facts: list[Fact]


@dataclass(frozen=True, slots=True)
class HistoryResponse:
    """What happened to a fact, and to those it took the place of."""

    events: list[FactEvent]


@dataclass(frozen=True, slots=True)
class EditRequest:
    """What is to be otherwise about a fact."""

    text: Text | None = None
    category: str | None = None
    tags: list[str] | None = None
    importance: Share | None = None
    confidence: Share | None = None


@dataclass(frozen=True, slots=True)
class PromoteRequest:
    """A scope."""

    scope: Literal["global", "user", "agent"]


@dataclass(frozen=True, slots=True)
class PruneResponse:
    """How many facts had expired."""

    pruned: int


@router.get("/facts", response_model=FactsResponse)
def facts(
    memory: ViewerMemory,
    category: str | None = None,
    tag: str | None = None,
    scope: str | None = None,
    source: str | None = None,
    include_superseded: bool = False,
    as_of: str | None = None,
    limit: Annotated[int, Query(ge=1, le=MOST_FACTS)] = 1000,
) -> Any:
    """List facts, the newest first."""
    which = FactFilter(
        category=category,
        tag=tag,
        scope=scope,
        source=source,
        superseded=include_superseded,
        as_of=as_of,
    )
    return {"facts": to_jsonable(memory.facts.find(which, limit))}


@router.get("/facts/{fact_id}", response_model=Fact)
def fact(fact_id: Id, memory: ViewerMemory) -> Any:
    """Return all that is known of a fact."""
    return to_jsonable(memory.facts.get(fact_id))


@router.get("/facts/{fact_id}/history", response_model=HistoryResponse)
def history(fact_id: Id, memory: ViewerMemory) -> Any:
    """Return what happened to a fact, and to those it took the place of."""
    return {"events": to_jsonable(memory.facts.history(fact_id))}


@router.patch("/facts/{fact_id}", response_model=Fact)
def edit(fact_id: Id, correction: EditRequest, memory: ViewerMemory, request: Request) -> Any:
    """Correct what is known of a fact."""
    changes = {name: value for name, value in asdict(correction).items() if value is not None}
    if "tags" in changes:
        changes["tags"] = tuple(changes["tags"])
    return _wake_background(request, memory.facts.edit(fact_id, **changes))


@router.post("/facts/{fact_id}/promote", response_model=Fact)
def promote(fact_id: Id, wider: PromoteRequest, memory: ViewerMemory) -> Any:
    """Let more see a fact."""
    return to_jsonable(memory.facts.promote(fact_id, wider.scope))


@router.post("/facts/prune", response_model=PruneResponse)
def prune(memory: ViewerMemory) -> Any:
    """Remove what has expired."""
    return {"pruned": memory.facts.prune()}


@router.get("/export", responses={200: {"content": {"text/plain": {}}}})
def export(
    memory: ViewerMemory, format: Literal["jsonl", "markdown"] = "jsonl"
) -> PlainTextResponse:
    """Return the facts that are seen, with their history."""
    from memwell.facts.export_import import MARKDOWN, export_facts, to_jsonl, to_markdown

    found = export_facts(memory.facts)
    return PlainTextResponse(to_markdown(found) if format == MARKDOWN else to_jsonl(found))


# -- the state of it -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DoctorResponse:
    """What was looked at."""

    checks: list[Check]


@dataclass(frozen=True, slots=True)
class SpacesResponse:
    """The vector spaces, the one that answers first."""

    spaces: list[SpaceStatus]


@dataclass(frozen=True, slots=True)
class IndexResponse:
    """What was done to each workspace."""

    reports: list[IndexReport]


@dataclass(frozen=True, slots=True)
class VerifyResponse:
    """Whether the memory of facts is sound; `memwell verify` on the server says more."""

    sound: bool
    findings: int


@router.get("/status", response_model=Status)
def status(memory: ViewerMemory, deep: bool = False) -> Any:
    """Return what the index holds; deep checks every page of it, too."""
    return to_jsonable(memory.status(deep=deep))


@router.get("/doctor", response_model=DoctorResponse)
def doctor(memory: ViewerMemory) -> Any:
    """Look for anything that is wrong, each with its remedy."""
    return {"checks": to_jsonable(memory.doctor())}


@router.get("/spaces", response_model=SpacesResponse)
def spaces(memory: ViewerMemory) -> Any:
    """List the vector spaces."""
    return {"spaces": to_jsonable(memory.spaces())}


@router.post("/spaces/{number}/switch", response_model=SpacesResponse)
def switch(number: Number, memory: ViewerMemory) -> Any:
    """Let another space answer."""
    memory.switch_space(number)
    return spaces(memory)


@router.delete("/spaces/{number}", response_model=SpacesResponse)
def drop(number: Number, memory: ViewerMemory) -> Any:
    """Delete a space that does not answer."""
    memory.drop_space(number)
    return spaces(memory)


@router.post("/index", response_model=IndexResponse)
def index(memory: ViewerMemory, request: Request) -> Any:
    """Bring the index in step with the workspaces now; vectors follow in the background."""
    done: list[IndexReport] = []
    for folder in memory.folders():
        with Memory(memory.home, workspace=folder, agent=memory.agent) as one:
            done += one.index(embed=False)
    return {"reports": _wake_background(request, done)}


@router.get("/verify", response_model=VerifyResponse)
def verify(memory: ViewerMemory) -> Any:
    """Check all that was remembered; whose fact is not in order is not told from afar."""
    from memwell.facts.comparison import normalised
    from memwell.store.sqlite.verify import verify

    file = memory.facts.store.database.path
    found = verify(file, normalised) if file.exists() else []
    return {"sound": not found, "findings": len(found)}
