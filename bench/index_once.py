"""Index a folder and print, as JSON, what that took: the child process of `bench.memory`."""

from __future__ import annotations

import json
import sys

from bench.peak_memory import peak_bytes
from memwell.memory import Memory


def main() -> None:
    """Index the folder that is named on the command line into MEMWELL_HOME."""
    with Memory() as memory:
        report = memory.index(sys.argv[1])[0]
    print(json.dumps({"peak_mb": peak_bytes() / 1e6, "chunks": report.chunks_written}))


if __name__ == "__main__":
    main()
