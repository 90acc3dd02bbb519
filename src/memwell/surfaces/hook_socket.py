"""A door to a server that runs: hooks ask it, as it has the model loaded and the index open.

A Unix socket beside the agent's index, for this user alone. One line of JSON comes in, one goes
out:

    {"message": ..., "budget": ..., ...}          as `Request` has it
    {"block": ...}  or  {"refused": why}

A server answers for the workspace and the user that it was started for, and for no other: whoever
is refused asks the memory itself. On systems without such sockets there is no door.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from memwell.errors import MemwellError
from memwell.files import hold_lock

if TYPE_CHECKING:
    from memwell.memory import Memory

FILE_NAME = "server.sock"
MOST_BYTES = 256 * 1024
"""Of a line."""
_AT_A_TIME = 8
"""Askers; more are sent away, so that nobody can use up the server's threads."""
_SLOWEST_LINE = 2.0
"""Seconds for a request to arrive, and for its answer to be taken."""


@dataclass(frozen=True, slots=True)
class Request:
    """A message whose memory is asked for, and who asks from where."""

    message: str
    budget: int | None = None
    user: str = ""
    session: str = ""
    place: str = ""
    """The folder at hand."""
    only_there: bool = False
    """Whether all workspaces will not do where there is none around it."""


def ask_server(home: Path, agent: str, request: Request, timeout: float) -> dict[str, Any] | None:
    """Ask the server of a home and agent; None if there is none, or it does not answer in time."""
    if not hasattr(socket, "AF_UNIX"):
        return None
    deadline = time.monotonic() + timeout
    try:
        with socket.socket(socket.AF_UNIX) as door:
            door.settimeout(max(0.001, timeout))
            door.connect(str(_path(home, agent)))
            door.sendall(json.dumps(asdict(request)).encode() + b"\n")
            answer = json.loads(_line(door, deadline))
    except (OSError, ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _path(home: Path, agent: str) -> Path:
    return home / "agents" / agent / FILE_NAME


def _line(peer: socket.socket, deadline: float) -> bytes:
    """Receive a line; `TimeoutError` at the deadline, however busily the peer sends bytes."""
    received = b""
    while not received.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or len(received) > MOST_BYTES:
            raise TimeoutError
        peer.settimeout(left)
        piece = peer.recv(64 * 1024)
        if not piece:
            raise ConnectionError
        received += piece
    return received


class HookServer:
    """Lets hooks ask a server's memory, from `with` to the end of it.

    Only one server of a home and agent listens; the door of another stays shut.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._listener: socket.socket | None = None
        self._free = threading.BoundedSemaphore(_AT_A_TIME)
        self._held = contextlib.ExitStack()

    @property
    def is_open(self) -> bool:
        """Whether this is the server that answers."""
        return self._listener is not None

    def __enter__(self) -> HookServer:
        if hasattr(socket, "AF_UNIX"):
            try:
                self._listener = self._open_socket(_path(self._memory.home, self._memory.agent))
            except OSError:  # a path that is too long, a home that cannot be written
                self._held.close()
        if self._listener:
            thread = threading.Thread(target=self._listen, args=(self._listener,), daemon=True)
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener = None
        self._held.close()

    def _open_socket(self, path: Path) -> socket.socket | None:
        """Listen at a path, unless another server does; one that was left behind is replaced."""
        if not self._held.enter_context(hold_lock(path.with_suffix(".lock"), wait=False)):
            return None
        listener = self._held.enter_context(socket.socket(socket.AF_UNIX))
        # It gets its name only when it is private and listens.
        unnamed = path.with_name(f"{FILE_NAME}.{os.getpid()}")
        unnamed.unlink(missing_ok=True)
        listener.bind(str(unnamed))
        os.chmod(unnamed, 0o600)
        listener.listen(_AT_A_TIME)
        os.replace(unnamed, path)
        self._held.callback(path.unlink, missing_ok=True)
        # To close a socket does not wake the thread that waits at it.
        self._held.callback(_close_socket, listener)
        return listener

    def _listen(self, listener: socket.socket) -> None:
        while self.is_open:
            try:
                peer, _ = listener.accept()
            except OSError:
                if not self.is_open:
                    return
                time.sleep(0.1)  # no file handles left, perhaps: some will be
                continue
            if self._free.acquire(blocking=False):
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()
            else:
                peer.close()

    def _serve(self, peer: socket.socket) -> None:
        try:
            with peer, contextlib.suppress(OSError, ValueError, RecursionError):
                request = json.loads(_line(peer, time.monotonic() + _SLOWEST_LINE))
                answer = json.dumps(self._answer(request)).encode()
                peer.settimeout(_SLOWEST_LINE)
                peer.sendall(answer + b"\n")
        finally:
            self._free.release()

    def _answer(self, request: Any) -> dict[str, str]:
        try:
            wanted = _parse_request(request)
            if why := self._other(wanted):
                return {"refused": why}
            memory = self._memory.as_viewer(user=wanted.user, session=wanted.session)
            return {"block": memory.recall(wanted.message, budget=wanted.budget).block}
        except Exception as error:  # the hook does it itself, and the server goes on
            return {"refused": f"{type(error).__name__}: {error}"}

    def _other(self, wanted: Request) -> str:
        """Say why this server is not the one to ask; nothing if it is."""
        from memwell.memory import Memory

        if wanted.user != self._memory.viewer.user:
            return "another user"
        asker = Memory(self._memory.home, fallback_workspace=wanted.place, agent=self._memory.agent)
        same = asker.workspace == self._memory.workspace
        return "" if same and (asker.workspace or not wanted.only_there) else "another workspace"


def _parse_request(request: Any) -> Request:
    """Return a request if it is one, each value of its type."""
    known = Request("")
    told = request if isinstance(request, dict) else {}
    right = told.keys() == asdict(known).keys() and all(
        type(value) is (int if name == "budget" and value else type(getattr(known, name)))
        for name, value in told.items()
    )
    if not right:
        raise MemwellError("That is no request")
    return Request(**told)


def _close_socket(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
