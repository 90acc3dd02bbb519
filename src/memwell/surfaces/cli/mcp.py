"""`memwell mcp` and `memwell mcp config`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from memwell.errors import ConfigError
from memwell.surfaces.cli import options
from memwell.surfaces.cli.common import new_memory
from memwell.surfaces.command import absolute_path
from memwell.surfaces.mcp.clients import CLIENTS, config_block, install, server_entry

if TYPE_CHECKING:
    from memwell.model import IndexReport


@click.group("mcp", invoke_without_command=True)
@click.option("--http", is_flag=True, help="Streamable HTTP instead of standard input and output.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="With --http: the address to listen at."
)
@click.option(
    "--port", default=8766, show_default=True, help="With --http: the port; 0 is any free one."
)
@click.option(
    "--no-token",
    is_flag=True,
    help="With --http: let in every program and user of this machine.",
)
@options.viewer
@options.workspace
@click.pass_context
def mcp_command(
    ctx: click.Context, /, http: bool, host: str, port: int, no_token: bool, **target: Any
) -> None:
    """Serve the memory to an agent over the Model Context Protocol.

    These options decide which memory and which workspace the agent uses.
    """
    if ctx.invoked_subcommand:
        if http or no_token or any(target.values()):
            raise click.UsageError("Put these options after `config`", ctx)
        return
    from memwell.surfaces.background import SERVER_SETTINGS
    from memwell.surfaces.mcp.server import listen_locally, serve

    listening = listen_locally(host, port) if http else None
    with new_memory(**target, settings=SERVER_SETTINGS) as memory:
        serve(memory, _log, listening, no_token=no_token)


@mcp_command.command("config")
@click.argument("name", metavar="CLIENT", type=click.Choice([*CLIENTS]))
@click.option(
    "--write", is_flag=True, help="Add it to the client's file; the rest of the file stays."
)
@options.viewer
@options.workspace
def config_command(name: str, write: bool, workspace: str | None, **values: str | None) -> None:
    """Print the configuration that makes CLIENT use this memory, with these options.

    CLIENT is claude-code, claude-desktop, codex, cursor, gemini-cli, openclaw, opencode, vscode,
    windsurf or zed.
    """
    client = CLIENTS[name]
    arguments = ["--workspace", absolute_path(workspace)] if workspace else []
    for option in ("agent", "user", "session"):
        if value := values[option]:
            arguments += [f"--{option}", value]
    added = server_entry(client, arguments)
    if not write:
        click.echo(config_block(client, added), nl=False)
        return
    try:
        file = install(client, added)
    except ConfigError:
        click.echo(config_block(client, added), nl=False)
        raise
    click.echo(f"{file} written" if file else f"{client.file} already has it")


def _log(event: IndexReport | str) -> None:
    """Write to standard error: standard output is for the protocol."""
    for line in [event] if isinstance(event, str) else event.problems:
        click.echo(str(line), err=True)
