"""What tools give a model: little by default, each piece with the citation that leads back to it.

Fields that say nothing are left out of an answer: a model's context is its user's money.
"""

from __future__ import annotations

from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel, Field

from memwell.facts.service import RememberResult
from memwell.model import Excerpt, Fact, Hit, SearchResult
from memwell.search.snippet import snippet

FACT_PREFIX = "fact:"
"""What the citation of a fact begins with; any other names a note."""
_SNIPPET, _SNIPPET_LINES = 300, 3


class FoundPassage(BaseModel):
    """One passage or fact that answers a query."""

    citation: str = Field(description="notes/a.md#L3-L9 or fact:ID; memory_get reads it.")
    score: float = Field(description="0 to 1.")
    text: str
    heading: str = ""
    date: str = ""
    also: list[str] = Field(default=[], description="Where nearly the same text stands.")


class SearchAnswer(BaseModel):
    """The hits of a query, best first."""

    hits: list[FoundPassage]
    suggestions: list[str] = Field(
        default=[], description="Other queries, where this one found nothing."
    )
    notices: list[str] = Field(default=[], description="What keeps the answer from being complete.")


class ReadAnswer(BaseModel):
    """Lines of a note, or a fact."""

    citation: str
    text: str
    next_line: int = Field(default=0, description="Where the note goes on, if there is more of it.")
    category: str = ""
    tags: list[str] = []
    created_at: str = ""
    superseded_by: str = Field(default="", description="The fact that is true instead.")


class RecallAnswer(BaseModel):
    """What is remembered of a message; empty if nothing is."""

    block: str
    tokens: int


class StoreAnswer(BaseModel):
    """What became of a text."""

    outcome: str = Field(description="added, reinforced (it was known) or superseded.")
    citation: str
    text: str
    instead_of: str = Field(default="", description="What is no longer held true.")


class ForgetAnswer(BaseModel):
    """What was removed."""

    count: int
    pending: bool = Field(
        default=False, description="Another process still reads; it goes after that."
    )
    backups: list[str] = Field(
        default=[], description="Copies that may still hold it: tell the user."
    )


class WorkspaceAnswer(BaseModel):
    """A workspace, and what the index holds of it."""

    root: str
    notes: int
    chunks: int
    synced_at: str | None = None
    missing: bool = False


class StatusAnswer(BaseModel):
    """What there is to search, and whether it can be."""

    agent: str
    user: str = ""
    session: str = ""
    facts: int
    words: str
    meaning: str
    workspaces: list[WorkspaceAnswer]
    warnings: list[str] = []


def to_tool_result(given: BaseModel) -> CallToolResult:
    """Return a result as text and as structure, without what is empty."""
    return CallToolResult(
        content=[TextContent(type="text", text=given.model_dump_json(exclude_defaults=True))],
        structured_content=given.model_dump(mode="json", exclude_defaults=True),
    )


def search_result(result: SearchResult, *, full: bool) -> SearchAnswer:
    """Return the hits of a search as snippets, or with their whole text."""
    roots = {hit.workspace for hit in result.hits if hit.kind != "fact"}
    silent = [f"{leg.name}: {leg.reason}" for leg in result.legs if not leg.answered]
    return SearchAnswer(
        hits=[_to_passage(hit, full=full, several=len(roots) > 1) for hit in result.hits],
        suggestions=[*result.suggestions],
        notices=[*result.notices, *silent, *filter(None, [result.freshness.note])],
    )


def _to_passage(hit: Hit, *, full: bool, several: bool) -> FoundPassage:
    path = f"{hit.workspace}/{hit.path}" if several else hit.path
    return FoundPassage(
        citation=FACT_PREFIX + hit.path
        if hit.kind == "fact"
        else citation(path, hit.start_line, hit.end_line),
        score=round(hit.score, 2),
        text=hit.text if full else _shorten(hit),
        heading=" > ".join(hit.heading),
        date=hit.date or "",
        also=[*hit.also],
    )


def _shorten(hit: Hit) -> str:
    """Return the lines of a passage that show why it was found, few of them."""
    if len(hit.text) <= _SNIPPET:
        return hit.text.strip()
    written = sum(1 for line in hit.text.splitlines() if line.strip())
    lines = min(written, _SNIPPET_LINES)
    shown = snippet(hit.text, hit.marks, hit.start_line, lines, _SNIPPET // lines)
    return "\n".join(line.text for line in shown)


def citation(path: str, start: int, end: int) -> str:
    """Return how lines of a note are cited."""
    return f"{path}#L{start}-L{end}"


def read_result(passage: Excerpt, next_line: int = 0) -> ReadAnswer:
    """Return lines of a note."""
    place = citation(passage.path, passage.start_line, passage.end_line)
    return ReadAnswer(citation=place, text=passage.text, next_line=next_line)


def fact_result(fact: Fact) -> ReadAnswer:
    """Return a fact, and what became of it."""
    return ReadAnswer(
        citation=FACT_PREFIX + fact.id,
        text=fact.text,
        category=fact.category,
        tags=[*fact.tags],
        created_at=fact.created_at,
        superseded_by=FACT_PREFIX + fact.superseded_by if fact.superseded_by else "",
    )


def store_result(done: RememberResult) -> StoreAnswer:
    """Return what became of a text that was to be remembered."""
    return StoreAnswer(
        outcome=done.outcome,
        citation=FACT_PREFIX + done.fact.id,
        text=done.fact.text,
        instead_of=done.instead_of.text if done.instead_of else "",
    )
