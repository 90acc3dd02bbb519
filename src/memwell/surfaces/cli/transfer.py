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
    help="Lines of JSON, which `import` reads, or Markdown for reading.",
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
    """Write out the facts that are seen here, with their history, to FILE or the screen.

    Those that were superseded are there, too. FILE is readable by you alone, and written over.
    """
    from memwell.facts.export_import import MARKDOWN, export_facts, to_jsonl, to_markdown
    from memwell.files import private_file

    with open_memory(workspace, agent, user=user, session=session) as memory:
        found = export_facts(memory.facts)
    content = (to_markdown(found) if layout == MARKDOWN else to_jsonl(found)).encode()
    if file:
        with private_file(file.absolute()) as part:
            part.write_bytes(content)
    if as_json:
        print_json({"facts": len(found), "file": str(file)} if file else {"facts": found})
    elif file:
        click.echo(f"{len(found)} facts written to {file}")
    else:
        click.echo(content, nl=False)


@click.command("import")
@click.argument("file", type=click.File("rb"))
@click.option("--trust", is_flag=True, help="Take also what looks like junk or a secret.")
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
    """Take in the facts of FILE, which `memwell export` wrote; - is the standard input.

    Ids, times, scopes and history stay as they are. Facts of scopes that are not seen here are
    left out. Where a fact is there already, the one that was confirmed last stays.

    Exit status: 0 all lines were taken or left out, 1 some were refused.
    """
    from memwell.facts.export_import import import_jsonl

    with open_memory(workspace, agent, user=user, session=session) as memory:
        report = import_jsonl(file.read(), memory.facts, trust=trust)
    if as_json:
        print_json(report)
    else:
        _tell(report)
    ctx.exit(PROBLEMS_FOUND if report.refused else 0)


@click.command("backup")
@click.argument("file", type=_FILE)
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@workspace_options
@json_option
def backup_command(
    file: Path, force: bool, workspace: str | None, agent: str | None, as_json: bool
) -> None:
    """Copy all that was remembered to FILE, also while other programs write.

    For the owner of the home: the copy holds the facts of every user, agent and session. It is
    checked before it is given its name, and readable by you alone.
    """
    with open_memory(workspace, agent) as memory:
        done = memory.facts.store.require_file().backup(file.absolute(), force=force)
    if as_json:
        print_json(done)
    else:
        click.echo(f"{done.facts} facts copied to {done.file} ({done.bytes / 1e6:.1f} MB)")


@click.command("restore")
@click.argument("file", type=_FILE)
@workspace_options
@json_option
def restore_command(file: Path, workspace: str | None, agent: str | None, as_json: bool) -> None:
    """Put the backup FILE in the place of all that is remembered now.

    For the owner of the home: it concerns the facts of every user, agent and session. What is
    there now is kept beside it; facts that were forgotten since the backup are back.
    """
    import datetime as dt

    with open_memory(workspace, agent) as memory:
        done = memory.facts.store.require_file().restore(file.absolute(), dt.datetime.now())
    if as_json:
        print_json(done)
        return
    click.echo(f"{done.facts} facts restored from {done.file}")
    if done.kept:
        click.echo(f"What was there before is in {done.kept}")


@click.command("verify")
@click.argument("file", required=False, type=_FILE)
@workspace_options
@json_option
@click.pass_context
def verify_command(
    ctx: click.Context, file: Path | None, workspace: str | None, agent: str | None, as_json: bool
) -> None:
    """Check all that was remembered, or a backup of it in FILE; nothing is changed.

    For the owner of the home: the facts of every user, agent and session are checked, and named
    by their ids.

    Exit status: 0 sound, 1 something is wrong.
    """
    from memwell.errors import NotFoundError
    from memwell.facts.service import normalised
    from memwell.store.sqlite.verify import verify

    with open_memory(workspace, agent) as memory:
        checked = file.absolute() if file else memory.facts.store.require_file().path
    if file and not file.is_file():
        raise NotFoundError(f"There is no file {file}", "Name one that `memwell backup` made")
    found = verify(checked, normalised) if checked.exists() else []
    if as_json:
        from dataclasses import asdict

        findings = [asdict(finding) for finding in found]
        print_json({"file": str(checked), "sound": not found, "findings": findings})
    else:
        for finding in found:
            click.echo(f"{finding.what}\n     {finding.remedy}")
        click.echo(f"{checked} is {'not ' if found else ''}sound")
    ctx.exit(PROBLEMS_FOUND if found else 0)


def _tell(report: ImportReport) -> None:
    click.echo(
        f"{report.added} added, {report.updated} updated, {report.unchanged} unchanged,"
        f" {len(report.refused)} refused"
    )
    for refused in report.refused:
        click.echo(f"line {refused.line}: {refused.reason}", err=True)
    for whose, count in sorted(report.left_out.items()):
        click.echo(f"left out, as it is not seen here: {count} of {whose}", err=True)
