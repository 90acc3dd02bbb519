"""`memwell trust`."""

from __future__ import annotations

from pathlib import Path

import click

from memwell.surfaces.cli.common import Answer, prints_answer


@click.command("trust")
@click.argument("folder", required=False, type=click.Path(file_okay=False, exists=True))
@click.option("--remove", is_flag=True, help="Trust the file no longer.")
@prints_answer
def trust_command(folder: str | None, remove: bool) -> Answer:
    """Let the memwell.toml of FOLDER set every setting, as long as the file does not change.

    The folder is by default the workspace around the current folder. A file that is not trusted
    may set only how its own notes are indexed, searched and recalled. Read the file first: it can
    choose the agent, and the servers that notes are sent to. Exit status: 0, or 1 if there was
    nothing to remove.
    """
    from memwell import config
    from memwell.config.load import FILE_NAME
    from memwell.config.trust import trust, withdraw
    from memwell.ingest.scan import find_workspace

    here = Path.cwd()
    file = (Path(folder) if folder else find_workspace(here) or here).resolve() / FILE_NAME
    home = config.home_folder()
    if remove:
        known = withdraw(home, file)
        text = f"{file} is {'no longer' if known else 'not'} trusted"
        return Answer({"file": str(file), "trusted": False}, text, 0 if known else 1)
    trust(home, file)
    return Answer({"file": str(file), "trusted": True}, f"{file} is trusted as it is now")
