"""`memwell hook`: automatic recall and capture for agents that run commands at events."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memwell.surfaces.cli import options
from memwell.surfaces.cli.common import overrides

if TYPE_CHECKING:
    from memwell.surfaces.hooks.deadline import HookLog


class _NeverBlocking(click.Command):
    """A command that exits with 0 despite wrong options: with 2 the agent would stop its work."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            click.echo(error.format_message(), err=True)
            ctx.exit(0)


def _hook_options(seconds: float) -> Callable[[options.F], options.F]:
    """Add the options that every hook has."""
    return options.combine(
        options.workspace,
        options.user,
        click.option(
            "--timeout",
            type=click.FloatRange(0.05, 3600),
            default=seconds,
            show_default=True,
            help="Give up after so many seconds.",
        ),
        click.option("--debug", is_flag=True, help="Also print the log messages to stderr."),
    )


@click.group("hook")
def hook_command() -> None:
    """Commands that the hooks of an agent run: automatic recall and capture."""


@hook_command.command("recall", cls=_NeverBlocking)
@click.option("--budget", type=click.IntRange(min=1), help="Tokens at most.")
@_hook_options(2.0)
def recall_command(budget: int | None, timeout: float, debug: bool, **values: Any) -> None:
    """Print the memories that fit the prompt, or those for the start of a session.

    Reads the event as JSON from standard input. Exit status: always 0.
    """
    from memwell.surfaces.hooks import deadline, events
    from memwell.surfaces.hooks.recall import recall

    target = events.HookTarget(**values, settings=overrides())

    def work() -> str:
        return recall(events.read_event(_stdin()), target, timeout, budget)

    deadline.run_within(work, timeout, _log("recall", debug=debug))


@hook_command.command("capture", cls=_NeverBlocking)
@options.scope(help="Who can see the facts; default the user if one is named, else the agent.")
@click.option("--rules", is_flag=True, help="Use the rules even if a language model is configured.")
@_hook_options(10.0)
def capture_command(
    scope: str | None, rules: bool, timeout: float, debug: bool, **values: Any
) -> None:
    """Remember what the user told an agent since the last call, as facts.

    Reads the event as JSON from standard input. Prints nothing. Exit status: always 0.
    """
    from memwell import config
    from memwell.surfaces.hooks import deadline, events
    from memwell.surfaces.hooks.capture import capture

    target = events.HookTarget(**values, settings=overrides())
    log = _log("capture", debug=debug)

    def work() -> str:
        event = events.read_event(_stdin())
        done = capture(event, target, config.home_folder(), timeout, scope=scope, rules=rules)
        if done.remembered or done.refused or done.notices:
            counts = f"{done.remembered} remembered, {done.refused} refused"
            log.write("; ".join([f"session {event.session}: {counts}", *done.notices]))
        return ""

    deadline.run_within(work, timeout, log)


@hook_command.command("config")
@click.argument(
    "program",
    type=click.Choice(["claude-code", "codex", "gemini-cli", "cursor", "windsurf", "opencode"]),
)
@click.option("--write", is_flag=True, help="Add it to the file; the rest of the file stays.")
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file of the program; default the one in this folder.",
)
@options.user
@options.workspace
def config_command(
    program: str,
    write: bool,
    file: Path | None,
    user: str,
    workspace: str | None,
    agent: str | None,
) -> None:
    """Print the settings that make PROGRAM run these hooks, or write them."""
    from memwell.surfaces.hooks.programs import PROGRAMS, hook_text, install

    chosen = PROGRAMS[program]
    values = {"--user": user, "--agent": agent, "--workspace": workspace}
    if not write:
        click.echo(hook_text(chosen, values), nl=False)
        return
    file = file or Path(chosen.file)
    added = install(chosen, values, file)
    click.echo(f"{file}: {', '.join(added)} added" if added else f"{file} already has all of them")


@hook_command.command("plugin")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def plugin_command(folder: Path) -> None:
    """Write a plugin for Claude Code into FOLDER: these hooks, the MCP server and a command."""
    from memwell.surfaces.hooks.plugin import write_plugin

    for name in write_plugin(folder):
        click.echo(f"{folder / name} written")


def _stdin() -> str:
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def _log(command: str, *, debug: bool) -> HookLog:
    from memwell import config
    from memwell.surfaces.hooks.deadline import HookLog

    return HookLog(config.home_folder() / "hooks", command, debug=debug)
