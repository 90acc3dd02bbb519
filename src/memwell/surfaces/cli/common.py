"""Open the memory for a command, and print its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memwell.surfaces.cli import options
from memwell.surfaces.cli.terminal import visible

if TYPE_CHECKING:
    from memwell.config.fields import Value
    from memwell.memory import Memory


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
    **values: Any,
) -> Memory:
    """Return the memory of a workspace, by default of the one around the current folder."""
    from memwell.memory import Memory

    return Memory(
        workspace=workspace,
        fallback_workspace=None if everywhere or workspace else Path.cwd(),
        agent=agent,
        settings={**overrides(), **(settings or {})},
        **values,
    )


@contextmanager
def open_memory(*arguments: Any, **values: Any) -> Iterator[Memory]:
    """Open a memory as `new_memory` returns it, and print its notices in the end."""
    with new_memory(*arguments, **values) as memory:
        memory.find_lost_facts()  # before a change could hide that memory.db is an older copy
        try:
            yield memory
        finally:
            if lost := memory.find_lost_facts():
                memory.notices.append(lost)
            for notice in memory.notices:
                click.echo(visible(notice), err=True)


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
    def run(*, as_json: bool, **values: Any) -> None:
        answer = command(**values)
        if as_json:
            print_json(answer.value)
        elif callable(answer.text):
            answer.text()
        elif answer.text:
            click.echo(visible(answer.text))
        click.get_current_context().exit(answer.status)

    return options.as_json(run)


def with_memory(command: Callable[..., Answer]) -> Callable[..., None]:
    """Open the memory for a command, and print the answer when the memory is closed again.

    The command gets ``--workspace``, ``--agent`` and ``--json``. If it also has ``--user``,
    ``--session`` or ``--all``, they choose the memory, too.
    """

    @wraps(command)
    def run(**values: Any) -> Answer:
        names = ("workspace", "agent", "user", "session", "everywhere")
        target = {name: values.pop(name) for name in names if name in values}
        with open_memory(**target) as memory:
            return command(memory, **values)

    return options.workspace(prints_answer(run))


def count_of(number: int, what: str) -> str:
    """Return a number with its noun, which gets an s unless there is one."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    import json
    import re

    from memwell.surfaces.serialise import to_jsonable

    text = json.dumps(to_jsonable(value), ensure_ascii=False, indent=2, default=str)
    # JSON escapes the other control characters itself.
    text = re.sub(r"[\x7f-\x9f]", lambda match: f"\\u{ord(match.group()):04x}", text)
    click.echo(text.encode("utf-8", "replace"))
