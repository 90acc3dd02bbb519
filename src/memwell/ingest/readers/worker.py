"""The process that runs readers: ``python -m memwell.ingest.readers.worker MEMORY_BYTES``.

It reads requests from standard input, each a line of JSON and the bytes of a file, and answers
each with a line of JSON and a document as JSON. A hostile file can use up the memory or the time of
this process, but not those of memwell.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import BinaryIO

from memwell.errors import BinaryFileError, MemwellError
from memwell.ingest.readers.formats import format_named
from memwell.platform.memory import limit_memory

_MOST_CHARACTERS = 50_000_000


def main() -> None:
    """Answer requests until standard input ends."""
    requests = sys.stdin.buffer
    # A library that prints must not write between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    limit_memory(int(sys.argv[1]))
    while line := requests.readline():
        request = json.loads(line)
        data = requests.read(request["size"])
        _answer(answers, _convert(request["format"], request["name"], data))


def _convert(name: str, file_name: str, data: bytes) -> dict[str, object]:
    try:
        document = format_named(name).load()(data, file_name)
        if sum(len(section.text) for section in document.sections) > _MOST_CHARACTERS:
            return {"error": f"it has more than {_MOST_CHARACTERS:,} characters"}
        return {"document": asdict(document)}
    except BinaryFileError:
        return {"error": "it holds binary data instead of text"}
    except MemwellError as error:
        return {"error": error.what}
    except MemoryError:
        return {"error": f"it needs more than {int(sys.argv[1]) // 10**6} MB of memory"}
    except Exception as error:  # of any parser: the file is named, and the others are read
        return {"error": f"it cannot be parsed ({type(error).__name__})"}


def _answer(answers: BinaryIO, value: dict[str, object]) -> None:
    body = json.dumps(value).encode("utf-8", "replace")
    answers.write(b"%d\n" % len(body) + body)
    answers.flush()


if __name__ == "__main__":
    main()
