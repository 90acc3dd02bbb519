"""`memwell get` and `memwell note`."""

from __future__ import annotations

import datetime as dt
import sys
from typing import TYPE_CHECKING

import click

from memwell.surfaces.cli.common import Answer, with_memory
from memwell.surfaces.cli.terminal import visible

if TYPE_CHECKING:
    from memwell.memory import Memory


@click.command("get")
@click.argument("reference", metavar="PATH[#L3-L9]")
@with_memory
def get_command(memory: Memory, reference: str) -> Answer:
    """Print a note or some of its lines, as the file is now."""
    passage = memory.get(reference)
    return Answer(passage, lambda: click.echo(visible(passage.text).encode("utf-8", "replace")))


@click.command("note")
@click.argument("text", nargs=-1)
@click.option(
    "--now", envvar="MEMWELL_NOW", metavar="TIME", help="Use this as the current time (ISO 8601)."
)
@with_memory
def note_command(memory: Memory, text: tuple[str, ...], now: str | None) -> Answer:
    """Append TEXT (or standard input) to the log of today in the workspace."""
    words = " ".join(text) if text else sys.stdin.read()
    passage = memory.note(words, now=_time(now))
    return Answer(passage, f"{passage.path}:{passage.start_line}")


def _time(now: str | None) -> dt.datetime | None:
    try:
        return dt.datetime.fromisoformat(now) if now else None
    except ValueError:
        raise click.BadParameter(
            f"{now!r} is not a time like 2026-01-31T14:05", param_hint="--now"
        ) from None
