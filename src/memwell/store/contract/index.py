"""The contract of an index: one agent's notes, chunks, keyword index and vectors.

Search, sync and embedding use only these protocols. Vector spaces, cooldowns and the vector cache
are in vectors.py, facts and the list of workspaces in facts.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from memwell.embed.base import Matrix
    from memwell.model import Chunk, Context, Hit, Note, Viewer
    from memwell.reports import Check
    from memwell.store.contract.query import Filters, Match, Neighbours, Place, Word, WordQuery
    from memwell.store.contract.values import (
        Array,
        ExportedNote,
        IndexedFile,
        LinkedNote,
        ListedNote,
        MapPoint,
        SourceFile,
        Space,
    )
    from memwell.store.contract.vectors import Cooldowns, Spaces, Take, VectorCache
    from memwell.store.words.tree import Condition

T = TypeVar("T")
WAIT_MS = 60_000
"""How long a writer waits for another; a batch of 200 notes takes well under a second."""


class Vocabulary(Protocol):
    """The vocabulary of one state of an index."""

    @property
    def total(self) -> int:
        """The number of chunks in the index."""

    def tokens(self, text: str) -> list[tuple[str, str]]:
        """Return each token of `text` as the index has it, with the letters it came from."""

    def document_frequency(self, token: str) -> int:
        """Return how many chunks contain a token; for a very common one, an estimate."""

    def prefix_frequency(self, start: str) -> int:
        """Return an estimate of how many chunks contain a token that begins with `start`."""

    def occurs(self, condition: Condition) -> bool:
        """Whether any chunk meets a condition."""


class Notes(Protocol):
    """Rows of workspaces, notes and chunks. A note is always whole: one transaction writes it.

    A chunk whose text and headings did not change keeps its id, and with it its vectors. The text
    of a fact that is deleted or replaced is overwritten, so that nothing of it stays.
    """

    def workspace(self, root: str, folder_id: str | None = None) -> int:
        """Return the id of the workspace at `root`; insert the workspace if it is new."""

    def workspace_id(self, root: str) -> int | None:
        """Return the id of the workspace at `root`, or None."""

    def workspaces(self) -> list[tuple[int, str, str | None, str | None]]:
        """Return id, root, folder id and time of the last sync of every workspace of notes."""

    def fact_workspaces(self) -> dict[str, int]:
        """Return the ids of the workspaces that hold facts, by name."""

    def move_workspace(self, workspace_id: int, root: str) -> None:
        """Record that the folder of a workspace was moved to `root`."""

    def remove_workspace(self, workspace_id: int) -> None:
        """Delete a workspace with all its notes."""

    def mark_synced(self, workspace_id: int, at: str) -> None:
        """Record that a workspace was in sync with its files at a time."""

    def facts_revision(self, root: str) -> int:
        """Return the fact revision that a workspace of facts was last synced to."""

    def set_facts_revision(self, roots: Iterable[str], revision: int) -> None:
        """Record the fact revision that workspaces of facts are synced to."""

    def get_mark(self, key: str) -> str:
        """Return what `set_mark` recorded; "" if nothing was."""
        return ""

    def set_mark(self, key: str, value: str) -> None:
        """Record a value about the index as a whole; only an index in files keeps it."""
        return

    def find_facts(self, ids: Iterable[str]) -> list[tuple[int, str, str]]:
        """Return note id, fact id and workspace of each note that stands for one of the facts."""

    def counts(self, workspace_id: int) -> tuple[int, int]:
        """Return how many notes and chunks a workspace has."""

    def indexed_files(self, workspace_id: int) -> dict[str, IndexedFile]:
        """Return what the index knows of each file of a workspace, by path."""

    def restamp(self, files: Iterable[tuple[int, SourceFile]]) -> None:
        """Record that files were read again and their notes had not changed."""

    def put(
        self, workspace_id: int, file: SourceFile, note: Note, *, moved_from: int | None = None
    ) -> tuple[int, int]:
        """Write a whole note in place of the one at its path; return its id and the new chunks.

        With `moved_from` it takes over the row and the chunks of a note at another path.
        """

    def delete(self, note_ids: Sequence[int]) -> None:
        """Delete notes with their chunks, words and vectors."""

    def note_id(self, workspace_id: int, path: str) -> int | None:
        """Return the id of a note, if it is in the index."""

    def chunk_ids(self, note_id: int) -> list[int]:
        """Return the ids of a note's chunks, in order."""


