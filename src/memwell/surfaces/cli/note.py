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
    from memwell.model import Excerpt

_LINKS_SHOWN = 10


@click.command("get")
@click.argument("reference", metavar="PATH[#L3-L9]")
@with_memory
def get_command(memory: Memory, reference: str) -> Answer:
    """Print a note or some of its lines, as the file is now.

    PATH#page=3 is a page of a document, PATH#cell=5 a cell of a notebook. The notes that it is
    linked with are named on standard error.
    """
    passage = memory.get(reference)
    return Answer(passage, lambda: _print(visible(passage)))


def _print(passage: Excerpt) -> None:
    click.echo(passage.text.encode("utf-8", "replace"))
    for label, paths in (("links to", passage.links), ("linked from", passage.backlinks)):
        if paths:
            more = f" and {len(paths) - _LINKS_SHOWN} more" if len(paths) > _LINKS_SHOWN else ""
            click.secho(f"{label}: {', '.join(paths[:_LINKS_SHOWN])}{more}", err=True, dim=True)


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
