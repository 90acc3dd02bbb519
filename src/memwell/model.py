"""The values of the domain: notes and chunks, hits and search results, facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

POSITIONS = "memwell:positions"
"""The key in `Note.meta` of a converted document: at which line each page or cell begins."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of a note.

    `text` is an exact part of the note. Its first `overlap` characters are also the end of the
    chunk before. Lines count from 1, both ends included.
    """

    text: str
    start_line: int
    end_line: int
    heading: tuple[str, ...] = ()
    overlap: int = 0


@dataclass(frozen=True, slots=True)
class Note:
    """A parsed Markdown file: its metadata and its chunks."""

    title: str
    date: str | None
    """ISO date from front matter or path; None means evergreen."""
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    links: tuple[str, ...]
    """Targets of [[wiki links]]."""
    meta: Mapping[str, Any]
    """The fields of the front matter."""
    chunks: tuple[Chunk, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the whole note: title, aliases, tags."""
        return tuple(dict.fromkeys((self.title, *self.aliases, *self.tags)))


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with one file that the user should know; never fatal."""

    path: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.what}" + (f" ({self.remedy})" if self.remedy else "")


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The result of a sync: counts of notes, and the problems."""

    workspace: str
    added: int = 0
    changed: int = 0
    moved: int = 0
    deleted: int = 0
    unchanged: int = 0
    chunks_written: int = 0
    seconds: float = 0.0
    problems: tuple[Problem, ...] = ()
    left_out: tuple[str, ...] = ()
    """Sentences on files that are not indexed, each with the command or setting that takes them."""

    @property
    def touched(self) -> int:
        """The number of notes that the sync wrote or removed."""
        return self.added + self.changed + self.moved + self.deleted


@dataclass(frozen=True, slots=True)
class LegScore:
    """The contribution of one leg (keyword or vector search) to the score of a hit."""

    leg: str
    rank: int | None
    """Its place among the chunks that the leg found; None if the leg only scored it."""
    raw: float | None
    """BM25, or the cosine."""
    evidence: float
    """The raw score on the scale of the fusion."""
    weight: float
    contribution: float
    """Weight times evidence; the contributions of the legs add up to `Trace.fused`."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The steps that made the score of a hit."""

    parts: tuple[LegScore, ...]
    fused: float
    """The sum of the contributions."""
    above_chance: float | None
    """How many deviations the cosine lies above that of a question and an unrelated passage; more
    among few passages (search/calibrate.py)."""
    covered: float | None
    """The share of the query's words, by weight, that the passage contains."""
    relevance: float
    """The probability that the passage answers, before decay."""
    min_score: float
    kept: float = 1.0
    """The factor that decay leaves of the score."""
    kept_why: str = ""
    score: float = 0.0
    """The relevance of `fused` times `kept`; hits are ordered by it."""
    copies: int = 0
    """The number of passages with nearly the same text that it stands for."""
    worth: float | None = None
    """With diversity mmr: its value when it was chosen."""
    best_logit: float | None = None
    """The logit of the best candidate's relevance, from its cosine and its covered words."""
    below_best: float = 0.0
    """By how much `fused` is below that of the best candidate."""
    slope: float = 0.0
    """Relevance is that of the logit `best_logit` - `slope` times `below_best`."""
    gain: float = 0.0
    """Added to the logit of `score`, because the note is of the time that the query names, or the
    fact superseded one that matches better."""


@dataclass(frozen=True, slots=True)
class Context:
    """A passage with the text around it."""

    start_line: int
    end_line: int
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage that answers a query."""

    path: str
    workspace: str
    start_line: int
    end_line: int
    score: float
    relevance: float
    text: str
    kind: str = "note"
    title: str = ""
    heading: tuple[str, ...] = ()
    date: str | None = None
    tags: tuple[str, ...] = ()
    marks: tuple[tuple[int, int], ...] = ()
    """Spans of `text` that match the query's words."""
    focus: tuple[int, int] | None = None
    """The span of the item that is most similar to the query, if `text` is a list."""
    weak: bool = False
    """Whether its relevance is below ``search.min_score``: it may not answer."""
    also: tuple[str, ...] = ()
    """The locations of passages with nearly the same text."""
    more_lines: tuple[tuple[int, int], ...] = ()
    """The lines of further passages of the same note that answer, best first."""
    context: Context | None = None
    """The text around the passage, if the search asks for it."""
    trace: Trace | None = None
    """The explanation of the score, if the search asks for it."""
    valid_until: str | None = None
    """For a superseded or expired fact: until when it was valid."""
    position: str = ""
    """The place in a document whose lines are not those of the file: ``page=3``, ``cell=5``."""

    def cite(self, path: str) -> str:
        """Return the citation of the passage in the note at a path; `Memory.get` reads it."""
        if self.position:
            return f"{path}#{self.position}"
        return cite_lines(path, self.start_line, self.end_line)


