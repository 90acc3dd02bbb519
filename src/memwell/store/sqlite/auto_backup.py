"""Automatic backups of memory.db, in the folder `backups` of the home.

1. After facts were changed, memory.db is copied if the newest backup is older than `backup.every`.
2. The newest backup of each of the last days and weeks stays; all others are deleted, and the
   oldest ones are, too, if they take more space than `backup.max_mb`.
3. `forget` erases facts from every backup that is left (`backup_erasure.py`).

A failure is a notice and never an error: the facts themselves are stored already.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from memwell.errors import HomeError, MemwellError, NotFoundError
from memwell.store.contract.values import StoredBackup

if TYPE_CHECKING:
    from memwell.config.sections import BackupSettings
    from memwell.store.sqlite.facts import SqliteFactStore

LATEST = "latest"
"""The name of the newest automatic backup, for `memwell restore`."""
_NAME = "memory-%Y%m%dT%H%M%SZ.db"
_SPARE_BYTES = 16_000_000
"""Free bytes of the disk that a backup leaves to others, besides as many as it has itself."""


class AutoBackups:
    """The automatic backups of a home; without settings, none are written."""

    def __init__(
        self,
        memory: Path,
        settings: BackupSettings | None = None,
        now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
        notify: Callable[[str], None] = lambda notice: None,
    ) -> None:
        self.memory = memory
        self.folder = backup_folder(memory)
        self.settings = settings
        self._now = now
        self._notify = notify

    def report_loss(self) -> None:
        """Notify that a new memory.db is begun although there are backups of another one."""
        if latest := offer_latest(self.memory):
            self._notify(f"{self.memory} was missing or empty, and a new one was begun. {latest}")

    def run_if_due(self, store: SqliteFactStore) -> None:
        """Back memory.db up if the newest backup is too old; report a failure as a notice."""
        now = self._now().astimezone(dt.UTC)
        try:
            if self._is_due(now):
                self._run(store, now)
        except (MemwellError, OSError) as error:
            reason = str(error) if isinstance(error, OSError) else f"{error.what}. {error.remedy}"
            self._notify(f"The facts are stored, but no automatic backup was written: {reason}")

    def _is_due(self, now: dt.datetime) -> bool:
        if self.settings is None or not self.settings.every:
            return False
        # A backup from the future, after the clock was wrong, must not delay the next one.
        past = [at for at, _ in list_backups(self.folder) if at <= now]
        return not past or now - past[0] >= dt.timedelta(days=self.settings.every)

    def _run(self, store: SqliteFactStore, now: dt.datetime) -> None:
        from memwell.files import hold_lock, make_private_folder
        from memwell.store.sqlite.backup import copy_lock, write_copy
        from memwell.store.sqlite.lineage import find_mismatches

        # The facts of a new or an older memory.db must not replace the backups of the lost one.
        if find_mismatches(store):
            return
        with hold_lock(copy_lock(self.memory), wait=False) as is_alone:
            if not is_alone:  # another command is copying: the next change of a fact looks again
                return
            with store.file.reading() as connection:
                size = connection.pragma("page_count") * connection.pragma("page_size")
                self._refuse_without_space(size)
                make_private_folder(self.folder)
                write_copy(connection, self.folder / now.strftime(_NAME))
            self._delete_old()

    def _refuse_without_space(self, size: int) -> None:
        """Raise an error if a copy is larger than the settings or the disk allow."""
        import shutil

        assert self.settings is not None
        if size > self.settings.max_mb * 1e6:
            raise HomeError(
                f"{self.memory} has {size / 1e6:.1f} MB, more than backup.max_mb ="
                f" {self.settings.max_mb:g}",
                "Raise backup.max_mb, or set backup.every to 0 and run `memwell backup FILE`",
            )
        free = shutil.disk_usage(self.memory.parent).free
        if free < 2 * size + _SPARE_BYTES:
            raise HomeError(
                f"The disk of {self.memory} has only {free / 1e6:.0f} MB left", "Free some space"
            )

    def _delete_old(self) -> None:
        assert self.settings is not None
        backups = list_backups(self.folder)
        kept = select_kept((at for at, _ in backups), self.settings.daily, self.settings.weekly)
        total = 0
        for at, file in backups:
            total += file.stat().st_size
            is_small_enough = total <= self.settings.max_mb * 1e6 or at == backups[0][0]
            if at not in kept or not is_small_enough:
                file.unlink(missing_ok=True)


def backup_folder(memory: Path) -> Path:
    """Return the folder of the automatic backups of a memory.db."""
    return memory.with_name("backups")


def list_backups(folder: Path) -> list[tuple[dt.datetime, Path]]:
    """Return the automatic backups, the newest first, each with its time."""
    found = []
    for name in os.listdir(folder) if folder.is_dir() else ():
        try:
            at = dt.datetime.strptime(name, _NAME).replace(tzinfo=dt.UTC)
        except ValueError:  # another file
            continue
        found.append((at, folder / name))
    return sorted(found, reverse=True)


def select_kept(times: Iterable[dt.datetime], daily: int, weekly: int) -> set[dt.datetime]:
    """Return which backups stay: the newest, one of each of the last days, one of older weeks."""
    newest_first = sorted(times, reverse=True)
    days: dict[dt.date, dt.datetime] = {}
    for at in newest_first:
        days.setdefault(at.date(), at)
    kept = {*newest_first[:1], *list(days.values())[:daily]}
    weeks: dict[tuple[int, int], dt.datetime] = {}
    for at in newest_first:
        if at not in kept:
            weeks.setdefault(at.isocalendar()[:2], at)
    return kept | {*list(weeks.values())[:weekly]}


def describe_backups(memory: Path) -> list[StoredBackup]:
    """Return the automatic backups of a memory.db, the newest first, with what they contain."""
    return [
        StoredBackup(str(file), at.isoformat(), _count_facts(file), file.stat().st_size)
        for at, file in list_backups(backup_folder(memory))
    ]


def _count_facts(file: Path) -> int | None:
    import apsw

    from memwell.store.sqlite.verify import open_for_verify

    try:
        with open_for_verify(file) as connection:
            return int(connection.execute("SELECT count(*) FROM fact_rows").get)
    except (MemwellError, apsw.Error):
        return None


def find_backup(memory: Path, name: str | Path) -> Path:
    """Return a backup by its path, by its name in the list of automatic ones, or the latest."""
    file = Path(name)
    if file.is_file():
        return file.absolute()
    backups = list_backups(backup_folder(memory))
    if str(name) == LATEST:
        if not backups:
            raise NotFoundError(
                f"There is no automatic backup in {backup_folder(memory)}",
                "Name a file that `memwell backup` made",
            )
        return backups[0][1]
    named = (found for _, found in backups if found.name == str(name))
    return next(named, file.absolute())


def offer_latest(memory: Path) -> str:
    """Return which command restores the newest automatic backup; "" if there is none."""
    backups = list_backups(backup_folder(memory))
    if not backups:
        return ""
    at, file = backups[0]
    day = f"{at:%Y-%m-%d %H:%M} UTC"
    return f"`memwell restore {LATEST}` restores the automatic backup of {day} ({file})"
