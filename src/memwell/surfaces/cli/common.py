"""Options that commands share, opening the memory, and printing the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from memwell.config.fields import Value
    from memwell.memory import Memory

F = TypeVar("F", bound=Callable[..., Any])


def combine(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return one decorator that adds several options, in this order."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, with stable keys.")
agent_option = click.option("--agent", help="The agent of the memory; default the setting `agent`.")
workspace_options = combine(
    click.option(
        "--workspace",
        "-w",
        metavar="PATH",
        help="The workspace; default the one around this folder.",
    ),
    agent_option,
)
user_option = click.option("--user", default="", help="Also use the facts of this user.")
viewer_options = combine(
    click.option("--session", default="", help="Also use the facts of this session."),
    user_option,
)
"""Facts of that user or session are visible besides the shared ones."""
history_options = combine(
    click.option(
        "--include-superseded", is_flag=True, help="Also facts that are superseded or expired."
    ),
    click.option("--as-of", help="Only facts that were valid at this time, such as 2026-02-10."),
)
everywhere_option = click.option(
    "--all", "everywhere", is_flag=True, help="Search all workspaces of the agent."
)
now_option = click.option(
    "--now",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M"]),
    help="Use this as the current time; default $MEMWELL_NOW, else the clock.",
)
mode_option = click.option(
    "--mode",
    type=click.Choice(["hybrid", "words", "meaning"]),
    help="Search by words, by meaning or by both (hybrid); default `search.mode`.",
)
cutoff_option = click.option(
    "-k",
    "k",
    type=click.IntRange(1, 100),
    default=10,
    show_default=True,
    help="How many of the results count.",
)
scope_option = partial(
    click.option, "--scope", type=click.Choice(["global", "user", "agent", "session"])
)
"""``--scope`` of a new fact; each command explains its default."""


def overrides() -> dict[str, Value]:
    """Return the settings that an option of `memwell` itself replaces (``--store``)."""
    context = click.get_current_context(silent=True)
    return dict(context.find_root().obj or {}) if context else {}


def new_memory(
    workspace: str | None,
    agent: str | None,
    *,
    everywhere: bool = False,
    settings: Mapping[str, Value] | None = None,
    **options: Any,
) -> Memory:
    """Return the memory of a workspace, by default of the one around the current folder."""
    from memwell.memory import Memory

    return Memory(
        workspace=workspace,
        fallback_workspace=None if everywhere or workspace else Path.cwd(),
        agent=agent,
        settings={**overrides(), **(settings or {})},
        **options,
    )


@contextmanager
def open_memory(*arguments: Any, **options: Any) -> Iterator[Memory]:
    """Open a memory as `new_memory` returns it, and print its notices in the end."""
    with new_memory(*arguments, **options) as memory:
        try:
            yield memory
        finally:
            for notice in memory.notices:
                click.echo(notice, err=True)


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a command."""

    value: Any
    """The value that ``--json`` prints."""
    text: str | Callable[[], object]
    """The result for people, or a function that prints it."""
    status: int = 0
    """The exit status."""


def prints_answer(command: Callable[..., Answer]) -> Callable[..., None]:
    """Add ``--json`` to a command, and print the answer that it returns."""

    @wraps(command)
    def run(*, as_json: bool, **options: Any) -> None:
        answer = command(**options)
        if as_json:
            print_json(answer.value)
        elif callable(answer.text):
            answer.text()
        elif answer.text:
            click.echo(answer.text)
        click.get_current_context().exit(answer.status)

    return json_option(run)


def with_memory(command: Callable[..., Answer]) -> Callable[..., None]:
    """Open the memory for a command, and print the answer when the memory is closed again.

    The command gets ``--workspace``, ``--agent`` and ``--json``. If it also has ``--user``,
    ``--session`` or ``--all``, they choose the memory, too.
    """

    @wraps(command)
    def run(**options: Any) -> Answer:
        names = ("workspace", "agent", "user", "session", "everywhere")
        target = {name: options.pop(name) for name in names if name in options}
        with open_memory(**target) as memory:
            return command(memory, **options)

    return workspace_options(prints_answer(run))


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    import json

    from memwell.surfaces.serialise import to_jsonable

    text = json.dumps(to_jsonable(value), ensure_ascii=False, indent=2, default=str)
    click.echo(text.encode("utf-8", "replace"))
