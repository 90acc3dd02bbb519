"""From ranked candidates to hits: copies collapse, and hits may be asked to differ.

Same text (whatever its case and spacing), or nearly the same: one hit, which lists the others.
The copy that the words found wins over one that they did not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from memwell.config.sections import SearchSettings
from memwell.model import Hit, Trace
from memwell.search.diversify import Similarity, cluster, jaccard, mmr, word_set
from memwell.search.fuse import WORDS
from memwell.search.retrieve import Candidate, EmbeddedQuery
from memwell.store.contract.index import Reader

DIVERSITIES = (OFF, MMR, CLUSTER) = ("off", "mmr", "cluster")
BY_WORDS, BY_VECTORS = "words", "vectors"
NEAR_COPY = 0.8
"""Of the words of two passages, the share they have in common from which on one is a copy."""


@dataclass(frozen=True, slots=True)
class Diversity:
    """Whether, and how, hits are to differ."""

    method: str = OFF
    balance: float = SearchSettings.mmr_lambda
    """With mmr: 1 is relevance alone, 0 is difference alone."""
    similarity: str = BY_WORDS
    near: float = SearchSettings.cluster_similarity
    """With cluster: from which similarity on hits are one group."""


@dataclass(slots=True)
class Selected:
    """A candidate that is shown, and those that are shown with it."""

    candidate: Candidate
    hit: Hit
    words: frozenset[str]
    numbers: frozenset[str]
    copies: list[tuple[Candidate, str]] = field(default_factory=list)
    """Those it stands for, and where they are."""
    worth: float | None = None
    """With mmr: what it was chosen by."""

    def to_hit(self, min_score: float, *, explain: bool) -> Hit:
        """Return the hit, with where else it stands, and how its score came about if asked."""
        also = tuple(place for _, place in self.copies)
        trace = None
        if explain:
            trace = add_trace(self.candidate, min_score, copies=len(also), worth=self.worth)
        return replace(self.hit, score=self.candidate.score, also=also, trace=trace)


def add_trace(
    candidate: Candidate, min_score: float, *, copies: int = 0, worth: float | None = None
) -> Trace:
    """Say how the score of a candidate came about."""
    return Trace(
        candidate.parts,
        candidate.fused,
        candidate.cosine_z,
        candidate.word_coverage,
        candidate.relevance,
        min_score,
        candidate.decay.factor,
        candidate.decay.why,
        candidate.score,
        copies,
        worth,
    )


def select(
    candidates: Sequence[Candidate],
    k: int,
    choice: int,
    diversity: Diversity,
    reader: Reader,
    asked: EmbeddedQuery | None,
) -> list[Selected]:
    """Return what is shown: `k`, chosen from the first `choice` where they are to differ."""
    if diversity.method == OFF:
        return _unique(candidates, k, reader)
    found = _unique(candidates, max(k, choice), reader)
    alike = _similarity(found, diversity, reader, asked)
    if diversity.method == MMR:
        best = max((one.candidate.value for one in found), default=0.0) or 1.0
        values = [max(0.0, one.candidate.value) / best for one in found]
        order = mmr(values, alike, k, diversity.balance)
        for at, worth in order:
            found[at].worth = worth
        return [found[at] for at, _ in order]
    groups = cluster(len(found), alike, k, diversity.near)
    for leader, *others in groups:
        for other in others:
            _collapse(found[other], into=found[leader])
    return [found[group[0]] for group in groups]


def _unique(candidates: Sequence[Candidate], wanted: int, reader: Reader) -> list[Selected]:
    """Return the first passages with different texts; what filters list is listed as it is."""
    chosen: list[Selected] = []
    for candidate, hit in _load_texts(candidates, wanted + 1, reader):
        new = _select(candidate, hit)
        same = next((one for one in chosen if _is_copy(one, new)), None)
        if same and candidate.parts:
            _collapse(new, into=same)
        elif len(chosen) == wanted:
            break
        else:
            chosen.append(new)
    return chosen


def _load_texts(
    candidates: Sequence[Candidate], at_once: int, reader: Reader
) -> Iterator[tuple[Candidate, Hit]]:
    """Yield candidates with their passages, read some at a time: a store may be far away."""
    for start in range(0, len(candidates), at_once):
        some = candidates[start : start + at_once]
        read = reader.chunks.hits(
            [(one.chunk_id, one.relevance) for one in some if one.hit is None]
        )
        yield from ((one, one.hit or next(read)) for one in some)


def _select(candidate: Candidate, hit: Hit) -> Selected:
    words = word_set(hit.text)
    return Selected(candidate, hit, words, frozenset(word for word in words if not word.isalpha()))


def _is_copy(one: Selected, other: Selected) -> bool:
    """Whether two texts are nearly the same; another number is another text."""
    if one.numbers != other.numbers:
        return False
    if not one.words and not other.words:
        return one.hit.text.split() == other.hit.text.split()
    return jaccard(one.words, other.words) >= NEAR_COPY


def _collapse(copy: Selected, *, into: Selected) -> None:
    """Let one stand for both: the copy that the words found, if only one is."""
    if copy.candidate.was_found_by(WORDS) and not into.candidate.was_found_by(WORDS):
        for name in ("candidate", "hit", "words", "numbers"):
            ours, theirs = getattr(into, name), getattr(copy, name)
            setattr(into, name, theirs)
            setattr(copy, name, ours)
    into.copies += [(copy.candidate, _location(copy.hit)), *copy.copies]


def _location(hit: Hit) -> str:
    return f"{hit.path}:{hit.start_line}"


def _similarity(
    found: Sequence[Selected], diversity: Diversity, reader: Reader, asked: EmbeddedQuery | None
) -> Similarity:
    """Compare by vectors where that is asked for and both have one, else by words."""
    vectors = {}
    if diversity.similarity == BY_VECTORS and asked:
        chunks = [one.candidate.chunk_id for one in found]
        vectors = reader.vectors.first_windows(asked.space, chunks)

    def alike(one: int, other: int) -> float:
        first, second = (vectors.get(found[at].candidate.chunk_id) for at in (one, other))
        if first is None or second is None:
            return jaccard(found[one].words, found[other].words)
        return max(0.0, float(first @ second))

    return alike
