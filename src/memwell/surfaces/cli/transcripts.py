"""`memwell transcripts`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from memwell.surfaces.cli.common import Answer, count_of, with_memory
from memwell.surfaces.cli.progress import progress_bar

if TYPE_CHECKING:
    from memwell.memory import Memory
    from memwell.sources.transcripts.sync import TranscriptReport

_PROBLEMS_SHOWN = 20


@click.group("transcripts", invoke_without_command=True)
@click.pass_context
def transcripts_command(context: click.Context) -> None:
    """Read the sessions of agents as notes: Claude Code, Codex CLI, Gemini CLI and others.

    Nothing is read until a tool is added. Without a sub-command, the tools that were added are
    listed.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_command)


@transcripts_command.command("list")
@with_memory
def list_command(memory: Memory) -> Answer:
    """List the tools and projects that were added."""
    sources = memory.sources.transcripts.sources
    lines = [f"{one.tool}  {one.project or 'all projects'}" for one in sources]
    return Answer(
        {"sources": sources, "folder": str(memory.sources.transcripts.folder)},
        "\n".join(lines) or "No tool was added. `memwell transcripts add claude-code` adds one",
    )


@transcripts_command.command("add")
@click.argument("tool")
@click.option(
    "--project",
    type=click.Path(path_type=Path),
    help="Only sessions in this folder and those beneath it.",
)
@with_memory
def add_command(memory: Memory, tool: str, project: Path | None) -> Answer:
    """Read the sessions of TOOL from now on, those that exist already, too.

    TOOL is claude-code, codex, openclaw, gemini-cli or opencode. Secrets are replaced before
    anything is stored. `memwell index` reads what is new.
    """
    memory.sources.transcripts.add(tool, str(project.expanduser().absolute()) if project else "")
    return _sync(memory)


@transcripts_command.command("sync")
@with_memory
def sync_command(memory: Memory) -> Answer:
    """Read what the tools that were added have written since the last time."""
    return _sync(memory)


@transcripts_command.command("remove")
@click.argument("tool")
@with_memory
def remove_command(memory: Memory, tool: str) -> Answer:
    """Read TOOL no longer, and delete the notes that were made of its sessions."""
    notes = memory.sources.transcripts.remove(tool)
    memory.sources.sync_transcripts()
    text = f"{tool} is no longer read; {count_of(notes, 'note')} deleted"
    return Answer({"tool": tool, "notes": notes}, text)


def _sync(memory: Memory) -> Answer:
    with progress_bar("Reading") as progress:
        report = memory.sources.sync_transcripts(progress)
    return Answer(report, lambda: _print(report))


def _print(report: TranscriptReport) -> None:
    click.echo(
        f"{count_of(report.turns, 'new turn')} in {report.read} of"
        f" {count_of(report.sessions, 'session file')}"
    )
    for problem in report.problems[:_PROBLEMS_SHOWN]:
        click.echo(f"  {problem}", err=True)
