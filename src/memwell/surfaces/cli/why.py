"""`memwell why`."""

from __future__ import annotations

import datetime as dt

import click

from memwell.surfaces.cli.common import (
    json_option,
    mode_option,
    now_option,
    open_memory,
    print_json,
    workspace_options,
)
from memwell.surfaces.cli.search import NO_HITS, print_trace


@click.command("why")
@click.argument("query")
@click.argument("path")
@click.option("-k", "k", type=int, help="Maximum number of hits of the search.")
@click.option("--all", "everywhere", is_flag=True, help="Search all workspaces of the agent.")
@mode_option
@now_option
@workspace_options
@json_option
@click.pass_context
def why_command(
    ctx: click.Context,
    query: str,
    path: str,
    k: int | None,
    everywhere: bool,
    mode: str | None,
    now: dt.datetime | None,
    workspace: str | None,
    agent: str | None,
    as_json: bool,
) -> None:
    """Explain why the note PATH is or is not among the hits of QUERY.

    Exit status: 0 it is a hit, 1 it is not.
    """
    with open_memory(workspace, agent, everywhere=everywhere) as memory:
        why = memory.why(query, path, k=k, mode=mode, **({"today": now.date()} if now else {}))
    if as_json:
        print_json(why)
    else:
        click.echo(f"{click.style(why.path, bold=True)}: {why.verdict}, {why.reason}")
        if why.trace:
            print_trace(why.trace)
        if why.remedy:
            click.echo(why.remedy)
    ctx.exit(0 if why.found else NO_HITS)
