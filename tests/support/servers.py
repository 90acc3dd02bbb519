"""Loopback servers that speak OpenAI's and Gemini's protocols, and misbehave on demand."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: Any

    @property
    def texts(self) -> list[str]:
        if "input" in self.body:
            return [*self.body["input"]]
        return [request["content"]["parts"][0]["text"] for request in self.body["requests"]]


Act = Callable[["Handler", Request], None]
"""A function that answers a request, correctly or not."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, json.loads(raw))
        with self.server.lock:
            self.server.requests.append(request)
            act = self.server.script.pop(0) if self.server.script else self.server.usually
        with contextlib.suppress(OSError):
            act(self, request)

    def do_CONNECT(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append(Request(self.path, headers, None))
        self.send_error(502)

    def answer(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def date_time_string(self, timestamp: float | None = None) -> str:
        return self.server.date or super().date_time_string(timestamp)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """Speaks both protocols; answers each request with the next act of `script`, then `usually`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.requests: list[Request] = []
        self.script: list[Act] = []
        self.usually: Act = well
        self.date = ""
        """The header Date of every answer; empty for the present time."""
        self.over = threading.Event()
        """The test is over: acts that wait should end."""
        self.client_left = threading.Event()
        """The client closed its connection before `dripping` ended."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # A client that hangs up is what several tests are about.

    @property
    def asked(self) -> list[list[str]]:
        return [request.texts for request in self.requests]


def vector(text: str) -> list[float]:
    """The server's vector for a text; its length is sqrt(length² + 1)."""
    return [0.0, float(len(text)), 0.0, -1.0]


def unit(text: str) -> list[float]:
    length = math.sqrt(len(text) ** 2 + 1)
    return [0.0, len(text) / length, 0.0, -1 / length]


def answered(request: Request, vectors: list[Any]) -> bytes:
    """An answer in the form of the vendors' references."""
    if "requests" in request.body:
        return json.dumps({"embeddings": [{"values": values} for values in vectors]}).encode()
    if request.body["encoding_format"] == "base64":
        vectors = [as_base64(values) for values in vectors]
    data = [
        {"object": "embedding", "index": at, "embedding": values}
        for at, values in enumerate(vectors)
    ]
    usage = {"prompt_tokens": 8, "total_tokens": 8}
    return json.dumps(
        {"object": "list", "data": data, "model": request.body["model"], "usage": usage}
    ).encode()


def as_base64(values: Any) -> Any:
    """Encode floats as a vendor does; leave other values for the client to see."""
    if type(values) is not list or {*map(type, values)} - {float}:
        return values
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def well(handler: Handler, request: Request) -> None:
    handler.answer(200, answered(request, [vector(text) for text in request.texts]))


def altered(change: Callable[[list[Any]], list[Any]]) -> Act:
    """Answer with changed vectors."""

    def act(handler: Handler, request: Request) -> None:
        vectors = change([vector(text) for text in request.texts])
        handler.answer(200, answered(request, vectors))

    return act


def status(code: int, error: object = None, **headers: str) -> Act:
    content = b"" if error is None else json.dumps({"error": error}).encode()
    return lambda handler, request: handler.answer(code, content, **headers)


def raw(content: bytes) -> Act:
    return lambda handler, request: handler.answer(200, content)


def silent(handler: Handler, request: Request) -> None:
    handler.server.over.wait(60)


def cut_short(handler: Handler, request: Request) -> None:
    """Announce a whole answer, send half of it and hang up."""
    whole = answered(request, [vector(text) for text in request.texts])
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(whole)))
    handler.end_headers()
    handler.wfile.write(whole[: len(whole) // 2])
    handler.close_connection = True


def hung_up(handler: Handler, request: Request) -> None:
    handler.close_connection = True


def dripping(before: bytes) -> Act:
    """Send a byte now and then, until the client leaves."""

    def act(handler: Handler, request: Request) -> None:
        try:
            handler.wfile.write(before)
            while not handler.server.over.wait(0.02):
                handler.wfile.write(b" ")
        except OSError:
            handler.server.client_left.set()

    return act


def unless(bad: Callable[[list[str]], bool], otherwise: Act) -> Act:
    """Answer well unless the texts are bad."""
    return lambda handler, request: (otherwise if bad(request.texts) else well)(handler, request)


def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the proxies of the environment, so that requests go directly to a server."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@contextlib.contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[Server]:
    server = Server()
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=partial(server.serve_forever, poll_interval=0.01))
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
