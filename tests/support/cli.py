"""Run `memwell` commands: in this process, which is fast, or in one of their own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from memwell.surfaces import cli


def run(
    *arguments: str, cwd: Path, stdin: str = "", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, and return what a process would."""
    source, out, err = (
        io.TextIOWrapper(io.BytesIO(text), "utf-8") for text in (stdin.encode(), b"", b"")
    )
    real = sys.stdin
    try:
        sys.stdin = source
        with (
            mock.patch.dict(os.environ, os.environ if env is None else env, clear=True),
            contextlib.chdir(cwd),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            status = cli.run(arguments)
    finally:
        sys.stdin = real
    return subprocess.CompletedProcess(arguments, status, _text(out), _text(err))


def run_json(*arguments: str, cwd: Path) -> Any:
    """Run a command with ``--json`` and return what it prints."""
    return json.loads(run(*arguments, "--json", cwd=cwd).stdout)


def run_process(
    *arguments: str, cwd: Path, stdin: str = "", **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own: for start, streams and signals."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(
        [sys.executable, "-m", "memwell", *arguments],
        cwd=cwd,
        input=stdin,
        encoding="utf-8",
        check=False,
        **streams,
    )


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    written = stream.buffer
    assert isinstance(written, io.BytesIO)
    return written.getvalue().decode()
