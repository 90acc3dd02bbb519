"""`memwell index`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from memwell.surfaces.cli import options
from memwell.surfaces.cli.common import open_memory, print_json
from memwell.surfaces.cli.progress import progress_bar
from memwell.surfaces.cli.terminal import visible

if TYPE_CHECKING:
    from memwell.model import IndexReport
    from memwell.reports import FillReport

_MOST_PROBLEMS = 20


@click.command("index")
@click.argument("paths", nargs=-1, metavar="[PATH ...]")
@click.option("--no-embed", is_flag=True, help="Do not compute vectors now.")
@options.workspace
@options.as_json
def index_command(paths: tuple[str, ...], no_embed: bool, as_json: bool, **target: Any) -> None:
    """Create or update the index of folders and files.

    A folder is indexed completely. Without PATH, memwell indexes the workspace around the current
    folder: MEMORY.md, USER.md, AGENTS.md, SOUL.md, TOOLS.md, memory/ and `scan.extra`.
    Keyword search finds the notes at once; the vectors follow, and Ctrl-C keeps those made so far.
    """
    with open_memory(**target) as memory:
        with progress_bar("indexing") as progress:
            reports = memory.index(*paths, embed=False, progress=progress)
        if not as_json:
            _print(reports)
        filled = None
        if not no_embed:
            with progress_bar("embedding") as progress:
                filled = memory.fill(progress)
    if as_json:
        print_json({"reports": reports, "vectors": filled})
    elif filled:
        _print_filled(filled)


def _print(reports: tuple[IndexReport, ...]) -> None:
    for report in visible(reports):
        click.echo(summary(report))
        for problem in report.problems[:_MOST_PROBLEMS]:
            click.echo(f"  {problem}", err=True)
        if len(report.problems) > _MOST_PROBLEMS:
            click.echo(f"  and {len(report.problems) - _MOST_PROBLEMS} more (see --json)", err=True)
        for sentence in report.left_out:
            click.echo(f"  {sentence}", err=True)


def _print_filled(filled: FillReport) -> None:
    for line in (*filled.notes, *filled.refused[:_MOST_PROBLEMS]):
        click.echo(visible(line), err=True)
    if line := filled_summary(filled):
        click.echo(line)


def filled_summary(filled: FillReport) -> str:
    """Return a line on what was embedded; "" if nothing was."""
    counts = {
        "embedded": filled.embedded,
        "from the cache": filled.from_cache,
        "refused": len(filled.refused),
        "still waiting": filled.left,
    }
    listed = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    model = f"{filled.model} ({filled.provider})" if filled.provider else "no provider"
    return f"{model}: {listed}" if listed else ""


def summary(report: IndexReport) -> str:
    """Return a line on what a sync did."""
    names = ("added", "changed", "moved", "deleted", "unchanged")
    counts = {name: getattr(report, name) for name in names}
    listed = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"{report.workspace}: {listed or 'no notes'}; {report.chunks_written} chunks written"
