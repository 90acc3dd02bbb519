"""Every refusal in one form, that of OpenAI's interface; what is private stays here.

{"error": {"message": ..., "type": ..., "param": ..., "code": ...}}
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from memwell.errors import HomeError, IndexDatabaseError, MemwellError, NotFoundError

log = logging.getLogger("memwell")

_SAID = {404: "There is nothing at this address", 405: "This address does not take this method"}


class ErrorDetail(BaseModel):
    """What was wrong, and with which value."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorAnswer(BaseModel):
    """A refusal."""

    error: ErrorDetail


FAILURES: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorAnswer, "description": "It was asked wrongly, or must not be asked"},
    "5XX": {"model": ErrorAnswer, "description": "It cannot be answered now"},
}
"""How the description of the interface (/openapi.json) tells of refusals."""


def refusal(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """Return an answer that refuses."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    printable = message.encode("utf-8", "replace").decode()
    detail = ErrorDetail(message=printable, type=kind, param=param, code=code)
    return JSONResponse({"error": detail.model_dump()}, status, headers)


def add_error_handlers(app: FastAPI) -> None:
    """Have an application answer errors in this form."""
    app.add_exception_handler(RequestValidationError, _answer_malformed)
    app.add_exception_handler(HTTPException, _answer_refused)
    app.add_exception_handler(UnicodeEncodeError, _half_a_character)
    app.add_exception_handler(MemwellError, _answer_failure)


def _answer_malformed(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return refusal(400, f"The body is no JSON: {first['ctx']['error']}")
    place = ".".join(str(part) for part in first["loc"][1:])
    printable = place.encode("utf-8", "replace").decode() or None
    said = f"{printable}: {first['msg']}" if printable else str(first["msg"])
    return refusal(400, said, param=printable)


def _answer_refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    message = _SAID.get(error.status_code, error.detail)
    return refusal(error.status_code, message, headers=error.headers)


def _half_a_character(_: Request, __: Exception) -> JSONResponse:
    # JSON can escape one half of a pair (\\ud800), which no text that is kept can hold.
    return refusal(400, "The text holds half a character (a lone surrogate)")


def _answer_failure(_: Request, error: Exception) -> JSONResponse:
    if isinstance(error, NotFoundError):
        return refusal(404, str(error), code="not_found")
    if isinstance(error, HomeError | IndexDatabaseError):  # they name files of the server's
        log.error("%s", error)
        return refusal(503, "The memory cannot be used now. The server's log says why")
    return refusal(400, str(error))
