"""The keyword index of one state in PostgreSQL: its vocabulary, and the search for words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from memwell.store.contract.query import And, Filters, Node, Or, WordQuery
from memwell.store.postgres.agent_indexes import text_index
from memwell.store.postgres.bm25 import PostingsRunner
from memwell.store.postgres.filters import filter_sql
from memwell.store.postgres.posting_changes import CHUNKS, TOKENS
from memwell.store.postgres.postings import (
    MANY_POSTINGS,
    POSTINGS_VERSION,
    ROWS_VERSION,
    PostingReader,
)
from memwell.store.postgres.session import Session
from memwell.store.postgres.sql import LAST_CHARACTER, Values, of_agent
from memwell.store.postgres.term_hits import TermHits, find_terms
from memwell.store.postgres.tokenizer import tokenize
from memwell.store.rows import surface_form
from memwell.store.words.normalise import camel_parts, normalise
from memwell.store.words.query import SHORTEST_PREFIX, excluded_condition, required_condition
from memwell.store.words.ranking import RankedKeywords
from memwell.store.words.scoring import Occurrences, ScoredQuery
from memwell.store.words.tree import Condition, Term

if TYPE_CHECKING:
    from memwell.store.contract.values import Array


class PostgresKeywords(RankedKeywords):
    """The keyword index in tables of postings."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._frequencies: dict[str, int] = {}
        self._prefix_frequencies: dict[str, int] = {}

    @cached_property
    def _state(self) -> tuple[int, int, str, int]:
        """The chunks and tokens, the name of the text index, the version of the words."""
        return self.session.row(KEYWORD_STATE) or (0, 0, "", ROWS_VERSION)

    @cached_property
    def _postings(self) -> PostingReader:
        return PostingReader(self.session, in_rows=self._state[3] == ROWS_VERSION)

    @property
    def text_index(self) -> str:
        """The name of the agent's text index; "" if it has none."""
        return self._state[2]

    @property
    def total(self) -> int:
        return self._state[0]

    @property
    def average(self) -> float:
        """How many tokens a chunk has on average."""
        chunks, tokens, *_ = self._state
        return tokens / chunks if chunks and tokens else 1.0

    def tokens(self, text: str) -> list[tuple[str, str]]:
        return tokenize(text)

    def document_frequency(self, token: str) -> int:
        if token not in self._frequencies:
            self._look_up([token])
        return self._frequencies.get(token, 0)

    def prefix_frequency(self, start: str) -> int:
        if start not in self._prefix_frequencies:
            self._look_up([start], prefixes=True)
        return self._prefix_frequencies.get(start, 0)

    def occurs(self, condition: Condition) -> bool:
        return bool(self._matching(condition))

    def count(self, term: Term) -> int:
        """Return how many chunks hold a term."""
        if len(term.tokens) == 1 and not term.prefix:
            return self.document_frequency(term.tokens[0])
        return len(self._postings.postings(term).chunks)

    def prepare(self, query: WordQuery) -> None:
        """Look up all words of a query in one round trip to the server."""
        texts = [*_texts((*query.any_of, *query.all_of, *query.none_of))]
        texts += [" ".join(camel_parts(normalise(text))) for text in texts]
        tokens = {token for text in texts for token, _ in tokenize(text)}
        if unknown := [token for token in tokens if token not in self._frequencies]:
            self._look_up(unknown)

    def restriction(self, query: WordQuery, values: Values) -> str:
        """Return the required and excluded words of a query as conditions on ``chunks c``."""
        required = required_condition(query, self)
        excluded = excluded_condition(query, self)
        sql = f" AND c.id = ANY({values(self._matching(required))}::bigint[])" if required else ""
        if excluded:
            sql += f" AND c.id != ALL({values(self._matching(excluded))}::bigint[])"
        return sql

    def problem(self) -> str:
        is_old = self._state[3] not in (ROWS_VERSION, POSTINGS_VERSION)
        return "the keyword index is out of date" if is_old else ""

    def runner(self, query: WordQuery, limit: int, only: Sequence[int] = ()) -> PostingsRunner:
        return PostingsRunner(self, query, limit, only)

    def postings_for(self, terms: Sequence[Term], chunk_ids: Sequence[int]) -> PostingReader:
        """Return a reader that has the postings of terms; of very many, only those near chunks."""
        unread = self._postings.unread(terms)
        if chunk_ids and sum(map(self.document_frequency, unread)) > MANY_POSTINGS:
            return self._postings.near(chunk_ids)
        self._postings.read(terms)
        return self._postings

    def allowed(self, filters: Filters, chunk_ids: Sequence[int]) -> set[int]:
        """Return those of the chunks that filters allow."""
        values = Values(ids=[*chunk_ids])
        conditions = filter_sql(filters, values)
        if not conditions:
            return {*chunk_ids}
        rows = self.session.rows(
            f"SELECT c.id FROM {OF_CHUNKS} AND c.id = ANY(%(ids)s) {conditions}", **values
        )
        return {chunk_id for (chunk_id,) in rows}

    def occurrences(
        self, terms: Sequence[Term], chunk_ids: Sequence[int]
    ) -> tuple[float, dict[int, Occurrences]]:
        found, counted = self._occurrences(terms, chunk_ids)
        return self.average, {
            chunk: Occurrences(length, row)
            for chunk, length, *row in zip(
                found.tolist(),
                *(numbers.tolist() for numbers in (counted.length, *counted.counts)),
                strict=True,
            )
        }

    def rate(
        self, scored: ScoredQuery, chunk_ids: Sequence[int]
    ) -> Iterable[tuple[int, float, float]]:
        found, counted = self._occurrences(scored.terms, chunk_ids)
        rated = scored.score(counted, self.average), scored.covered(counted)
        return zip(found.tolist(), *(numbers.tolist() for numbers in rated), strict=True)

    def _occurrences(
        self, terms: Sequence[Term], chunk_ids: Sequence[int]
    ) -> tuple[Array, Occurrences]:
        """Return those of the chunks with any term, and the occurrences in all of them."""
        chunks = np.array(chunk_ids, np.int64)
        return TermHits(terms, self.postings_for(terms, chunk_ids), chunks).occurrences()

    def vocabulary(self, shortest: int, longest: int) -> Iterator[str]:
        # As one text: a row for each token would take longer than to read them.
        tokens = self.session.value(
            f"SELECT string_agg(t.token, chr(10)) FROM (SELECT DISTINCT w.token FROM vocabulary w"
            f" WHERE {of_agent('w')} AND length(w.token) BETWEEN %(shortest)s AND %(longest)s"
            " AND w.token NOT LIKE '#%%') AS t",
            shortest=shortest,
            longest=longest,
        )
        return iter(tokens.split("\n") if tokens else ())

    def surface_form(self, token: str, like: str, filters: Filters) -> str | None:
        values = Values(ids=self._matching(Term((token,))))
        found = self.session.value(
            f"""
            SELECT c.text || ' ' || c.heading || ' ' || n.names || ' ' || n.path
            FROM {OF_CHUNKS} AND c.id = ANY(%(ids)s) {filter_sql(filters, values)}
            ORDER BY c.id LIMIT 1
            """,
            **values,
        )
        return None if found is None else surface_form(token, like, found, self.tokens)

    def has_matching(self, query: WordQuery, chunk_ids: Sequence[int]) -> bool:
        return has_any(self.session, chunk_ids, values := Values(), self.restriction(query, values))

    def _matching(self, condition: Condition) -> list[int]:
        """Return the chunks that meet a condition."""
        terms = find_terms(condition)
        hits = TermHits(terms, self.postings_for(terms, ()))
        return [int(chunk) for chunk in hits.chunks[hits.meet(condition)]]

    def _look_up(self, tokens: Sequence[str], *, prefixes: bool = False) -> None:
        """Look up tokens in one round trip, rare ones with their postings.

        Unknown ones (or all) are looked up also as prefixes.
        """
        ahead = "NULL" if prefixes else self._postings.ahead("t.token", "w.document_frequency")
        rows = self.session.rows_in_binary(
            f"""
            SELECT t.token, coalesce(w.document_frequency, 0)::bigint,
                CASE WHEN %(prefixes)s OR w.token IS NULL AND length(t.token) >= {SHORTEST_PREFIX}
                THEN (
                    SELECT coalesce(sum(p.document_frequency), 0)::bigint FROM vocabulary p
                    WHERE {of_agent("p")} AND p.token >= t.token AND p.token < t.token || %(last)s
                ) END, {ahead}
            FROM unnest(%(tokens)s::text[]) AS t (token)
            LEFT JOIN (
                SELECT v.token, sum(v.document_frequency) AS document_frequency
                FROM vocabulary v WHERE {of_agent("v")} AND v.token = ANY(%(tokens)s)
                GROUP BY v.token
            ) AS w ON w.token = t.token
            """,
            tokens=[*tokens],
            prefixes=prefixes,
            last=LAST_CHARACTER,
        )
        for token, frequency, as_prefix, read in rows:
            self._frequencies[token] = frequency
            if as_prefix is not None:
                self._prefix_frequencies[token] = as_prefix
            if read is not None:
                self._postings.know(token, read)


