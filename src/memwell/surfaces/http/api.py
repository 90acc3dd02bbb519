"""A route for every verb of the memory, as JSON under /api.

A verb takes and returns what the method of `Memory` does. A client cannot name folders: `index`
syncs those that `memwell index PATH` registered on the server's machine.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from memwell.facts.erase import EraseReport, prune
from memwell.facts.recall import Recall
from memwell.facts.service import NewFact, RememberResult
from memwell.memory import Memory
from memwell.model import Excerpt, Fact, FactEvent, IndexReport, SearchResult
from memwell.reports import Check, SpaceStatus, Status
from memwell.search.why import Why
from memwell.store.contract.values import FactFilter
from memwell.surfaces.http.errors import FAILURES
from memwell.surfaces.http.viewer import ViewerMemory, run_search, wake_background
from memwell.surfaces.serialise import to_jsonable

MOST_HITS = 1000
MOST_FACTS = 10_000

router = APIRouter(prefix="/api", tags=["memory"], responses=FAILURES)

FactId = Annotated[str, Path(max_length=100)]
SpaceId = Annotated[int, Path(ge=0, lt=2**63)]
Share = Annotated[float, Field(ge=0, le=1)]
HitCount = Annotated[int, Field(ge=1, le=MOST_HITS)]
Text = Annotated[str, Field(max_length=1_000_000)]
Mode = Literal["hybrid", "words", "meaning"]


class RequestBody(BaseModel):
    """A body in which a field that does not exist, such as a misspelt one, is an error."""

    model_config = ConfigDict(extra="forbid")


def respond(result: Any) -> JSONResponse:
    """Return the response with a result.

    FastAPI would check a value against the `response_model` once more, after another change of the
    thread; here the model only describes the interface.
    """
    return JSONResponse(to_jsonable(result))


# -- finding ---------------------------------------------------------------------------------------


class SearchRequest(RequestBody):
    """A query and its options; the settings decide what is left out."""

    query: Text
    k: HitCount | None = None
    min_score: Share | None = None
    mode: Mode | None = None
    fusion: Literal["standard", "rrf", "weighted"] | None = None
    diversity: Literal["off", "mmr", "cluster"] | None = None
    context: Literal["neighbours", "section"] | None = None
    group: Literal["notes", "passages"] | None = None
    kind: Literal["note", "fact", "transcript"] | None = None
    include_superseded: bool = False
    as_of: str | None = None
    explain: bool = False


class WhyRequest(RequestBody):
    """A query, and a note that is or is not among its hits."""

    query: Text
    path: Annotated[str, Field(max_length=4096)]
    k: HitCount | None = None
    mode: Mode | None = None


class RecallRequest(RequestBody):
    """A message to an agent, and how many tokens the recalled block may have."""

    message: Text
    budget: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    include_superseded: bool = False
    as_of: str | None = None


@router.post("/search", response_model=SearchResult)
async def search(request: Request, body: SearchRequest, memory: ViewerMemory) -> Response:
    """Find the passages that answer a query, best first."""
    return await run_search(request, memory, lambda: respond(memory.search(**dict(body))))


@router.post("/why", response_model=Why)
def why(body: WhyRequest, memory: ViewerMemory) -> JSONResponse:
    """Return the rank of a note among the hits of a query, or why it is not among them."""
    return respond(memory.why(**dict(body)))


@router.post("/recall", response_model=Recall)
async def recall(request: Request, body: RecallRequest, memory: ViewerMemory) -> Response:
    """Return the facts and passages for a message, as a block for an agent's prompt."""
    return await run_search(request, memory, lambda: respond(memory.recall(**dict(body))))


@router.get("/get", response_model=Excerpt)
def get_note(
    reference: Annotated[str, Query(max_length=4096)], memory: ViewerMemory
) -> JSONResponse:
    """Read a note, or some of its lines (PATH#L3-L9)."""
    return respond(memory.get(reference))


# -- writing ---------------------------------------------------------------------------------------


class NoteRequest(RequestBody):
    """A text to append to today's log."""

    text: Text


@dataclass(frozen=True, slots=True)
class RememberRequest(NewFact):
    """A text to remember, with its category, tags, scope and lifetime."""

    __pydantic_config__ = RequestBody.model_config

    source: str = "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class SupersedeRequest(RememberRequest):
    """A text that supersedes the fact with the id `old`."""

    old: str


class ForgetRequest(RequestBody):
    """The ids of facts to forget."""

    ids: Annotated[list[str], Field(min_length=1, max_length=1000)]
    predecessors: bool = False
    """Whether the facts that they superseded are forgotten, too."""


@router.post("/note", response_model=Excerpt)
def append_note(body: NoteRequest, memory: ViewerMemory, request: Request) -> JSONResponse:
    """Append a text to today's log of the workspace."""
    return _wake_background(request, memory.note(body.text))


@router.post("/remember", response_model=RememberResult)
def remember(body: RememberRequest, memory: ViewerMemory, request: Request) -> JSONResponse:
    """Remember a fact, or reinforce the one with the same text."""
    return _wake_background(request, memory.remember(**asdict(body)))


@router.post("/supersede", response_model=RememberResult)
def supersede(body: SupersedeRequest, memory: ViewerMemory, request: Request) -> JSONResponse:
    """Remember a fact that supersedes another one."""
    return _wake_background(request, memory.supersede(**asdict(body)))


@router.post("/forget", response_model=EraseReport)
def forget(body: ForgetRequest, memory: ViewerMemory) -> JSONResponse:
    """Delete facts from the memory and every index."""
    return respond(memory.forget(*body.ids, predecessors=body.predecessors))


