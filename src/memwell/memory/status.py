"""What `memwell status` tells, and what `memwell doctor` looks at, each with its remedy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from memwell import __version__, config
from memwell.errors import CorruptIndexError, MemwellError
from memwell.memory.vectors import VectorIndex
from memwell.reports import Check, Status, WorkspaceStatus
from memwell.store.contract.facts import WorkspaceList
from memwell.store.contract.index import Index


def read_status(
    home: Path,
    agent: str,
    index: Index,
    registry: WorkspaceList,
    meaning: VectorIndex,
    *,
    deep: bool,
) -> Status:
    """Return what an index holds; `deep` also checks every page of it."""
    index.ensure_keyword_index()
    with index.reading() as reader:
        known = {root: (key, at) for key, root, _, at in reader.notes.workspaces()}
        words = reader.keyword_problem()
        rows = []
        for entry in registry.list_all():
            key, at = known.get(entry.root, (None, None))
            notes, chunks = reader.notes.counts(key) if key is not None else (0, 0)
            rows.append(WorkspaceStatus(entry.root, notes, chunks, at, not entry.path.is_dir()))
    wrong = index.check_integrity() if deep else []
    store = tuple(index.run_checks())
    return Status(
        version=__version__,
        home=str(home),
        agent=agent,
        index=index.location,
        bytes=index.bytes,
        words=words or "ready",
        meaning=meaning.describe(),
        providers=meaning.providers(),
        spaces=meaning.spaces(),
        workspaces=tuple(rows),
        store=store,
        warnings=(*(_sentence(check) for check in store if not check.ok), *wrong),
        deep={"integrity": wrong or "ok"} if deep else {},
    )


def run_checks(
    home: Path,
    index: Index,
    registry: WorkspaceList,
    meaning: Callable[[], VectorIndex],
    place: Path | None,
) -> list[Check]:
    """Run every check, none of which changes anything a user wrote.

    The settings that `meaning` is made from may be those of a workspace, which the store knows.
    """
    return _without_repeats(
        [
            *_check_settings(place),
            *_check_home(home),
            *_check_store(index),
            *_check_index(index),
            *_check_vectors(meaning),
            *_check_workspaces(registry),
        ]
    )


def _without_repeats(checks: Iterable[Check]) -> list[Check]:
    """Leave out what fails in words that were said: a server that is not there fails many."""
    said: set[tuple[str, str]] = set()
    found = []
    for check in checks:
        if check.ok or (check.detail, check.remedy) not in said:
            found.append(check)
        said.add((check.detail, check.remedy))
    return found


def _sentence(check: Check) -> str:
    return f"{check.detail}. {check.remedy}" if check.remedy else check.detail


def _check_settings(place: Path | None) -> Iterator[Check]:
    try:
        files = config.config_files(place, os.environ)
        config.load(place)
        yield Check("configuration", True, ", ".join(map(str, files)) or "defaults")
    except MemwellError as error:
        yield Check("configuration", False, error.what, error.remedy)


def _check_home(home: Path) -> Iterator[Check]:
    if not home.exists():
        yield Check("home", True, f"{home} (not made yet)")
        return
    mode = home.stat().st_mode & 0o777
    if not os.access(home, os.W_OK | os.X_OK):
        yield Check("home", False, f"{home} cannot be written", f"chmod u+rwx {home}")
    elif mode & 0o077:
        yield Check("home", False, f"{home} can be read by others ({mode:o})", f"chmod 700 {home}")
    else:
        yield Check("home", True, str(home))


def _check_store(index: Index) -> Iterator[Check]:
    try:
        yield from index.run_checks()
    except MemwellError as error:
        yield Check("store", False, error.what, error.remedy)


def _check_index(index: Index) -> Iterator[Check]:
    try:
        usable = index.ensure_keyword_index()
        with index.reading() as reader:
            reason = reader.keyword_problem()
        yield Check("words", usable, reason or "ready", "" if usable else "pip install -U apsw")
        wrong = index.check_integrity()
        remedy = "Run `memwell reset`: it is rebuilt from the notes"
        yield Check(
            "index",
            not wrong,
            "; ".join(wrong) or f"{index.location} is sound",
            (wrong and remedy) or "",
        )
    except CorruptIndexError as error:
        yield Check("index", False, error.what, "Any search or `memwell index` rebuilds it")
    except MemwellError as error:
        yield Check("index", False, error.what, error.remedy)


def _check_vectors(meaning: Callable[[], VectorIndex]) -> Iterator[Check]:
    try:
        for provider in meaning().providers():
            yield Check(f"provider {provider.name}", provider.usable, provider.detail)
        for space in meaning().spaces():
            left = space.chunks - space.embedded
            if space.state == "live":
                detail = f"{space.model}, {left} of {space.chunks} passages wait"
                yield Check("vectors", not left, detail, "memwell index" if left else "")
    except MemwellError as error:
        yield Check("vectors", False, error.what, error.remedy)


def _check_workspaces(registry: WorkspaceList) -> Iterator[Check]:
    try:
        entries = registry.list_all()
    except MemwellError as error:
        yield Check("workspaces", False, error.what, error.remedy)
        return
    for entry in entries:
        there = entry.path.is_dir()
        remedy = "" if there else f"memwell reset --workspace {entry.root}"
        yield Check(
            "workspace", there, entry.root if there else f"{entry.root} is not there", remedy
        )
