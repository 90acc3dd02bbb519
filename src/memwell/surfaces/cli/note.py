"""`memwell get` and `memwell note`."""

from __future__ import annotations

import datetime as dt
import sys

import click

from memwell.surfaces.cli.common import json_option, open_memory, print_json, workspace_options


@click.command("get")
@click.argument("reference", metavar="PATH[#L3-L9]")
@workspace_options
@json_option
def get_command(reference: str, workspace: str | None, agent: str | None, as_json: bool) -> None:
    """Print a note or some of its lines, as the file is now."""
    with open_memory(workspace, agent) as memory:
        passage = memory.get(reference)
    if as_json:
        print_json(passage)
    else:
        click.echo(passage.text.encode("utf-8", "replace"))


@click.command("note")
@click.argument("text", nargs=-1)
@click.option(
    "--now", envvar="MEMWELL_NOW", metavar="TIME", help="Use this as the current time (ISO 8601)."
)
@workspace_options
@json_option
def note_command(
    text: tuple[str, ...], now: str | None, workspace: str | None, agent: str | None, as_json: bool
) -> None:
    """Append TEXT (or standard input) to the log of today in the workspace."""
    words = " ".join(text) if text else sys.stdin.read()
    with open_memory(workspace, agent) as memory:
        passage = memory.note(words, now=_time(now))
    if as_json:
        print_json(passage)
    else:
        click.echo(f"{passage.path}:{passage.start_line}")


def _time(now: str | None) -> dt.datetime | None:
    try:
        return dt.datetime.fromisoformat(now) if now else None
    except ValueError:
        raise click.BadParameter(
            f"{now!r} is not a time like 2026-01-31T14:05", param_hint="--now"
        ) from None
