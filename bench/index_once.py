"""Index a folder and print, as JSON, what that took: the child process of `bench.memory`."""

from __future__ import annotations

import json
import re
import resource
import sys
from pathlib import Path

from memwell.memory import Memory


def main() -> None:
    """Index the folder that is named on the command line into MEMWELL_HOME."""
    with Memory() as memory:
        report = memory.index(sys.argv[1])[0]
    print(json.dumps({"peak_mb": peak_bytes() / 1e6, "chunks": report.chunks_written}))


def peak_bytes() -> int:
    """Return the most memory this process has held.

    Linux hands ``ru_maxrss`` of the process that started this one on to it, so the figure of
    its own memory map comes first where there is one.
    """
    status = Path("/proc/self/status")
    own = re.search(r"^VmHWM:\s*(\d+) kB", status.read_text(), re.M) if status.exists() else None
    if own:
        return int(own.group(1)) * 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


if __name__ == "__main__":
    main()
