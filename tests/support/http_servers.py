"""Servers for tests: a real `memwell serve`, or an application in a thread, always on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI


@dataclass(frozen=True)
class Answer:
    """A response of a server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json["error"]["message"])


@dataclass
class Server:
    """A server that answers at an address."""

    address: str
    process: subprocess.Popen[str] | None = None
    token: str = ""

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request; a `body` is sent as JSON, `raw` bytes as they are."""
        sent = {"authorization": f"Bearer {self.token}"} if self.token else {}
        content = raw if body is None else json.dumps(body).encode()
        if content is not None:
            sent["content-type"] = "application/json"
        connection = HTTPConnection(urlsplit(self.address).netloc, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path, content, {**sent, **(headers or {})})
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, named, answer.read())

    def post(self, path: str, body: Any) -> Any:
        """Send JSON; the status of the response must be 200."""
        answer = self.ask("POST", path, body)
        assert answer.status == 200, answer.body
        return answer.json

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status == 200, answer.body
        return answer.json

    def send(self, data: bytes) -> bytes:
        """Send bytes as they are, and return the response up to the end of the connection."""
        parts = urlsplit(self.address)
        with socket.create_connection((str(parts.hostname), parts.port or 0), 10) as connection:
            connection.sendall(data)
            received = b""
            while part := connection.recv(65536):
                received += part
            return received


def environment(home: Path, **more: str) -> dict[str, str]:
    others = {name: value for name, value in os.environ.items() if not name.startswith("MEMWELL_")}
    own = {"MEMWELL_HOME": str(home), "MEMWELL_CONFIG": str(home / "no-config")}
    return {**others, **own, "MEMWELL_EMBEDDING_CHAIN": "", **more}


@contextlib.contextmanager
def served(
    home: Path,
    folder: Path,
    *options: str,
    no_token: bool = True,
    workers: int = 1,
    **settings: str,
) -> Iterator[Server]:
    """Run `memwell serve` in a folder, until the end of the block.

    With `no_token`, only the tokens that a test adds are needed.
    """
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "memwell",
            "serve",
            "--port",
            "0",
            "--workers",
            str(workers),
            *(["--no-token"] if no_token else []),
            *options,
        ],
        cwd=folder,
        env=environment(home, **settings),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert line.startswith("memwell answers at http://"), line + process.stderr.read()
        yield Server(line.split()[3], process)
    finally:
        process.terminate()
        process.stderr.read()
        process.wait(30)
        process.stderr.close()


@contextlib.contextmanager
def in_a_thread(app: FastAPI) -> Iterator[Server]:
    """Serve an application in this process, until the end of the block."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none", lifespan="on"))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        host, port = listening.getsockname()
        yield Server(f"http://{host}:{port}")
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
