"""`memwell ingest-files`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memwell.surfaces.cli import options
from memwell.surfaces.cli.common import Answer, count_of, open_memory, prints_answer
from memwell.surfaces.cli.progress import progress_bar
from memwell.surfaces.cli.search import NO_HITS
from memwell.surfaces.cli.terminal import visible

if TYPE_CHECKING:
    from memwell.extract.files import IngestReport


@click.command("ingest-files")
@click.option("--paths", help='Files and globs, such as "skills/**/*.md,TOOLS.md".')
@click.option("--dry-run", is_flag=True, help="Store nothing; list the changes.")
@options.viewer
@options.workspace
@prints_answer
def ingest_files_command(
    paths: str | None, dry_run: bool, workspace: str | None, **viewer: Any
) -> Answer:
    """Extract facts from files, and sync them when the files change.

    A language model extracts them if one is configured (`llm.default`), else rules do. The
    workspace is --workspace, else $MEMWELL_WORKSPACE, else $OPENCLAW_WORKSPACE, else the current
    folder.

    Exit status: 0 files were read, 1 no file matches.
    """
    root = _root(workspace)
    named = [part for part in (paths or "").split(",") if part.strip()]
    if paths is not None and not named:
        raise click.UsageError("--paths does not name a file")
    with open_memory(str(root), **viewer) as memory:
        with progress_bar("Reading") as progress:
            report = memory.ingest_files(root, paths=named, dry_run=dry_run, progress=progress)
        wanted = ", ".join(named or memory.settings.ingest.paths)
    status = 0 if report.files or report.gone else NO_HITS
    return Answer(report, lambda: _print(visible(report), wanted), status)


def _root(workspace: str | None) -> Path:
    variables = ("MEMWELL_WORKSPACE", "OPENCLAW_WORKSPACE")
    named = workspace or next((found for name in variables if (found := os.environ.get(name))), "")
    return Path(named).expanduser() if named else Path.cwd()


def _print(report: IngestReport, wanted: str) -> None:
    for change in report.changes if report.dry_run else ():
        click.echo(f"{change.outcome}  {change.origin}  {change.text}")
        if change.instead_of:
            click.echo(f"  instead of: {change.instead_of}")
    if not report.files and not report.gone:
        click.echo(f"No file of {report.workspace} matches {wanted}", err=True)
        return
    gone = f", {report.gone} gone" if report.gone else ""
    click.echo(
        f"{report.workspace}: {count_of(report.files, 'file')}"
        f" ({report.unchanged} unchanged{gone}), {count_of(report.pieces, 'piece')},"
        f" {count_of(report.found, 'fact')} found by {report.by}"
    )
    counts = ("added", "reinforced", "duplicates", "superseded", "expired")
    figures = [f"{getattr(report, name)} {name}" for name in counts]
    figures.append(f"{len(report.refused)} refused")
    figures.append(count_of(len(report.failures), "failure"))
    click.echo(("Dry run, nothing is stored: " if report.dry_run else "") + ", ".join(figures))
    if report.calls:
        click.echo(f"{count_of(report.calls, 'call')}, {report.tokens} tokens")
    for line in (*report.refused, *report.failures):
        click.echo(line, err=True)
