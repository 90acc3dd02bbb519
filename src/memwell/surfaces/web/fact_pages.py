"""The views of facts, and the forms that change them. Every form has the page's token."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from memwell.errors import MemwellError
from memwell.facts.lifetimes import LIFETIMES
from memwell.facts.service import CATEGORIES
from memwell.memory import Memory
from memwell.model import SCOPES, Fact, FactEvent
from memwell.store.contract.values import FactFilter
from memwell.surfaces.http.viewer import ViewerMemory, wake_background
from memwell.surfaces.web.render import FORM_TOKEN, PageRoute, page
from memwell.surfaces.web.views import fact_link

_LISTED = 200

router = APIRouter(prefix="/facts", route_class=PageRoute, include_in_schema=False)


def check_form_token(request: Request, token: Annotated[str, Form()] = "") -> Iterator[None]:
    """Refuse a form that is not from a page of this process; embed its new texts afterwards."""
    if not secrets.compare_digest(token.encode(), FORM_TOKEN.encode()):
        raise MemwellError(
            "The server has restarted since this form was loaded", "Reload the page and try again"
        )
    yield
    wake_background(request)


_form_guard = [Depends(check_form_token)]
TextField = Annotated[str, Form()]
ShareField = Annotated[float, Form(ge=0, le=1)]


# -- reading ---------------------------------------------------------------------------------------


@router.get("")
def facts(
    request: Request,
    memory: ViewerMemory,
    scope: str = "",
    category: str = "",
    tag: str = "",
    superseded: bool = False,
) -> HTMLResponse:
    """List facts, the newest first."""
    filter = FactFilter(
        scope=scope or None,
        category=category or None,
        tag=tag.casefold() or None,
        superseded=superseded,
    )
    return page(
        request,
        "facts.html",
        facts=memory.facts.find(filter, _LISTED),
        most=_LISTED,
        scope=scope,
        category=category,
        tag=tag,
        superseded=superseded,
        scopes=_scopes(memory),
        categories=CATEGORIES,
        decay_classes=[*LIFETIMES],
    )


@router.get("/{fact_id}")
def fact_page(request: Request, memory: ViewerMemory, fact_id: str) -> HTMLResponse:
    """Show a fact, its history, and the forms that change it."""
    fact = memory.facts.get(fact_id)
    wider = [scope for scope in _scopes(memory) if SCOPES.index(scope) < SCOPES.index(fact.scope)]
    history = memory.facts.history(fact_id)
    return page(
        request,
        "fact.html",
        fact=fact,
        history=history,
        versions=_versions(memory, history),
        wider=wider,
        categories=[*dict.fromkeys((*CATEGORIES, fact.category))],
    )


@router.get("/{fact_id}/forget")
def confirm_forget(request: Request, memory: ViewerMemory, fact_id: str) -> HTMLResponse:
    """Ask for confirmation before a fact is forgotten."""
    return page(request, "forget.html", fact=memory.facts.get(fact_id))


@dataclass(frozen=True, slots=True)
class Version:
    """A fact of a chain in which each one superseded the one before."""

    fact: Fact
    changes: tuple[tuple[str, str], ...]
    """Its words in order, each with "same", "added" or "removed", since the version before."""


def _versions(memory: Memory, history: Sequence[FactEvent]) -> list[Version]:
    """Return the facts of a history, the oldest first."""
    facts = [memory.facts.get(key) for key in dict.fromkeys(event.fact_id for event in history)]
    facts.sort(key=lambda fact: fact.created_at)
    texts = ["", *(fact.text for fact in facts)]
    return [
        Version(fact, tuple(compare_words(before, fact.text) if before else ()))
        for fact, before in zip(facts, texts, strict=False)
    ]


def compare_words(old: str, new: str) -> Iterator[tuple[str, str]]:
    """Yield runs of words with "same", "added" or "removed"."""
    before, after = old.split(), new.split()
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            yield "same", " ".join(after[c:d])
            continue
        if a < b:
            yield "removed", " ".join(before[a:b])
        if c < d:
            yield "added", " ".join(after[c:d])


# -- writing ---------------------------------------------------------------------------------------


@router.post("", dependencies=_form_guard)
def remember(
    memory: ViewerMemory,
    text: TextField,
    category: TextField,
    scope: TextField,
    decay_class: TextField,
    tags: TextField = "",
) -> RedirectResponse:
    """Remember a fact."""
    result = memory.remember(
        text,
        category=category,
        scope=scope,
        decay_class=decay_class,
        tags=_tags(tags),
        source="page",
    )
    return _redirect_to(result.fact)


@router.post("/{fact_id}/edit", dependencies=_form_guard)
def edit(
    memory: ViewerMemory,
    fact_id: str,
    text: TextField,
    category: TextField,
    importance: ShareField,
    confidence: ShareField,
    tags: TextField = "",
) -> RedirectResponse:
    """Change the fields of a fact that differ in the form."""
    fact = memory.facts.get(fact_id)
    fields: dict[str, Any] = {
        "text": text.replace("\r\n", "\n"),
        "category": category,
        "tags": _tags(tags),
        "importance": importance,
        "confidence": confidence,
    }
    changes = {name: value for name, value in fields.items() if value != getattr(fact, name)}
    return _redirect_to(memory.facts.edit(fact_id, **changes) if changes else fact)


@router.post("/{fact_id}/supersede", dependencies=_form_guard)
def supersede(memory: ViewerMemory, fact_id: str, text: TextField) -> RedirectResponse:
    """Supersede a fact with a new text; the new fact keeps its category, tags and lifetime."""
    old = memory.facts.get(fact_id)
    result = memory.supersede(
        fact_id,
        text,
        category=old.category,
        tags=old.tags,
        decay_class=old.decay_class,
        importance=old.importance,
        source="page",
    )
    return _redirect_to(result.fact)


@router.post("/{fact_id}/promote", dependencies=_form_guard)
def promote(memory: ViewerMemory, fact_id: str, scope: TextField) -> RedirectResponse:
    """Give a fact a wider scope."""
    return _redirect_to(memory.facts.promote(fact_id, scope))


@router.post("/{fact_id}/forget", dependencies=_form_guard)
def forget(request: Request, memory: ViewerMemory, fact_id: str) -> HTMLResponse:
    """Forget a fact, and show where copies of it may be left."""
    return page(request, "forgotten.html", report=memory.forget(fact_id))


def _redirect_to(fact: Fact) -> RedirectResponse:
    return RedirectResponse(fact_link(fact.id), 303)


def _tags(text: str) -> tuple[str, ...]:
    return tuple(sorted({tag.casefold() for tag in text.replace(",", " ").split()}))


def _scopes(memory: Memory) -> list[str]:
    return [scope for scope, _ in memory.viewer.scopes]
