"""`memwell status`, `memwell doctor` and `memwell reset`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from memwell.surfaces.cli import options
from memwell.surfaces.cli.common import Answer, open_memory, with_memory
from memwell.surfaces.cli.terminal import visible

if TYPE_CHECKING:
    from memwell.memory import Memory
    from memwell.reports import Check, Status

PROBLEMS_FOUND = 1


@click.command("status")
@click.option("--deep", is_flag=True, help="Also check every page of the index.")
@options.viewer
@with_memory
def status_command(memory: Memory, deep: bool) -> Answer:
    """Show the contents and the state of the index."""
    status = memory.status(deep=deep)
    return Answer(status, lambda: _print_status(visible(status)))


def _print_status(status: Status) -> None:
    click.echo(f"memwell {status.version}, agent {status.agent}")
    click.echo(f"index   {status.index} ({status.bytes / 1e6:.1f} MB)")
    if len(status.store) > 1:  # a server: more than one of its parts can fail
        parts = "; ".join(f"{part.name} {part.detail}" for part in status.store if part.ok)
        click.echo(f"store   {parts}")
    click.echo(f"words   {status.words}")
    click.echo(f"meaning {status.meaning}")
    for provider in status.providers:
        if not provider.usable:
            click.secho(f"{provider.name}: {provider.detail}", fg="yellow", err=True)
    if status.deep:
        click.echo(f"checked {status.deep['integrity']}")
    for row in status.workspaces:
        state = "the folder is missing" if row.missing else f"synced {row.synced_at or 'never'}"
        click.echo(f"{row.root}: {row.notes} notes, {row.chunks} chunks, {state}")
    if not status.workspaces:
        click.echo("No workspace yet: run `memwell index PATH`.")
    for line in status.warnings:
        click.secho(f"warning: {line}", fg="yellow", err=True)


@click.command("doctor")
@options.viewer
@with_memory
def doctor_command(memory: Memory) -> Answer:
    """Check everything, and print a remedy for each problem; exit status 1 if there is one."""
    checks = memory.doctor()
    status = 0 if all(check.ok for check in checks) else PROBLEMS_FOUND
    return Answer({"checks": checks}, lambda: _print_checks(visible(checks)), status)


def _print_checks(checks: Sequence[Check]) -> None:
    for check in checks:
        mark = click.style("ok  ", fg="green") if check.ok else click.style("FAIL", fg="red")
        click.echo(f"{mark} {check.name}: {check.detail}")
        if check.remedy:
            click.echo(f"     {check.remedy}")


@click.command("reset")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--workspace", "-w", metavar="PATH", help="Forget this workspace only.")
@options.agent
def reset_command(yes: bool, workspace: str | None, agent: str | None) -> None:
    """Delete the index, or forget a workspace. Notes stay; `memwell index` rebuilds the index."""
    with open_memory(None, agent, everywhere=True) as memory:
        what = (
            f"Forget the workspace {workspace}"
            if workspace
            else f"Delete the index of {memory.agent}"
        )
        if not yes:
            click.confirm(f"{what}? Your notes are not touched.", abort=True)
        memory.reset(workspace)
    click.echo("Done.")
