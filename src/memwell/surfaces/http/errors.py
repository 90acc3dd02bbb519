"""Errors as responses, all in the form of OpenAI's interface; private details stay in the log.

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

from memwell.errors import (
    HomeError,
    IndexDatabaseError,
    MemwellError,
    NotAllowedError,
    NotFoundError,
    StatementTimeoutError,
)

log = logging.getLogger("memwell")

_MESSAGES = {
    404: "There is nothing at this address",
    405: "This address does not support this method",
}
_UNKNOWN_FIELD = ("extra_forbidden", "unexpected_keyword_argument")
"""The types by which pydantic reports them, for models and for dataclasses."""


class ErrorDetail(BaseModel):
    """The problem, and the parameter that caused it."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorResponse(BaseModel):
    """The body of every error."""

    error: ErrorDetail


FAILURES: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorResponse, "description": "The request is wrong or not allowed"},
    "5XX": {"model": ErrorResponse, "description": "The server cannot answer now"},
}
"""The errors in the description of the interface (/openapi.json)."""


def error_response(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """Return an error as a response."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    printable = message.encode("utf-8", "replace").decode()
    detail = ErrorDetail(message=printable, type=kind, param=param, code=code)
    return JSONResponse({"error": detail.model_dump()}, status, headers)


def add_error_handlers(app: FastAPI) -> None:
    """Make an application answer errors in this form."""
    app.add_exception_handler(RequestValidationError, _validation_error_response)
    app.add_exception_handler(HTTPException, _http_error_response)
    app.add_exception_handler(UnicodeEncodeError, _surrogate_error_response)
    app.add_exception_handler(MemwellError, _memwell_error_response)


def _validation_error_response(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return error_response(400, f"The body is not JSON: {first['ctx']['error']}")
    location = ".".join(str(part) for part in first["loc"][1:])
    param = location.encode("utf-8", "replace").decode() or None
    message = f"{param}: {first['msg']}" if param else str(first["msg"])
    if first["type"] in _UNKNOWN_FIELD:
        message = f"{param} is not a field of this request. Leave it out, or correct its name"
    return error_response(400, message, param=param)


def _http_error_response(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    message = _MESSAGES.get(error.status_code, error.detail)
    return error_response(error.status_code, message, headers=error.headers)


def _surrogate_error_response(_: Request, __: Exception) -> JSONResponse:
    # JSON can escape one half of a surrogate pair (\\ud800), which UTF-8 cannot store.
    return error_response(400, "The text contains half a character (a lone surrogate)")


def _memwell_error_response(_: Request, error: Exception) -> JSONResponse:
    if isinstance(error, NotFoundError):
        return error_response(404, str(error), code="not_found")
    if isinstance(error, NotAllowedError):
        return error_response(403, str(error), code="rights")
    if isinstance(error, StatementTimeoutError):
        return error_response(504, str(error), code="statement_timeout")
    if isinstance(error, HomeError | IndexDatabaseError):  # they name files of the server
        log.error("%s", error)
        return error_response(503, "The memory cannot be used now. The server's log has the reason")
    return error_response(400, str(error))
