"""A virtual environment for each peer, in the user's cache folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_INSTALL_SECONDS = 900
OFFLINE = {
    "ANONYMIZED_TELEMETRY": "False",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "MEM0_TELEMETRY": "False",
    "TRANSFORMERS_OFFLINE": "1",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
}
"""No telemetry, no download: a request over HTTP ends at a port where nothing listens."""


class CannotInstallError(Exception):
    """The packages of a peer cannot be had; the message says why."""


def install(folder: Path, packages: Sequence[str]) -> Path:
    """Return the Python of an environment with these packages, made if it is not there."""
    python = folder / "bin" / "python"
    done = folder / "installed.txt"
    wanted = "\n".join(packages)
    if done.exists() and done.read_text() == wanted:
        return python
    print(f"installing {', '.join(packages)}", file=sys.stderr, flush=True)
    _run([sys.executable, "-m", "venv", "--clear", str(folder)])
    _run([str(python), "-m", "pip", "install", "--quiet", *packages])
    done.write_text(wanted)
    return python


def _run(command: list[str]) -> None:
    try:
        subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=_INSTALL_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise CannotInstallError(f"not installed after {_INSTALL_SECONDS} s") from None
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no message"])[-1]
        raise CannotInstallError(last) from None


def run_environment(store: Path) -> dict[str, str]:
    """Return the variables of a process that must not touch the network or the user's files."""
    own = {"HOME": str(store), "MEM0_DIR": str(store / "mem0"), "LLM_USER_PATH": str(store / "llm")}
    kept = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONDONTWRITEBYTECODE" and not name.startswith("MEMWELL_")
    }
    return {**kept, **OFFLINE, **own}
