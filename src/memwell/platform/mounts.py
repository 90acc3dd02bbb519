"""Whether a folder is on a network drive: a write-ahead log is not safe there."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from memwell.platform import CURRENT, MACOS, WINDOWS

_NETWORK = """
    nfs nfs4 cifs smb3 smbfs afpfs webdav 9p fuse.sshfs fuse.rclone davfs fuse.s3fs fuse.glusterfs
    ceph afs ncpfs fuse.gcsfuse macfuse osxfuse
"""
_REMOTE_DRIVE = 4
"""The answer of GetDriveTypeW for a network drive."""
_MAC_MOUNT = "/sbin/mount"
_MAC_LINE = re.compile(r".+? on (?P<where>/.*) \((?P<kind>\w+)[,)]")


def network_kind(
    folder: Path, *, mounts: Path = Path("/proc/mounts"), on: str = CURRENT
) -> str | None:
    """Return the kind of the network file system that a folder is in; None if it is local."""
    if on == WINDOWS:
        return "network drive" if _drive_type(folder) == _REMOTE_DRIVE else None
    kind = file_system(folder, mounts=mounts, on=on)
    return kind if kind in _NETWORK.split() else None


def file_system(folder: Path, *, mounts: Path = Path("/proc/mounts"), on: str = CURRENT) -> str:
    """Return the kind of file system that a folder is in; "" if nothing is known about it."""
    table = _mac_mounts() if on == MACOS else _linux_mounts(mounts)
    real = os.path.realpath(folder)
    best, kind = "", ""
    for where, found in table:
        if len(where) >= len(best) and (real + "/").startswith(where.rstrip("/") + "/"):
            best, kind = where, found
    return kind


def _linux_mounts(file: Path) -> list[tuple[str, str]]:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    rows = ([*line.split(" "), "", "", ""] for line in lines)
    return [(where.replace("\\040", " "), kind) for _, where, kind, *_ in rows]


def _mac_mounts() -> list[tuple[str, str]]:
    import subprocess

    try:
        done = subprocess.run([_MAC_MOUNT], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return []
    matches = map(_MAC_LINE.match, done.stdout.splitlines())
    return [(match["where"], match["kind"]) for match in matches if match]


def _drive_type(folder: Path) -> int:
    import ctypes

    drive = os.path.splitdrive(os.path.abspath(folder))[0]
    windows: Any = getattr(ctypes, "windll")  # noqa: B009 - only Windows has it
    return int(windows.kernel32.GetDriveTypeW(f"{drive}\\"))
