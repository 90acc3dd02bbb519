"""Forgetting: the text itself goes, from every file of the home.

From memory.db and its log, from the keyword index, the vectors and their mapped copy, and the
cache of vectors. Where another process still reads the log it is *pending*: the log goes as soon
as nobody holds it. Backups are the owner's: those that lie beside the memory are named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memwell.facts.hyde import ANSWERS
from memwell.facts.keeping import Keeper
from memwell.store.index import Index

if TYPE_CHECKING:
    from memwell.store.cache import VectorCache


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was removed, and where something of it may still be."""

    count: int
    pending: bool = False
    """Whether a process that is still reading keeps the last of it from going."""
    backups: tuple[str, ...] = ()
    """Copies of the memory that were made before, and are left alone."""


def forget(
    ids: Sequence[str], keeper: Keeper, index: Index, follow: Callable[[], None],
    cache: VectorCache,
) -> Forgotten:  # fmt: skip
    """Remove facts and every trace of their texts; `follow` brings the index in step."""
    gone = keeper.forget(ids)
    follow()
    cache.forget(fact.text for fact in gone)
    clean = [index.scrub(), keeper.store.database.scrub()]
    home = keeper.store.database.path.parent
    for answers in home.glob(f"agents/*/{ANSWERS}"):  # they may say the same
        answers.unlink(missing_ok=True)
    return Forgotten(len(gone), not all(clean), tuple(map(str, _copies(home))))


def _copies(home: Path) -> list[Path]:
    return sorted([*home.glob("memory.db.*"), *home.glob("agents/*/index.db.corrupt-*")])
