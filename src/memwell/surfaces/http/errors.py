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

_MESSAGES = {404: "There is nothing at this address", 405: "This address does not take this method"}


class ErrorDetail(BaseModel):
    """What was wrong, and with which value."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorResponse(BaseModel):
    """A refusal."""

    error: ErrorDetail


FAILURES: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorResponse, "description": "It was asked wrongly, or must not be asked"},
    "5XX": {"model": ErrorResponse, "description": "It cannot be answered now"},
}
"""How the description of the interface (/openapi.json) tells of refusals."""


def error_response(
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
    app.add_exception_handler(RequestValidationError, _validation_error_response)
    app.add_exception_handler(HTTPException, _http_error_response)
    app.add_exception_handler(UnicodeEncodeError, _surrogate_error_response)
    app.add_exception_handler(MemwellError, _memwell_error_response)


def _validation_error_response(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return error_response(400, f"The body is no JSON: {first['ctx']['error']}")
    place = ".".join(str(part) for part in first["loc"][1:])
    printable = place.encode("utf-8", "replace").decode() or None
    said = f"{printable}: {first['msg']}" if printable else str(first["msg"])
    return error_response(400, said, param=printable)


def _http_error_response(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    message = _MESSAGES.get(error.status_code, error.detail)
    return error_response(error.status_code, message, headers=error.headers)


def _surrogate_error_response(_: Request, __: Exception) -> JSONResponse:
    # JSON can escape one half of a pair (\\ud800), which no text that is kept can hold.
    return error_response(400, "The text holds half a character (a lone surrogate)")


def _memwell_error_response(_: Request, error: Exception) -> JSONResponse:
    if isinstance(error, NotFoundError):
        return error_response(404, str(error), code="not_found")
    if isinstance(error, HomeError | IndexDatabaseError):  # they name files of the server's
        log.error("%s", error)
        return error_response(503, "The memory cannot be used now. The server's log says why")
    return error_response(400, str(error))
