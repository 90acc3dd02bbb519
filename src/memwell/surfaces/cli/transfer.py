"""`memwell export`, `import`, `backup`, `restore` and `verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from memwell.surfaces.cli.common import (
    json_option,
    open_memory,
    print_json,
    viewer_options,
    workspace_options,
)

if TYPE_CHECKING:
    from memwell.facts.export_import import ImportReport

PROBLEMS_FOUND = 1
_FILE = click.Path(path_type=Path)


@click.command("export")
@click.argument("file", required=False, type=_FILE)
@click.option(
    "--format",
    "layout",
    type=click.Choice(["jsonl", "markdown"]),
    default="jsonl",
    show_default=True,
    help="JSON lines, which `import` reads, or Markdown for people.",
)
@viewer_options
@workspace_options
@json_option
def export_command(
    file: Path | None,
    layout: str,
    user: str,
    session: str,
    workspace: str | None,
    agent: str | None,
    as_json: bool,
) -> None:
    """Export the facts that are visible here, with their history, to FILE or standard output.

    Superseded facts are exported, too. FILE is overwritten, and only you can read it.
    """
    from memwell.facts.export_import import MARKDOWN, export_facts, to_jsonl, to_markdown
    from memwell.files import private_file

    with open_memory(workspace, agent, user=user, session=session) as memory:
        facts = export_facts(memory.facts)
    content = (to_markdown(facts) if layout == MARKDOWN else to_jsonl(facts)).encode()
    if file:
        with private_file(file.absolute()) as part:
            part.write_bytes(content)
    if as_json:
        print_json({"facts": len(facts), "file": str(file)} if file else {"facts": facts})
    elif file:
        click.echo(f"{len(facts)} facts written to {file}")
    else:
        click.echo(content, nl=False)


@click.command("import")
@click.argument("file", type=click.File("rb"))
@click.option("--trust", is_flag=True, help="Also import what looks like junk or a secret.")
@viewer_options
@workspace_options
@json_option
@click.pass_context
def import_command(
    ctx: click.Context,
    file: BinaryIO,
    trust: bool,
    user: str,
    session: str,
    workspace: str | None,
    agent: str | None,
    as_json: bool,
) -> None:
    """Import the facts of FILE, which `memwell export` wrote; - is standard input.

    Ids, times, scopes and history stay as they are. Facts of scopes that are not visible here are
    left out. If a fact exists already, the one that was confirmed last stays.

    Exit status: 0 no line was refused, 1 some were.
    """
    with open_memory(workspace, agent, user=user, session=session) as memory:
        report = memory.import_facts(file.read(), trust=trust)
    if as_json:
        print_json(report)
    else:
        _print_import(report)
    ctx.exit(PROBLEMS_FOUND if report.refused else 0)


@click.command("backup")
@click.argument("file", type=_FILE)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@workspace_options
@json_option
def backup_command(
    file: Path, force: bool, workspace: str | None, agent: str | None, as_json: bool
) -> None:
    """Copy all facts to FILE, even while other programs write.

    For the owner of the home: the backup holds the facts of every user, agent and session. memwell
    checks it before it gives it its name. Only you can read it.
    """
    with open_memory(workspace, agent) as memory:
        report = memory.backup(file, force=force)
    if as_json:
        print_json(report)
    else:
        click.echo(f"{report.facts} facts copied to {report.file} ({report.bytes / 1e6:.1f} MB)")


@click.command("restore")
@click.argument("file", type=_FILE)
@workspace_options
@json_option
def restore_command(file: Path, workspace: str | None, agent: str | None, as_json: bool) -> None:
    """Replace all facts by those of the backup FILE.

    For the owner of the home: it replaces the facts of every user, agent and session. The present
    facts are kept in a file next to them. Facts that were forgotten since the backup come back.
    """
    with open_memory(workspace, agent) as memory:
        report = memory.restore(file)
    if as_json:
        print_json(report)
        return
    click.echo(f"{report.facts} facts restored from {report.file}")
    if report.kept:
        click.echo(f"The facts from before are in {report.kept}")


@click.command("verify")
@click.argument("file", required=False, type=_FILE)
@workspace_options
@json_option
@click.pass_context
def verify_command(
    ctx: click.Context, file: Path | None, workspace: str | None, agent: str | None, as_json: bool
) -> None:
    """Check all facts, or the backup FILE, without changing anything.

    For the owner of the home: it checks the facts of every user, agent and session, and names them
    by their ids.

    Exit status: 0 no problem, 1 there are problems.
    """
    with open_memory(workspace, agent) as memory:
        findings = memory.verify(file)
        checked = file.absolute() if file else memory.facts.store.require_file().path
    if as_json:
        from dataclasses import asdict

        rows = [asdict(finding) for finding in findings]
        print_json({"file": str(checked), "sound": not findings, "findings": rows})
    else:
        for finding in findings:
            click.echo(f"{finding.what}\n     {finding.remedy}")
        click.echo(f"{checked} is {'not ' if findings else ''}sound")
    ctx.exit(PROBLEMS_FOUND if findings else 0)


def _print_import(report: ImportReport) -> None:
    click.echo(
        f"{report.added} added, {report.updated} updated, {report.unchanged} unchanged,"
        f" {len(report.refused)} refused"
    )
    for refused in report.refused:
        click.echo(f"line {refused.line}: {refused.reason}", err=True)
    for scope, count in sorted(report.left_out.items()):
        click.echo(f"left out, not visible here: {count} of {scope}", err=True)
