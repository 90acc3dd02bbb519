"""An agent's index and list of workspaces, copied into another store: nothing is embedded again.

Notes go in batches, in the order of their ids, each batch with its vectors; what is there already
is passed over, so that a copy which was interrupted goes on where it was. What arrived is read back
and compared. Words are indexed by the store that is written. Notes that show facts are copied for
their vectors; that they are shown as they are now is the projection's to see to, which begins anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from memwell.errors import MemwellError
from memwell.progress import Progress
from memwell.store.rows import FACT_WORKSPACE
from memwell.store.sqlite.notes import SourceFile
from memwell.store.sqlite.spaces import FILLING, RETIRED

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.store.browse import ExportedNote
    from memwell.store.contract.facts import WorkspaceList
    from memwell.store.contract.index import Index, Reader
    from memwell.store.contract.vectors import Spaces
    from memwell.store.sqlite.notes import IndexedFile
    from memwell.store.sqlite.spaces import Space

AT_ONCE = 200
"""Notes of a transaction."""
_Pairs = Sequence[tuple["Space", "Space"]]


@dataclass(slots=True)
class Tally:
    """How much there is, or arrived."""

    workspaces: int = 0
    notes: int = 0
    passages: int = 0
    vectors: int = 0


@dataclass(frozen=True, slots=True)
class IndexCopy:
    """An index that is copied into another."""

    source: Index
    target: Index
    facts: Collection[str]
    """The ids of the facts that were copied: of others nothing may be shown."""
    there: Tally
    arrived: Tally
    progress: Progress

    def run(self) -> None:
        """Copy all of it, and count."""
        if not self.source.exists:
            return
        spaces = self._open_spaces()
        stamps = self._stamps()
        for batch in self._batches():
            self.target.retrying(partial(self._put, batch, stamps))
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

    def _is_visible(self, whole: ExportedNote) -> bool:
        return not whole.workspace.startswith(FACT_WORKSPACE) or whole.file.path in self.facts

    def _stamps(self) -> dict[tuple[str, str], IndexedFile]:
        """Return what the target knows of each note, by workspace and path."""
        with self.target.reading() as reader:
            known = {root: key for key, root, *_ in reader.notes.workspaces()}
            known |= reader.notes.fact_workspaces()
            return {
                (root, path): stamp
                for root, key in known.items()
                for path, stamp in reader.notes.indexed_files(key).items()
            }

    def _put(
        self, batch: Sequence[ExportedNote], stamps: dict[tuple[str, str], IndexedFile]
    ) -> None:
        """Write the notes of a batch that are not there yet."""
        new = [
            one for one in batch if not _is_same(one, stamps.get((one.workspace, one.file.path)))
        ]
        if not new:
            return
        with self.target.writing() as notes:
            keys = {root: notes.workspace(root) for root in {one.workspace for one in new}}
            for one in new:
                notes.put(keys[one.workspace], one.file, one.note)
            notes.set_facts_revision([root for root in keys if root.startswith(FACT_WORKSPACE)], 0)

    def _count_arrived(self, batch: Sequence[ExportedNote]) -> dict[int, int]:
        """Compare a batch with what arrived; return the target's chunk for each of the source's."""
        found: dict[int, int] = {}
        with self.target.reading() as reader:
            for one in batch:
                ours = _read_back(reader, one)
                same = ours is not None and ours.note.chunks == one.note.chunks
                if not same and one.workspace.startswith(FACT_WORKSPACE):
                    continue  # shown as it is by now; whether it arrived is the facts' to say
                self.there.notes += 1
                self.there.passages += len(one.chunk_ids)
                if same and ours:
                    self.arrived.notes += 1
                    self.arrived.passages += len(ours.chunk_ids)
                    found |= zip(one.chunk_ids, ours.chunk_ids, strict=True)
        return found

    def _mark_synced(self) -> None:
        """Carry over when each workspace was up to date, now that its notes are there."""
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
        """Return each space of the source, the live one first, with that of the target."""
        with self.source.reading() as reader:
            theirs = reader.spaces.all()
        with self.target.writing_spaces() as spaces:
            ours = [
                spaces.find(space.fingerprint) or _open_space(spaces, space) for space in theirs
            ]
        for space in ours:
            self.target.move_vectors(space)
        with self.target.reading() as reader:
            settled = {space.fingerprint: space for space in reader.spaces.all()}
        return [(space, settled[space.fingerprint]) for space in theirs]

    def _put_vectors(self, theirs: Space, ours: Space, ids: dict[int, int]) -> None:
        """Write the vectors of chunks that have none yet, and compare them all."""
        with self.source.reading() as reader:
            wanted = {ids[key]: matrix for key, matrix in reader.windows(theirs, [*ids]).items()}
            if reader.vector_problem:
                raise MemwellError(reader.vector_problem, "Copy again when it can be asked")
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
            return reader.windows(space, [*chunk_ids])

    def _close_spaces(self, pairs: _Pairs) -> None:
        """Carry over what is known of spaces, where the target does not know better."""
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
    source: WorkspaceList, target: WorkspaceList, there: Tally, arrived: Tally
) -> None:
    """Copy the list of workspaces: those that the target does not list."""
    wanted = source.list_all()
    known = _roots(target)
    for entry in wanted:
        if entry.root not in known:
            target.put(entry)
    there.workspaces += len(wanted)
    arrived.workspaces += len({entry.root for entry in wanted} & _roots(target))


def _roots(registry: WorkspaceList) -> set[str]:
    return {entry.root for entry in registry.list_all()}


def _read_back(reader: Reader, whole: ExportedNote) -> ExportedNote | None:
    workspace = reader.notes.workspace_id(whole.workspace)
    note_id = reader.notes.note_id(workspace or 0, whole.file.path)
    return None if note_id is None else reader.listing.export(note_id - 1, 1)[0]


def _is_same(whole: ExportedNote, stamp: IndexedFile | None) -> bool:
    """Whether a note is there already."""
    return (
        stamp is not None
        and SourceFile(
            whole.file.path, stamp.size, stamp.mtime_ns, stamp.read_ns, stamp.hash, stamp.recipe
        )
        == whole.file
    )


def _open_space(spaces: Spaces, space: Space) -> Space:
    return spaces.open(
        space.fingerprint,
        space.provider,
        space.model,
        space.dimensions,
        space.made_from,
        space.opened_at,
    )
