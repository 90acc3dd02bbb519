"""The views of the system: vector spaces, evaluation, checks, backups, settings."""

from __future__ import annotations

import datetime as dt

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse

from memwell.config.fields import to_toml
from memwell.config.settings import SETTINGS
from memwell.errors import NotFoundError
from memwell.memory import Memory
from memwell.surfaces.http.viewer import ViewerMemory
from memwell.surfaces.web.render import PageRoute, page

_REPORT = "evaluation.html"
_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/system")
def system(request: Request, memory: ViewerMemory) -> HTMLResponse:
    """Show the state of the memory: spaces, workspaces, settings and where to look further."""
    settings = memory.settings
    rows = [
        (setting, to_toml(settings.get_masked(setting.name)), settings.origin(setting.name))
        for setting in SETTINGS
    ]
    return page(
        request,
        "system.html",
        state=memory.status(),
        spaces=memory.spaces(),
        written=_report_time(memory),
        changed=[row for row in rows if row[2] != "default"],
        settings=rows,
        to_toml=to_toml,
    )


@router.get("/system/checks")
def checks(request: Request, memory: ViewerMemory, part: bool = False) -> HTMLResponse:
    """Run the checks of `memwell doctor`, which take a moment, and list the backups."""
    template = "_checks.html" if part else "checks.html"
    found = memory.doctor()
    return page(
        request,
        template,
        checks=[check for check in found if check.name != "backup"],
        backups=[check for check in found if check.name == "backup"],
    )


@router.get("/spaces")
def spaces(request: Request, memory: ViewerMemory, part: bool = False) -> HTMLResponse:
    """Show the vector spaces and their progress."""
    return page(request, "_spaces.html" if part else "spaces.html", spaces=memory.spaces())


@router.get("/evaluation")
def evaluation(request: Request, memory: ViewerMemory) -> HTMLResponse:
    """Show whether there is a report, and how to make one."""
    file = memory.home / _REPORT
    return page(request, "evaluation.html", file=file, written=_report_time(memory))


def _report_time(memory: Memory) -> dt.datetime | None:
    file = memory.home / _REPORT
    return dt.datetime.fromtimestamp(file.stat().st_mtime) if file.is_file() else None


@router.get("/evaluation/report")
def report(memory: ViewerMemory) -> FileResponse:
    """Send the report of `memwell eval --html`; it contains its own styles."""
    file = memory.home / _REPORT
    if not file.is_file():
        raise NotFoundError(
            f"There is no report {file}", f"Run `memwell eval cases.yaml --html {file}`"
        )
    return FileResponse(file, headers={"Content-Security-Policy": _REPORT_POLICY})
