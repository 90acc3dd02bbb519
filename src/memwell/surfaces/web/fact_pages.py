"""The views of facts, and the forms that change them. Every form carries the page's token."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from memwell.errors import MemwellError
from memwell.facts.lifetimes import LIFETIMES
from memwell.facts.service import CATEGORIES
from memwell.memory import Memory
from memwell.model import SCOPES, Fact
from memwell.store.sqlite.facts import FactFilter
from memwell.surfaces.web.render import FORM_TOKEN, PageMemory, PageRoute, page
from memwell.surfaces.web.views import fact_link

_LISTED = 200

router = APIRouter(prefix="/facts", route_class=PageRoute, include_in_schema=False)


def _check_form_token(request: Request, token: Annotated[str, Form()] = "") -> Iterator[None]:
    """Refuse a form that was not on a page of this process; have embedded what it writes."""
    if not secrets.compare_digest(token.encode(), FORM_TOKEN.encode()):
        raise MemwellError("The form is from before the last start", "Reload it and try again")
    yield
    request.app.state.background.wake()


_form_guard = [Depends(_check_form_token)]
TextField = Annotated[str, Form()]
ShareField = Annotated[float, Form(ge=0, le=1)]


# -- looking ---------------------------------------------------------------------------------------


@router.get("")
def facts(
    request: Request,
    memory: PageMemory,
    scope: str = "",
    category: str = "",
    tag: str = "",
    superseded: bool = False,
) -> HTMLResponse:
    """List facts, the newest first."""
    which = FactFilter(
        scope=scope or None,
        category=category or None,
        tag=tag.casefold() or None,
        superseded=superseded,
    )
    return page(
        request,
        "facts.html",
        facts=memory.facts.find(which, _LISTED),
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
def fact(request: Request, memory: PageMemory, fact_id: str) -> HTMLResponse:
    """Show a fact, what happened to it, and what can be done with it."""
    known = memory.facts.get(fact_id)
    wider = [scope for scope in _scopes(memory) if _is_wider(scope, known.scope)]
    history = memory.facts.history(fact_id)
    return page(
        request,
        "fact.html",
        fact=known,
        history=history,
        wider=wider,
        categories=[*dict.fromkeys((*CATEGORIES, known.category))],
    )


@router.get("/{fact_id}/forget")
def confirm_forget(request: Request, memory: PageMemory, fact_id: str) -> HTMLResponse:
    """Ask whether a fact is really to go."""
    return page(request, "forget.html", fact=memory.facts.get(fact_id))


# -- writing ---------------------------------------------------------------------------------------


@router.post("", dependencies=_form_guard)
def remember(
    memory: PageMemory,
    text: TextField,
    category: TextField,
    scope: TextField,
    decay_class: TextField,
    tags: TextField = "",
) -> RedirectResponse:
    """Remember a fact."""
    done = memory.remember(
        text,
        category=category,
        scope=scope,
        decay_class=decay_class,
        tags=_tags(tags),
        source="page",
    )
    return _redirect_to(done.fact)


@router.post("/{fact_id}/edit", dependencies=_form_guard)
def edit(
    memory: PageMemory,
    fact_id: str,
    text: TextField,
    category: TextField,
    importance: ShareField,
    confidence: ShareField,
    tags: TextField = "",
) -> RedirectResponse:
    """Correct what is known of a fact: only what was changed in the form."""
    known = memory.facts.get(fact_id)
    said: dict[str, Any] = {
        "text": text.replace("\r\n", "\n"),
        "category": category,
        "tags": _tags(tags),
        "importance": importance,
        "confidence": confidence,
    }
    changes = {name: value for name, value in said.items() if value != getattr(known, name)}
    return _redirect_to(memory.facts.edit(fact_id, **changes) if changes else known)


@router.post("/{fact_id}/supersede", dependencies=_form_guard)
def supersede(memory: PageMemory, fact_id: str, text: TextField) -> RedirectResponse:
    """Put another fact in the place of one; what else is known of it holds for the other."""
    old = memory.facts.get(fact_id)
    done = memory.supersede(
        fact_id,
        text,
        category=old.category,
        tags=old.tags,
        decay_class=old.decay_class,
        importance=old.importance,
        source="page",
    )
    return _redirect_to(done.fact)


@router.post("/{fact_id}/promote", dependencies=_form_guard)
def promote(memory: PageMemory, fact_id: str, scope: TextField) -> RedirectResponse:
    """Let more see a fact."""
    return _redirect_to(memory.facts.promote(fact_id, scope))


@router.post("/{fact_id}/forget", dependencies=_form_guard)
def forget(request: Request, memory: PageMemory, fact_id: str) -> HTMLResponse:
    """Forget a fact, and say where something of it may still be."""
    return page(request, "forgotten.html", done=memory.forget(fact_id))


def _redirect_to(known: Fact) -> RedirectResponse:
    return RedirectResponse(fact_link(known.id), 303)


def _tags(written: str) -> tuple[str, ...]:
    return tuple(sorted({tag.casefold() for tag in written.replace(",", " ").split()}))


def _scopes(memory: Memory) -> list[str]:
    return [scope for scope, _ in memory.viewer.scopes]


def _is_wider(scope: str, than: str) -> bool:
    return SCOPES.index(scope) < SCOPES.index(than)
