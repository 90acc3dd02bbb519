"""What an index is: the verbs that search and sync ask of it, whichever store answers.

SQLite's classes have the same names, PostgreSQL's are in postgres/; vector spaces:
spaces_contract.py, facts: facts_contract.py.
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
    from memwell.store.browse import ExportedNote, ListedNote, MapPoint
    from memwell.store.contract.query import Filters, Match, Neighbours, Word, WordQuery
    from memwell.store.contract.vectors import Cooldowns, Spaces, Take, VectorCache
    from memwell.store.sqlite.notes import IndexedFile, SourceFile
    from memwell.store.sqlite.spaces import Space
    from memwell.store.vectors.snapshot import Array

T = TypeVar("T")
WAIT_MS = 60_000
"""How long a writer waits for another; a batch of 200 notes takes well under a second."""


class Vocabulary(Protocol):
    """The vocabulary of one state of an index."""

    @property
    def total(self) -> int:
        """How many chunks there are."""

    def tokens(self, text: str) -> list[tuple[str, str]]:
        """Return each token of `text` as the index sees it, beside the letters it came from."""

    def document_frequency(self, token: str) -> int:
        """Return how many chunks hold a token; of a very common one, about how many."""

    def prefix_frequency(self, start: str) -> int:
        """Return about how many chunks hold a token that begins with `start`."""

    def occurs(self, expression: str) -> bool:
        """Whether any chunk matches an expression (see expressions.py)."""


class Notes(Protocol):
    """Rows of workspaces, notes and chunks."""

    def workspace(self, root: str, folder_id: str | None = None) -> int:
        """Return the id of the workspace at `root`, made if it is new."""

    def workspace_id(self, root: str) -> int | None:
        """Return the id of the workspace at `root`, or None."""

    def workspaces(self) -> list[tuple[int, str, str | None, str | None]]:
        """Return id, root, folder id and time of the last sync of every workspace of notes."""

    def fact_workspaces(self) -> dict[str, int]:
        """Return the ids of the workspaces that hold facts, by their names."""

    def move_workspace(self, workspace_id: int, root: str) -> None:
        """Record that a workspace's folder now lies elsewhere."""

    def remove_workspace(self, workspace_id: int) -> None:
        """Forget a workspace with all its notes."""

    def mark_synced(self, workspace_id: int, at: str) -> None:
        """Record that a workspace is up to date, and put the statistics in order."""

    def facts_revision(self, root: str) -> int:
        """Return up to which revision the facts of a workspace are as they are."""

    def set_facts_revision(self, roots: Iterable[str], revision: int) -> None:
        """Record up to which revision the facts of workspaces are as they are."""

    def find_facts(self, ids: Iterable[str]) -> list[tuple[int, str, str]]:
        """Return note id, fact id and workspace of facts, wherever they are shown."""

    def secure_delete(self) -> None:
        """Let nothing stay of what is deleted from now on."""

    def counts(self, workspace_id: int) -> tuple[int, int]:
        """Return how many notes and chunks a workspace has."""

    def indexed_files(self, workspace_id: int) -> dict[str, IndexedFile]:
        """Return the stamp of every note of a workspace, by path."""

    def restamp(self, files: Iterable[tuple[int, SourceFile]]) -> None:
        """Record that notes were looked at again and are the same."""

    def put(
        self, workspace_id: int, file: SourceFile, note: Note, *, moved_from: int | None = None
    ) -> tuple[int, int]:
        """Write a note whole, over what stood at its path; return its id, and how many new chunks.

        With `moved_from` it takes over the row (and chunks) of a note that lay elsewhere.
        """

    def delete(self, note_ids: Sequence[int]) -> None:
        """Remove notes with everything that hangs on them."""

    def workspace_root(self, chunk_id: int) -> str:
        """Return the workspace that a chunk is in."""

    def note_id(self, workspace_id: int, path: str) -> int | None:
        """Return the id of a note, if it is in the index."""

    def chunk_ids(self, note_id: int) -> list[int]:
        """Return the ids of a note's chunks, in order."""


class NoteListing(Protocol):
    """What there is in some workspaces, listed."""

    def notes(self, roots: Sequence[str], path: str | None) -> list[ListedNote]:
        """Return the notes (of a path), the newest first, those without a date last."""

    def chunks(self, roots: Sequence[str], path: str, workspace: str) -> list[Chunk]:
        """Return the passages of a note, in order."""

    def sample_with_vectors(
        self, roots: Sequence[str], space: Space, step: int
    ) -> list[tuple[MapPoint, bytes]]:
        """Return one in `step` passages, each with its vector as little-endian float32."""

    def export(self, after: int, limit: int) -> list[ExportedNote]:
        """Return notes of every workspace with all that is known of them, by id, after one."""


