"""`memwell serve install`: the service files of Linux, macOS and Windows."""

from __future__ import annotations

import configparser
import plistlib
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from memwell.platform import MACOS, WINDOWS, folders
from memwell.surfaces.cli.serve_install import describe_service, quote_for_systemd, windows_task
from tests.support.cli import run

COMMAND = [sys.executable, "-m", "memwell", "serve", "--port", "8765"]


@pytest.fixture(autouse=True)
def users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


def test_a_unit_is_written_that_systemd_accepts(tmp_path: Path) -> None:
    done = run("serve", "install", cwd=tmp_path)
    file = tmp_path / ".config" / "systemd" / "user" / "memwell.service"
    assert done.returncode == 0, done.stderr
    assert "systemctl --user enable --now memwell" in done.stdout
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(file.read_text(encoding="utf-8"))
    assert shlex.split(unit["Service"]["ExecStart"]) == COMMAND
    assert "MEMWELL_HOME=" in file.read_text(encoding="utf-8")
    if verifier := shutil.which("systemd-analyze"):
        checked = subprocess.run(
            [verifier, "--user", "verify", str(file)], capture_output=True, text=True, check=False
        )
        assert "memwell.service" not in checked.stderr


def test_a_property_list_is_written_that_launchd_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = folders.service_file
    monkeypatch.setattr(folders, "service_file", lambda name: real(name, on=MACOS))
    done = run("serve", "install", "--port", "9000", cwd=tmp_path)
    assert "launchctl bootstrap" in done.stdout
    file = tmp_path / "Library" / "LaunchAgents" / "memwell.plist"
    agent = plistlib.loads(file.read_bytes())
    assert agent["ProgramArguments"] == [*COMMAND[:-1], "9000"]
    assert agent["RunAtLoad"]
    assert agent["EnvironmentVariables"]["MEMWELL_HOME"]


def test_windows_gets_a_task_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = folders.service_file
    monkeypatch.setattr(folders, "service_file", lambda name: real(name, on=WINDOWS))
    done = run("serve", "install", cwd=tmp_path)
    assert done.returncode == 3
    assert "schtasks /Create /SC ONLOGON" in done.stderr
    assert windows_task(["C:\\Program Files\\python.exe", "-m"]).endswith(
        '/TR "\\"C:\\Program Files\\python.exe\\" -m"'
    )


def test_printing_writes_nothing(tmp_path: Path) -> None:
    done = run("serve", "install", "--print", cwd=tmp_path)
    assert done.stdout.startswith("[Unit]")
    assert not (tmp_path / ".config").exists()


def test_signs_that_systemd_expands_are_escaped() -> None:
    assert quote_for_systemd('a"b\\c%d') == '"a\\"b\\\\c%%d"'
    assert quote_for_systemd("$HOME", command=True) == '"$$HOME"'
    text = describe_service(Path("x.service"), ["a b"], {"X": "1 %h"}, Path("/h"))
    assert 'ExecStart="a b"' in text
    assert 'Environment="X=1 %%h"' in text
