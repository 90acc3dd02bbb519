"""Real agents with the hooks that `memwell hook` writes, and a stand-in for their models.

The stand-in answers every request with one word. A task checks that the model received what was
recalled, and that the memory has what the user said.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from memwell import FactFilter, Memory
from tests.integrations.node import install_packages, package_version
from tests.support.documents import sandbox

SAFE = "The launch code is kept in the blue safe."
SAID = "We decided to use Postgres for the job queue."
PROMPT = f"{SAID} Where is the launch code kept?"
MEMWELL = str(Path(sys.executable).with_name("memwell"))
_SECONDS = 120
Event = tuple[str, dict[str, Any]]


class Model(ThreadingHTTPServer):
    """Speaks the streaming protocols of three vendors, and keeps what it was sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Model

    def do_GET(self) -> None:
        self._answer("application/json", b'{"data": [], "models": []}')

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.received.append(body.decode("utf-8", "replace"))
        path = self.path.partition("?")[0]
        if path.endswith("/responses"):
            self._stream(_openai())
        elif path.endswith("/messages"):
            self._stream(_anthropic())
        elif path.endswith("streamGenerateContent"):
            self._stream([("", _gemini())])
        elif path.endswith("generateContent"):
            self._answer("application/json", json.dumps(_gemini()).encode())
        else:
            self._answer("application/json", b'{"input_tokens": 1}')

    def _stream(self, events: Sequence[Event]) -> None:
        lines = [
            (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"
            for name, data in events
        ]
        self._answer("text/event-stream", "".join(lines).encode())

    def _answer(self, kind: str, content: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def _openai() -> list[Event]:
    content = [{"type": "output_text", "text": "Done.", "annotations": []}]
    item = {"type": "message", "role": "assistant", "id": "m", "content": content}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r", "output": [item], "usage": usage}},
    ]
    return [(event["type"], event) for event in events]


def _anthropic() -> list[Event]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "content": [], "usage": usage}
    text = {"type": "text_delta", "text": "Done."}
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "model": "m", "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": text},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": usage},
        {"type": "message_stop"},
    ]
    return [(event["type"], event) for event in events]


def _gemini() -> dict[str, Any]:
    content = {"role": "model", "parts": [{"text": "Done."}]}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage}


@contextlib.contextmanager
def _model() -> Iterator[Model]:
    with Model() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def run_codex(home: Path, project: Path, model: Model) -> tuple[list[str], dict[str, str]]:
    """Write the settings of Codex; return its command."""
    _memwell(
        project, "hook", "config", "codex", "--write", "--file", str(home / ".codex/hooks.json")
    )
    lines = [
        'model = "m"\nmodel_provider = "here"\n[model_providers.here]\nname = "here"',
        f'base_url = "{model.url}/v1"\nwire_api = "responses"\n',
    ]
    (home / ".codex" / "config.toml").write_text("\n".join(lines), encoding="utf-8")
    options = ["exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", PROMPT]
    return ["codex", *options], {}


def run_gemini(home: Path, project: Path, model: Model) -> tuple[list[str], dict[str, str]]:
    """Write the settings of Gemini CLI; return its command."""
    file = home / ".gemini" / "settings.json"
    _memwell(project, "hook", "config", "gemini-cli", "--write", "--file", str(file))
    settings = json.loads(file.read_text(encoding="utf-8"))
    settings["security"] = {"auth": {"selectedType": "gemini-api-key"}}
    file.write_text(json.dumps(settings), encoding="utf-8")
    variables = {
        "GEMINI_API_KEY": "x" * 20,
        "GOOGLE_GEMINI_BASE_URL": model.url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    return ["gemini", "-m", "gemini-2.5-flash", "-p", PROMPT], variables


def run_claude(home: Path, project: Path, model: Model) -> tuple[list[str], dict[str, str]]:
    """Write the plugin of Claude Code; return its command."""
    _memwell(project, "hook", "plugin", str(home / "plugin"))
    variables = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "x" * 20}
    return ["claude", "--plugin-dir", str(home / "plugin"), "-p", PROMPT], variables


Prepare = Callable[[Path, Path, Model], tuple[list[str], dict[str, str]]]


def run_agent(package: str, prepare: Prepare) -> str:
    """Send a prompt to an agent that has the hooks, and check both directions."""
    name = package.rpartition("@")[0]
    installed = install_packages(name.rpartition("/")[2], [package])
    with sandbox() as folder, _model() as model:
        home, project = folder / "user", folder / "project"
        for made in (home / ".codex", home / ".gemini", project):
            made.mkdir(parents=True)
        os_variables = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MEMWELL_", "ANTHROPIC_", "CLAUDE", "GEMINI_", "OPENAI_"))
        }
        with Memory(folder / "home", settings={"embedding.chain": ()}) as memory:
            memory.remember(SAFE)
        (program, *options), variables = prepare(home, project, model)
        own = {
            "HOME": str(home),
            "MEMWELL_HOME": str(folder / "home"),
            "MEMWELL_CONFIG": str(folder),
            "MEMWELL_EMBEDDING_CHAIN": "",
            "MEMWELL_RECALL_MIN_SCORE": "0.03",
            "NO_PROXY": "127.0.0.1",
        }
        done = subprocess.run(
            [str(installed / "node_modules" / ".bin" / program), *options],
            cwd=project,
            env={**os_variables, **own, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert "Done." in done.stdout, f"{done.stdout[-1500:]}{done.stderr[-1500:]}"
        assert any("blue safe" in sent for sent in model.received), "nothing was recalled"
        with Memory(folder / "home", settings={"embedding.chain": ()}) as memory:
            texts = [fact.text for fact in memory.facts.find(FactFilter(source="conversation"))]
        assert texts == [SAID], f"captured: {texts}"
    return f"{name} {package_version(installed, name)}"


def _memwell(folder: Path, *arguments: str) -> None:
    assert shutil.which(MEMWELL), "memwell is not installed in this environment"
    variables = {**os.environ, "VIRTUAL_ENV": sys.prefix}  # so that the command is absolute
    subprocess.run(
        [MEMWELL, *arguments], cwd=folder, env=variables, check=True, capture_output=True
    )


TASKS: dict[str, Callable[[], str]] = {
    "Hooks of Codex": lambda: run_agent("@openai/codex@0.166.0", run_codex),
    "Hooks of Gemini CLI": lambda: run_agent("@google/gemini-cli@0.61.0", run_gemini),
    "Plugin of Claude Code": lambda: run_agent("@anthropic-ai/claude-code@2.1.325", run_claude),
}