def _wake_background(request: Request, result: Any) -> JSONResponse:
    """Start embedding the new texts in the background; return the response with the result."""
    wake_background(request)
    return respond(result)


# -- facts -----------------------------------------------------------------------------------------


class FactsRequest(BaseModel):
    """Which facts to list."""

    category: str | None = None
    tag: str | None = None
    scope: str | None = None
    source: str | None = None
    include_superseded: bool = False
    as_of: str | None = None
    limit: Annotated[int, Field(ge=1, le=MOST_FACTS)] = 1000


class FactsResponse(BaseModel):
    """Facts, the newest first."""

    facts: list[Fact]


class HistoryResponse(BaseModel):
    """The events of a fact, and of the facts that it superseded."""

    events: list[FactEvent]


class EditRequest(RequestBody):
    """The fields of a fact to change."""

    text: Text | None = None
    category: str | None = None
    tags: list[str] | None = None
    importance: Share | None = None
    confidence: Share | None = None


class PromoteRequest(RequestBody):
    """The wider scope of a fact."""

    scope: Literal["global", "user", "agent"]


class PruneResponse(BaseModel):
    """How many expired facts were deleted."""

    pruned: int


@router.get("/facts", response_model=FactsResponse)
def list_facts(memory: ViewerMemory, request: Annotated[FactsRequest, Query()]) -> JSONResponse:
    """List facts, the newest first."""
    wanted = dict(request)
    limit, superseded = wanted.pop("limit"), wanted.pop("include_superseded")
    filter = FactFilter(superseded=superseded, **wanted)
    return respond({"facts": memory.facts.find(filter, limit)})


@router.get("/facts/{fact_id}", response_model=Fact)
def get_fact(fact_id: FactId, memory: ViewerMemory) -> JSONResponse:
    """Return a fact."""
    return respond(memory.facts.get(fact_id))


@router.get("/facts/{fact_id}/history", response_model=HistoryResponse)
def get_fact_history(fact_id: FactId, memory: ViewerMemory) -> JSONResponse:
    """Return the events of a fact, and of the facts that it superseded."""
    return respond({"events": memory.facts.history(fact_id)})


@router.patch("/facts/{fact_id}", response_model=Fact)
def edit_fact(
    fact_id: FactId, body: EditRequest, memory: ViewerMemory, request: Request
) -> JSONResponse:
    """Change fields of a fact."""
    changes = {name: value for name, value in body if value is not None}
    if "tags" in changes:
        changes["tags"] = tuple(changes["tags"])
    return _wake_background(request, memory.facts.edit(fact_id, **changes))


@router.post("/facts/{fact_id}/promote", response_model=Fact)
def promote_fact(fact_id: FactId, body: PromoteRequest, memory: ViewerMemory) -> JSONResponse:
    """Give a fact a wider scope."""
    return respond(memory.facts.promote(fact_id, body.scope))


@router.post("/facts/prune", response_model=PruneResponse)
def prune_expired_facts(memory: ViewerMemory) -> JSONResponse:
    """Delete expired facts."""
    return respond({"pruned": prune(memory.facts)})


@router.get("/export", responses={200: {"content": {"text/plain": {}}}})
def export_facts(
    memory: ViewerMemory, format: Literal["jsonl", "markdown"] = "jsonl"
) -> PlainTextResponse:
    """Return the facts that the viewer sees, with their history."""
    return PlainTextResponse(memory.export(format))


# -- status ----------------------------------------------------------------------------------------


class DoctorResponse(BaseModel):
    """The checks of `doctor`."""

    checks: list[Check]


class SpacesResponse(BaseModel):
    """The vector spaces, the live one first."""

    spaces: list[SpaceStatus]


class IndexResponse(BaseModel):
    """The report of each workspace."""

    reports: list[IndexReport]


class VerifyResponse(BaseModel):
    """Whether the memory of facts is sound; `memwell verify` on the server has the details."""

    sound: bool
    findings: int


@router.get("/status", response_model=Status)
def get_status(memory: ViewerMemory, deep: bool = False) -> JSONResponse:
    """Return what the index contains; `deep` also checks every page of it."""
    return respond(memory.status(deep=deep))


@router.get("/doctor", response_model=DoctorResponse)
def run_doctor(memory: ViewerMemory) -> JSONResponse:
    """Return checks of the installation; each problem has a remedy."""
    return respond({"checks": memory.doctor()})


@router.get("/spaces", response_model=SpacesResponse)
def list_spaces(memory: ViewerMemory) -> JSONResponse:
    """List the vector spaces."""
    return respond({"spaces": memory.spaces()})


@router.post("/spaces/{number}/switch", response_model=SpacesResponse)
def switch_space(number: SpaceId, memory: ViewerMemory) -> JSONResponse:
    """Use another space for searches."""
    memory.switch_space(number)
    return list_spaces(memory)


@router.delete("/spaces/{number}", response_model=SpacesResponse)
def drop_space(number: SpaceId, memory: ViewerMemory) -> JSONResponse:
    """Delete a space that is not live."""
    memory.drop_space(number)
    return list_spaces(memory)


@router.post("/index", response_model=IndexResponse)
def sync_notes(memory: ViewerMemory, request: Request) -> JSONResponse:
    """Sync the workspaces now; a background thread embeds."""
    reports: list[IndexReport] = []
    for folder in memory.folders():
        with Memory(memory.home, workspace=folder, agent=memory.agent) as workspace:
            reports += workspace.index(embed=False)
    return _wake_background(request, {"reports": reports})


@router.get("/verify", response_model=VerifyResponse)
def verify_facts(memory: ViewerMemory) -> JSONResponse:
    """Check every fact; the findings stay on the server, as they name facts of all users."""
    findings = memory.verify()
    return respond({"sound": not findings, "findings": len(findings)})
