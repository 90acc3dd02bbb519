"""`memwell serve` and `memwell ui`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memwell.errors import MemwellError
from memwell.surfaces.cli import options
from memwell.surfaces.cli.common import Answer, new_memory, overrides, prints_answer
from memwell.surfaces.cli.serve_install import install_command
from memwell.surfaces.worker_group import MOST_WORKERS

if TYPE_CHECKING:
    import socket

    from fastapi import FastAPI

    from memwell.surfaces.http.tokens import Tokens
    from memwell.surfaces.worker_group import Group

HOST, PORT = "127.0.0.1", 8765
_OLD_TOKENS = (
    "These tokens were made before there were rights, and have all of them: {names}."
    " To replace one: `memwell serve token remove NAME`, then `memwell serve token add NAME`"
)


def _count_cores() -> int:
    """Return how many cores this process may use."""
    import os

    available = getattr(os, "sched_getaffinity", None)
    return len(available(0)) if available else os.cpu_count() or 1


@click.group("serve", invoke_without_command=True)
@click.option("--host", default=HOST, show_default=True, help="The address to listen at.")
@click.option("--port", default=PORT, show_default=True, help="The port; 0 is any free one.")
@click.option("--name", "names", multiple=True, help="Another host name of this server.")
@click.option(
    "--no-token",
    is_flag=True,
    help="Let in every program and user of this machine, unless `token add` was used.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, MOST_WORKERS),
    default=_count_cores,
    show_default="the number of cores",
    help="The processes that answer.",
)
@click.option("--open", "open_page", is_flag=True, help="Open its page in the browser.")
@click.option("--worker", hidden=True, help="What the server hands to its own workers.")
@options.viewer
@options.workspace
@click.pass_context
def serve_command(
    ctx: click.Context,
    /,
    host: str,
    port: int,
    names: tuple[str, ...],
    no_token: bool,
    workers: int,
    open_page: bool,
    worker: str | None,
    **target: Any,
) -> None:
    """Serve the memory over HTTP until Ctrl-C: a JSON API, OpenAI's vector stores, a web page.

    Requests need a token: `serve token local` prints the owner's.
    """
    if ctx.invoked_subcommand:
        return
    from memwell.config.load import home_folder
    from memwell.surfaces.http.security import host_names, is_loopback
    from memwell.surfaces.http.tokens import read_local_token
    from memwell.surfaces.listen import http_address, listen
    from memwell.surfaces.workers import SUPPORTED, WorkerArguments, run_workers

    reachable = not is_loopback(host)
    access = {"names": host_names(host, *names), "reachable": reachable}
    if worker:
        arguments = WorkerArguments.parse(worker)
        arguments.end_with_parent()
        with arguments.open_socket() as listening:
            token = "" if no_token else read_local_token(home_folder())
            _serve(listening, arguments.report_ready, token, access, target, arguments.group)
        return
    home = home_folder()
    if reachable:
        _refuse_without_token(host, home)
    with listen(host, port) as listening:
        with new_memory(**target):  # to see now whether it can be opened
            token = "" if no_token else read_local_token(home)

        def tell() -> None:
            _tell(http_address(listening), home, token, open_page)

        if workers == 1 or not SUPPORTED:
            _serve(listening, tell, token, access, target)
        else:
            command = _worker_command(host, names, no_token, target)
            report = partial(click.echo, err=True)
            run_workers(command, _worker_environment(), listening, workers, tell, report)


@click.command("ui")
@click.option("--port", default=PORT, show_default=True, help="The port of the server.")
@options.viewer
@options.workspace
@click.pass_context
def ui_command(ctx: click.Context, /, port: int, **target: Any) -> None:
    """Open the web page of the memory in the browser; start the server if none runs."""
    from memwell.config.load import home_folder
    from memwell.surfaces.http.tokens import read_local_token

    address = f"http://{HOST}:{port}"
    if _is_serving(address):
        home = home_folder()
        _open_page(address, home, read_local_token(home))
        return
    server = {"host": HOST, "port": port, "names": (), "no_token": False, "open_page": True}
    server |= {"workers": 1, "worker": None}
    ctx.invoke(serve_command, **server, **target)


@serve_command.group("token")
def token_group() -> None:
    """Manage the tokens that give access to the server."""


@token_group.command("add")
@click.argument("name")
@options.viewer
@click.option(
    "--rights",
    type=click.Choice(["read", "write", "admin"]),
    default="write",
    show_default=True,
    help="read: search only. write: also tell, change and forget own facts."
    " admin: also global facts, vectors and pruning.",
)
@click.option("--tenant", default="", help="Open the memory of this tenant of `store.url`.")
@prints_answer
def add_command(name: str, user: str, session: str, rights: str, tenant: str) -> Answer:
    """Create the token NAME and print it, this one time."""
    token = _tokens().add(name, user, session, rights, tenant)
    return Answer({"name": name, "token": token}, token)


@token_group.command("local")
@prints_answer
def local_command() -> Answer:
    """Print the token of the owner of this home, which every server of the home accepts."""
    from memwell.config.load import home_folder
    from memwell.surfaces.http.tokens import read_local_token

    token = read_local_token(home_folder())
    return Answer({"token": token}, token)


@token_group.command("remove")
@click.argument("name")
def remove_command(name: str) -> None:
    """Revoke the token NAME."""
    _tokens().remove(name)
    click.echo("Done.")


@token_group.command("list")
@prints_answer
def list_command() -> Answer:
    """List the tokens, and whose facts each of them can see."""
    fields = ("name", "user", "session", "created_at", "rights", "tenant")
    tokens = [{name: getattr(token, name) for name in fields} for token in _tokens().list_all()]
    lines = []
    for token in tokens:
        kinds = ("tenant", "user", "session")
        scopes = ", ".join(f"{kind} {token[kind]}" for kind in kinds if token[kind])
        rights = token["rights"] or "admin (made before there were rights)"
        about = f"{scopes or 'shared facts only'}, {rights}  since {token['created_at']}"
        lines.append(f"{token['name']}  {about}")
    return Answer({"tokens": tokens}, "\n".join(lines))


def _tokens() -> Tokens:
    from memwell.config.load import home_folder
    from memwell.surfaces.http.tokens import Tokens

    return Tokens(home_folder())


def _refuse_without_token(host: str, home: Path) -> None:
    from memwell.errors import ConfigError
    from memwell.surfaces.http.tokens import Tokens

    if not Tokens(home).list_all():
        raise ConfigError(
            f"At {host} everybody who can reach this machine could read the memory",
            "Create a token first: `memwell serve token add NAME`",
        )


def _worker_command(
    host: str, names: Sequence[str], no_token: bool, target: Mapping[str, Any]
) -> list[str]:
    """Return the command that starts a worker, with the options that concern it."""
    command = [sys.executable, "-m", "memwell", "serve", "--host", host]
    command += [part for name in names for part in ("--name", name)]
    command += ["--no-token"] if no_token else []
    return command + [
        part for name, value in target.items() if value for part in (f"--{name}", value)
    ]


def _worker_environment() -> dict[str, str]:
    """Return the environment of a worker; `--store` may hold a password, which `ps` would show."""
    import os

    store = overrides().get("store.url")
    return {**os.environ, **({"MEMWELL_STORE_URL": str(store)} if store else {})}


def _serve(
    listening: socket.socket,
    started: Callable[[], None],
    token: str,
    access: Mapping[str, Any],
    target: Mapping[str, Any],
    group: Group | None = None,
) -> None:
    from memwell.surfaces.background import SERVER_SETTINGS
    from memwell.surfaces.http.app import create_app
    from memwell.surfaces.http.embedders import shared_embedders

    embedders = shared_embedders()
    with new_memory(**target, embedders=embedders, settings=SERVER_SETTINGS) as memory:
        app = create_app(memory, local_token=token, embedders=embedders, group=group, **access)
        _run(app, listening, started)


def _run(app: FastAPI, listening: socket.socket, started: Callable[[], None]) -> None:
    """Serve until a signal arrives; finish the requests that have begun."""
    import signal

    import uvicorn

    class AnnouncingServer(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started()

    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, lambda *_: None)  # uvicorn installs its own handlers later
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, ws="none", lifespan="on"
    )
    AnnouncingServer(config).run(sockets=[listening])


def _tell(address: str, home: Path, token: str, open_page: bool) -> None:
    from memwell.surfaces.http.tokens import Tokens

    click.echo(f"memwell answers at {address} (stop with Ctrl-C)", err=True)
    if token and sys.stderr.isatty():  # a log may be open to others
        click.echo(f"Its page: {_login_link(address, token)}", err=True)
    with suppress(MemwellError):  # every request says that tokens.json cannot be read
        if old := [stored.name for stored in Tokens(home).list_stored() if not stored.rights]:
            click.echo(_OLD_TOKENS.format(names=", ".join(old)), err=True)
    if open_page:
        _open_page(address, home, token)


def _login_link(address: str, token: str) -> str:
    return f"{address}/login?token={token}"


def _open_page(address: str, home: Path, token: str) -> None:
    """Open the page in the browser, logged in.

    The link with the token is in a file: every user of the machine sees the arguments of commands.
    """
    from memwell.files import private_file

    if not token:
        click.launch(address)
        return
    file = home / "open.html"
    with private_file(file) as part:
        part.write_text(
            f'<meta http-equiv="refresh" content="0; url={_login_link(address, token)}">\n',
            encoding="utf-8",
        )
    click.launch(file.as_uri())


def _is_serving(address: str) -> bool:
    """Whether a memwell server runs there."""
    import json
    import urllib.error
    import urllib.request

    try:
        with urllib.request.urlopen(f"{address}/health", timeout=2) as answer:
            return bool(json.load(answer) == {"status": "ok"})
    except (OSError, ValueError):
        return False


serve_command.add_command(install_command)
