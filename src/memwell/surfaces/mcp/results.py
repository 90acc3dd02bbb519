"""The answers of tools: short by default, and every passage has a citation to read it by.

Fields with their default values are left out: a model's context costs its user money.
"""

from __future__ import annotations

from collections.abc import Sequence

from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel, Field

from memwell.facts.service import RememberResult
from memwell.model import Excerpt, Fact, Hit, SearchResult, cite_lines
from memwell.search.snippet import snippet

FACT_PREFIX = "fact:"
"""The beginning of a fact's citation; other citations name notes."""
_SNIPPET_CHARACTERS, _SNIPPET_LINES = 300, 3
_MORE_LINES = 3


class FoundPassage(BaseModel):
    """A passage or fact that answers a query."""

    citation: str = Field(description="a.md#L3-L9, b.pdf#page=3 or fact:ID; memory_get reads it.")
    score: float = Field(description="0 to 1.")
    weak: bool = Field(default=False, description="It may not answer the query at all.")
    text: str
    heading: str = ""
    date: str = ""
    more_lines: list[str] = Field(
        default=[], description="Further passages of the same note that answer, best first."
    )
    also: list[str] = Field(default=[], description="Other places with nearly the same text.")


class SearchAnswer(BaseModel):
    """The hits of a query, best first."""

    hits: list[FoundPassage]
    suggestions: list[str] = Field(
        default=[], description="Other queries to try: a word occurs in no note."
    )
    notices: list[str] = Field(default=[], description="Why the answer may be incomplete.")


class ReadAnswer(BaseModel):
    """Lines of a note, or a fact."""

    citation: str
    text: str
    next_line: int = Field(
        default=0, description="The first line after these, if the note is longer."
    )
    category: str = ""
    tags: list[str] = []
    created_at: str = ""
    superseded_by: str = Field(default="", description="The fact that replaced this one.")


class ListedFact(BaseModel):
    """A fact of a list."""

    citation: str
    text: str
    category: str = "fact"
    date: str


class ListAnswer(BaseModel):
    """Facts, the newest first."""

    facts: list[ListedFact]
    has_more: bool = Field(default=False, description="Whether a larger limit gives more.")


class NoteAnswer(BaseModel):
    """The lines that were written."""

    citation: str


class RecallAnswer(BaseModel):
    """The facts and passages for a message; empty if there are none."""

    block: str
    tokens: int


class StoreAnswer(BaseModel):
    """The fact that was stored, and how."""

    outcome: str = Field(description="added, reinforced (it was known already) or superseded.")
    citation: str
    text: str
    instead_of: str = Field(default="", description="The text of the fact that this one replaced.")
    similar_to: str = Field(default="", description="The id of a fact that says nearly the same.")


class ForgetAnswer(BaseModel):
    """How many facts were deleted, and where copies may be left."""

    count: int
    pending: bool = Field(
        default=False,
        description="Another process is still reading; the last traces are deleted after that.",
    )
    predecessors: list[str] = Field(
        default=[],
        description="Ids of older versions that are still stored: ask the user, then forget them.",
    )
    backups: list[str] = Field(
        default=[], description="Backups that may still contain it: tell the user."
    )


class WorkspaceAnswer(BaseModel):
    """A workspace, and how much of it is indexed."""

    root: str
    notes: int
    chunks: int
    synced_at: str | None = None
    missing: bool = False


class StatusAnswer(BaseModel):
    """The content of the memory, and whether all of it can be searched."""

    agent: str
    user: str = ""
    session: str = ""
    facts: int
    words: str
    meaning: str
    workspaces: list[WorkspaceAnswer]
    warnings: list[str] = []


def to_tool_result(answer: BaseModel) -> CallToolResult:
    """Return an answer as text and as structure, without default values."""
    return CallToolResult(
        content=[TextContent(type="text", text=answer.model_dump_json(exclude_defaults=True))],
        structured_content=answer.model_dump(mode="json", exclude_defaults=True),
    )


def search_result(result: SearchResult, *, full: bool) -> SearchAnswer:
    """Return the hits of a search as snippets, or with their whole text."""
    silent = [f"{leg.name}: {leg.reason}" for leg in result.legs if not leg.answered]
    return SearchAnswer(
        hits=[_to_passage(hit, result, full=full) for hit in result.hits],
        suggestions=[*result.suggestions],
        notices=[*result.notices, *silent, *filter(None, [result.freshness.note])],
    )


def _to_passage(hit: Hit, result: SearchResult, *, full: bool) -> FoundPassage:
    text = hit.text if full else _shorten(hit)
    return FoundPassage(
        citation=FACT_PREFIX + hit.path
        if hit.kind == "fact"
        else hit.cite(result.display_path(hit)),
        score=round(hit.score, 2),
        weak=hit.weak,
        text=text,
        heading=" > ".join(part for part in hit.heading if part not in text),
        date=hit.date or "",
        more_lines=[f"L{start}-L{end}" for start, end in hit.more_lines[:_MORE_LINES]],
        also=[*hit.also],
    )


def _shorten(hit: Hit) -> str:
    """Return the few lines of a passage that match the query best."""
    if len(hit.text) <= _SNIPPET_CHARACTERS:
        return hit.text.strip()
    count = sum(1 for line in hit.text.splitlines() if line.strip())
    lines = min(count, _SNIPPET_LINES)
    shown = snippet(hit, lines, _SNIPPET_CHARACTERS // lines)
    return "\n".join(line.text for line in shown)


def read_result(excerpt: Excerpt, next_line: int = 0) -> ReadAnswer:
    """Return lines of a note."""
    cited = cite_lines(excerpt.path, excerpt.start_line, excerpt.end_line)
    return ReadAnswer(citation=cited, text=excerpt.text, next_line=next_line)


def fact_result(fact: Fact) -> ReadAnswer:
    """Return a fact, and the fact that replaced it."""
    return ReadAnswer(
        citation=FACT_PREFIX + fact.id,
        text=fact.text,
        category=fact.category,
        tags=[*fact.tags],
        created_at=fact.created_at,
        superseded_by=FACT_PREFIX + fact.superseded_by if fact.superseded_by else "",
    )


def list_result(facts: Sequence[Fact], limit: int) -> ListAnswer:
    """Return facts up to a limit, and whether there are more."""
    listed = [
        ListedFact(
            citation=FACT_PREFIX + fact.id,
            text=fact.text,
            category=fact.category,
            date=fact.created_at[:10],
        )
        for fact in facts[:limit]
    ]
    return ListAnswer(facts=listed, has_more=len(facts) > limit)


def store_result(result: RememberResult) -> StoreAnswer:
    """Return the fact that was stored, and how."""
    return StoreAnswer(
        outcome=result.outcome,
        citation=FACT_PREFIX + result.fact.id,
        text=result.fact.text,
        instead_of=result.instead_of.text if result.instead_of else "",
        similar_to=result.similar_to.id if result.similar_to else "",
    )
