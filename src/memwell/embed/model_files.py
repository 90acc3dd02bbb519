"""Model files: a fingerprint of their contents, and atomic writes."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_MEGABYTE = 1 << 20


def content_fingerprint(files: Iterable[Path]) -> str:
    """Return a digest of files; a large file counts with its length, its beginning and its end."""
    digest = hashlib.sha256()
    for file in files:
        size = file.stat().st_size
        with file.open("rb") as opened:
            digest.update(f"{size}\n".encode())
            digest.update(opened.read(_MEGABYTE))
            opened.seek(max(0, size - _MEGABYTE))
            digest.update(opened.read(_MEGABYTE))
    return digest.hexdigest()[:16]


@contextmanager
def atomic_write(file: Path) -> Iterator[Path]:
    """Yield a temporary path to write to, and rename it to `file` when it is complete."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=file.parent, suffix=file.suffix)
    os.close(handle)
    try:
        yield Path(name)
        os.replace(name, file)
    finally:
        Path(name).unlink(missing_ok=True)
