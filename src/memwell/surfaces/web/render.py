"""Renders templates as responses; errors become pages, too."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from memwell.errors import (
    HomeError,
    IndexDatabaseError,
    MemwellError,
    NotAllowedError,
    NotFoundError,
    StatementTimeoutError,
)
from memwell.surfaces.http.errors import log
from memwell.surfaces.web.languages import LANGUAGES, Translator, choose_language
from memwell.surfaces.web.views import (
    fact_link,
    hit_lines,
    hit_link,
    hit_title,
    note_link,
    score_bar,
)

HERE = Path(__file__).parent
FORM_TOKEN = secrets.token_urlsafe()
"""In every form: another site cannot read it, and so cannot send a form."""

_THEMES = ("light", "dark")
_STATUSES = ((NotFoundError, 404), (NotAllowedError, 403))
_UNUSABLE = MemwellError("The memory cannot be used now", "The server's log has the reason")
_BROKEN = MemwellError("The server made a mistake", "The server's log has the details")
_NOTHING_HERE = NotFoundError("There is nothing at this address", "Use the links above")

TEMPLATES = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)
TEMPLATES.globals |= {
    function.__name__: function
    for function in (fact_link, hit_lines, hit_link, hit_title, note_link, score_bar)
}
TEMPLATES.globals |= {"_": Translator("en"), "languages": LANGUAGES}


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a view, or the part of a view that the script requests."""
    theme = request.cookies.get("theme")
    language = choose_language(request.cookies, request.headers.get("accept-language", ""))
    query = f"?{request.url.query}" if request.url.query else ""
    text = TEMPLATES.get_template(template).render(
        here=request.url.path,
        address=request.url.path + query,
        token=FORM_TOKEN,
        theme=theme if theme in _THEMES else "",
        _=Translator(language),
        **values,
    )
    return HTMLResponse(text, status, {"Vary": "Accept-Language, Cookie"})


def error_page(request: Request, error: MemwellError, status: int) -> HTMLResponse:
    """Return an error as a page."""
    return page(request, "error.html", status, error=error, code=status)


class PageRoute(APIRoute):
    """A route that shows its errors on a page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers a request."""
        answer = super().get_route_handler()

        async def answer_with_page(request: Request) -> Response:
            try:
                return await answer(request)
            except RequestValidationError as error:
                fields = ", ".join(str(problem["loc"][-1]) for problem in error.errors())
                problem = MemwellError(
                    f"These fields are missing or not valid: {fields}", "Go back and correct them"
                )
                return error_page(request, problem, 400)
            except StatementTimeoutError as error:
                return error_page(request, error, 504)
            except (HomeError, IndexDatabaseError) as error:
                log.error("%s", error)  # it names files of the server: the page does not
                return error_page(request, _UNUSABLE, 503)
            except MemwellError as error:
                status = next((code for kind, code in _STATUSES if isinstance(error, kind)), 400)
                return error_page(request, error, status)
            except (HTTPException, UnicodeError, ClientDisconnect):
                raise
            except Exception:
                log.exception("%s %s", request.method, request.url.path)
                return error_page(request, _BROKEN, 500)

        return answer_with_page


def add_not_found_page(app: FastAPI) -> None:
    """Show a page for an unknown address to browsers; programs get the error as JSON."""
    answer_json: Any = app.exception_handlers[HTTPException]

    def answer(request: Request, error: Exception) -> Response:
        is_browser = "text/html" in request.headers.get("accept", "")
        if is_browser and isinstance(error, HTTPException) and error.status_code == 404:
            return error_page(request, _NOTHING_HERE, 404)
        response: Response = answer_json(request, error)
        return response

    app.add_exception_handler(HTTPException, answer)
