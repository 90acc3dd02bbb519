"""`memwell watch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from memwell.platform.stop import event_on_stop
from memwell.surfaces.cli import options
from memwell.surfaces.cli.common import open_memory
from memwell.surfaces.cli.terminal import visible

if TYPE_CHECKING:
    from memwell.model import IndexReport


@click.command("watch")
@click.option("--all", "everywhere", is_flag=True, help="Watch all workspaces of the agent.")
@options.workspace
@options.as_json
def watch_command(as_json: bool, **target: Any) -> None:
    """Sync the index whenever a file changes, until Ctrl-C."""
    stop = event_on_stop()
    with open_memory(**target) as memory:
        click.echo("Watching; stop with Ctrl-C.", err=True)
        memory.watch(lambda event: _print(event, as_json), stop)


def _print(event: IndexReport | str, as_json: bool) -> None:
    from memwell.surfaces.cli.index import summary

    if as_json:
        import json
        from dataclasses import asdict

        line = {"message": event} if isinstance(event, str) else {"report": asdict(event)}
        click.echo(json.dumps(line, ensure_ascii=False))
    else:
        click.echo(visible(event if isinstance(event, str) else summary(event)))
