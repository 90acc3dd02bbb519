"""Plays the steps of `same-answers` with the Python and the sources of one checkout."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from bench.answer_diff import Answer, Cleaner, parse
from bench.answer_steps import NOW, Code, Doing, Edit, Read, Request, Serve, Step, Talk

_SECONDS = 3600
"""How long a command may take: embedding a large set takes long."""
_PROTOCOL = "2025-06-18"
_OURS = ("MEMWELL_", "OPENCLAW_", "OPENAI_", "GEMINI_", "XDG_", "PYTHON")
"""Variables of the caller that could change an answer begin so."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """Sources, and the Python that runs them."""

    name: str
    folder: Path
    python: Path

    def names(self) -> dict[str, str]:
        """Return the folders that only this checkout has, and one name for each."""
        return {str(self.python.parent): "<bin>", str(self.folder): "<checkout>"}


@dataclass(frozen=True, slots=True)
class World:
    """The folder that commands run in: notes, a home and a configuration folder.

    Both checkouts run at the same path, one after the other, so that paths in answers are equal.
    """

    folder: Path
    notes: Path
    """The notes that are copied into it."""
    cases: Path
    """Cases for `memwell eval`."""
    environment: Mapping[str, str] = field(default_factory=dict)

    def begin(self) -> None:
        """Make it anew: the notes, and nothing that a command wrote."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.notes, self.folder / "notes")
        shutil.copy2(self.cases, self.folder / "asked.jsonl")
        (self.folder / "elsewhere").mkdir()
        (self.folder / "elsewhere" / "hermit.md").write_text("# Hermit\n\nIt lives alone.\n")
        (self.folder / "broken.jsonl").write_text('{"kind": "fact"}\nnot JSON\n')

    def keep(self, target: Path) -> None:
        """Copy all of it to another folder."""
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.folder, target)

    def bring_back(self, source: Path) -> None:
        """Put what was kept in its place."""
        shutil.rmtree(self.folder)
        shutil.copytree(source, self.folder)


