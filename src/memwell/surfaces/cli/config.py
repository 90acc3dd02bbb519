"""`memwell config` and `memwell completion`."""

from __future__ import annotations

import click

from memwell.surfaces.cli.common import json_option, open_memory, print_json, workspace_options


@click.command("config")
@click.argument("name", required=False)
@workspace_options
@json_option
def config_command(
    name: str | None, workspace: str | None, agent: str | None, as_json: bool
) -> None:
    """Show each setting: its value, the origin of the value, the reason for the default."""
    from memwell.config.fields import to_toml
    from memwell.config.settings import SETTINGS, setting_named

    with open_memory(workspace, agent) as memory:
        settings = memory.settings
    chosen = [setting_named(name)] if name else SETTINGS
    if as_json:
        rows = {
            setting.name: {
                "value": setting.get_masked(settings),
                "origin": settings.origin(setting.name),
                "default": setting.default,
                "variable": setting.variable,
                "reason": setting.reason,
            }
            for setting in chosen
        }
        print_json({"settings": rows})
        return
    for setting in chosen:
        value, origin = to_toml(setting.get_masked(settings)), settings.origin(setting.name)
        click.echo(f"{click.style(setting.name, bold=True)} = {value}  ({origin})")
        click.echo(f"    {setting.reason}")


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the completion script of a shell: `eval "$(memwell completion bash)"`."""
    from click.shell_completion import get_completion_class

    from memwell.surfaces.cli import cli

    source = get_completion_class(shell)
    assert source is not None
    click.echo(source(cli, {}, "memwell", "_MEMWELL_COMPLETE").source())
