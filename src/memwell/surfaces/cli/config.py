"""`memwell config` and `memwell completion`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memwell.surfaces.cli.common import Answer, with_memory

if TYPE_CHECKING:
    from memwell.memory import Memory


@click.command("config")
@click.argument("name", required=False)
@with_memory
def config_command(memory: Memory, name: str | None) -> Answer:
    """Show each setting: its value, the origin of the value, the reason for the default."""
    from memwell.config.fields import to_toml
    from memwell.config.settings import SETTINGS, setting_named

    settings = memory.settings
    rows = {
        setting.name: {
            "value": settings.get_masked(setting.name),
            "origin": settings.origin(setting.name),
            "default": setting.default,
            "variable": setting.variable,
            "reason": setting.reason,
        }
        for setting in ([setting_named(name)] if name else SETTINGS)
    }

    def show() -> None:
        for name, row in rows.items():
            value = to_toml(row["value"])
            click.echo(f"{click.style(name, bold=True)} = {value}  ({row['origin']})")
            click.echo(f"    {row['reason']}")

    return Answer({"settings": rows}, show)


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the completion script of a shell: `eval "$(memwell completion bash)"`."""
    from click.shell_completion import get_completion_class

    from memwell.surfaces.cli import cli

    source = get_completion_class(shell)
    assert source is not None
    click.echo(source(cli, {}, "memwell", "_MEMWELL_COMPLETE").source())
