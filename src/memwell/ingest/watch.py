"""Sync workspaces whenever their files change.

The system's file notifications start a sync; if they are not available, memwell polls once a
second. If a workspace disappears, memwell waits until it is back.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from memwell.errors import MemwellError
from memwell.platform.watching import choose_watched
from memwell.reports import FillReport

READ_SECONDS = 30.0
"""How often other programs are asked for something new."""
POLL_SECONDS = 1.0
_FILL_AGAIN_SECONDS = 30.0
"""How often to look for passages to embed if nothing changed: a provider may work again."""
_PAUSE_SECONDS = 0.2
"""Between two fills: texts that are written one after another are embedded together."""
_DEBOUNCE_MS = 200
"""Changes within this time start one sync: an editor writes, renames and deletes to save a file."""

Sync = Callable[[Path], None]
Folders = Callable[[Path], list[Path]]
Say = Callable[[str], None]


def watch(
    roots: Sequence[Path], sync: Sync, folders: Folders, say: Say, stop: threading.Event
) -> None:
    """Watch each root until `stop` is set.

    Only the `folders` that can contain notes are watched: ignored folders use no file handle.
    """
    threads = [
        threading.Thread(target=_watch_root, args=(root, sync, folders, say, stop), daemon=True)
        for root in roots
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.2)


def _watch_root(root: Path, sync: Sync, folders: Folders, say: Say, stop: threading.Event) -> None:
    notified = True
    while not stop.is_set():
        if not root.is_dir():
            say(f"{root} is gone; waiting for it")
            while not root.is_dir() and not stop.wait(POLL_SECONDS):
                pass
            if stop.is_set():
                return
            say(f"{root} is back")
        _sync_safely(root, sync, say)
        if not notified:
            stop.wait(POLL_SECONDS)
            continue
        try:
            notified = _sync_on_notifications(root, sync, folders, say, stop)
        except Exception as error:  # the thread must not end: nothing would be synced any more
            say(f"{root} cannot be watched ({type(error).__name__}: {error}); trying again")
            stop.wait(POLL_SECONDS)


def _sync_on_notifications(
    root: Path, sync: Sync, folders: Folders, say: Say, stop: threading.Event
) -> bool:
    """Sync after each group of changes, until the folders to watch change.

    Return False if there are no notifications.
    """
    from watchfiles import watch as notifications

    inode = _inode(root)
    watched = folders(root)
    paths, recursive = choose_watched(root, watched)
    begun = False
    try:
        for changes in notifications(
            *paths,
            recursive=recursive,
            watch_filter=None,
            debounce=_DEBOUNCE_MS,
            step=50,
            rust_timeout=int(POLL_SECONDS * 1000),
            yield_on_timeout=True,
            stop_event=stop,
            raise_interrupt=False,
            ignore_permission_denied=True,
        ):
            if stop.is_set():
                return True
            if _inode(root) != inode:
                return True  # the folder was deleted or replaced: start again
            if changes or not begun:
                # Without changes, too, the first time: files may have changed before the watch.
                begun = True
                _sync_safely(root, sync, say)
                if folders(root) != watched:
                    return True
    except FileNotFoundError:
        return True
    except (OSError, RuntimeError) as error:
        # At inotify's limits (max_user_watches, max_user_instances): ENOSPC or EMFILE.
        fallback = f"checking every {POLL_SECONDS:g} s instead"
        say(f"The system's file notifications are not available ({error}); {fallback}")
        return False
    return True


def _sync_safely(root: Path, sync: Sync, say: Say) -> None:
    try:
        sync(root)
    except MemwellError as error:
        say(str(error))
    except Exception as error:  # the thread must not end: nothing would be synced any more
        say(f"{root} cannot be synced ({type(error).__name__}: {error}); trying again")


def _inode(root: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(root)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def keep_reading(
    read: Callable[[], object], say: Callable[[str], None], stop: threading.Event
) -> None:
    """Read what other programs have written, at intervals, until `stop` is set."""
    while not stop.is_set():
        try:
            read()
        except (MemwellError, OSError) as error:
            say(str(error))
        stop.wait(READ_SECONDS)


def keep_embedding(
    fill: Callable[[], FillReport],
    something_new: threading.Event,
    say: Callable[[str], None],
    stop: threading.Event,
) -> None:
    """Embed waiting passages after every sync, and at intervals, until `stop` is set."""
    last_notes: tuple[str, ...] = ()
    while not stop.is_set():
        something_new.clear()
        try:
            report = fill()
            if report.notes != last_notes:
                last_notes = report.notes
                for note in last_notes:
                    say(note)
        except MemwellError as error:
            say(str(error))
        deadline = time.monotonic() + _FILL_AGAIN_SECONDS
        stop.wait(_PAUSE_SECONDS)
        while not (stop.is_set() or something_new.is_set() or time.monotonic() > deadline):
            stop.wait(_PAUSE_SECONDS)
