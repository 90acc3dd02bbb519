"""`memwell store`: where a memory is kept, and what whoever looks after a server needs."""

from __future__ import annotations

import click

from memwell.surfaces.cli.store_copy import copy_command
from memwell.surfaces.cli.store_index import index_command


@click.group("store")
def store_command() -> None:
    """Move a memory between stores, and look after the server that one is kept on."""


store_command.add_command(copy_command)
store_command.add_command(index_command)


@store_command.command("roles")
@click.option("--role", "name", default="memwell", show_default=True, help="What it is called.")
@click.option("--tenant", help="Bind it to one tenant, whatever it sets.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="KIND:NAME",
    help="Of that tenant's facts, bind it to the global ones and these (user:anna).",
)
def roles(name: str, tenant: str | None, scopes: tuple[str, ...]) -> None:
    """Print the SQL that makes a role with the rights memwell needs, and no other."""
    from memwell.store.postgres.roles import role

    if tenant == "":
        raise click.UsageError("--tenant must have a name")
    if scopes and tenant is None:
        raise click.UsageError("--scope is about one tenant: name it with --tenant")
    for scope in scopes:
        kind, _, target = scope.partition(":")
        if kind not in ("user", "agent", "session") or not target:
            raise click.UsageError(f"--scope {scope} is none: write it like user:anna")
    click.echo("\n".join(role(name, tenant, scopes)))


@store_command.command("ddl")
@click.option("--citus", is_flag=True, required=True, help="For Citus: the tables, by tenant.")
def ddl(citus: bool) -> None:
    """Print the SQL that spreads the tables over the nodes of a distributed PostgreSQL."""
    from memwell.store.postgres.roles import distributed

    click.echo("\n".join(distributed()))
