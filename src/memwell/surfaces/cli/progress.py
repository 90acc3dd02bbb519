"""A progress bar on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from memwell.progress import Progress


@contextmanager
def progress_bar(label: str) -> Iterator[Progress]:
    """Yield a progress callback: a bar on a terminal, nothing in a transcript or a log.

    The bar appears with the first call, so that a command with nothing to do shows none.
    """
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    bars: list[click._termui_impl.ProgressBar[int]] = []
    with ExitStack() as stack:

        def show(done: int, total: int) -> None:
            if not bars:
                bar = click.progressbar(length=total, label=label, show_pos=True, file=sys.stderr)
                bars.append(stack.enter_context(bar))
            bars[0].length = total
            bars[0].update(done - bars[0].pos)

        yield show
