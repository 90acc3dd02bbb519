"""Files that killed processes leave in the home, and descriptors that a server keeps."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path

import pytest

from memwell import Memory


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads the descriptors in /proc")
def test_erasures_at_once_keep_few_descriptors(workspace: Path) -> None:
    """SQLite keeps the descriptor of a closed connection while another one is open."""
    together = 16
    with Memory() as memory:
        facts = [memory.remember(f"Lamp {n} stands here.").fact.id for n in range(together)]
        memory.index(workspace)
        memory.search("lamp")
        threads = [threading.Thread(target=memory.forget, args=(fact,)) for fact in facts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        open_files = Counter(os.path.basename(name) for name in _open_files())
    assert open_files["index.db"] - open_files["index.db-wal"] <= 4


def _open_files() -> list[str]:
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return [os.readlink(link) for link in links if os.path.lexists(link)]
