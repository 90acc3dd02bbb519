"""`memwell store`: copy a memory between stores, and administer a PostgreSQL server."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click

from memwell.surfaces.cli import options
from memwell.surfaces.cli.common import Answer, overrides, print_json, prints_answer

if TYPE_CHECKING:
    from memwell.store.copy.memory import CopyReport
    from memwell.store.postgres.build_indexes import BuiltIndex
    from memwell.store.postgres.server import Server

DIFFERENT = 1


@click.group("store")
def store_command() -> None:
    """Copy a memory between stores, and administer a PostgreSQL server."""


@store_command.command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--tenant", help="The tenant on a server; default `store.tenant`.")
@click.option(
    "--into-existing", is_flag=True, help="Add what is missing to a target that holds other facts."
)
@prints_answer
def copy_command(source: str, target: str, tenant: str | None, into_existing: bool) -> Answer:
    """Copy a memory FROM a home folder or a server (postgresql://...) TO another one.

    Only for the owner of both. It copies the facts of every user, agent and session, the lists of
    workspaces, and the notes with their vectors. It skips what the target already has, so running
    it again completes an interrupted copy. In the end it compares both sides.

    Exit status: 0 the target has everything, 1 something differs.
    """
    from memwell import config
    from memwell.facts.comparison import normalised
    from memwell.store.copy.locations import open_location
    from memwell.store.copy.memory import copy_memory
    from memwell.store.vectors.backend import BackendSetting
    from memwell.surfaces.cli.progress import progress_bar

    settings, home = config.load(None), config.find_home()
    backend = BackendSetting(settings.vectors.backend, settings.vectors.lance_uri)
    tenant = tenant or settings.store.tenant
    report = copy_memory(
        open_location(source, tenant, home, backend, is_there=True),
        open_location(target, tenant, home, backend, is_there=False),
        normalised,
        progress_bar,
        into_existing=into_existing,
    )
    return Answer(report, lambda: _print_copy(report), 0 if report.same else DIFFERENT)


def _print_copy(report: CopyReport) -> None:
    there, arrived = report.there, report.arrived
    click.echo(f"From {report.source}\nto   {report.target}")
    for name in ("facts", "workspaces", "notes", "passages", "vectors"):
        click.echo(f"{name:<11}{getattr(arrived, name)} of {getattr(there, name)}")
    click.echo(f"checksum   {arrived.checksum[:16]} of {there.checksum[:16]}")
    for conflict in report.conflicts:
        click.echo(f"not copied: {conflict}", err=True)
    click.echo("The target has everything." if report.same else "Source and target differ.")


@store_command.command("index")
@click.option("--agent", help="Only for this agent; default all agents of the tenant.")
@click.option(
    "--smallest",
    type=click.IntRange(min=1),
    help="Passages from which on an agent is large; the default is measured.",
)
@options.as_json
def index_command(agent: str | None, smallest: int | None, as_json: bool) -> None:
    """Build separate indexes for the large agents of a tenant on a server.

    Only for the owner of the tables. Others can read and write meanwhile. Small agents get none:
    comparing all their passages is faster. Remains of interrupted builds, and indexes of spaces
    that no longer exist, are removed.
    """
    server = _open_server("store index")  # an error if the driver is missing
    from memwell.store.postgres.agent_indexes import SMALLEST
    from memwell.store.postgres.build_indexes import build

    smallest = smallest or SMALLEST
    with closing(server):
        report = build(server, agent, smallest, (lambda _: None) if as_json else _print_built)
    if as_json:
        print_json(report)
        return
    for name in report.removed:
        click.echo(f"{name} removed: nothing uses it")
    if report.wordless:
        click.echo(
            f"{', '.join(report.wordless)}: no index for words, because the database lacks"
            " pg_textsearch. Optional: CREATE EXTENSION pg_textsearch, as a superuser, then run"
            " this command again"
        )
    elif not report.built:
        click.echo(f"Nothing to build: no agent of {smallest:,} passages or more lacks an index.")


def _open_server(command: str) -> Server:
    """Return the server of the settings; there must be one."""
    from memwell import config
    from memwell.errors import ConfigError
    from memwell.store.factory import get_server
    from memwell.store.postgres.options import ServerOptions

    store = config.load(None).with_overrides(overrides()).store
    if not store.url:
        raise ConfigError(
            "store.url is not set, and this is for a memory on a server",
            f"Name the server: memwell --store postgresql://OWNER@HOST/DATABASE {command}",
        )
    return get_server(store.url, store.tenant, ServerOptions(store.prepare))


def _print_built(built: BuiltIndex) -> None:
    passages = f"{built.passages:,} passages"
    click.echo(f"{built.agent}: {passages}, {built.what} built in {built.seconds:g} s")


@store_command.command("migrate")
@click.option("--dry-run", is_flag=True, help="Only list the steps that the database lacks.")
@click.option(
    "--attempts",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="How often to try a step that waits too long for a lock.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1, 1000),
    help="The partitions of each table, if the database is empty.  [default: 8]",
)
@prints_answer
def migrate_command(dry_run: bool, attempts: int, partitions: int | None) -> Answer:
    """Take the steps that the tables on a server lack, while other processes go on.

    Only for the owner of the tables. A step that cannot lock its tables within ten seconds gives
    way to other processes and is tried again. The command can be interrupted and run again.
    """
    server = _open_server("store migrate")
    from memwell.store.postgres.server import migrate_online

    with closing(server):
        steps = migrate_online(server, attempts, dry_run=dry_run, partitions=partitions)
    word = "Missing" if dry_run else "Taken"
    text = "\n".join(f"{word}: {step}" for step in steps) or "The schema is up to date."
    return Answer({"steps": steps, "dry_run": dry_run}, text)


@store_command.command("drop-tenant")
@click.argument("tenant")
@click.option("--yes", is_flag=True, help="Delete without asking.")
@prints_answer
def drop_tenant_command(tenant: str, yes: bool) -> Answer:
    """Delete everything of TENANT from a server: facts, notes, vectors, caches.

    Only for the owner of the tables. `store copy --tenant` makes a copy first. The command can be
    interrupted and run again. It says where the data may still be.
    """
    server = _open_server("store drop-tenant")
    from memwell.store.postgres.tenants import drop_tenant

    if not yes:
        click.confirm(f"Delete everything of the tenant {tenant}?", abort=True, err=True)
    with closing(server):
        report = drop_tenant(server.for_tenant(tenant))
    tokens = _forget_tenant(tenant)
    lines = [f"{sum(report.rows.values()):,} rows of {tenant} deleted"]
    if tokens:
        lines.append(f"Tokens of this home that were revoked: {', '.join(tokens)}")
    if report.roles:
        lines.append(f"Roles that were bound to it: {', '.join(report.roles)}")
    lines.append(
        f"{report.remains}. Files and vector stores that were uploaded for the tenant are in the"
        " homes of the servers"
    )
    return Answer(report, "\n".join(lines))


def _forget_tenant(tenant: str) -> list[str]:
    """Delete the files of a tenant in this home, and revoke its tokens; return their names."""
    import shutil

    from memwell import config
    from memwell.memory.tenants import home_of
    from memwell.surfaces.http.tokens import Tokens

    home = config.find_home()
    shutil.rmtree(home_of(home, tenant), ignore_errors=True)
    tokens = Tokens(home)
    names = [token.name for token in tokens.list_stored() if token.tenant == tenant]
    for name in names:
        tokens.remove(name)
    return names


@store_command.command("roles")
@click.option("--role", "name", default="memwell", show_default=True, help="The name of the role.")
@click.option("--tenant", help="Bind the role to this tenant, whatever it sets.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="KIND:NAME",
    help="Of that tenant's facts, bind the role to the global ones and these (user:anna).",
)
def roles(name: str, tenant: str | None, scopes: tuple[str, ...]) -> None:
    """Print the SQL that creates a role with the rights memwell needs, and no others."""
    from memwell.store.postgres.roles import role

    if tenant == "":
        raise click.UsageError("--tenant must have a name")
    if scopes and tenant is None:
        raise click.UsageError("--scope needs a tenant: add --tenant NAME")
    for scope in scopes:
        kind, _, target = scope.partition(":")
        if kind not in ("user", "agent", "session") or not target:
            raise click.UsageError(f"--scope {scope} is not a scope: write it like user:anna")
    click.echo("\n".join(role(name, tenant, scopes)))


@store_command.command("ddl")
@click.option("--citus", is_flag=True, required=True, help="For Citus: the tables, by tenant.")
def ddl(citus: bool) -> None:
    """Print the SQL that distributes the tables over the nodes of a distributed PostgreSQL."""
    from memwell.store.postgres.roles import distributed

    click.echo("\n".join(distributed()))