class Reader(Protocol):
    """One unchanging state of an index: what a search sees."""

    @property
    def notes(self) -> Notes:
        """The notes."""

    @property
    def listing(self) -> NoteListing:
        """What there is, listed."""

    @property
    def spaces(self) -> Spaces:
        """The vector spaces."""

    @property
    def cooldowns(self) -> Cooldowns:
        """The providers that are left alone."""

    @property
    def total(self) -> int:
        """How many chunks there are."""

    @property
    def vector_problem(self) -> str:
        """Why what keeps the vectors could not be asked, if it could not."""

    def keyword_problem(self) -> str:
        """Return why words cannot be searched, or "" if they can."""

    def search_keywords(self, query: WordQuery, limit: int) -> list[Match]:
        """Return the keyword leg's best matches; `WordsUnavailable` if it is broken."""

    def word_scores(self, query: WordQuery, chunk_ids: Sequence[int]) -> dict[int, float]:
        """Return what the keyword leg says of some chunks."""

    def ideal_word_score(self, query: WordQuery) -> float:
        """Return about what a chunk of average length scores that holds every word that ranks."""

    def nearest(
        self, space: Space, vector: Array, query: WordQuery, limit: int, *, words: bool = True
    ) -> list[Match]:
        """Return the chunks nearest to a vector, best first, of those that a query allows.

        Without `words` only its filters count, not what must or must not be in a chunk.
        """

    def cosines(self, space: Space, vector: Array, chunk_ids: Sequence[int]) -> dict[int, float]:
        """Return what the meaning leg says of some chunks."""

    def vectors(self, space: Space, chunk_ids: Sequence[int]) -> dict[int, Array]:
        """Return the first vector of each chunk that has one."""

    def windows(self, space: Space, chunk_ids: Sequence[int]) -> dict[int, Matrix]:
        """Return all vectors of each chunk that was embedded; none where the model read nothing."""

    def some_vectors(self, space: Space, most: int) -> list[tuple[int, bytes]]:
        """Return vectors spread evenly over a space, each with its note."""

    def neighbours(self, chunk_ids: Sequence[int], shorter_than: float) -> dict[int, Neighbours]:
        """Return the neighbours of those chunks that are short, with them, on average."""

    def note_dates(self, chunk_ids: Sequence[int]) -> dict[int, tuple[str, str | None]]:
        """Return the path and the date of each chunk's note."""

    def context(self, chunk_id: int, whole_section: bool) -> Context:
        """Return a chunk with those beside it, or with all of its section."""

    def has_allowed(self, filters: Filters, chunk_ids: Sequence[int]) -> bool:
        """Whether filters let any of some chunks through."""

    def has_matching(self, query: WordQuery, chunk_ids: Sequence[int]) -> bool:
        """Whether any of some chunks holds what must match and nothing that must not."""

    def list_chunks(self, filters: Filters, limit: int) -> list[int]:
        """Return the chunks that filters alone ask for, newest notes first."""

    def hits(self, matches: Sequence[tuple[int, float]]) -> Iterator[Hit]:
        """Turn chunk ids with their relevance into hits."""

    def tokens(self, text: str) -> list[tuple[str, str]]:
        """Return each token of `text` as the index sees it, beside the letters it came from."""

    def document_frequency(self, token: str) -> int:
        """Return how many chunks hold a token."""

    def unknown_words(self, words: Iterable[Word]) -> list[str]:
        """Return those words that no chunk holds."""

    def vocabulary(self, shortest: int, longest: int) -> Iterator[tuple[str, int]]:
        """Yield the tokens of a length, each with how many chunks hold it."""

    def surface_form(self, token: str, like: str, filters: Filters) -> str | None:
        """Return a word that a stem stands for; None if no note holds it that may be looked at."""


class Index(Protocol):
    """One agent's notes, chunks, words and vectors."""

    @property
    def path(self) -> Path:
        """The file; of a store that is none, where it would be: other files lie beside it."""

    @property
    def exists(self) -> bool:
        """Whether anything can have been indexed yet."""

    def for_viewer(self, viewer: Viewer) -> Index:
        """Return the same index as a viewer reads it: a store may keep facts back itself."""

    @property
    def location(self) -> str:
        """Where it is, as people are told."""

    @property
    def shared(self) -> bool:
        """Whether other machines write it, too, of whose folders nothing is known here."""

    @property
    def bytes(self) -> int:
        """How much room it takes."""

    def writing(self, wait_ms: int = WAIT_MS) -> AbstractContextManager[Notes]:
        """Lend the notes for writing, inside one transaction."""

    def reading(self) -> AbstractContextManager[Reader]:
        """Lend one unchanging state of the index."""

    def writing_spaces(self, wait_ms: int = WAIT_MS) -> AbstractContextManager[Spaces]:
        """Lend the vector spaces for writing, inside one transaction."""

    def writing_cooldowns(self, wait_ms: int = WAIT_MS) -> AbstractContextManager[Cooldowns]:
        """Lend the list of providers that are left alone for writing."""

    def leasing(self) -> AbstractContextManager[Take | None]:
        """Lend what hands out the chunks that wait; None where another process has it."""

    def cache(self, most_bytes: int) -> VectorCache:
        """Return the vectors by text that are kept beside it."""

    def move_vectors(self, space: Space) -> None:
        """Bring the vectors of a space to where the settings want them."""

    def put_vectors(self, space: Space, windows: Iterable[tuple[int, Matrix]]) -> None:
        """Store the vectors of chunks; a chunk that was deleted meanwhile is passed over."""

    def compact(self, fingerprint: str, *, even_if_little_changed: bool = False) -> None:
        """Put the vectors of a space in order for searching, where enough has changed."""

    def drop_space(self, space: Space) -> None:
        """Delete a space with its vectors."""

    def ensure_keyword_index(self) -> bool:
        """Build the keyword index where it is missing or old; return whether it can be had."""

    def rebuild_keyword_index(self) -> None:
        """Throw the keyword index away and build it again from the chunks."""

    def scrub(self) -> bool:
        """Let nothing of what was deleted stay; False while a reader still holds it."""

    def check_integrity(self) -> list[str]:
        """Look at all of it; return what is wrong."""

    def run_checks(self) -> Iterator[Check]:
        """Look at what keeps it: its version, what it lacks, what every `status` should mention."""

    def quarantine(self) -> Path | None:
        """Put a damaged file out of the way and return its new name."""

    def delete(self) -> None:
        """Delete all of it; it comes back from the notes."""

    def retrying(self, operation: Callable[[], T]) -> T:
        """Run an operation, and again where a server interrupted it."""

    def close(self) -> None:
        """Let go of every connection."""
