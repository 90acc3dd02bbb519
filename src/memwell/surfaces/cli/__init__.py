"""The command line: `memwell`.

Each command is in its own module, which is imported when the command is called, so that a search
does not wait for imports that it does not need.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from memwell import __version__
from memwell.errors import MemwellError
from memwell.files import printable_path, remedy_for
from memwell.surfaces.cli.overview import find_example, next_steps, read_groups

FAILURE, INTERRUPTED = 3, 130

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
    "consolidate": "consolidate",
    "transcripts": "transcripts",
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
    "trust": "trust",
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
    """A group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"memwell.surfaces.cli.{COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        if example := find_example(cmd_name):
            command.epilog = command.epilog or f"\b\nExample:\n  {example}"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in groups, each with an example; none is cut off."""
        for title, rows in read_groups():
            with formatter.section(title):
                for row in rows:
                    formatter.write(f"  {row.name:<13}{row.summary}\n")
                    formatter.write(f"  {'':<13}$ {row.example}\n")

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


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="memwell")
@click.option("--store", metavar="URL", help="The store of the memory; default `store.url`.")
@click.pass_context
def cli(ctx: click.Context, store: str | None) -> None:
    """Index notes, remember facts and find them again, on this machine alone."""
    ctx.obj = {} if store is None else {"store.url": store}
    if store and "@" in store and ":" in store.rpartition("@")[0].rpartition("//")[2]:
        click.echo(
            "Every user of this machine can see the password in --store while the command runs. Set"
            " PGPASSWORD, or write it into ~/.pgpass or into store.url of your memwell.toml",
            err=True,
        )
    if ctx.invoked_subcommand is None:
        from memwell.config.load import home_folder

        click.echo(next_steps(home_folder()), nl=False)


def main() -> None:
    """Run the command line; the exit status says how it ended."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit status; an error becomes a message."""
    try:
        return cli.main([*arguments], prog_name="memwell", standalone_mode=False) or 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("Stopped.", err=True)
        return INTERRUPTED
    except MemwellError as error:
        from memwell.surfaces.cli.terminal import visible

        click.echo(visible(f"Error: {error}"), err=True)
        return FAILURE
    except BrokenPipeError:
        # The reader of the output is gone (`| head`): leave the interpreter nothing to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except OSError as error:  # of a file or folder that no command expected to fail
        where = f"{printable_path(error.filename)}: " if error.filename else ""
        what, remedy = error.strerror or str(error), remedy_for(error).capitalize()
        click.echo(f"Error: {where}{what}. {remedy}", err=True)
        return FAILURE
