"""What commands share: options, opening the memory, JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from memwell.memory import Memory

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """``--json``: machine-readable output."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, with stable keys.")(
        command
    )


def workspace_options(command: F) -> F:
    """``--workspace`` and ``--agent``: whose memory, of which folder."""
    command = click.option("--agent", help="Whose memory; default the setting `agent`.")(command)
    return click.option(
        "--workspace",
        "-w",
        metavar="PATH",
        help="The workspace; default the one around this folder.",
    )(command)


def viewer_options(command: F) -> F:
    """``--user`` and ``--session``: whose facts, besides the agent's and the global ones."""
    for option in (
        click.option("--user", default="", help="The user whose facts are seen, too."),
        click.option("--session", default="", help="The session whose facts are seen, too."),
    ):
        command = option(command)
    return command


def history_options(command: F) -> F:
    """``--include-superseded`` and ``--as-of``: facts that are no longer held true."""
    command = click.option("--as-of", help="What was held true at a time, such as 2026-02-10.")(
        command
    )
    return click.option(
        "--include-superseded", is_flag=True, help="Also facts that are no longer held true."
    )(command)


def now_option(command: F) -> F:
    """``--now``: the time that it is, so that examples stay true."""
    return click.option(
        "--now",
        type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M"]),
        help="Take this for the present time; default $MEMWELL_NOW, else the clock.",
    )(command)


def mode_option(command: F) -> F:
    """``--mode``: by words, by meaning or by both."""
    return click.option(
        "--mode",
        type=click.Choice(["hybrid", "words", "meaning"]),
        help="By words and meaning (hybrid) or by one of them; default `search.mode`.",
    )(command)


@contextmanager
def open_memory(
    workspace: str | None,
    agent: str | None,
    *,
    everywhere: bool = False,
    user: str = "",
    session: str = "",
) -> Iterator[Memory]:
    """Open the memory for the workspace named, else for the one around the current folder."""
    from memwell.memory import Memory

    near = None if everywhere or workspace else Path.cwd()
    with Memory(
        workspace=workspace, fallback_workspace=near, agent=agent, user=user, session=session
    ) as memory:
        try:
            yield memory
        finally:
            for notice in memory.notices:
                click.echo(notice, err=True)


def print_json(value: Any) -> None:
    """Print a result object as JSON."""
    import json

    from memwell.surfaces.serialise import to_jsonable

    text = json.dumps(to_jsonable(value), ensure_ascii=False, indent=2, default=str)
    click.echo(text.encode("utf-8", "replace"))
