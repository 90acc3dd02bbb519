"""A browser gives its token once, in a form, and is known by a cookie from then on."""

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
<button>Enter</button>
</form>
<p>The owner of this memory makes one: <code>memwell serve token add NAME</code></p>
</main>
</body>
</html>
"""


@router.get(LOGIN, response_class=HTMLResponse)
def form() -> str:
    """Ask for a token."""
    return _FORM


@router.post(LOGIN)
def enter(
    token: Annotated[str, Form(max_length=200, pattern="^[A-Za-z0-9_-]+$")], request: Request
) -> Response:
    """Keep a token in a cookie that no script and no other page can use."""
    answer = RedirectResponse("/", 303)
    secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure)
    return answer
