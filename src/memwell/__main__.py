"""The command `memwell`, and `python -m memwell`."""

import os
import sys
import threading
from contextlib import suppress

from memwell.surfaces.cli import run


def main() -> None:
    """Run the command line and end the process; the exit status says how it ended."""
    status = run(sys.argv[1:])
    if threading.active_count() > 1:
        # A thread in which a model still embeds cannot be stopped, and would abort the interpreter.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    main()
