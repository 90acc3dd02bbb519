"""`memwell why`."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import click

from memwell.surfaces.cli import options
from memwell.surfaces.cli.common import Answer, with_memory
from memwell.surfaces.cli.search import NO_HITS, print_trace
from memwell.surfaces.cli.terminal import visible

if TYPE_CHECKING:
    from memwell.memory import Memory
    from memwell.search.why import Why


@click.command("why")
@click.argument("query")
@click.argument("path")
@click.option("-k", "k", type=int, help="Maximum number of hits of the search.")
@options.everywhere
@options.mode
@options.now
@with_memory
def why_command(memory: Memory, now: dt.datetime | None, **values: Any) -> Answer:
    """Explain why the note PATH is or is not among the hits of QUERY.

    Exit status: 0 it is a hit, 1 it is not.
    """
    why = memory.why(**values, today=now.date() if now else None)
    return Answer(why, lambda: _print(visible(why)), 0 if why.found else NO_HITS)


def _print(why: Why) -> None:
    click.echo(f"{click.style(why.path, bold=True)}: {why.verdict}, {why.reason}")
    if why.trace:
        print_trace(why.trace)
    if why.remedy:
        click.echo(why.remedy)
