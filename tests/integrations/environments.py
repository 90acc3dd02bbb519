"""Environments with the present version of a framework and this checkout, made once."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / ".venv-integrations"
_alone = threading.Lock()


class CannotInstallError(Exception):
    """A package cannot be installed here; the message is the reason in one line."""


@dataclass(frozen=True)
class Framework:
    """The packages of a framework, and which requirements of memwell they contradict."""

    packages: Sequence[str]
    overrides: Sequence[str] = ()
    """Requirements that replace those of every package."""

    def python(self, name: str) -> Path:
        """Return the Python of its environment; make the environment if it is missing or old."""
        folder = FOLDER / name
        stamp = folder / "installed"
        project = (REPOSITORY / "pyproject.toml").read_bytes()
        wanted = hashlib.sha256(repr(self).encode() + project).hexdigest()
        if not stamp.is_file() or stamp.read_text() != wanted:
            uv = _uv()
            _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)])
            overrides = folder / "overrides.txt"
            overrides.write_text("\n".join(self.overrides))
            arguments = ["--python", str(folder), "--override", str(overrides)]
            packages = [*self.packages, "--editable", str(REPOSITORY)]
            _run([uv, "pip", "install", "--quiet", *arguments, *packages])
            stamp.write_text(wanted)
        return folder / "bin" / "python"

    def version(self, name: str) -> str:
        """Return the versions of its packages."""
        code = "import importlib.metadata as m, sys; print(*(f'{p} {m.version(p)}' for p in sys.argv[1:]))"
        names = [package.partition("[")[0] for package in self.packages]
        return _run([str(self.python(name)), "-c", code, *names]).strip()


def _uv() -> str:
    folder = FOLDER / "uv"
    uv = folder / "bin" / "uv"
    with _alone:
        if not uv.is_file():
            _run([sys.executable, "-m", "venv", str(folder)])
            _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "uv"])
    return str(uv)


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip() or "no reason").splitlines()[-1]
        raise CannotInstallError(f"{Path(command[0]).name} failed: {reason.strip()}")
    return done.stdout
