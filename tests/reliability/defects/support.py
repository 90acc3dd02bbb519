"""Run memwell by its command line and by HTTP, which old versions have as well.

The modules of this folder import nothing but the standard library, pytest, the public names of
memwell, `tests.conftest` and this module: so they also run on an old version.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

Done = subprocess.CompletedProcess[str]

_PATIENCE = 60.0
"""Seconds: far more than any condition needs, so that a busy machine does not fail a test."""


# -- the command line ------------------------------------------------------------------------------


def run(*arguments: str, cwd: Path, stdin: str = "") -> Done:
    """Run a command in this process, which is fast, and return what a process would."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    source = io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8")
    status: Any = 0
    with (
        mock.patch.object(sys, "argv", ["memwell", *arguments]),
        mock.patch.object(sys, "stdin", source),
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            from memwell.surfaces.cli import main

            main()
        except SystemExit as end:
            status = end.code
        except Exception:
            traceback.print_exc()
            status = 1
    return Done(arguments, status or 0, _get_text(out), _get_text(err))


def run_json(*arguments: str, cwd: Path) -> Any:
    """Run a command with ``--json`` and return what it prints."""
    done = run(*arguments, "--json", cwd=cwd)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def run_process(*arguments: str, cwd: Path, stdin: str = "", **options: Any) -> Done:
    """Run a command in a process of its own: for limits, permissions and crashes."""
    return _run_python("-m", "memwell", *arguments, cwd=cwd, input=stdin, **options)


def run_script(script: str, *arguments: str, cwd: Path, **options: Any) -> Done:
    """Run Python code in a process of its own."""
    return _run_python("-c", script, *arguments, cwd=cwd, **options)


def find_crash(done: Done) -> str:
    """Return the signal that ended a process, or the error of its traceback, or nothing."""
    if done.returncode < 0:
        return signal.Signals(-done.returncode).name
    if "Traceback" not in done.stderr:
        return ""
    errors: list[str] = re.findall(r"^[\w.]+: .*", done.stderr, re.M)
    return errors[-1] if errors else "Traceback"


def remember(cwd: Path, text: str, *options: str) -> str:
    """Remember a fact, and return its id."""
    return str(run_json("remember", text, *options, cwd=cwd)["fact"]["id"])


def list_texts(cwd: Path) -> set[str]:
    """Return the texts of all facts."""
    return {fact["text"] for fact in run_json("facts", "list", cwd=cwd)["facts"]}


def index_and_search(workspace: Path, word: str) -> list[str]:
    """Index a workspace in processes of their own; return the notes with a word."""
    for command in (["index", "."], ["search", word]):
        done = run_process(*command, cwd=workspace, preexec_fn=limit_processor_time)
        crash = find_crash(done)
        assert not crash, f"{command[0]}: {crash}"
        assert done.returncode == 0, done.stderr
    return sorted(line.split(":")[0] for line in done.stdout.splitlines() if ".md:" in line)


def _run_python(*arguments: str, **options: Any) -> Done:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        encoding="utf-8",
        check=False,
        **options,
    )


def _get_text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    written = stream.buffer
    assert isinstance(written, io.BytesIO)
    return written.getvalue().decode()


# -- what a process may do: functions that it calls before it starts -------------------------------


def drop_rights_of_root() -> None:
    """Let root respect the permissions of files, as every other user must."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def stop_all_writing() -> None:
    """Let no file grow, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def limit_processor_time() -> None:
    """End a process that computes for 20 seconds; the tests need one or two of them."""
    resource.setrlimit(resource.RLIMIT_CPU, (20, 30))


# -- files -----------------------------------------------------------------------------------------


def find_files_with(folder: Path, texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return each file below a folder that contains one of the texts, with that text."""
    wanted = [*texts]
    files = [file for file in folder.rglob("*") if file.is_file()]
    contents = {str(file.relative_to(folder)): file.read_bytes() for file in files}
    return [
        (name, text)
        for name, content in contents.items()
        for text in wanted
        if text.encode() in content
    ]


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; fail if it never does."""
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.02)


def wait_for_another_time(folder: Path) -> None:
    """Wait until the clock of the file system has left the times of all files behind."""
    probe = folder / "probe"
    probe.touch()
    start = probe.stat().st_ctime_ns

    def has_passed() -> bool:
        probe.touch()
        return probe.stat().st_ctime_ns > start + 100_000_000

    wait_until(has_passed)
    probe.unlink()


# -- HTTP ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Server:
    """A `memwell serve` that answers at an address."""

    address: str
    token: str = ""

    def as_owner_of(self, token: str) -> Server:
        """Return the same server, for requests with a token."""
        return replace(self, token=token)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        """Send a request, with a body as JSON; return the status and the text of the answer."""
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        content = None if body is None else json.dumps(body)
        if content is not None:
            headers["content-type"] = "application/json"
        connection = HTTPConnection(urlsplit(self.address).netloc, timeout=_PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()


def add_token(name: str, *options: str, cwd: Path) -> str:
    """Let the servers of the home accept a new token, and return it."""
    return run("serve", "token", "add", name, *options, cwd=cwd).stdout.strip()


@contextlib.contextmanager
def serve(cwd: Path, *options: str) -> Iterator[Server]:
    """Run `memwell serve` in a folder, until the end of the block."""
    log = cwd.with_name("serve.log")
    with log.open("w") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "memwell", "serve", "--port", "0", *options],
            cwd=cwd,
            stdout=written,
            stderr=written,
        )
    start = "memwell answers at "

    def has_started() -> bool:
        assert process.poll() is None, log.read_text()
        return start in log.read_text()

    try:
        wait_until(has_started)
        yield Server(log.read_text().partition(start)[2].split()[0])
    finally:
        process.terminate()
        process.wait(_PATIENCE)
