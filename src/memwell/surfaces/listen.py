"""The socket that a server listens at, and its address."""

from __future__ import annotations

import socket

from memwell.errors import ConfigError


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 is any free one."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"Cannot listen at {host}:{port} ({error})", "Choose another --port or --host"
        ) from error


def http_address(listening: socket.socket) -> str:
    """Return the address of a server that listens at a socket."""
    host, port, *_ = listening.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
