"""`memwell status`, `memwell doctor` and `memwell reset`."""

from __future__ import annotations

import click

from memwell.surfaces.cli.common import json_option, open_memory, print_json, workspace_options

PROBLEMS_FOUND = 1


@click.command("status")
@click.option("--deep", is_flag=True, help="Also check every page of the index.")
@workspace_options
@json_option
def status_command(deep: bool, workspace: str | None, agent: str | None, as_json: bool) -> None:
    """Show the contents and the state of the index."""
    with open_memory(workspace, agent) as memory:
        status = memory.status(deep=deep)
    if as_json:
        print_json(status)
        return
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
    if deep:
        click.echo(f"checked {status.deep['integrity']}")
    for row in status.workspaces:
        state = "the folder is missing" if row.missing else f"synced {row.synced_at or 'never'}"
        click.echo(f"{row.root}: {row.notes} notes, {row.chunks} chunks, {state}")
    if not status.workspaces:
        click.echo("No workspace yet: run `memwell index PATH`.")
    for line in status.warnings:
        click.secho(f"warning: {line}", fg="yellow", err=True)


@click.command("doctor")
@workspace_options
@json_option
@click.pass_context
def doctor_command(
    ctx: click.Context, workspace: str | None, agent: str | None, as_json: bool
) -> None:
    """Check everything, and print a remedy for each problem; exit status 1 if there is one."""
    with open_memory(workspace, agent) as memory:
        checks = memory.doctor()
    if as_json:
        from dataclasses import asdict

        print_json({"checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            mark = click.style("ok  ", fg="green") if check.ok else click.style("FAIL", fg="red")
            click.echo(f"{mark} {check.name}: {check.detail}")
            if check.remedy:
                click.echo(f"     {check.remedy}")
    ctx.exit(0 if all(check.ok for check in checks) else PROBLEMS_FOUND)


@click.command("reset")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--workspace", "-w", metavar="PATH", help="Forget this workspace only.")
@click.option("--agent", help="The agent of the memory; default the setting `agent`.")
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
