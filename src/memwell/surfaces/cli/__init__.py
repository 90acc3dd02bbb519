"""The command line: `memwell`.

Each command lives in a module of its own, imported when it is called, so that a search does not
wait for what it does not use.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from memwell import __version__
from memwell.errors import MemwellError

FAILURE = 3

COMMANDS = {
    "index": "index",
    "search": "search",
    "why": "why",
    "get": "note",
    "note": "note",
    "remember": "facts",
    "recall": "facts",
    "supersede": "facts",
    "forget": "facts",
    "facts": "facts",
    "ingest-files": "ingest_files",
    "export": "transfer",
    "import": "transfer",
    "store": "store",
    "backup": "transfer",
    "restore": "transfer",
    "verify": "transfer",
    "status": "status",
    "doctor": "status",
    "reset": "status",
    "spaces": "spaces",
    "config": "config",
    "watch": "watch",
    "eval": "eval",
    "tune": "tune",
    "mcp": "mcp",
    "hook": "hook",
    "serve": "serve",
    "ui": "serve",
    "completion": "config",
}


class _Commands(click.Group):
    """A group whose commands are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"memwell.surfaces.cli.{COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean {near[0]}?", ctx) from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="memwell")
@click.option("--store", metavar="URL", help="Where the memory is kept; default `store.url`.")
def cli(store: str | None) -> None:
    """Remember notes and find them again, on this machine alone."""
    if store is not None:
        os.environ["MEMWELL_STORE_URL"] = store


def main() -> None:
    """Run the command line; errors become a sentence and an exit status."""
    try:
        sys.exit(cli(standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Stopped.", err=True)
        sys.stdout.flush()
        os._exit(130)  # not waiting for a model in the middle of a text, which would abort
    except MemwellError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(FAILURE)
    except BrokenPipeError:
        # Whoever read the output has left; give the interpreter nothing to flush into.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILURE)
