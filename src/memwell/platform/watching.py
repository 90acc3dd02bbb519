"""How to watch a folder for changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from memwell.platform import CURRENT, LINUX


def choose_watched(
    root: Path, folders: Sequence[Path], *, on: str = CURRENT
) -> tuple[Sequence[Path], bool]:
    """Return the folders to watch, and whether those inside them are watched, too.

    Linux watches single folders, so ignored ones cost nothing. macOS and Windows watch a whole
    tree with one handle, and would need one for each folder otherwise.
    """
    return (folders, False) if on == LINUX else ([root], True)
