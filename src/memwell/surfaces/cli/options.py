"""Options that several commands share, as decorators: `@options.workspace`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from memwell.config.settings import setting_named

F = TypeVar("F", bound=Callable[..., Any])


def combine(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return one decorator that adds several options, in this order."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, with stable keys.")
agent = click.option("--agent", help="The agent of the memory; default the setting `agent`.")
workspace = combine(
    click.option(
        "--workspace",
        "-w",
        metavar="PATH",
        help="The workspace; default the one around this folder.",
    ),
    agent,
)
user = click.option("--user", default="", help="Also use the facts of this user.")
viewer = combine(
    click.option("--session", default="", help="Also use the facts of this session."),
    user,
)
"""Facts of that user or session are visible besides the shared ones."""
history = combine(
    click.option(
        "--include-superseded", is_flag=True, help="Also facts that are superseded or expired."
    ),
    click.option("--as-of", help="Only facts that were valid at this time, such as 2026-02-10."),
)
everywhere = click.option(
    "--all", "everywhere", is_flag=True, help="Search all workspaces of the agent."
)
now = click.option(
    "--now",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M"]),
    help="Use this as the current time; default $MEMWELL_NOW, else the clock.",
)


def with_choices(option: str, setting: str, what: str) -> Callable[[F], F]:
    """Return an option that has the values and the default of a setting."""
    choices = click.Choice(setting_named(setting).one_of)
    return click.option(option, type=choices, help=f"{what}; default `{setting}`.")


mode = with_choices("--mode", "search.mode", "Search by words, by meaning or by both (hybrid)")
cutoff = click.option(
    "-k",
    "k",
    type=click.IntRange(1, 100),
    default=10,
    show_default=True,
    help="How many of the results count.",
)
scope = partial(click.option, "--scope", type=click.Choice(["global", "user", "agent", "session"]))
"""``--scope`` of a new fact; each command explains its default."""
