"""The vocabulary of an index in PostgreSQL: its tokens, and how many chunks hold each of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from memwell.store.contract.index import Vocabulary
from memwell.store.contract.query import And, Node, Or, WordQuery
from memwell.store.postgres.agent_indexes import text_index
from memwell.store.postgres.postings import chunks_matching, chunks_with_term
from memwell.store.postgres.server import Session
from memwell.store.postgres.sql import Values, of_agent, starts_with
from memwell.store.postgres.tokenizer import tokenize
from memwell.store.words.normalise import camel_parts, normalise
from memwell.store.words.tree import Condition, Term


class PostgresVocabulary(Vocabulary):
    """The vocabulary of one state of an index in PostgreSQL."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._frequencies: dict[str, int] = {}
        self._counts: dict[Term, int] = {}

    @cached_property
    def _size(self) -> tuple[int, int, str]:
        row = self._session.row(
            f"SELECT chunks, tokens, {text_index('i')} FROM indexes i WHERE {of_agent('i')}"
        )
        return row or (0, 0, "")

    @property
    def text_index(self) -> str:
        """The name of the agent's text index; "" if it has none."""
        return self._size[2]

    @property
    def total(self) -> int:
        return self._size[0]

    @property
    def average(self) -> float:
        """How many tokens a chunk has on average."""
        chunks, tokens, _ = self._size
        return tokens / chunks if chunks and tokens else 1.0

    def tokens(self, text: str) -> list[tuple[str, str]]:
        return tokenize(text)

    def document_frequency(self, token: str) -> int:
        if token not in self._frequencies:
            self._look_up([token])
        return self._frequencies[token]

    def prefix_frequency(self, start: str) -> int:
        values = Values()
        condition = f"{of_agent('w')} AND {starts_with('w.token', start, values)}"
        frequency = self._session.value(
            f"SELECT sum(w.document_frequency) FROM vocabulary w WHERE {condition}", **values
        )
        return int(frequency or 0)

    def occurs(self, condition: Condition) -> bool:
        if isinstance(condition, Term):
            return self.count(condition) > 0
        values = Values()
        statement = f"SELECT EXISTS ({chunks_matching(condition, values)})"
        return bool(self._session.value(statement, **values))

    def count(self, term: Term) -> int:
        """Return how many chunks hold a term."""
        if len(term.tokens) == 1 and not term.prefix:
            return self.document_frequency(term.tokens[0])
        if term not in self._counts:
            values = Values()
            statement = f"SELECT count(*) FROM ({chunks_with_term(term, values)}) AS m"
            self._counts[term] = int(self._session.value(statement, **values))
        return self._counts[term]

    def prepare(self, query: WordQuery) -> None:
        """Look up all words of a query in one round trip to the server."""
        texts = [*_texts((*query.any_of, *query.all_of, *query.none_of))]
        texts += [" ".join(camel_parts(normalise(text))) for text in texts]
        tokens = {token for text in texts for token, _ in tokenize(text)}
        if unknown := [token for token in tokens if token not in self._frequencies]:
            self._look_up(unknown)

    def _look_up(self, tokens: list[str]) -> None:
        rows = self._session.rows(
            f"SELECT w.token, w.document_frequency FROM vocabulary w"
            f" WHERE {of_agent('w')} AND w.token = ANY(%(tokens)s)",
            tokens=tokens,
        )
        known = {token: int(frequency) for token, frequency in rows}
        self._frequencies |= dict.fromkeys(tokens, 0) | known


def _texts(nodes: Iterable[Node]) -> Iterable[str]:
    for node in nodes:
        match node:
            case And(parts, without):
                yield from _texts((*parts, *without))
            case Or(parts):
                yield from _texts(parts)
            case _:
                yield node.text
