"""`memwell spaces`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memwell.surfaces.cli import options
from memwell.surfaces.cli.common import Answer, with_memory

if TYPE_CHECKING:
    from memwell.memory import Memory
    from memwell.reports import SpaceStatus


@click.command("spaces")
@click.argument("action", type=click.Choice(["list", "switch", "drop"]), default="list")
@click.argument("number", type=int, required=False)
@options.viewer
@with_memory
def spaces_command(memory: Memory, action: str, number: int | None) -> Answer:
    """List the vector spaces, switch to one (rollback) or drop one.

    A space holds the vectors of one model. Searches use the live space. When the model changes,
    memwell fills a new space in the background and keeps the old one for a while.
    """
    if action != "list":
        if number is None:
            raise click.UsageError(f"Name the space: memwell spaces {action} NUMBER")
        (memory.switch_space if action == "switch" else memory.drop_space)(number)
    spaces = memory.spaces()
    text = "\n".join(map(_line, spaces)) or "No vectors yet: run `memwell index`."
    return Answer({"spaces": spaces}, text)


def _line(space: SpaceStatus) -> str:
    share = space.embedded / space.chunks if space.chunks else 1.0
    chance = ""
    if space.random_mean is not None and space.random_deviation is not None:
        chance = f", random cosine {space.random_mean:.2f} ± {space.random_deviation:.2f}"
    return (
        f"{space.id}  {space.state:<8} {space.model} ({space.provider}), {space.dimensions}"
        f" dimensions, {share:.0%} of {space.chunks} passages{chance}"
    )
