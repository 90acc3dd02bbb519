"""How an index in PostgreSQL sees words: its tokens, and how many chunks hold each of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from memwell.store.contract.query import And, Node, Or, WordQuery
from memwell.store.postgres.agent_indexes import text_index
from memwell.store.postgres.postings import find_chunks
from memwell.store.postgres.server import Session
from memwell.store.postgres.sought import Row, read
from memwell.store.postgres.sql import Values, of_agent, starts_with
from memwell.store.postgres.tokenizer import tokenize
from memwell.store.words.normalise import camel_parts, normalise


class Vocabulary:
    """The vocabulary of one state of an index."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._rows: dict[str, int] = {}
        self._counted: dict[Row, int] = {}

    @cached_property
    def _size(self) -> tuple[int, int, str]:
        found = self._session.row(
            f"SELECT chunks, tokens, {text_index('i')} FROM indexes i WHERE {of_agent('i')}"
        )
        return found or (0, 0, "")

    @property
    def index(self) -> str:
        """The name of the index of texts, if the agent has one."""
        return self._size[2]

    @property
    def total(self) -> int:
        """How many chunks there are."""
        return self._size[0]

    @property
    def average(self) -> float:
        """How many tokens a chunk has on average."""
        chunks, tokens, _ = self._size
        return tokens / chunks if chunks and tokens else 1.0

    def tokens(self, text: str) -> list[tuple[str, str]]:
        """Return each token of `text` as the index has it, beside the letters it came from."""
        return tokenize(text)

    def document_frequency(self, token: str) -> int:
        """Return how many chunks hold a token."""
        if token not in self._rows:
            self._look_up([token])
        return self._rows[token]

    def prefix_frequency(self, start: str) -> int:
        """Return about how many chunks hold a token that begins with `start`."""
        values = Values()
        condition = f"{of_agent('w')} AND {starts_with('w.token', start, values)}"
        found = self._session.value(f"SELECT sum(rows) FROM words w WHERE {condition}", **values)
        return int(found or 0)

    def occurs(self, expression: str) -> bool:
        """Whether any chunk matches an expression."""
        sought = read(expression, tokenize)
        assert isinstance(sought, Row)
        return self.count(sought) > 0

    def count(self, row: Row) -> int:
        """Return how many chunks hold tokens in a row."""
        if len(row.tokens) == 1 and not row.prefix:
            return self.document_frequency(row.tokens[0])
        if row not in self._counted:
            values = Values()
            statement = f"SELECT count(*) FROM ({find_chunks(row, values)}) AS m"
            self._counted[row] = int(self._session.value(statement, **values))
        return self._counted[row]

    def prepare(self, query: WordQuery) -> None:
        """Look the words of a query up together, since each question to a server takes a moment."""
        texts = [*_texts((*query.any_of, *query.all_of, *query.none_of))]
        texts += [" ".join(camel_parts(normalise(text))) for text in texts]
        tokens = {token for text in texts for token, _ in tokenize(text)}
        if unknown := [token for token in tokens if token not in self._rows]:
            self._look_up(unknown)

    def _look_up(self, tokens: list[str]) -> None:
        rows = self._session.rows(
            f"SELECT w.token, w.rows FROM words w WHERE {of_agent('w')} AND w.token = ANY(%(tokens)s)",
            tokens=tokens,
        )
        self._rows |= dict.fromkeys(tokens, 0) | {token: int(count) for token, count in rows}


def _texts(nodes: Iterable[Node]) -> Iterable[str]:
    for node in nodes:
        match node:
            case And(parts, without):
                yield from _texts((*parts, *without))
            case Or(parts):
                yield from _texts(parts)
            case _:
                yield node.text
