"""How long an agent waits for a hook, over 1,000 chunks: without a server, and with one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path

from bench import data, start
from bench.measure import seconds, temporary_home
from bench.results import Row, at_most
from memwell.ingest.chunk_settings import ChunkSettings
from memwell.memory import Memory
from memwell.surfaces.background import SERVER_SETTINGS
from memwell.surfaces.hook_socket import HookServer

_CHUNKS = 1_000
_ROUNDS = 40
_PROMPT = "how does a pod get its IP address"
_SAID = "Look at the log, please."


def run() -> list[Row]:
    """Recall for a prompt cold and through a server's door; capture a turn that holds no fact."""
    root = data.workspace("k8s-en")
    with temporary_home("bench") as folder:
        chunks = _copy_some(root, folder / "notes")
        with Memory() as memory:
            memory.index(folder / "notes", embed=False)
        start._fill(folder)
        os.environ["MEMWELL_EMBEDDING_CHAIN"] = "memwell"
        cold = _measured("recall", _event(folder, "UserPromptSubmit", prompt=_PROMPT))
        with (
            Memory(fallback_workspace=folder / "notes", settings=SERVER_SETTINGS) as memory,
            HookServer(memory),
        ):
            memory.recall(_PROMPT)  # a server has its model loaded
            served = _measured("recall", _event(folder, "UserPromptSubmit", prompt=_PROMPT))
        (folder / "transcript").write_text(json.dumps({"role": "user", "content": _SAID}) + "\n")
        capture = _measured("capture", _event(folder, "Stop"))
        python = _timed([sys.executable, "-c", "pass"], b"")
    detail = {"chunks": chunks, "cold": cold, "served": served, "capture": capture}
    return [
        Row("hook recall, no server, p95 (1,000 chunks)", _p95(cold), "s", at_most(1), detail),
        Row("  median", _middle(cold), "s"),
        Row("hook recall, a server runs, p95", _p95(served), "s", at_most(0.3)),
        Row("  median", _middle(served), "s"),
        Row("hook capture of a turn without a fact, p95", _p95(capture), "s", at_most(0.3)),
        Row("  python -c pass, median", _middle(python), "s"),
    ]


def _event(folder: Path, name: str, **members: str) -> bytes:
    # No session is named, as a session is not told the same again.
    told = {"hook_event_name": name, "cwd": str(folder / "notes"), **members}
    return json.dumps({**told, "transcript_path": str(folder / "transcript")}).encode()


def _measured(command: str, event: bytes) -> list[float]:
    program = str(Path(sysconfig.get_path("scripts")) / "memwell")
    return _timed([program, "hook", command, "--timeout", "30"], event)


def _timed(command: list[str], told: bytes) -> list[float]:
    call = partial(subprocess.run, command, input=told, stdout=subprocess.DEVNULL, check=True)
    call()  # the first one writes the bytecode that the others load
    return sorted(seconds(call) for _ in range(_ROUNDS))


def _p95(taken: list[float]) -> float:
    return taken[int(0.95 * len(taken))]


def _middle(taken: list[float]) -> float:
    return taken[len(taken) // 2]


def _copy_some(root: Path, to: Path) -> int:
    """Copy notes until they make enough chunks; return how many they make."""
    chunks = 0
    for path in data.note_paths(root):
        if chunks >= _CHUNKS:
            break
        (to / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / path, to / path)
        chunks += len(data.read_note(root, path, ChunkSettings()).chunks)
    return chunks
