"""Convert files in a process of its own, which is killed if a file takes too long."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import IO, Any

from memwell.errors import UnreadableDocumentError
from memwell.ingest.readers.document import Document, Section
from memwell.ingest.readers.formats import Format

SECONDS = 30.0
"""The most time for one file."""
MEMORY_BYTES = 1_000_000_000
"""The most memory of the process."""


class Converter:
    """Converts one file after another; the process starts with the first one."""

    def __init__(self, seconds: float = SECONDS, memory_bytes: int = MEMORY_BYTES) -> None:
        self._seconds = seconds
        self._memory_bytes = memory_bytes
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Converter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def convert(self, found: Format, name: str, data: bytes) -> Document:
        """Return the document in the bytes of a file, or raise `UnreadableDocumentError`."""
        process = self._process = self._process or _start(self._memory_bytes)
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self._seconds, stop)
        timer.daemon = True
        timer.start()
        try:
            answer = _ask(process, {"format": found.name, "name": name, "size": len(data)}, data)
        except (OSError, ValueError):
            self.close()
            reason = (
                f"takes longer than {self._seconds:g} s" if late.is_set() else "ends the reader"
            )
            raise UnreadableDocumentError(f"it {reason}") from None
        finally:
            timer.cancel()
        if "error" in answer:
            raise UnreadableDocumentError(str(answer["error"]))
        return _to_document(answer["document"])

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    pipe.close()


def _start(memory_bytes: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "memwell.ingest.readers.worker", str(memory_bytes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _ask(process: subprocess.Popen[bytes], request: dict[str, Any], data: bytes) -> dict[str, Any]:
    """Send a request and return the answer; raise an error if the process ended before."""
    requests, answers = _pipes(process)
    requests.write(json.dumps(request).encode() + b"\n")
    requests.write(data)
    requests.flush()
    size = int(answers.readline())  # empty at the end of the process: ValueError
    body = answers.read(size)
    if len(body) < size:
        raise OSError("the process ended")
    answer: dict[str, Any] = json.loads(body)
    return answer


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None:
        raise OSError("the process has no pipes")
    return process.stdin, process.stdout


def _to_document(value: dict[str, Any]) -> Document:
    sections = tuple(
        Section(**{**section, "heading": tuple(section["heading"])})
        for section in value["sections"]
    )
    return Document(**{**value, "sections": sections, "tags": tuple(value["tags"])})
