"""The memory that a process may use."""

from __future__ import annotations

from memwell.platform import CURRENT, WINDOWS


def limit_memory(most_bytes: int, *, on: str = CURRENT) -> bool:
    """Limit the memory of this process; return whether the system does so.

    Windows has no such limit in Python, and macOS refuses some.
    """
    if on == WINDOWS:
        return False
    import resource

    try:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = most_bytes if hard == resource.RLIM_INFINITY else min(most_bytes, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    except (ValueError, OSError):
        return False
    return True
