"""`memwell spaces`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memwell.surfaces.cli.common import json_option, open_memory, print_json, workspace_options

if TYPE_CHECKING:
    from memwell.reports import SpaceStatus


@click.command("spaces")
@click.argument("action", type=click.Choice(["list", "switch", "drop"]), default="list")
@click.argument("number", type=int, required=False)
@workspace_options
@json_option
def spaces_command(
    action: str, number: int | None, workspace: str | None, agent: str | None, as_json: bool
) -> None:
    """List the vector spaces, switch to one (rollback) or drop one.

    A space holds the vectors of one model. Searches use the live space. When the model changes,
    memwell fills a new space in the background and keeps the old one for a while.
    """
    if action != "list" and number is None:
        raise click.UsageError(f"Name the space: memwell spaces {action} NUMBER")
    with open_memory(workspace, agent) as memory:
        if action == "switch" and number is not None:
            memory.switch_space(number)
        elif action == "drop" and number is not None:
            memory.drop_space(number)
        spaces = memory.spaces()
    if as_json:
        from dataclasses import asdict

        print_json({"spaces": [asdict(space) for space in spaces]})
        return
    for space in spaces:
        click.echo(_line(space))
    if not spaces:
        click.echo("No vectors yet: run `memwell index`.")


def _line(space: SpaceStatus) -> str:
    share = space.embedded / space.chunks if space.chunks else 1.0
    chance = ""
    if space.random_mean is not None and space.random_deviation is not None:
        chance = f", random cosine {space.random_mean:.2f} ± {space.random_deviation:.2f}"
    return (
        f"{space.id}  {space.state:<8} {space.model} ({space.provider}), {space.dimensions}"
        f" dimensions, {share:.0%} of {space.chunks} passages{chance}"
    )
