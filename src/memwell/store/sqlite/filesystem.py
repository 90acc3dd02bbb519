"""Whether a write-ahead log is safe in a folder."""

from __future__ import annotations

import os
from pathlib import Path

from memwell.platform.mounts import network_kind

_SYNCED = {
    "dropbox": "Dropbox",
    "onedrive": "OneDrive",
    "google drive": "Google Drive",
    "googledrive": "Google Drive",
    "my drive": "Google Drive",
    "mobile documents": "iCloud Drive",
    "nextcloud": "Nextcloud",
    "owncloud": "ownCloud",
    "syncthing": "Syncthing",
}


def unsafe_for_wal(folder: Path, mounts: Path = Path("/proc/mounts")) -> str | None:
    """Return the kind of network or synced folder that `folder` is in; None if it is safe.

    The log needs memory shared between processes, which a network file system does not give. A
    synchroniser copies file and log at different moments. Both damage an index.
    """
    kind = network_kind(folder, mounts=mounts)
    return _synced(folder) or (f"a network file system ({kind})" if kind else None)


def _synced(folder: Path) -> str | None:
    for part in folder.parts:
        for mark, name in _SYNCED.items():
            if part.lower() == mark or part.lower().startswith((f"{mark} ", f"{mark}-")):
                return f"a folder synced by {name}"
    # Path.exists would raise an error for a folder above that this user cannot read.
    if any(os.path.exists(parent / ".stfolder") for parent in (folder, *folder.parents)):
        return "a folder synced by Syncthing"
    return None
