"""Every error memwell raises on purpose.

MemwellError                    anything that went wrong; the message ends with the remedy
├── ConfigError                 a setting, or the file it stands in, cannot be used
├── NotFoundError               a folder, note or passage that was named does not exist
├── KeywordSearchUnavailable    this index has no keyword search (handled inside: vectors answer)
├── HomeError                   the home folder cannot be read or written
│   └── DiskFullError           there is no room left for the index
└── IndexDatabaseError          the index cannot be used as it is
    ├── NewerIndexError         it was written by a newer memwell
    ├── ReadOnlyError           it can be read, but not written
    └── CorruptIndexError       it is damaged (handled inside: set aside and rebuilt)
"""

from __future__ import annotations


class MemwellError(Exception):
    """Base of all errors raised on purpose: `what` went wrong and the `remedy`."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(f"{what}. {remedy}" if remedy else what)
        self.what = what
        self.remedy = remedy


class ConfigError(MemwellError):
    """A setting, or the file it stands in, cannot be used."""


class NotFoundError(MemwellError):
    """A folder, note or passage that was named does not exist."""


class KeywordSearchUnavailable(MemwellError):
    """SQLite has no FTS5, or the tables of the keyword index are broken; `what` is the reason."""


class HomeError(MemwellError):
    """The home folder cannot be read or written."""


class DiskFullError(HomeError):
    """There is no room left for the index."""


class IndexDatabaseError(MemwellError):
    """The index cannot be used as it is."""


class NewerIndexError(IndexDatabaseError):
    """The index was written by a newer memwell."""


class ReadOnlyError(IndexDatabaseError):
    """The index can only be read: its server follows another one, say."""


class CorruptIndexError(IndexDatabaseError):
    """The index is damaged; `Memory` sets it aside and rebuilds it."""


UNWRITABLE = (HomeError, ReadOnlyError)
"""What is raised where nothing can be written; much can still be read then."""
