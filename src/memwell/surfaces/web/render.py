"""Templates become answers; errors, too, are told on a page."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from memwell.errors import HomeError, IndexDatabaseError, MemwellError, NotFoundError
from memwell.memory import Memory

HERE = Path(__file__).parent
FORM_TOKEN = secrets.token_urlsafe()
"""In every form: who cannot read a page of this process cannot write through it."""

_THEMES = ("light", "dark")

_templates = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a view, or the part of one that the script asks for."""
    theme = request.cookies.get("theme")
    text = _templates.get_template(template).render(
        here=request.url.path, token=FORM_TOKEN, theme=theme if theme in _THEMES else "", **values
    )
    return HTMLResponse(text, status)


class PageRoute(APIRoute):
    """A route whose errors are told on a page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        answer = super().get_route_handler()

        async def told(request: Request) -> Response:
            try:
                return await answer(request)
            except RequestValidationError as error:
                wrong = ", ".join(str(one["loc"][-1]) for one in error.errors())
                problem = MemwellError(f"{wrong} cannot be read", "Go back and write it otherwise")
                return page(request, "error.html", 400, error=problem)
            except NotFoundError as error:
                return page(request, "error.html", 404, error=error)
            except (HomeError, IndexDatabaseError):
                raise  # they name files of the server's: the application answers
            except MemwellError as error:
                return page(request, "error.html", 400, error=error)

        return told


def _page_memory(request: Request) -> Memory:
    memory: Memory = request.state.memory
    return memory


PageMemory = Annotated[Memory, Depends(_page_memory)]
"""The memory, as the one who asks sees it."""
