"""`memwell serve install`: run the server whenever this user is logged in."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from memwell.errors import MemwellError
from memwell.surfaces.cli.common import Answer, prints_answer

NAME = "memwell"
_VARIABLES = ("MEMWELL_HOME", "MEMWELL_CONFIG", "MEMWELL_STORE_URL")
"""Variables of this shell that the service gets, too: a service has an environment of its own."""

_UNIT = """\
[Unit]
Description=memwell, a memory for AI agents
After=network.target

[Service]
ExecStart={command}
{environment}Restart=on-failure
RestartSec=5
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""


@click.command("install")
@click.option("--port", default=8765, show_default=True, help="The port of the server.")
@click.option("--print", "only_print", is_flag=True, help="Print the file and write nothing.")
@prints_answer
def install_command(port: int, only_print: bool) -> Answer:
    """Write a service of this user (systemd or launchd) that keeps the server running.

    Nothing is started: the command prints how to start, watch and remove the service.
    """
    from memwell.config.load import home_folder
    from memwell.files import atomic_write, write_errors
    from memwell.platform import CURRENT
    from memwell.platform.folders import service_file

    command = [sys.executable, "-m", "memwell", "serve", "--port", str(port)]
    values = {name: os.environ[name] for name in _VARIABLES if os.environ.get(name)}
    file = service_file(NAME)
    if file is None:
        raise MemwellError(
            f"{CURRENT.capitalize()} has no service files of a user",
            f"Use the task scheduler instead: {windows_task(command)}",
        )
    text = describe_service(file, command, values, home_folder())
    if only_print:
        return Answer({"file": str(file), "text": text}, text.rstrip("\n"))
    with write_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as part:
            part.write_text(text, encoding="utf-8")
    steps = start_steps(file)
    return Answer({"file": str(file), "steps": steps}, "\n".join([f"{file} written", *steps]))


def describe_service(
    file: Path, command: Sequence[str], values: Mapping[str, str], home: Path
) -> str:
    """Return the content of a service file: a property list for launchd, else a systemd unit."""
    if file.suffix == ".plist":
        import plistlib

        log = str(home / "server.log")
        agent = {
            "Label": file.stem,
            "ProgramArguments": [*command],
            "EnvironmentVariables": dict(values),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "StandardOutPath": log,
            "StandardErrorPath": log,
        }
        return plistlib.dumps(agent).decode()
    environment = "".join(
        f"Environment={quote_for_systemd(f'{name}={value}')}\n" for name, value in values.items()
    )
    words = " ".join(quote_for_systemd(word, command=True) for word in command)
    return _UNIT.format(command=words, environment=environment)


def quote_for_systemd(word: str, *, command: bool = False) -> str:
    """Return a word as systemd reads it back: quotes, percent signs and dollars have meanings."""
    for sign, instead in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%")):
        word = word.replace(sign, instead)
    return f'"{word.replace("$", "$$") if command else word}"'


def start_steps(file: Path) -> list[str]:
    """Return the commands that start, watch and remove a service."""
    if file.suffix == ".plist":
        return [
            f"start:  launchctl bootstrap gui/$(id -u) {file}",
            f"watch:  launchctl print gui/$(id -u)/{NAME}",
            f"remove: launchctl bootout gui/$(id -u)/{NAME}; rm {file}",
        ]
    return [
        f"start:  systemctl --user enable --now {NAME}",
        f"watch:  journalctl --user -u {NAME}",
        f"remove: systemctl --user disable --now {NAME}; rm {file}",
    ]


def windows_task(command: Sequence[str]) -> str:
    """Return the command that starts the server at every logon of a Windows user."""
    words = " ".join(f'\\"{word}\\"' if " " in word else word for word in command)
    return f'schtasks /Create /SC ONLOGON /TN {NAME} /TR "{words}"'