class NoteListing(Protocol):
    """Lists of what the index contains, for those who browse instead of searching."""

    def notes(self, roots: Sequence[str], path: str | None) -> list[ListedNote]:
        """Return the notes of workspaces (at one path), newest first, undated ones last."""

    def chunks(self, roots: Sequence[str], path: str, workspace: str) -> list[Chunk]:
        """Return the chunks of a note, in order."""

    def linked_notes(self, roots: Sequence[str]) -> list[LinkedNote]:
        """Return every note of workspaces with its names and links."""

    def sample_with_vectors(
        self, roots: Sequence[str], space: Space, step: int
    ) -> list[tuple[MapPoint, bytes]]:
        """Return one in `step` chunks, each with its vector as little-endian float32."""

    def export(self, after: int, limit: int) -> list[ExportedNote]:
        """Return whole notes of every workspace, ordered by id, after the id `after`."""


class Keywords(Vocabulary, Protocol):
    """The keyword index of one state: its vocabulary, and the search for words."""

    def problem(self) -> str:
        """Return why words cannot be searched, or "" if they can."""

    def search(self, query: WordQuery, limit: int) -> list[Match]:
        """Return the best matches of a keyword search.

        Raises `KeywordSearchUnavailable` if the keyword index is damaged.
        """

    def scores(self, query: WordQuery, chunk_ids: Sequence[int]) -> dict[int, Match]:
        """Return those of the chunks that match, as `search` would return them, by id."""

    def ideal_score(self, query: WordQuery) -> float:
        """Return the score of a chunk of average length that contains every ranking word once."""

    def has_matching(self, query: WordQuery, chunk_ids: Sequence[int]) -> bool:
        """Whether any of the chunks satisfies the required and excluded words of a query."""

    def unknown_words(self, words: Iterable[Word]) -> list[str]:
        """Return those of the words that no chunk contains."""

    def vocabulary(self, shortest: int, longest: int) -> Iterator[str]:
        """Yield the tokens of a length; those that the viewer cannot see have the frequency 0."""

    def surface_form(self, token: str, like: str, filters: Filters) -> str | None:
        """Return a word of the notes that has the stem `token`, in the case of `like`.

        None if no note that the filters allow contains such a word.
        """


class Vectors(Protocol):
    """The vectors of one state of an index, searched and read."""

    problem: str
    """Why the vectors could not be searched or read, or "" if they could."""

    def nearest(
        self, space: Space, vector: Array, query: WordQuery, limit: int, *, words: bool = True
    ) -> list[Match]:
        """Return the chunks nearest to a vector, best first, among those that a query allows.

        Without `words` only the filters of the query restrict the chunks, not its words.
        """

    def cosines(self, space: Space, vector: Array, chunk_ids: Sequence[int]) -> dict[int, float]:
        """Return the cosine of each chunk that has a vector: that of its best window."""

    def first_windows(self, space: Space, chunk_ids: Sequence[int]) -> dict[int, Array]:
        """Return the vector of the first window of each chunk that has one."""

    def windows(self, space: Space, chunk_ids: Sequence[int]) -> dict[int, Matrix]:
        """Return all vectors of each embedded chunk; an empty matrix if the model read nothing."""

    def has_unusable_copy(self, space: Space) -> bool:
        """Whether searches are slow until `Index.compact` has replaced a file."""
        return False

    def sample(self, space: Space, most: int) -> list[tuple[int, bytes]]:
        """Return at most `most` vectors of notes, spread evenly, each with its note id."""


class Chunks(Protocol):
    """The chunks of one state of an index, as a search shows them."""

    def neighbours(self, chunk_ids: Sequence[int], shorter_than: float) -> dict[int, Neighbours]:
        """Return the neighbours of each chunk that is short, on average with its neighbours."""

    def places(self, chunk_ids: Sequence[int]) -> dict[int, Place]:
        """Return the path and the date of each chunk's note, and its number in the note."""

    def context(self, chunk_id: int, whole_section: bool) -> Context:
        """Return a chunk joined with its neighbours, or with its whole section."""

    def has_allowed(self, filters: Filters, chunk_ids: Sequence[int]) -> bool:
        """Whether filters allow any of the chunks."""

    def list_filtered(self, filters: Filters, limit: int) -> list[int]:
        """Return the chunks that a query without words selects by its filters, newest first."""

    def hits(self, matches: Sequence[tuple[int, float]]) -> Iterator[Hit]:
        """Return a hit for each chunk id and relevance, in the order given."""


