"""`memwell index`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memwell.surfaces.cli.common import json_option, opened, place_options, print_json, progress_bar

if TYPE_CHECKING:
    from memwell.model import IndexReport

_MOST_PROBLEMS = 20


@click.command("index")
@click.argument("paths", nargs=-1, metavar="[PATH ...]")
@place_options
@json_option
def index_command(
    paths: tuple[str, ...], workspace: str | None, agent: str | None, as_json: bool
) -> None:
    """Make or refresh the index of folders and files.

    A named folder is taken whole. Without PATH, the workspace around this folder is taken:
    MEMORY.md, USER.md, AGENTS.md, SOUL.md, TOOLS.md, memory/ and what `scan.extra` adds.
    """
    with opened(workspace, agent) as memory, progress_bar("indexing") as progress:
        reports = memory.index(*paths, progress=progress)
    if as_json:
        from dataclasses import asdict

        print_json({"reports": [asdict(report) for report in reports]})
        return
    for report in reports:
        click.echo(summary(report))
        for problem in report.problems[:_MOST_PROBLEMS]:
            click.echo(f"  {problem}", err=True)
        if len(report.problems) > _MOST_PROBLEMS:
            click.echo(f"  and {len(report.problems) - _MOST_PROBLEMS} more (see --json)", err=True)


def summary(report: IndexReport) -> str:
    """One line that says what a sync did."""
    counts = {
        "added": report.added,
        "changed": report.changed,
        "moved": report.moved,
        "deleted": report.deleted,
        "unchanged": report.unchanged,
    }
    told = ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "no notes"
    return f"{report.workspace}: {told}; {report.chunks_written} chunks written"
