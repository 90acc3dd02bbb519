"""Sockets between processes of this user, which are files: Windows has none in Python."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from memwell.platform import CURRENT, WINDOWS


def has_local_sockets(*, on: str = CURRENT) -> bool:
    """Whether a server and its clients can meet at a file."""
    return on != WINDOWS and hasattr(socket, "AF_UNIX")


def connect_local(path: Path, timeout: float) -> socket.socket:
    """Return a connection to the server that listens at a file."""
    connection = _new_socket()
    try:
        connection.settimeout(timeout)
        connection.connect(str(path))
    except BaseException:
        connection.close()
        raise
    return connection


def listen_local(path: Path, backlog: int) -> socket.socket:
    """Listen at a file that only this user can open; a file that is there is replaced.

    The socket gets its final name when it is private and listening.
    """
    listener = _new_socket()
    try:
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        temporary.unlink(missing_ok=True)
        listener.bind(str(temporary))
        os.chmod(temporary, 0o600)
        listener.listen(backlog)
        os.replace(temporary, path)
    except BaseException:
        listener.close()
        raise
    return listener


def _new_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX)  # type: ignore[attr-defined,unused-ignore]
