"""The command by which other programs start memwell."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

_NAME = "memwell"


def find_command(*, is_desktop: bool) -> str:
    """Return the command that starts memwell: its name, or its path if PATH may not have it.

    A desktop program does not have the PATH of this shell, nor does a terminal in which the virtual
    environment of this one is not active.
    """
    found = shutil.which(_NAME)
    if found and not is_desktop and not os.environ.get("VIRTUAL_ENV"):
        return _NAME
    installed = found or shutil.which(_NAME, path=sysconfig.get_path("scripts"))
    return absolute_path(installed or sys.argv[0])


def absolute_path(path: str) -> str:
    """Return a path that does not depend on the folder in which a program starts memwell."""
    return str(Path(path).expanduser().absolute())