@dataclass(slots=True)
class Player:
    """Runs steps in a world, and remembers the ids of the facts that they made."""

    checkout: Checkout
    world: World
    cleaner: Cleaner
    played: int = 0
    """How many steps came before, which is how far the time has advanced."""
    ids: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ids["world"] = str(self.world.folder)
        self.ids["store"] = self.world.environment.get("MEMWELL_STORE_URL", "")

    def play(self, steps: Iterable[Doing]) -> Iterator[Answer]:
        """Yield the answer of each step that has one."""
        for step in steps:
            self.played += 1
            if isinstance(step, Edit):
                self._edit(step)
            elif isinstance(step, Read):
                yield self._read(step)
            elif isinstance(step, Code):
                yield self._ran(step.name, ["-c", step.source], Step(()))
            elif isinstance(step, Serve):
                yield from self._serve(step)
            elif isinstance(step, Talk):
                yield from self._talk(step)
            else:
                yield self._step(step)

    def _answer(self, name: str, status: int, shown: Any, *, complained: bool = False) -> Answer:
        return Answer(name, status, self.cleaner.clean(shown), complained)

    def _read(self, read: Read) -> Answer:
        file, name = self.world.folder / read.path, f"the file {read.path}"
        if not file.exists():
            return self._answer(name, 1, "")
        return self._answer(name, 0, parse(file.read_text(encoding="utf-8"), read.shown))

    def _edit(self, edit: Edit) -> None:
        file = self.world.folder / edit.path
        if edit.to:
            file.rename(self.world.folder / edit.to)
        elif edit.text is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(edit.text, encoding="utf-8")

    # -- commands ----------------------------------------------------------------------------------

    def _step(self, step: Step) -> Answer:
        return self._ran(step.name, ["-m", "memwell", *map(self._filled, step.words)], step)

    def _ran(self, name: str, arguments: list[str], step: Step) -> Answer:
        done = subprocess.run(
            [self.checkout.python, *arguments],
            cwd=self.world.folder / "notes",
            env=self._environment(step.environment),
            input=step.stdin.encode(),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        told, complaint = done.stdout.decode("utf-8", "replace"), done.stderr.decode()
        crashed = "Traceback (most recent call last)" in complaint
        unplanned = ""
        if crashed or step.fails != (done.returncode > 1):
            last = (complaint.strip() or "nothing on stderr").splitlines()[-1]
            unplanned = f"{self.checkout.name} ends with status {done.returncode}, {last}"
        shown = parse(told, step.shown)
        self._keep_id(step.keeps, shown)
        answer = self._answer(name, done.returncode, shown, complained=bool(complaint))
        return replace(answer, unplanned=unplanned)

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        # Facts of the same moment are listed by their ids, which are random: each has its own.
        now = NOW + dt.timedelta(seconds=self.played)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        folder = self.world.folder
        return {
            **kept,
            "HOME": str(folder),
            "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": str(self.checkout.folder / "src"),
            "PYTHONSAFEPATH": "1",
            "MEMWELL_HOME": str(folder / "home"),
            "MEMWELL_CONFIG": str(folder / "config"),
            "MEMWELL_NOW": now.isoformat(),
            **self.world.environment,
            **more,
        }

    def _filled(self, word: str) -> str:
        """Put ids in the place of @name."""
        for name in sorted(self.ids, key=len, reverse=True):
            word = word.replace(f"@{name}", self.ids[name])
        return word

    def _keep_id(self, name: str, shown: Any) -> None:
        if name and isinstance(shown, dict) and "fact" in shown:
            self.ids[name] = shown["fact"]["id"]

    # -- over HTTP ---------------------------------------------------------------------------------

    def _serve(self, serve: Serve) -> Iterator[Answer]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        address = f"http://127.0.0.1:{port}"
        with self._server("serve", "--port", str(port)) as server:
            _wait_for(address, server)
            for request in serve.requests:
                yield self._asked(address, request)

    def _asked(self, address: str, request: Request) -> Answer:
        body = self._filled(json.dumps(request.body)).encode() if request.body else None
        asked = urllib.request.Request(
            address + self._filled(request.path),
            body,
            {"content-type": "application/json", **self._authorization()},
            method=request.method,
        )
        try:
            with urllib.request.urlopen(asked, timeout=_SECONDS) as found:
                status, text = found.status, found.read().decode()
        except urllib.error.HTTPError as refused:
            status, text = refused.code, refused.read().decode()
        shown = parse(text, "jsonl" if request.path == "/api/export" else "json")
        self._keep_id(request.keeps, shown)
        if request.path == "/openapi.json":
            shown = {path: sorted(methods) for path, methods in shown["paths"].items()}
        name = f"HTTP {request.method} {request.path} {json.dumps(request.body or {})}"
        return self._answer(name, status, shown)

    def _authorization(self) -> dict[str, str]:
        """Return the header with the token of the home; an older memwell has none."""
        token = self.world.folder / "home" / "serve.token"
        return {"authorization": f"Bearer {token.read_text().strip()}"} if token.exists() else {}

    # -- over the Model Context Protocol -----------------------------------------------------------

    def _talk(self, talk: Talk) -> Iterator[Answer]:
        client = {"name": "same-answers", "version": "0"}
        hello = {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": client}
        with self._server("mcp") as server:
            assert server.stdin
            assert server.stdout
            _call(server.stdin, server.stdout, 0, "initialize", hello)
            _send(server.stdin, {"method": "notifications/initialized"})
            for number, (method, given) in enumerate(talk.messages, 1):
                found = _call(server.stdin, server.stdout, number, method, given)
                shown = _outline(method, found)
                yield self._answer(f"MCP {method} {json.dumps(given)}", 0, shown)

    @contextmanager
    def _server(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a command of memwell until its answers are there."""
        server = subprocess.Popen(
            [self.checkout.python, "-m", "memwell", *words],
            cwd=self.world.folder / "notes",
            env=self._environment({}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield server
        finally:
            server.terminate()
            server.communicate(timeout=60)


class UnplannedError(Exception):
    """A command that should have worked failed, or the other way round."""


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    last = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(f"{address}/health", timeout=5).close()
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > last:
                raise UnplannedError("`memwell serve` does not answer") from None
            time.sleep(0.05)


def _send(stdin: IO[bytes], message: Mapping[str, Any]) -> None:
    stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    stdin.flush()


def _call(
    stdin: IO[bytes], stdout: IO[bytes], number: int, method: str, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Send a request, and return the answer that bears its number."""
    _send(stdin, {"id": number, "method": method, "params": given})
    for line in stdout:
        answer: dict[str, Any] = json.loads(line)
        if answer.get("id") == number:
            found: dict[str, Any] = answer.get("result") or {"error": answer["error"]["code"]}
            return found
    raise UnplannedError(f"`memwell mcp` ended before it answered {method}")


def _outline(method: str, found: dict[str, Any]) -> Any:
    """Return an answer of the protocol without names of classes and texts for people."""
    if method == "tools/list":
        return {
            tool["name"]: {
                "properties": sorted(tool["inputSchema"].get("properties", {})),
                "required": sorted(tool["inputSchema"].get("required", [])),
                "annotations": tool.get("annotations"),
            }
            for tool in found["tools"]
        }
    if method == "prompts/get":
        return {"block": "\n".join(one["content"]["text"] for one in found["messages"])}
    if found.get("isError"):
        return {"refused": True}
    if method == "tools/call":
        texts = [one["text"] for one in found["content"]]
        return {
            "content": [_parsed(text) for text in texts],
            "data": found.get("structuredContent"),
        }
    return found


def _parsed(text: str) -> Any:
    """Return the JSON that a text is, else the text as a block."""
    try:
        return json.loads(text)
    except ValueError:
        return {"block": text}
