"""Login of browsers: the user enters a token once, and a cookie keeps it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from memwell.surfaces.http.security import COOKIE, LOGIN
from memwell.surfaces.web.render import page

router = APIRouter(include_in_schema=False)


@router.get(LOGIN)
def login_form(request: Request) -> HTMLResponse:
    """Ask for a token."""
    return page(request, "login.html")


@router.post(LOGIN)
def log_in(
    token: Annotated[str, Form(max_length=200, pattern="^[A-Za-z0-9_-]+$")], request: Request
) -> Response:
    """Keep a token in a cookie that scripts and other sites cannot use."""
    response = RedirectResponse("/", 303)
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure)
    return response
