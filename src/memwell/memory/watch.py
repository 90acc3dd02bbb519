"""Syncing workspaces whenever their files change, and embedding what is new."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from memwell.model import IndexReport
from memwell.reports import FillReport
from memwell.store.contract.values import Workspace


def watch_workspaces(
    workspaces: Sequence[Workspace],
    sync: Callable[[Workspace], IndexReport],
    folders: Callable[[Workspace], list[Path]],
    embed: Callable[[], FillReport],
    read_transcripts: Callable[[], object] | None,
    report: Callable[[IndexReport | str], None],
    stop: threading.Event,
    something_new: threading.Event,
) -> None:
    """Sync workspaces whenever their files change, and embed after that, until `stop` is set.

    Transcripts are read at intervals: their notes are files of a workspace.
    """
    from memwell.ingest.watch import keep_embedding, keep_reading, watch

    by_root = {workspace.path: workspace for workspace in workspaces}

    def sync_root(root: Path) -> None:
        done = sync(by_root[root])
        something_new.set()
        if done.touched or done.problems:
            report(done)

    threads = [threading.Thread(target=keep_embedding, args=(embed, something_new, report, stop))]
    if read_transcripts:
        threads.append(threading.Thread(target=keep_reading, args=(read_transcripts, report, stop)))
    for thread in threads:
        thread.start()
    watch([*by_root], sync_root, lambda root: folders(by_root[root]), report, stop)
    for thread in threads:
        thread.join()
