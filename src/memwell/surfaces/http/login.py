"""Login of browsers: the user enters a token once, or follows a link, and a cookie keeps it."""

from __future__ import annotations

from typing import Annotated, TypeVar

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from memwell.surfaces.http.security import COOKIE, LOGIN
from memwell.surfaces.http.tokens import Tokens
from memwell.surfaces.web.render import page

T = TypeVar("T", bound=Response)

router = APIRouter(include_in_schema=False)


@router.get(LOGIN)
def login_form(request: Request, token: Annotated[str, Query(max_length=200)] = "") -> HTMLResponse:
    """Ask for a token; a link that has the owner's leads on to the first page.

    Other tokens are refused here: another site could log a browser in as somebody else. The answer
    is a page instead of a redirect: browsers do not send the new cookie with a redirect of a link
    in a file.
    """
    tokens: Tokens = request.app.state.tokens
    is_valid = tokens.is_local(token)
    is_open = not tokens.list_all() and not request.app.state.reachable
    answer = page(request, "login.html", is_valid=is_valid or is_open)
    return _keep_token(answer, token, request) if is_valid else answer


@router.post(LOGIN)
def log_in(
    token: Annotated[str, Form(max_length=200, pattern="^[A-Za-z0-9_-]+$")], request: Request
) -> Response:
    """Keep a token in a cookie that scripts and other sites cannot use."""
    return _keep_token(RedirectResponse("/", 303), token, request)


def _keep_token(response: T, token: str, request: Request) -> T:
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure)
    return response
