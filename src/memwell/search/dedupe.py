"""From ranked candidates to the passages that are shown: deduplicate, and diversify on request.

Passages with the same text (apart from case and spacing), or nearly the same, become one hit that
lists the locations of the others. A copy that keyword search found wins over one that it did not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import filterfalse

from memwell.config.sections import SearchSettings
from memwell.model import Hit, Trace
from memwell.search.diversify import Similarity, cluster, jaccard, mmr, word_set
from memwell.search.fuse import WORDS
from memwell.search.link_lists import demote_link_lists
from memwell.search.retrieve import Candidate, EmbeddedQuery
from memwell.store.contract.index import Reader

DIVERSITIES = (OFF, MMR, CLUSTER) = ("off", "mmr", "cluster")
BY_WORDS, BY_VECTORS = "words", "vectors"
NEAR_COPY = 0.8
"""Two passages are copies if they have at least this share of their words in common."""


@dataclass(frozen=True, slots=True)
class Diversity:
    """Whether and how to diversify the hits."""

    method: str = OFF
    balance: float = SearchSettings.mmr_lambda
    """With mmr: 1 is relevance alone, 0 is difference alone."""
    similarity: str = BY_WORDS
    near: float = SearchSettings.cluster_similarity
    """With cluster: hits at least this similar are one group."""


@dataclass(slots=True)
class Selected:
    """A candidate that is shown, and its copies."""

    candidate: Candidate
    hit: Hit
    words: frozenset[str]
    numbers: frozenset[str]
    copies: list[tuple[Candidate, str]] = field(default_factory=list)
    """The passages that it stands for, each with its location."""
    more: list[tuple[Candidate, Hit]] = field(default_factory=list)
    """Further passages of its note, if hits are grouped by note."""
    worth: float | None = None
    """With mmr: its value when it was chosen."""

    def to_hit(self, min_score: float, *, explain: bool) -> Hit:
        """Return the hit with the locations of its copies, and with `explain` its trace."""
        also = tuple(location for _, location in self.copies)
        more = tuple((hit.start_line, hit.end_line) for _, hit in self.more)
        trace = None
        if explain:
            trace = build_trace(self.candidate, min_score, copies=len(also), worth=self.worth)
        weak = self.candidate.is_weak(min_score)
        return replace(
            self.hit,
            score=self.candidate.score,
            weak=weak,
            also=also,
            more_lines=more,
            trace=trace,
        )


def build_trace(
    candidate: Candidate, min_score: float, *, copies: int = 0, worth: float | None = None
) -> Trace:
    """Return the trace of a candidate: the steps that made its score."""
    scale = candidate.calibration
    return Trace(
        candidate.parts,
        candidate.fused,
        candidate.cosine_z,
        candidate.word_coverage,
        candidate.relevance,
        min_score,
        candidate.kept,
        candidate.decay.why if candidate.kept < 1 or candidate.decay.gain else "",
        candidate.score,
        copies,
        worth,
        best_logit=scale.x if scale else None,
        below_best=max(0.0, scale.best - candidate.fused) if scale else 0.0,
        slope=scale.slope if scale else 0.0,
        gain=candidate.decay.gain,
    )


def select(
    candidates: Sequence[Candidate],
    k: int,
    choice: int,
    diversity: Diversity,
    reader: Reader,
    embedded_query: EmbeddedQuery | None,
    *,
    by_note: bool,
) -> list[Selected]:
    """Return `k` passages; if they are diversified, `k` of the first `choice`.

    With `by_note`, each is the best passage of its note and lists the others.
    """
    if diversity.method == OFF:
        return _unique(candidates, k, reader, by_note=by_note)
    selected = _unique(candidates, max(k, choice), reader, by_note=by_note)
    alike = _similarity(selected, diversity, reader, embedded_query)
    if diversity.method == MMR:
        scores = [passage.candidate.score for passage in selected]
        best = max(scores, default=0.0) or 1.0
        order = mmr([score / best for score in scores], alike, k, diversity.balance)
        for at, worth in order:
            selected[at].worth = worth
        return [selected[at] for at, _ in order]
    groups = cluster(len(selected), alike, k, diversity.near)
    for leader, *others in groups:
        for other in others:
            _collapse(selected[other], into=selected[leader])
    return [selected[group[0]] for group in groups]


def _unique(
    candidates: Sequence[Candidate], limit: int, reader: Reader, *, by_note: bool
) -> list[Selected]:
    """Return the first `limit` passages with different texts, or notes, each with its copies.

    A query of filters alone lists every passage: its candidates have no parts, and stay apart.
    """
    selected: list[Selected] = []
    batch_size = 2 * limit if by_note else limit + 1  # a note can have several of the best passages
    for candidate, hit in demote_link_lists(_load_texts(candidates, batch_size, reader)):
        new = _to_selected(candidate, hit)
        same = next((other for other in selected if _is_copy(other, new)), None)
        notes = selected if by_note else ()
        note = next((other for other in notes if _is_same_note(other, new)), None)
        if same and candidate.is_ranked:
            _collapse(new, into=same)
        elif note and candidate.is_ranked:
            note.more.append((candidate, hit))
        elif len(selected) == limit:
            break
        else:
            selected.append(new)
    return selected


def _load_texts(
    candidates: Sequence[Candidate], batch_size: int, reader: Reader
) -> Iterator[tuple[Candidate, Hit]]:
    """Yield candidates with their passages, read in batches: each read of a server takes long."""
    for start in range(0, len(candidates), batch_size):
        batch = candidates[start : start + batch_size]
        local = [(chunk.chunk_id, chunk.relevance) for chunk in batch if chunk.hit is None]
        hits = reader.chunks.hits(local)
        yield from ((candidate, candidate.hit or next(hits)) for candidate in batch)


def _to_selected(candidate: Candidate, hit: Hit) -> Selected:
    words = word_set(hit.text)
    return Selected(candidate, hit, words, frozenset(filterfalse(str.isalpha, words)))


def _is_copy(one: Selected, other: Selected) -> bool:
    """Whether two texts are nearly the same; texts with different numbers are not."""
    if one.numbers != other.numbers:
        return False
    if not one.words and not other.words:
        return one.hit.text.split() == other.hit.text.split()
    return jaccard(one.words, other.words) >= NEAR_COPY


def _is_same_note(one: Selected, other: Selected) -> bool:
    return one.hit.path == other.hit.path and one.hit.workspace == other.hit.workspace


def _collapse(copy: Selected, *, into: Selected) -> None:
    """Merge two passages; the one that keyword search found stays, if it found only one."""
    if copy.candidate.was_found_by(WORDS) and not into.candidate.was_found_by(WORDS):
        for name in ("candidate", "hit", "words", "numbers"):
            kept, replaced = getattr(copy, name), getattr(into, name)
            setattr(into, name, kept)
            setattr(copy, name, replaced)
    into.copies += [(copy.candidate, _location(copy.hit)), *copy.copies]


def _location(hit: Hit) -> str:
    return f"{hit.path}:{hit.start_line}"


def _similarity(
    selected: Sequence[Selected],
    diversity: Diversity,
    reader: Reader,
    embedded_query: EmbeddedQuery | None,
) -> Similarity:
    """Return a comparison by vectors, if that is configured and both have one, else by words."""

    def by_words(one: int, other: int) -> float:
        return jaccard(selected[one].words, selected[other].words)

    if diversity.similarity != BY_VECTORS or embedded_query is None:
        return by_words
    chunks = [passage.candidate.chunk_id for passage in selected]
    vectors = reader.vectors.first_windows(embedded_query.space, chunks)

    def by_vectors(one: int, other: int) -> float:
        first, second = (vectors.get(chunks[at]) for at in (one, other))
        if first is None or second is None:
            return by_words(one, other)
        return max(0.0, float(first @ second))

    return by_vectors
