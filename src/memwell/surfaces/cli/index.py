"""`memwell index`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memwell.surfaces.cli.common import json_option, open_memory, print_json, workspace_options
from memwell.surfaces.cli.progress import progress_bar

if TYPE_CHECKING:
    from memwell.model import IndexReport
    from memwell.reports import FillReport

_MOST_PROBLEMS = 20


@click.command("index")
@click.argument("paths", nargs=-1, metavar="[PATH ...]")
@click.option("--no-embed", is_flag=True, help="Leave the vectors for later.")
@workspace_options
@json_option
def index_command(
    paths: tuple[str, ...], no_embed: bool, workspace: str | None, agent: str | None, as_json: bool
) -> None:
    """Make or refresh the index of folders and files.

    A named folder is taken whole. Without PATH, the workspace around this folder is taken:
    MEMORY.md, USER.md, AGENTS.md, SOUL.md, TOOLS.md, memory/ and what `scan.extra` adds.
    Notes can be found by words at once; their vectors follow and survive Ctrl-C.
    """
    with open_memory(workspace, agent) as memory:
        with progress_bar("indexing") as progress:
            reports = memory.index(*paths, embed=False, progress=progress)
        if not as_json:
            _tell(reports)
        filled = None
        if not no_embed:
            with progress_bar("embedding") as progress:
                filled = memory.fill(progress)
    if as_json:
        from dataclasses import asdict

        told = {"reports": [asdict(report) for report in reports]}
        print_json({**told, "vectors": asdict(filled) if filled else None})
    elif filled:
        _tell_filled(filled)


def _tell(reports: tuple[IndexReport, ...]) -> None:
    for report in reports:
        click.echo(summary(report))
        for problem in report.problems[:_MOST_PROBLEMS]:
            click.echo(f"  {problem}", err=True)
        if len(report.problems) > _MOST_PROBLEMS:
            click.echo(f"  and {len(report.problems) - _MOST_PROBLEMS} more (see --json)", err=True)


def _tell_filled(filled: FillReport) -> None:
    for line in (*filled.notes, *filled.refused[:_MOST_PROBLEMS]):
        click.echo(line, err=True)
    if line := filled_summary(filled):
        click.echo(line)


def filled_summary(filled: FillReport) -> str:
    """One line that says what was embedded; "" if there was nothing to say."""
    counts = {
        "embedded": filled.embedded,
        "taken from the cache": filled.from_cache,
        "refused": len(filled.refused),
        "still waiting": filled.left,
    }
    told = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    model = f"{filled.model} ({filled.provider})" if filled.provider else "no provider"
    return f"{model}: {told}" if told else ""


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
