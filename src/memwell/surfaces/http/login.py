"""Login of browsers: the user enters a token once, and a cookie keeps it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from memwell.surfaces.http.security import COOKIE, LOGIN

router = APIRouter(include_in_schema=False)

_FORM = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>memwell</title>
<link rel="stylesheet" href="/static/memwell.css"><link rel="icon" href="/static/memwell.svg">
</head>
<body>
<main>
<h1>memwell</h1>
<form method="post">
<input name="username" autocomplete="username" value="memwell" hidden>
<label>Token
<input name="token" type="password" autocomplete="current-password" autofocus required></label>
<button>Log in</button>
</form>
<p>The owner of this memory creates a token: <code>memwell serve token add NAME</code></p>
</main>
</body>
</html>
"""


@router.get(LOGIN, response_class=HTMLResponse)
def login_form() -> str:
    """Ask for a token."""
    return _FORM


@router.post(LOGIN)
def log_in(
    token: Annotated[str, Form(max_length=200, pattern="^[A-Za-z0-9_-]+$")], request: Request
) -> Response:
    """Keep a token in a cookie that scripts and other sites cannot use."""
    response = RedirectResponse("/", 303)
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure)
    return response
