"""Copies an agent's index and list of workspaces into another store, without embedding again.

Notes go in batches, in the order of their ids, each batch with its vectors. The copy skips what the
target has already, so that it goes on where it was interrupted. Then it reads every note back and
compares it. The target indexes the words itself. Notes that stand for facts are copied for their
vectors only; the next sync of facts starts from the first revision and brings them up to date.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import TYPE_CHECKING

from memwell.errors import MemwellError
from memwell.progress import Progress
from memwell.store.contract.values import FACT_WORKSPACE, FILLING, RETIRED

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.contract.facts import WorkspaceList
    from memwell.store.contract.index import Index, Reader
    from memwell.store.contract.values import ExportedNote, IndexedFile, Space

AT_ONCE = 200
"""Notes that one transaction writes."""
_Pairs = Sequence[tuple["Space", "Space"]]


@dataclass(slots=True)
class StoreCounts:
    """How much of the source one side has."""

    facts: int
    checksum: str
    workspaces: int = 0
    notes: int = 0
    passages: int = 0
    vectors: int = 0


@dataclass(frozen=True, slots=True)
class IndexCopy:
    """The copy of one index into another."""

    source: Index
    target: Index
    facts: Collection[str]
    """The ids of the facts that were copied; notes of other facts are not copied."""
    there: StoreCounts
    arrived: StoreCounts
    progress: Progress

    def run(self) -> None:
        """Copy the whole index, and count."""
        if not self.source.exists:
            return
        spaces = self._open_spaces()
        files = self._files()
        for batch in self._batches():
            self.target.retrying(partial(self._put, batch, files))
            ids = self._count_arrived(batch)
            for pair in spaces:
                self._put_vectors(*pair, ids)
        self._mark_synced()
        self._close_spaces(spaces)

    # -- notes -------------------------------------------------------------------------------------

    def _batches(self) -> Iterator[list[ExportedNote]]:
        after = done = 0
        with self.source.reading() as reader:
            total = sum(
                reader.notes.counts(key)[0]
                for key in (
                    *(key for key, *_ in reader.notes.workspaces()),
                    *reader.notes.fact_workspaces().values(),
                )
            )
        while True:
            with self.source.reading() as reader:
                batch = reader.listing.export(after, AT_ONCE)
            if not batch:
                return
            yield [note for note in batch if self._is_visible(note)]
            after, done = batch[-1].id, done + len(batch)
            self.progress(done, max(total, done))

    def _is_visible(self, exported: ExportedNote) -> bool:
        return not exported.workspace.startswith(FACT_WORKSPACE) or exported.file.path in self.facts

    def _files(self) -> dict[tuple[str, str], IndexedFile]:
        """Return what the target knows of each file, by workspace and path."""
        with self.target.reading() as reader:
            known = {root: key for key, root, *_ in reader.notes.workspaces()}
            known |= reader.notes.fact_workspaces()
            return {
                (root, path): stamp
                for root, key in known.items()
                for path, stamp in reader.notes.indexed_files(key).items()
            }

    def _put(
        self, batch: Sequence[ExportedNote], files: dict[tuple[str, str], IndexedFile]
    ) -> None:
        """Write those notes of a batch that the target does not have yet."""
        new = [
            exported
            for exported in batch
            if not _is_same(exported, files.get((exported.workspace, exported.file.path)))
        ]
        if not new:
            return
        with self.target.writing() as notes:
            keys = {
                root: notes.workspace(root) for root in {exported.workspace for exported in new}
            }
            for exported in new:
                notes.put(keys[exported.workspace], exported.file, exported.note)
            notes.set_facts_revision([root for root in keys if root.startswith(FACT_WORKSPACE)], 0)

    def _count_arrived(self, batch: Sequence[ExportedNote]) -> dict[int, int]:
        """Compare a batch with the target; return the chunk id there for each of the source's."""
        chunk_ids: dict[int, int] = {}
        with self.target.reading() as reader:
            for exported in batch:
                ours = _read_back(reader, exported)
                same = ours is not None and ours.note.chunks == exported.note.chunks
                if not same and exported.workspace.startswith(FACT_WORKSPACE):
                    continue  # the target has a newer version; the copy of facts reports conflicts
                self.there.notes += 1
                self.there.passages += len(exported.chunk_ids)
                if same and ours:
                    self.arrived.notes += 1
                    self.arrived.passages += len(ours.chunk_ids)
                    chunk_ids |= zip(exported.chunk_ids, ours.chunk_ids, strict=True)
        return chunk_ids

    def _mark_synced(self) -> None:
        """Copy the time of the last sync of each workspace, now that its notes are copied."""
        with self.source.reading() as reader:
            workspaces = reader.notes.workspaces()
        with self.target.writing() as notes:
            known = {root: synced for _, root, _, synced in notes.workspaces()}
            for _, root, folder_id, synced in workspaces:
                key = notes.workspace(root, None if known.get(root) else folder_id)
                if synced and synced > (known.get(root) or ""):
                    notes.mark_synced(key, synced)

    # -- vectors -----------------------------------------------------------------------------------

    def _open_spaces(self) -> _Pairs:
        """Return each space of the source, the live one first, with its space in the target."""
        with self.source.reading() as reader:
            theirs = reader.spaces.all()
        with self.target.writing_spaces() as spaces:
            ours = [spaces.find(space.fingerprint) or spaces.open(space) for space in theirs]
        for space in ours:
            self.target.move_vectors(space)
        with self.target.reading() as reader:
            moved = {space.fingerprint: space for space in reader.spaces.all()}
        return [(space, moved[space.fingerprint]) for space in theirs]

    def _put_vectors(self, theirs: Space, ours: Space, ids: dict[int, int]) -> None:
        """Write the vectors of chunks that have none yet, and compare all of them."""
        with self.source.reading() as reader:
            wanted = {
                ids[key]: matrix for key, matrix in reader.vectors.windows(theirs, [*ids]).items()
            }
            if reader.vectors.problem:
                raise MemwellError(reader.vectors.problem, "Copy again when it can be reached")
        missing = wanted.keys() - self._stored(ours, wanted).keys()
        if missing:
            self.target.put_vectors(ours, [(key, wanted[key]) for key in sorted(missing)])
        held = self._stored(ours, wanted)
        self.there.vectors += len(wanted)
        self.arrived.vectors += sum(
            key in held and held[key].tobytes() == matrix.tobytes()
            for key, matrix in wanted.items()
        )

    def _stored(self, space: Space, chunk_ids: Collection[int]) -> dict[int, Matrix]:
        with self.target.reading() as reader:
            return reader.vectors.windows(space, [*chunk_ids])

    def _close_spaces(self, pairs: _Pairs) -> None:
        """Copy the state of each space, unless the target has a state of its own."""
        for theirs, ours in pairs:
            with self.target.writing_spaces() as spaces:
                mean, deviation = theirs.unrelated_mean, theirs.unrelated_deviation
                if ours.unrelated_mean is None and mean is not None and deviation is not None:
                    spaces.set_baseline(ours, mean, deviation)
                if ours.random_mean is None and spaces.count_waiting(ours) == 0:
                    spaces.mark_complete(ours, theirs.random_mean, theirs.random_deviation)
                if theirs.state == RETIRED and ours.state == FILLING:
                    spaces.retire(ours, theirs.retired_at or theirs.opened_at)
                if theirs.pinned and not any(space.pinned for space in spaces.all()):
                    spaces.pin(ours, theirs.pinned)
            self.target.compact(ours.fingerprint)


def copy_workspaces(
    source: WorkspaceList, target: WorkspaceList, there: StoreCounts, arrived: StoreCounts
) -> None:
    """Copy those workspaces that the target does not list."""
    wanted = source.list_all()
    known = _roots(target)
    for workspace in wanted:
        if workspace.root not in known:
            target.put(workspace)
    there.workspaces += len(wanted)
    arrived.workspaces += len({workspace.root for workspace in wanted} & _roots(target))


def _roots(registry: WorkspaceList) -> set[str]:
    return {workspace.root for workspace in registry.list_all()}


def _read_back(reader: Reader, exported: ExportedNote) -> ExportedNote | None:
    workspace = reader.notes.workspace_id(exported.workspace)
    note_id = reader.notes.note_id(workspace or 0, exported.file.path)
    return None if note_id is None else reader.listing.export(note_id - 1, 1)[0]


def _is_same(exported: ExportedNote, stamp: IndexedFile | None) -> bool:
    """Whether the target has a note already."""
    return stamp is not None and astuple(stamp)[:-1] == astuple(exported.file)
