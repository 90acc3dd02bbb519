"""A query becomes a tree of conditions, which FTS5 and PostgreSQL render each in its own way."""

from __future__ import annotations

import pytest

from memwell.store.contract.query import And, Node, Or, Phrase, Word, WordQuery
from memwell.store.fts5_tokenizer import thread_tokenizer
from memwell.store.sqlite.fts import match_text
from memwell.store.words.query import (
    excluded_condition,
    ranking_words,
    required_condition,
    to_condition,
)
from memwell.store.words.tree import AllOf, AndNot, AnyOf, Condition, Term, terms_in


class EveryWord:
    """A vocabulary in which every token is in three of ten chunks."""

    total = 10

    def tokens(self, text: str) -> list[tuple[str, str]]:
        return thread_tokenizer().query_tokens(text)

    def document_frequency(self, token: str) -> int:
        return 3

    def prefix_frequency(self, start: str) -> int:
        return 3

    def occurs(self, condition: Condition) -> bool:
        return True


@pytest.fixture
def vocabulary() -> EveryWord:
    return EveryWord()


CAT, DOG, DOOR = (Term((word,), text=word) for word in ("cat", "dog", "door"))


@pytest.mark.parametrize(
    ("words", "tree", "text"),
    [
        ([Word("cat")], [CAT], ['"cat"']),
        ([Word("cat"), Word("dog")], [CAT, DOG], ['"cat"', '"dog"']),
        ([Word("Cats"), Word("cat")], [CAT], ['"cat"']),
        ([Word("cat", prefix=True)], [Term(("cat",), prefix=True)], ['"cat" *']),
        ([Phrase("cat dog")], [Term(("cat", "dog"))], ['"cat dog"']),
        ([Or((Word("cat"), Word("dog")))], [AnyOf((CAT, DOG))], ['("cat" OR "dog")']),
        (
            [And((Word("cat"), Word("dog")), without=(Word("door"),))],
            [AndNot(AllOf((CAT, DOG)), DOOR)],
            ['(("cat" AND "dog") NOT "door")'],
        ),
        ([Word("when"), Word("did"), Word("cat")], [CAT], ['"cat"']),
    ],
)
def test_words_that_rank(
    words: list[Node], tree: list[Condition], text: list[str], vocabulary: EveryWord
) -> None:
    clauses = ranking_words(WordQuery(tuple(words)), vocabulary).clauses
    assert [clause.condition for clause in clauses] == tree
    assert [match_text(clause.condition) for clause in clauses] == text


def test_a_word_that_is_written_twice_counts_twice(vocabulary: EveryWord) -> None:
    words = ranking_words(WordQuery((Word("Cats"), Word("dog"), Word("cat"))), vocabulary)
    assert [(clause.key, clause.count) for clause in words.clauses] == [("cat", 2), ("dog", 1)]


def test_words_that_must_match_rank_one_by_one(vocabulary: EveryWord) -> None:
    query = WordQuery(all_of=(And((Word("cat"), Word("dog")), without=(Word("door"),)),))
    clauses = ranking_words(query, vocabulary).clauses
    assert [clause.condition for clause in clauses] == [CAT, DOG]


def test_words_next_to_each_other_are_pairs(vocabulary: EveryWord) -> None:
    query = WordQuery(tuple(map(Word, ("the", "cat", "door", "is", "dog"))))
    pairs = ranking_words(query, vocabulary).pairs
    assert [(first.key, second.key) for first, second in pairs] == [("cat", "door")]


def test_function_words_rank_only_if_there_is_nothing_else(vocabulary: EveryWord) -> None:
    words = ranking_words(WordQuery((Word("to"), Word("be"))), vocabulary)
    assert [clause.key for clause in words.clauses] == ["to", "be"]


def test_words_that_must_match_and_must_not(vocabulary: EveryWord) -> None:
    query = WordQuery((), (Word("cat"), Word("dog")), (Word("door"),))
    assert required_condition(query, vocabulary) == AllOf((CAT, DOG))
    assert excluded_condition(query, vocabulary) == DOOR
    assert required_condition(WordQuery(), vocabulary) is None
    assert excluded_condition(WordQuery(), vocabulary) is None


def test_a_camel_case_word_matches_whole_or_by_its_parts(vocabulary: EveryWord) -> None:
    condition = to_condition(Word("rankToScore"), vocabulary)
    assert condition == AnyOf((Term(("ranktoscor",)), Term(("rank", "to", "score"))))
    assert match_text(condition) == '("rankToScore" OR "rank To Score")'


def test_a_part_without_letters_is_left_out(vocabulary: EveryWord) -> None:
    assert ranking_words(WordQuery((Phrase("?!"),)), vocabulary).clauses == ()
    assert to_condition(Or((Word("cat"), Phrase("?!"))), vocabulary) == CAT


def test_a_tree_is_text_for_fts5() -> None:
    tree = AndNot(AllOf((CAT, AnyOf((DOG, DOOR)))), CAT)
    assert [*terms_in(tree)] == [CAT, DOG, DOOR, CAT]
    assert match_text(tree) == '(("cat" AND ("dog" OR "door")) NOT "cat")'


def test_fts5_gets_the_words_and_not_their_stems(vocabulary: EveryWord) -> None:
    """A stem that is stemmed again can become another token."""
    (clause,) = ranking_words(WordQuery((Word("generalizations"),)), vocabulary).clauses
    assert clause.condition == Term(("gener",))
    assert match_text(clause.condition) == '"generalizations"'