HYPOTHETICAL = "by a hypothetical answer"
"""The detail of a leg that searched with a made-up answer instead of the query (HyDE)."""


@dataclass(frozen=True, slots=True)
class Leg:
    """One way of searching, and whether it worked this time."""

    name: str
    answered: bool
    reason: str = ""
    """Why it did not work."""
    detail: str = ""
    """The model or the remote store that answered."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """How up to date the index was when it answered."""

    checked: bool
    """Whether the folders were compared with the index just before the search."""
    pending: int = 0
    """Notes that are known to have changed, and are not synced yet."""
    unembedded: int = 0
    """Passages that keyword search finds and vector search does not find yet."""
    synced_at: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The hits of one query, with notices about the search."""

    query: str
    hits: tuple[Hit, ...]
    legs: tuple[Leg, ...]
    freshness: Freshness
    suggestions: tuple[str, ...] = ()
    """If nothing was found: similar queries with words of the vocabulary."""
    notices: tuple[str, ...] = ()
    order: str = "score"
    """The hits are ordered by "score", by "date" or, with a diversity, by "diversity"."""

    def display_path(self, hit: Hit) -> str:
        """Return the path of a note in its workspace; the full one if notes are from several."""
        several = len({other.workspace for other in self.hits if other.kind == hit.kind}) > 1
        return f"{hit.workspace}/{hit.path}" if several else hit.path


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a note as they are in the file now."""

    path: str
    workspace: str
    start_line: int
    end_line: int
    text: str
    links: tuple[str, ...] = ()
    """Paths of the notes that the note links to or embeds."""
    backlinks: tuple[str, ...] = ()
    """Paths of the notes that link to it."""


def cite_lines(path: str, start_line: int, end_line: int) -> str:
    """Return the citation of lines of a file; `Memory.get` reads it."""
    return f"{path}#L{start_line}-L{end_line}"


# -- facts -----------------------------------------------------------------------------------------

SCOPES = (GLOBAL, AGENT, USER, SESSION) = ("global", "agent", "user", "session")
"""The widest first: all users of an agent see the agent's facts."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who reads: a viewer sees global facts, and the facts of their own scopes."""

    user: str = ""
    agent: str = ""
    session: str = ""
    is_admin: bool = True
    """Whether the viewer may change what everybody sees, such as global facts."""
    tenant: str = ""
    """The tenant whose memory it is, if a server has several; "" is the server's own."""

    @property
    def session_key(self) -> str:
        """The session with its user, as SESSION@USER; without a user, the session alone.

        Two users can give their sessions the same name, and neither sees the other's.
        """
        if not self.session or not (self.user or "@" in self.session):
            return self.session
        user = self.user.replace("%", "%25").replace("@", "%40")
        return f"{self.session}@{user}"

    @property
    def scopes(self) -> tuple[tuple[str, str], ...]:
        """The visible scopes, each with its target (whose it is), the widest first."""
        targets = ((AGENT, self.agent), (USER, self.user), (SESSION, self.session_key))
        return ((GLOBAL, ""), *((scope, target) for scope, target in targets if target))

    @property
    def narrowest(self) -> str:
        """The visible scope that the fewest viewers share."""
        return self.scopes[-1][0]


@dataclass(frozen=True, slots=True)
class Fact:
    """A short statement that is remembered. Times are UTC, ISO 8601."""

    id: str
    text: str
    category: str
    source: str
    origin: str
    """The exact place it came from: a path with lines, a session."""
    importance: float
    confidence: float
    decay_class: str
    created_at: str
    confirmed_at: str
    expires_at: str | None
    valid_from: str | None
    valid_until: str | None
    superseded_by: str | None
    scope: str
    target: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FactEvent:
    """An event in the history of a fact."""

    fact_id: str
    at: str
    what: str
    detail: str
