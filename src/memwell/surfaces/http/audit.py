"""A log of who asked for what: one line of JSON for each request, without its contents."""

from __future__ import annotations

import datetime as dt
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

AUDIT_FILE = "audit.jsonl"
"""In the home; only its owner can read it."""


@dataclass(slots=True)
class AuditMiddleware:
    """Writes a line for each request that has a viewer: tenant, user, session, route and status.

    The route has names of parameters instead of values, so no query and no text is in the log.
    """

    app: ASGIApp
    file: Path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request and write its line."""
        status = 0

        async def send_and_note(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        await self.app(scope, receive, send_and_note)
        if scope["type"] == "http" and (viewer := scope.get("viewer")):
            route = getattr(scope.get("route"), "path", "other")
            who = {"tenant": viewer.tenant, "user": viewer.user, "session": viewer.session}
            self._write({**who, "method": scope["method"], "route": route, "status": status})

    def _write(self, fields: dict[str, Any]) -> None:
        at = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"at": at, **fields}) + "\n"
        # One write of an appended line: several processes can share the file.
        number = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(number, line.encode())
        finally:
            os.close(number)
