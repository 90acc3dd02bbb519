"""`memwell store`: where a memory is kept."""

from __future__ import annotations

import click

from memwell.surfaces.cli.copying import copy_command


@click.group("store")
def store_command() -> None:
    """Move a memory between the files of a home and a PostgreSQL server."""


store_command.add_command(copy_command)
