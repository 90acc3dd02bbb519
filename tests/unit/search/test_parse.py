"""Query syntax, filters, spelling suggestions and highlights."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memwell import Memory
from memwell.model import Freshness
from memwell.search.parse import parse
from memwell.search.pipeline import Options, search
from memwell.store.contract.query import And, Filters, Or, Phrase, Word, WordQuery
from memwell.store.sqlite.index import SqliteIndex
from tests.conftest import EXAMPLES, Write, paths


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("the cat's name", WordQuery(any_of=(Word("the"), Word("cat's"), Word("name")))),
        ('cat "named Miso"', WordQuery(any_of=(Word("cat"),), all_of=(Phrase("named Miso"),))),
        ("cat AND dog", WordQuery(all_of=(And((Word("cat"), Word("dog"))),))),
        ("cat OR dog", WordQuery(any_of=(Word("cat"), Word("dog")))),
        ("cat NOT dog", WordQuery(all_of=(And((Word("cat"),), (Word("dog"),)),))),
        ("cat AND NOT dog", WordQuery(all_of=(And((Word("cat"),), (Word("dog"),)),))),
        ("cat -dog", WordQuery(any_of=(Word("cat"),), none_of=(Word("dog"),))),
        ('cat -"hot dog"', WordQuery(any_of=(Word("cat"),), none_of=(Phrase("hot dog"),))),
        ("conf*", WordQuery(any_of=(Word("conf", prefix=True),))),
        (
            "auth AND (token OR session)",
            WordQuery(all_of=(And((Word("auth"), Or((Word("token"), Word("session"))))),)),
        ),
        (
            "call foo(bar) now",
            WordQuery(any_of=(Word("call"), Word("foo"), Word("bar"), Word("now"))),
        ),
        ("well-known --flag", WordQuery(any_of=(Word("well-known"), Word("--flag")))),
        ("-rf", WordQuery(any_of=(Word("rf"),))),
        ("AND", WordQuery(any_of=(Word("AND"),))),
        ("NASA AND ESA", WordQuery(any_of=(Word("NASA"), Word("AND"), Word("ESA")))),
        ("cat AND (dog", WordQuery(any_of=(Word("cat"), Word("AND"), Word("dog")))),
        ("cat AND", WordQuery(all_of=(And((Word("cat"),)),))),
        ("(((", WordQuery()),
        ('"unclosed phrase', WordQuery(any_of=(Word("unclosed"), Word("phrase")))),
    ],
)
def test_queries_are_parsed_as_people_mean_them(text: str, query: WordQuery) -> None:
    assert parse(text).query == query


def test_filters_are_taken_out_of_the_words() -> None:
    parsed = parse(
        'standup path:memory/* tag:#team after:2026-01 before:2026-02-10 -tag:old -path:"a b"'
    )
    assert parsed.query.any_of == (Word("standup"),)
    assert parsed.query.filters == Filters(
        paths=("memory/*",),
        not_paths=("a b",),
        tags=("team",),
        not_tags=("old",),
        after="2026-01-01",
        before="2026-02-10",
    )


def test_an_invalid_date_is_searched_as_words_with_a_notice() -> None:
    parsed = parse("after:party")
    assert parsed.query.any_of == (Word("after party"),)
    assert "after:party is not a date" in parsed.notices[0]


@pytest.fixture
def pets(memory: Memory, workspace: object, write: Write) -> Memory:
    write("cat.md", "The cat sleeps. Its name is Miso.\n")
    write("dog.md", "The dog barks. Its name is Rex.\n")
    write("both.md", "The cat and the hot dog stand.\n")
    write("memory/2026-01-05.md", "# Log\n\nThe vet saw the cat. #health/vet\n")
    write("memory/2026-02-05.md", "# Log\n\nThe vet saw the dog. #health\n")
    memory.index(str(workspace))
    return memory


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (
            "cat dog",
            {"cat.md", "dog.md", "both.md", "memory/2026-01-05.md", "memory/2026-02-05.md"},
        ),
        ("cat AND dog", {"both.md"}),
        ("cat -dog", {"cat.md", "memory/2026-01-05.md"}),
        ("cat NOT dog", {"cat.md", "memory/2026-01-05.md"}),
        ('"hot dog"', {"both.md"}),
        ('"dog hot"', set()),
        ('cat "name is"', {"cat.md", "dog.md"}),
        ("name AND (miso OR rex)", {"cat.md", "dog.md"}),
        ("slee*", {"cat.md"}),
        ("cat path:memory", {"memory/2026-01-05.md"}),
        ("cat path:memory/*", {"memory/2026-01-05.md"}),
        ("cat path:*.md -path:memory", {"cat.md", "both.md"}),
        ("vet tag:health", {"memory/2026-01-05.md", "memory/2026-02-05.md"}),
        ("vet tag:health/vet", {"memory/2026-01-05.md"}),
        ("vet -tag:health/vet", {"memory/2026-02-05.md"}),
        ("vet after:2026-02-01", {"memory/2026-02-05.md"}),
        ("vet before:2026-02-05", {"memory/2026-01-05.md"}),
        ("tag:health", {"memory/2026-01-05.md", "memory/2026-02-05.md"}),
        ("!!!", set()),
        ('"!!!" cat NOT', {"cat.md", "both.md", "memory/2026-01-05.md"}),
    ],
)
def test_operators_and_filters_find_what_they_should(
    pets: Memory, query: str, found: set[str]
) -> None:
    assert {*paths(pets, query)} == found


def test_the_required_phrase_ranks_with_the_other_words(pets: Memory) -> None:
    assert paths(pets, 'miso "name is"')[0] == "cat.md"
    assert paths(pets, 'rex "name is"')[0] == "dog.md"


def test_filter_only_queries_list_the_newest_first(pets: Memory) -> None:
    assert paths(pets, "path:memory") == ["memory/2026-02-05.md", "memory/2026-01-05.md"]


def test_filters_apply_before_ranking_so_that_k_hits_come_back(
    memory: Memory, workspace: object, write: Write
) -> None:
    for number in range(300):
        write(f"many/{number}.md", "apple apple apple apple apple\n")
    for number in range(7):
        write(f"few/{number}.md", f"one apple among a good many other words, number {number}\n")
    memory.index(str(workspace))
    assert len(paths(memory, "apple path:few", k=6)) == 6
    assert len(paths(memory, "apple path:few", k=50)) == 7


def test_a_misspelt_word_gets_a_suggestion(pets: Memory) -> None:
    assert memory_suggests(pets, "barsk") == ("barks",)
    assert memory_suggests(pets, "Slepps") == ("Sleeps",)
    assert memory_suggests(pets, "qqqqqqq") == ()


def test_a_function_word_that_no_note_holds_is_not_misspelt(pets: Memory) -> None:
    assert memory_suggests(pets, "what were those barsk about") == ("what were those barks about",)


def test_a_suggestion_is_a_word_even_if_only_an_identifier_holds_it(
    memory: Memory, workspace: object, write: Write
) -> None:
    write("a.md", "Call getPostgresClient from deployGateway.\n")
    write("b.md", "The postgres_url is secret.\n")
    memory.index(str(workspace))
    assert memory_suggests(memory, "postgers") == ("postgres",)  # its stem is postgr
    assert memory_suggests(memory, "gatway") == ("gateway",)


def test_a_misspelt_word_gets_a_suggestion_though_another_word_is_found(pets: Memory) -> None:
    result = pets.search("the cat sleeeps")
    assert result.hits
    assert result.suggestions == ("the cat sleeps",)
    assert pets.search("the cat sits").suggestions == ()  # it may be what was meant


def test_a_word_of_another_language_is_not_replaced_by_one_of_a_similar_stem(
    memory: Memory, workspace: object, write: Write
) -> None:
    write("a.md", "The ultimate commit.\n")
    memory.index(str(workspace))
    assert memory.search("el último commit").suggestions == ()
    assert memory.search("the ultimate commmit").suggestions == ("the ultimate commit",)


def test_an_expression_that_nothing_matches_falls_back_to_its_words(pets: Memory) -> None:
    result = pets.search("miso AND rex")
    assert {hit.path for hit in result.hits} == {"cat.md", "dog.md"}
    assert result.notices == ("No passage matches the expression; searched for the single words",)
    assert {hit.path for hit in pets.search("miso AND rex NOT barks").hits} == {"cat.md"}


def test_a_title_in_capital_letters_is_text(pets: Memory) -> None:
    result = pets.search("THE CAT AND THE ZEBRA")
    assert "cat.md" in {hit.path for hit in result.hits}
    assert result.notices == ()


def memory_suggests(memory: Memory, query: str) -> tuple[str, ...]:
    result = memory.search(query)
    assert not result.hits
    return result.suggestions


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    words = {"embedding.chain": ()}
    memory = Memory(tmp_path_factory.mktemp("examples") / "home", settings=words)
    memory.index(EXAMPLES)
    return memory


@pytest.fixture(scope="module")
def examples_index(examples: Memory) -> SqliteIndex:
    return SqliteIndex(examples.home / "agents" / "main" / "index.db")


SYNTAX = st.lists(
    st.sampled_from(
        [
            '"',
            "(",
            ")",
            "AND",
            "OR",
            "NOT",
            "-",
            "*",
            ":",
            "path:",
            "tag:",
            "after:",
            "before:",
            "^",
            "{",
            "}",
            "NEAR(",
            "+",
            "cat",
            "the",
            "Miso",
            "会议",
            "猫",
            "\0",
            "🐈",
            "a_b.c",
            "content:",
            "rank",
            "--",
            "'",
            ";",
            "ภาษา",
            "e\u0301",
            "\ud800",
            "fooBar",
            "2.1",
            "\\",
            "/",
            "x*",
            "%",
            "\n",
        ]
    ),
    max_size=25,
)
QUERIES = st.one_of(
    st.text(max_size=60),
    SYNTAX.map(" ".join),
    SYNTAX.map("".join),
    st.text(alphabet=st.characters(min_codepoint=0x0E00, max_codepoint=0x9FFF), max_size=40),
)


def check_query(index: SqliteIndex, query: str) -> None:
    with index.reading() as reader:
        result = search(query, Options(k=3), reader, Freshness(checked=True))
    assert len(result.hits) <= 3
    assert all(0 <= hit.score <= 1 for hit in result.hits)


@settings(max_examples=500, suppress_health_check=[*HealthCheck])
@given(QUERIES)
def test_any_text_is_a_valid_query(examples_index: SqliteIndex, query: str) -> None:
    check_query(examples_index, query)


@pytest.mark.parametrize(
    "query", ["", "   ", "word " * 10_000, "(" * 5_000, "a AND " * 3_000, '"' * 999, "\0", "🐈"]
)
def test_extreme_queries(examples: Memory, query: str) -> None:
    assert len(examples.search(query).hits) <= 6


def test_a_query_of_ten_thousand_words_searches_the_rarest(examples: Memory) -> None:
    hits = examples.search("the and of to in " * 2_000 + "Miso").hits
    assert "Miso" in hits[0].text


def test_marks_show_the_letters_that_matched(examples: Memory) -> None:
    def marked(query: str) -> list[str]:
        hit = examples.search(query).hits[0]
        return [hit.text[start:end] for start, end in hit.marks]

    assert "cat" in marked("what is the name of the cats")
    assert "named" in marked("what is the name of the cats")
    assert "The" not in marked("what is the name of the cats")
    assert marked("会议")[0] == "会议"
    assert "bm25RankToScore" in marked("bm25rank")
    assert "हिन्दी" in marked("हिन्दी")
    assert "ภาษาไทย" in marked("ภาษาไทย")


def test_k_plus_one_begins_with_k(examples: Memory) -> None:
    query = "what to check before the database upgrade on plover"
    longest = [(hit.path, hit.start_line) for hit in examples.search(query, k=40).hits]
    for k in range(1, 40):
        assert [(hit.path, hit.start_line) for hit in examples.search(query, k=k).hits] == longest[
            :k
        ]
