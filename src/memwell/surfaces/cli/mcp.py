"""`memwell mcp` and `memwell mcp config`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from memwell.errors import ConfigError
from memwell.surfaces.cli.common import viewer_options, workspace_options
from memwell.surfaces.mcp.clients import CLIENTS, absolute_path, config_block, install, server_entry

if TYPE_CHECKING:
    from memwell.model import IndexReport


@click.group("mcp", invoke_without_command=True)
@click.option("--http", is_flag=True, help="Streamable HTTP instead of standard input and output.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --http: this machine.")
@click.option("--port", default=8766, show_default=True, help="With --http; 0 is any that is free.")
@viewer_options
@workspace_options
@click.pass_context
def mcp_command(
    ctx: click.Context,
    http: bool,
    host: str,
    port: int,
    workspace: str | None,
    agent: str | None,
    user: str,
    session: str,
) -> None:
    """Serve the memory to an agent over the Model Context Protocol.

    Whose memory it is, and of which workspace, is fixed by these options.
    """
    if ctx.invoked_subcommand:
        if any((http, workspace, agent, user, session)):
            raise click.UsageError("Name options after `config`, for what it is to print", ctx)
        return
    from memwell.memory import Memory
    from memwell.surfaces.background import SERVER_SETTINGS
    from memwell.surfaces.mcp.server import listen, serve

    listening = listen(host, port) if http else None
    near = None if workspace else Path.cwd()
    with Memory(
        workspace=workspace,
        fallback_workspace=near,
        agent=agent,
        user=user,
        session=session,
        settings=SERVER_SETTINGS,
    ) as memory:
        serve(memory, _log, listening)


@mcp_command.command("config")
@click.argument("name", metavar="CLIENT", type=click.Choice([*CLIENTS]))
@click.option("--write", is_flag=True, help="Put it into the client's file, where all else stays.")
@viewer_options
@workspace_options
def config_command(
    name: str, write: bool, workspace: str | None, agent: str | None, user: str, session: str
) -> None:
    """Print what makes CLIENT use this memory; the options are those it will be served with.

    CLIENT is claude-code, claude-desktop, cursor, openclaw or vscode.
    """
    named = {
        "--workspace": workspace and absolute_path(workspace),
        "--agent": agent,
        "--user": user,
        "--session": session,
    }
    client = CLIENTS[name]
    given = [word for option, value in named.items() if value for word in (option, value)]
    added = server_entry(client, given)
    if not write:
        click.echo(config_block(client, added), nl=False)
        return
    try:
        file = install(client, added)
    except ConfigError:
        click.echo(config_block(client, added), nl=False)
        raise
    click.echo(f"{file} written" if file else f"{client.file} names it already")


def _log(event: IndexReport | str) -> None:
    """Write to standard error: the other stream is the protocol's."""
    for line in [event] if isinstance(event, str) else event.problems:
        click.echo(str(line), err=True)