class Reader(Protocol):
    """One unchanging state of an index: a search sees nothing else."""

    notes: Notes
    """The rows of workspaces and notes; only their methods that read may be called."""
    chunks: Chunks
    keywords: Keywords
    vectors: Vectors
    """The vectors of all spaces."""
    spaces: Spaces
    cooldowns: Cooldowns
    listing: NoteListing


class Index(Protocol):
    """One agent's notes, chunks, words and vectors."""

    location: str
    """The file or server, as messages name it; never with a password."""
    shared: bool
    """Whether other machines write to it, whose folders cannot be seen from here."""

    @property
    def exists(self) -> bool:
        """Whether anything can have been indexed yet."""

    @property
    def bytes(self) -> int:
        """The size of the index; for a viewer, of the texts and vectors that they see."""

    def for_viewer(self, viewer: Viewer) -> Index:
        """Return the same index; a store may hide the facts that the viewer must not see."""
        return self

    def writing(self, wait_ms: int = WAIT_MS) -> AbstractContextManager[Notes]:
        """Yield the notes for writing, inside one transaction."""

    def reading(self) -> AbstractContextManager[Reader]:
        """Yield one unchanging state of the index."""

    def reading_beside(self, notes: Notes) -> AbstractContextManager[Reader]:
        """Yield a state while the notes are open for writing.

        A server reads it in the transaction that writes, by the same connection.
        """
        return self.reading()

    def writing_spaces(self) -> AbstractContextManager[Spaces]:
        """Yield the vector spaces for writing, inside one transaction."""

    def writing_cooldowns(self, wait_ms: int = WAIT_MS) -> AbstractContextManager[Cooldowns]:
        """Yield the cooldowns of providers for writing, inside one transaction."""

    def leasing(self) -> AbstractContextManager[Take | None]:
        """Yield the function that leases waiting chunks; None if another process has it."""

    def cache(self, most_bytes: int) -> VectorCache:
        """Return the vector cache of the agent, bounded to a size."""

    def put_vectors(self, space: Space, windows: Iterable[tuple[int, Matrix]]) -> None:
        """Store the vectors of chunks; chunks that were deleted meanwhile are skipped."""

    def drop_space(self, space: Space) -> None:
        """Delete a space with all its vectors."""

    def ensure_keyword_index(self) -> bool:
        """Build the keyword index if it is missing or outdated; return whether it is usable."""

    def rebuild_keyword_index(self) -> None:
        """Delete the keyword index and build it again from the chunks."""

    def check_integrity(self) -> list[str]:
        """Check the whole index; return the problems."""

    def run_checks(self) -> Iterator[Check]:
        """Check the engine itself: its version, what it lacks, warnings for `status`."""

    def delete(self) -> None:
        """Delete the index; a sync rebuilds it from the notes."""

    def retrying(self, operation: Callable[[], T]) -> T:
        """Run an operation; a server that interrupts it runs it again."""
        return operation()

    def close(self) -> None:
        """Close every connection."""

    # -- only an index in files needs this: a server does it by itself ---------------------------

    def move_vectors(self, space: Space) -> None:
        """Move the vectors of a space to the backend that the settings name."""
        return

    def compact(self, fingerprint: str, *, even_if_little_changed: bool = False) -> None:
        """Write the vectors of a space in the form that searches fast, if enough has changed."""
        return

    def scrub(self) -> bool:
        """Overwrite all deleted texts and vectors; False while a reader still sees them."""
        return True

    def erase_deleted(self, *, quickly: bool = False) -> None:
        """Remove what is left of deleted notes, if the index is small enough to do it at once.

        With `quickly`, a search waits for it, and the index has to be smaller.
        """
        return

    def quarantine(self) -> Path | None:
        """Rename a damaged file; return its new name, or None if another process did it."""
        return None
