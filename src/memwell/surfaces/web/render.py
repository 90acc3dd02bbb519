"""Renders templates as responses; errors become pages, too."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from memwell.errors import (
    HomeError,
    IndexDatabaseError,
    MemwellError,
    NotAllowedError,
    NotFoundError,
)
from memwell.surfaces.web.views import hit_lines, hit_link, hit_title, score_bar

HERE = Path(__file__).parent
FORM_TOKEN = secrets.token_urlsafe()
"""In every form: another site cannot read it, and so cannot send a form."""

_THEMES = ("light", "dark")
_STATUSES = ((NotFoundError, 404), (NotAllowedError, 403))

TEMPLATES = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)
TEMPLATES.globals |= {
    function.__name__: function for function in (hit_lines, hit_link, hit_title, score_bar)
}


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a view, or the part of a view that the script requests."""
    theme = request.cookies.get("theme")
    text = TEMPLATES.get_template(template).render(
        here=request.url.path, token=FORM_TOKEN, theme=theme if theme in _THEMES else "", **values
    )
    return HTMLResponse(text, status)


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
                return page(request, "error.html", 400, error=problem)
            except (HomeError, IndexDatabaseError):
                raise  # they name files of the server: the application answers without the names
            except MemwellError as error:
                status = next((code for kind, code in _STATUSES if isinstance(error, kind)), 400)
                return page(request, "error.html", status, error=error)

        return answer_with_page
