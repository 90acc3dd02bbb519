"""`memwell store index`."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click

from memwell.surfaces.cli.common import json_option, print_json

if TYPE_CHECKING:
    from memwell.store.postgres.build_indexes import BuiltIndex


@click.command("index")
@click.option("--agent", help="Only for this agent; default all of the tenant's.")
@click.option(
    "--smallest",
    type=click.IntRange(min=1),
    help="Passages from which on an agent is large; default what was measured.",
)
@json_option
def index_command(agent: str | None, smallest: int | None, as_json: bool) -> None:
    """Build indexes of their own for the large agents of a tenant on a server.

    For the owner of the tables. Others read and write meanwhile. Small agents are left alone:
    comparing all their passages is quicker. What an interrupted build left is removed, and so is
    what belonged to spaces that are gone.
    """
    from memwell import config
    from memwell.errors import ConfigError
    from memwell.store.factory import get_server

    held = config.load(None)
    if not held.store.url:
        raise ConfigError(
            "store.url is not set: indexes of their own are for a memory on a server",
            "Name it: memwell --store postgresql://OWNER@HOST/DATABASE store index",
        )
    server = get_server(held.store.url, held.store.tenant)  # says so if the driver is missing
    from memwell.store.postgres.agent_indexes import SMALLEST
    from memwell.store.postgres.build_indexes import build

    least = smallest or SMALLEST
    with closing(server):
        done = build(server, agent, least, (lambda _: None) if as_json else _tell)
    if as_json:
        print_json(done)
        return
    for name in done.removed:
        click.echo(f"{name} removed: nothing uses it")
    if done.wordless:
        click.echo(
            f"{', '.join(done.wordless)}: no index for words, as the database lacks pg_textsearch."
            " Optional: CREATE EXTENSION pg_textsearch, as a superuser, then this again"
        )
    elif not done.built:
        click.echo(f"Nothing to build: no agent of {least:,} passages or more lacks an index.")


def _tell(built: BuiltIndex) -> None:
    passages = f"{built.passages:,} passages"
    click.echo(f"{built.agent}: {passages}, {built.what} built in {built.seconds:g} s")
