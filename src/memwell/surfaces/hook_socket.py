"""A Unix socket on which a running server answers hooks.

The server has the model loaded and the index open, so it answers faster than a new process. The
socket lies beside the agent's index and is private to this user. A client sends one line of JSON
and receives one:

    {"message": ..., "budget": ..., ...}          the fields of `HookRequest`
    {"block": ...}  or  {"refused": why}

A server answers only for the workspace and the user it was started for. A hook that is refused
opens the memory itself, as it does on systems without Unix sockets.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memwell.errors import MemwellError
from memwell.files import hold_lock
from memwell.platform.sockets import connect_local, has_local_sockets, listen_local

if TYPE_CHECKING:
    from memwell.memory import Memory

FILE_NAME = "server.sock"
MOST_BYTES = 256 * 1024
"""The longest line."""
_MOST_CLIENTS = 8
"""Clients at a time; more are disconnected, so that they cannot use up the server's threads."""
_LINE_SECONDS = 2.0
"""Seconds to receive a request, and to send its answer."""


@dataclass(frozen=True, slots=True)
class HookRequest:
    """A message to recall facts and passages for, and who asks from which folder."""

    message: str
    budget: int | None = None
    user: str = ""
    session: str = ""
    place: str = ""
    """The folder that the agent works in."""
    only_there: bool = False
    """Whether only the workspace around this folder may answer, and not all workspaces."""


def ask_server(
    home: Path, agent: str, request: HookRequest, timeout: float
) -> dict[str, Any] | None:
    """Ask the server of a home and agent; return None if none answers in time."""
    if not has_local_sockets():
        return None
    deadline = time.monotonic() + timeout
    try:
        with connect_local(_socket_path(home, agent), max(0.001, timeout)) as connection:
            connection.sendall(json.dumps(asdict(request)).encode() + b"\n")
            answer = json.loads(_receive_line(connection, deadline))
    except (OSError, ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _socket_path(home: Path, agent: str) -> Path:
    return home / "agents" / agent / FILE_NAME


def _receive_line(peer: socket.socket, deadline: float) -> bytes:
    """Receive a line; raise `TimeoutError` at the deadline, even if bytes still arrive."""
    received = b""
    while not received.endswith(b"\n"):
        seconds = deadline - time.monotonic()
        if seconds <= 0 or len(received) > MOST_BYTES:
            raise TimeoutError
        peer.settimeout(seconds)
        data = peer.recv(64 * 1024)
        if not data:
            raise ConnectionError
        received += data
    return received


class HookServer:
    """Answers hooks from a server's memory while its `with` block runs.

    Only one server of a home and agent listens; a second one leaves the socket to the first.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._listener: socket.socket | None = None
        self._slots = threading.BoundedSemaphore(_MOST_CLIENTS)
        self._resources = contextlib.ExitStack()

    @property
    def is_open(self) -> bool:
        """Whether this server has the socket."""
        return self._listener is not None

    def __enter__(self) -> HookServer:
        if has_local_sockets():
            try:
                self._listener = self._open_socket(
                    _socket_path(self._memory.home, self._memory.agent)
                )
            except OSError:  # a path that is too long, a home that cannot be written
                self._resources.close()
        if self._listener:
            thread = threading.Thread(target=self._listen, args=(self._listener,), daemon=True)
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener = None
        self._resources.close()

    def _open_socket(self, path: Path) -> socket.socket | None:
        """Listen at a path, unless another server does; the socket of a dead server is replaced."""
        if not self._resources.enter_context(hold_lock(path.with_suffix(".lock"), wait=False)):
            return None
        listener = self._resources.enter_context(listen_local(path, _MOST_CLIENTS))
        self._resources.callback(path.unlink, missing_ok=True)
        # Closing a socket does not wake the thread that waits in accept().
        self._resources.callback(_close_socket, listener)
        return listener

    def _listen(self, listener: socket.socket) -> None:
        while self.is_open:
            try:
                peer, _ = listener.accept()
            except OSError:
                if not self.is_open:
                    return
                time.sleep(0.1)  # perhaps there are no file handles left: try again
                continue
            if self._slots.acquire(blocking=False):
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()
            else:
                peer.close()

    def _serve(self, peer: socket.socket) -> None:
        try:
            with peer, contextlib.suppress(OSError, ValueError, RecursionError):
                request = json.loads(_receive_line(peer, time.monotonic() + _LINE_SECONDS))
                answer = json.dumps(self._answer(request)).encode()
                peer.settimeout(_LINE_SECONDS)
                peer.sendall(answer + b"\n")
        finally:
            self._slots.release()

    def _answer(self, request: Any) -> dict[str, str]:
        try:
            wanted = _parse_request(request)
            if reason := self._refusal_reason(wanted):
                return {"refused": reason}
            memory = self._memory.as_viewer(user=wanted.user, session=wanted.session)
            return {"block": memory.recall(wanted.message, budget=wanted.budget).block}
        except Exception as error:  # the hook opens the memory itself, and the server goes on
            return {"refused": f"{type(error).__name__}: {error}"}

    def _refusal_reason(self, wanted: HookRequest) -> str:
        """Return why this server cannot answer a request; "" if it can."""
        from memwell.memory import Memory

        if wanted.user != self._memory.viewer.user:
            return "another user"
        asker = Memory(self._memory.home, fallback_workspace=wanted.place, agent=self._memory.agent)
        same = asker.workspace == self._memory.workspace
        return "" if same and (asker.workspace or not wanted.only_there) else "another workspace"


def _parse_request(request: Any) -> HookRequest:
    """Return a request whose fields are complete and of the right types."""
    known = HookRequest("")
    fields = request if isinstance(request, dict) else {}
    is_valid = fields.keys() == asdict(known).keys() and all(
        type(value) is (int if name == "budget" and value else type(getattr(known, name)))
        for name, value in fields.items()
    )
    if not is_valid:
        raise MemwellError(f"The request must be a JSON object with {', '.join(asdict(known))}")
    return HookRequest(**fields)


def _close_socket(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