def _sum_of(count: str) -> str:
    """Return the SQL for a count over all owners whose rows the viewer sees."""
    return (
        "(SELECT coalesce(sum(v.document_frequency), 0)::bigint FROM vocabulary v"
        f" WHERE {of_agent('v')} AND v.token = '{count}')"
    )


KEYWORD_STATE = (
    f"SELECT {_sum_of(CHUNKS)}, {_sum_of(TOKENS)}, {text_index('i')}, words_version"
    f" FROM indexes i WHERE {of_agent('i')}"
)


def _texts(nodes: Iterable[Node]) -> Iterable[str]:
    for node in nodes:
        match node:
            case And(parts, without):
                yield from _texts((*parts, *without))
            case Or(parts):
                yield from _texts(parts)
            case _:
                yield node.text


def has_any(session: Session, chunk_ids: Sequence[int], values: Values, condition: str) -> bool:
    """Whether any of the chunks satisfies a condition on ``chunks c`` and ``notes n``."""
    asked = f"SELECT EXISTS (SELECT 1 FROM {OF_CHUNKS} AND c.id = ANY(%(ids)s) {condition})"
    return bool(session.value(asked, ids=[*chunk_ids], **values))


OF_CHUNKS = f"""
    chunks c JOIN notes n ON {of_agent("n")} AND n.id = c.note_id WHERE {of_agent("c")}
"""
