"""`memwell status` and `memwell doctor`: the state of a memory, and checks with remedies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from memwell import __version__, config
from memwell.errors import CorruptIndexError, MemwellError, NotFoundError
from memwell.facts.comparison import normalised
from memwell.files import printable_path, remedy_for
from memwell.ingest.scan import Selection, scan
from memwell.memory.vectors import VectorIndex
from memwell.reports import Check, Status, WorkspaceStatus
from memwell.store.contract.facts import FactStore, WorkspaceList
from memwell.store.contract.index import Index
from memwell.store.contract.values import Workspace
from memwell.store.sqlite.lineage import find_mismatch, find_mismatches, remedy_for_mismatch
from memwell.store.sqlite.verify import Finding, find_problem, verify

_MOST_NAMES = 5
"""Names in one finding."""


def read_status(
    home: Path,
    agent: str,
    index: Index,
    registry: WorkspaceList,
    vectors: VectorIndex,
    *,
    deep: bool,
) -> Status:
    """Return the state of an index; `deep` also checks every page of it."""
    index.ensure_keyword_index()
    workspaces = registry.list_all()
    with index.reading() as reader:
        known = {root: (key, at) for key, root, _, at in reader.notes.workspaces()}
        words = reader.keywords.problem()
        rows = []
        for workspace in workspaces:
            key, at = known.get(workspace.root, (None, None))
            notes, chunks = reader.notes.counts(key) if key is not None else (0, 0)
            missing = not workspace.is_present
            rows.append(WorkspaceStatus(workspace.root, notes, chunks, at, missing))
    wrong = index.check_integrity() if deep else []
    store = tuple(index.run_checks())
    return Status(
        version=__version__,
        home=str(home),
        agent=agent,
        index=index.location,
        bytes=index.bytes,
        words=words or "ready",
        meaning=vectors.describe(),
        providers=vectors.providers(),
        spaces=vectors.spaces(),
        workspaces=tuple(rows),
        store=store,
        warnings=(*(_sentence(check) for check in store if not check.ok), *wrong),
        deep={"integrity": wrong or "ok"} if deep else {},
    )


def run_checks(
    home: Path,
    index: Index,
    facts: FactStore,
    registry: WorkspaceList,
    vectors: Callable[[], VectorIndex],
    place: Path | None,
    *,
    for_owner: bool,
) -> list[Check]:
    """Run every check; none of them changes anything that a user wrote.

    `vectors` is called late: loading the settings may fail, and that is a finding, too. Only the
    owner of the home sees the backups: their times show when others changed facts.
    """
    return _without_repeats(
        [
            *_report_error("configuration", _check_settings(place, home)),
            *_report_error("home", _check_home(home)),
            *_report_error("facts", _check_facts(index, facts)),
            *_report_error("backups", _check_backups(facts) if for_owner else iter(())),
            *_report_error("store", index.run_checks()),
            *_report_error("index", _check_index(index)),
            *_report_error("vectors", _check_vectors(vectors)),
            *_report_error("workspaces", _check_workspaces(registry)),
        ]
    )


def _without_repeats(checks: Iterable[Check]) -> list[Check]:
    """Leave out failures with the same words: a server that is down fails many checks."""
    reported: set[tuple[str, str]] = set()
    found = []
    for check in checks:
        if check.ok or (check.detail, check.remedy) not in reported:
            found.append(check)
        reported.add((check.detail, check.remedy))
    return found


def _sentence(check: Check) -> str:
    return f"{check.detail}. {check.remedy}" if check.remedy else check.detail


def _report_error(name: str, checks: Iterator[Check]) -> Iterator[Check]:
    """Yield checks; an error ends them with a failed check."""
    try:
        yield from checks
    except MemwellError as error:
        yield Check(name, False, error.what, error.remedy)
    except OSError as error:
        where = f"{printable_path(error.filename)} " if error.filename else ""
        what = f"{where}cannot be read ({error.strerror or error})"
        yield Check(name, False, what, remedy_for(error).capitalize())


def _check_settings(place: Path | None, home: Path) -> Iterator[Check]:
    files = config.config_files(place, os.environ)
    config.load(place, home=home)
    yield Check("configuration", True, ", ".join(map(str, files)) or "defaults")


def _check_home(home: Path) -> Iterator[Check]:
    if not home.exists():
        yield Check("home", True, f"{home} (not created yet)")
        return
    mode = home.stat().st_mode & 0o777
    if not os.access(home, os.W_OK | os.X_OK):
        yield Check("home", False, f"{home} cannot be written", f"chmod u+rwx {home}")
    elif mode & 0o077:
        yield Check("home", False, f"{home} can be read by others ({mode:o})", f"chmod 700 {home}")
    else:
        yield Check("home", True, str(home))


def _check_facts(index: Index, facts: FactStore) -> Iterator[Check]:
    if facts.file is None:  # a server has checks of its own
        return
    file = facts.file.path
    if facts.exists:
        mode = file.stat().st_mode & 0o777
        if mode & 0o400 == 0 or not os.access(file, os.R_OK):
            yield Check("facts", False, f"{file} cannot be read ({mode:03o})", f"chmod 600 {file}")
            return
        if problems := find_problem(file):
            remedy = f"{problems[0].remedy}, or write back what the index has: memwell facts rescue"
            yield Check("facts", False, f"{file}: {problems[0].what}", remedy)
            return
    if mismatch := find_mismatch(index, facts):
        yield Check("facts", False, mismatch, remedy_for_mismatch(facts))
    else:
        yield Check("facts", True, f"{file} is sound" if facts.exists else "none yet")


def _check_backups(facts: FactStore) -> Iterator[Check]:
    for backup in facts.file.list_backups() if facts.file else ():
        if backup.facts is None:
            yield Check("backup", False, f"{backup.file} is damaged", f"rm {backup.file}")
        else:
            yield Check("backup", True, backup.file)


def _check_index(index: Index) -> Iterator[Check]:
    try:
        usable = index.ensure_keyword_index()
        with index.reading() as reader:
            reason = reader.keywords.problem()
        yield Check("words", usable, reason or "ready", "" if usable else "pip install -U apsw")
        wrong = index.check_integrity()
        remedy = "Run `memwell reset`: the next search rebuilds the index from the notes"
        yield Check(
            "index",
            not wrong,
            "; ".join(wrong) or f"{index.location} is sound",
            (wrong and remedy) or "",
        )
    except CorruptIndexError as error:
        yield Check("index", False, error.what, "Any search or `memwell index` rebuilds it")


def _check_vectors(vectors: Callable[[], VectorIndex]) -> Iterator[Check]:
    for provider in vectors().providers():
        yield Check(f"provider {provider.name}", provider.usable, provider.detail)
    for space in vectors().spaces():
        left = space.chunks - space.embedded
        if space.state == "live":
            detail = f"{space.model}, {left} of {space.chunks} passages have no vector yet"
            yield Check("vectors", not left, detail, "memwell index" if left else "")


def _check_workspaces(registry: WorkspaceList) -> Iterator[Check]:
    for workspace in registry.list_all():
        root = workspace.root
        if workspace.is_present:
            yield _check_readable(workspace)
        elif _is_out_of_reach(root):
            what = f"{root} cannot be read"
            remedy = "Check the permissions of this folder and of those above it"
            yield Check("workspace", False, what, remedy)
        else:
            remedy = f"memwell reset --workspace {root}"
            yield Check("workspace", False, f"The folder {root} is missing", remedy)


def _check_readable(workspace: Workspace) -> Check:
    """Check that a workspace, and every folder and note in it, can be read."""
    root, include = workspace.root, workspace.include
    result = scan(Selection(Path(root), workspace.conventional, include))
    shut = [path or root for path in result.unreadable]
    shut += [path for path in result.files if not os.access(os.path.join(root, path), os.R_OK)]
    if not shut:
        return Check("workspace", True, root)
    names = ", ".join(map(printable_path, shut[:_MOST_NAMES]))
    more = f" and {len(shut) - _MOST_NAMES} more" if len(shut) > _MOST_NAMES else ""
    what = f"{root}: {names}{more} cannot be read; the index keeps their last state"
    return Check("workspace", False, what, "Check their permissions")


def _is_out_of_reach(root: str) -> bool:
    """Whether a folder cannot be looked at, so that nobody can say whether it exists."""
    try:
        os.stat(root)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return False


def verify_facts(store: FactStore, file: Path | None) -> list[Finding]:
    """Return the problems in the stored facts, or in a backup."""
    if file and not file.is_file():
        raise NotFoundError(f"There is no file {file}", "Name a file that `backup` wrote")
    if file:
        return verify(file, normalised)
    problems = verify(store.require_file().path, normalised) if store.exists else []
    mismatches = [] if problems else find_mismatches(store)
    remedy = remedy_for_mismatch(store) if mismatches else ""
    return [*problems, *(Finding(mismatch, remedy) for mismatch in mismatches)]
