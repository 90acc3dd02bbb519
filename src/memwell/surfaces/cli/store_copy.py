"""`memwell store copy`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memwell.surfaces.cli.common import json_option, print_json

if TYPE_CHECKING:
    from memwell.store.copy.memory import CopyReport

DIFFERENT = 1


@click.command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--tenant", help="Whose rows on a server; default `store.tenant`.")
@click.option(
    "--into-existing",
    is_flag=True,
    help="Add what is missing to a target that holds other facts.",
)
@json_option
@click.pass_context
def copy_command(
    ctx: click.Context,
    source: str,
    target: str,
    tenant: str | None,
    into_existing: bool,
    as_json: bool,
) -> None:
    """Copy a memory FROM a home (a folder) or a server (postgresql://...) TO another.

    For the owner of both: the facts of every user, agent and session, the lists of workspaces,
    and the notes with their vectors. What is there already is passed over, so a copy that was
    interrupted is finished by running it again. In the end both sides are compared.

    Exit status: 0 all of it is there, 1 something differs.
    """
    from memwell import config
    from memwell.facts.service import normalised
    from memwell.store.copy.memory import copy_memory
    from memwell.store.locations import open_location
    from memwell.store.vectors.backend import BackendSetting
    from memwell.surfaces.cli.progress import progress_bar

    held, home = config.load(None), config.home_folder()
    backend = BackendSetting(held.vectors.backend, held.vectors.lance_uri)
    whose = tenant or held.store.tenant
    done = copy_memory(
        open_location(source, whose, home, backend, is_there=True),
        open_location(target, whose, home, backend, is_there=False),
        normalised,
        progress_bar,
        into_existing=into_existing,
    )
    if as_json:
        print_json(done)
    else:
        _tell(done)
    ctx.exit(0 if done.same else DIFFERENT)


def _tell(done: CopyReport) -> None:
    there, arrived = done.there, done.arrived
    click.echo(f"From {done.source}\nto   {done.target}")
    for name in ("facts", "workspaces", "notes", "passages", "vectors"):
        click.echo(f"{name:<11}{getattr(arrived, name)} of {getattr(there, name)}")
    click.echo(f"checksum   {arrived.checksum[:16]} of {there.checksum[:16]}")
    for conflict in done.conflicts:
        click.echo(f"not copied: {conflict}", err=True)
    click.echo("All of it is there." if done.same else "The two differ.")
