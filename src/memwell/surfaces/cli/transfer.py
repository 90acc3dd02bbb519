"""`memwell export`, `import`, `backup`, `restore` and `verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from memwell.surfaces.cli import options
from memwell.surfaces.cli.common import Answer, count_of, with_memory
from memwell.surfaces.cli.terminal import visible

if TYPE_CHECKING:
    from memwell.facts.export_import import ImportReport
    from memwell.memory import Memory
    from memwell.memory.sources import SourceReport

PROBLEMS_FOUND = 1
_FILE = click.Path(path_type=Path)
_LIST = "list"


@click.command("export")
@click.argument("file", default="-", type=_FILE)
@click.option(
    "--format",
    "layout",
    type=click.Choice(["jsonl", "markdown"]),
    default="jsonl",
    show_default=True,
    help="JSON lines, which `import` reads, or Markdown for people.",
)
@options.viewer
@with_memory
def export_command(memory: Memory, file: Path, layout: str) -> Answer:
    """Export the facts that are visible here, with their history, to FILE or standard output.

    Without FILE, or with -, they go to standard output. Superseded facts are exported, too. FILE
    is overwritten, and only you can read it.
    """
    from memwell.facts.export_import import MARKDOWN, export_facts, to_jsonl, to_markdown
    from memwell.files import private_file

    facts = export_facts(memory.facts)
    content = (to_markdown(facts) if layout == MARKDOWN else to_jsonl(facts)).encode()
    if str(file) == "-":
        return Answer({"facts": facts}, lambda: click.echo(content, nl=False))
    with private_file(file.absolute()) as part:
        part.write_bytes(content)
    written = {"facts": len(facts), "file": str(file)}
    return Answer(written, f"{count_of(len(facts), 'fact')} written to {file}")


@click.command("import")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--from",
    "source",
    metavar="PROGRAM",
    help="The program that wrote FILE; default memwell. `docs/importing.md` lists them.",
)
@click.option("--to", type=_FILE, help="The folder for imported pages; default one in the home.")
@click.option("--dry-run", is_flag=True, help="Change nothing; report what would be imported.")
@click.option("--trust", is_flag=True, help="Also import what looks like junk or a secret.")
@options.viewer
@with_memory
def import_command(
    memory: Memory, path: Path, source: str | None, to: Path | None, dry_run: bool, trust: bool
) -> Answer:
    """Import the facts of FILE, which `memwell export` wrote; - is standard input.

    Ids, times, scopes and history stay as they are. Facts of scopes that are not visible here are
    left out. If a fact exists already, the one that was confirmed last stays.

    With --from, FILE is the export or the folder of another program: chatgpt, claude, mem0,
    openclaw, openclaw-hybrid-memory, basic-memory, obsidian or notion. Facts keep their dates,
    conversations become transcripts, pages become notes. Importing again adds nothing.

    Exit status: 0 nothing was refused, 1 something was.
    """
    if source:
        found = memory.sources.import_from(source, path, to=to, trust=trust, dry_run=dry_run)
        status = PROBLEMS_FOUND if found.facts.refused else 0
        return Answer(found, lambda: _print_source(visible(found)), status)
    with click.open_file(str(path), "rb") as file:
        content = file.read()
    report = memory.import_facts(content, trust=trust, dry_run=dry_run)
    is_other = bool(report.refused) and not (report.added or report.updated or report.unchanged)
    hint = _other_format(content, path) if is_other else ""
    return Answer(
        report, lambda: _print_import(report, hint), PROBLEMS_FOUND if report.refused else 0
    )


def _other_format(content: bytes, path: Path) -> str:
    """Return a sentence on the formats that `import` reads, and which one a file looks like."""
    from memwell.sources.importers.sources import IMPORTERS, guess_archive, guess_source

    is_archive = content.startswith(b"PK\x03\x04") and path.is_file()
    guessed = guess_archive(path) if is_archive else guess_source(content)
    if guessed:
        return f"It looks like an export of {guessed}: memwell import --from {guessed} {path}"
    return (
        "`memwell import FILE` reads what `memwell export` wrote; with --from it also reads"
        f" {', '.join(IMPORTERS)}"
    )


@click.command("backup")
@click.argument("file", type=click.Path())
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@with_memory
def backup_command(memory: Memory, file: str, force: bool) -> Answer:
    """Copy all facts to FILE, even while other programs write; with FILE "list", list backups.

    For the owner of the home: the backup holds the facts of every user, agent and session. memwell
    checks it before it gives it its name. Only you can read it.

    `memwell backup list` lists the automatic backups in the home; `backup.every` in the settings
    says how often they are made.
    """
    if file == _LIST:  # a file of that name is ./list
        return _backup_list(memory)
    report = memory.backup(file, force=force)
    size = f"{report.bytes / 1e6:.1f} MB"
    return Answer(report, f"{count_of(report.facts, 'fact')} copied to {report.file} ({size})")


def _backup_list(memory: Memory) -> Answer:
    backups = memory.facts.store.require_file().list_backups()
    lines = [
        f"{backup.at[:16].replace('T', ' ')} UTC  {_describe(backup.facts):>10}  {backup.file}"
        for backup in backups
    ]
    if lines:
        lines.append("`memwell restore latest` restores the first of them")
    empty = "There are no automatic backups yet: the next change of a fact writes one"
    return Answer({"backups": backups}, "\n".join(lines) or empty)


def _describe(facts: int | None) -> str:
    return "damaged" if facts is None else count_of(facts, "fact")


@click.command("restore")
@click.argument("file", type=_FILE)
@with_memory
def restore_command(memory: Memory, file: Path) -> Answer:
    """Replace all facts by those of the backup FILE, or of the "latest" automatic backup.

    For the owner of the home: it replaces the facts of every user, agent and session. The present
    facts are kept in a file next to them. Facts that were forgotten since the backup come back.
    """
    report = memory.restore(file)
    kept = f"\nThe facts from before are in {report.kept}" if report.kept else ""
    return Answer(report, f"{count_of(report.facts, 'fact')} restored from {report.file}{kept}")


@click.command("verify")
@click.argument("file", required=False, type=_FILE)
@with_memory
def verify_command(memory: Memory, file: Path | None) -> Answer:
    """Check all facts, or the backup FILE, without changing anything.

    For the owner of the home: it checks the facts of every user, agent and session, and names them
    by their ids.

    Exit status: 0 no problem, 1 there are problems.
    """
    findings = memory.verify(file)
    checked = file.absolute() if file else memory.facts.store.require_file().path
    lines = [f"{finding.what}\n     {finding.remedy}" for finding in findings]
    lines.append(f"{checked} is {'not ' if findings else ''}sound")
    value = {"file": str(checked), "sound": not findings, "findings": findings}
    return Answer(value, "\n".join(lines), PROBLEMS_FOUND if findings else 0)


_SHOWN = 20


def _print_import(report: ImportReport, hint: str = "") -> None:
    click.echo(
        f"{report.added} added, {report.updated} updated, {report.unchanged} unchanged,"
        f" {len(report.refused)} refused"
    )
    shown = report.refused[:1] if hint else report.refused
    for refused in shown:
        click.echo(f"line {refused.line}: {refused.reason}", err=True)
    for scope, count in sorted(report.left_out.items()):
        click.echo(f"left out, not visible here: {count} of {scope}", err=True)
    if hint:
        click.echo(hint, err=True)


def _print_source(report: SourceReport) -> None:
    if report.dry_run:
        click.echo("Dry run, nothing is changed:")
    facts = report.facts
    if facts.added or facts.updated or facts.unchanged or facts.refused or report.duplicates:
        click.echo(
            f"facts: {facts.added} added, {facts.updated} updated, {facts.unchanged} unchanged,"
            f" {report.duplicates} known already, {len(facts.refused)} refused"
        )
    if report.conversations:
        turns = count_of(report.turns, "turn")
        click.echo(f"conversations: {report.conversations} with {turns}")
    if report.notes_added or report.notes_changed or report.notes_unchanged:
        click.echo(
            f"notes: {report.notes_added} added, {report.notes_changed} changed,"
            f" {report.notes_unchanged} unchanged"
        )
    for folder in report.indexed:
        click.echo(f"{'would be indexed' if report.dry_run else 'indexed'}: {folder}")
    for refused in facts.refused[:_SHOWN]:
        click.echo(f"refused, fact {refused.line}: {refused.reason}", err=True)
    for problem in report.problems[:_SHOWN]:
        click.echo(f"  {problem}", err=True)
