"""Evaluating datasets and own cases, and `memwell eval`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memwell import Memory
from memwell.errors import ConfigError, MemwellError, NotFoundError
from memwell.evaluate import metrics
from memwell.evaluate.cases import Case, check_notes, read_cases, to_dataset
from memwell.evaluate.compare import Difference, compare, paired_interval
from memwell.evaluate.dataset import Dataset, Document, Question, load
from memwell.evaluate.html import Comparison, page
from memwell.evaluate.report import Evaluation, Ranking, evaluate, misses
from memwell.evaluate.runner import (
    NoteSearch,
    check_comparable,
    find_known_notes,
    parse_settings,
    to_overrides,
)
from memwell.evaluate.thresholds import Threshold, find_missed, parse_threshold
from memwell.model import Freshness, Hit, Leg, SearchResult
from tests.conftest import Write
from tests.support.cli import run, run_json

RANKING = ["x", "a", "y", "b"]
GRADES = {"a": 2.0, "b": 1.0, "c": 1.0}


# -- metrics ---------------------------------------------------------------------------------------


def test_metrics_of_one_ranking() -> None:
    assert metrics.found_any(RANKING, GRADES, 1) == 0
    assert metrics.found_any(RANKING, GRADES, 2) == 1
    assert metrics.recall(RANKING, GRADES, 3) == 1 / 3
    assert metrics.recall(RANKING, GRADES, 4) == 2 / 3
    assert metrics.found_all(RANKING, GRADES, 4) == 0
    assert metrics.found_all([*RANKING, "c"], GRADES, 5) == 1
    assert metrics.reciprocal_rank(RANKING, GRADES, 4) == 1 / 2
    assert metrics.reciprocal_rank(RANKING, GRADES, 1) == 0
    gained = 2 / math.log2(3) + 1 / math.log2(5)
    ideal = 2 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)
    assert metrics.ndcg(RANKING, GRADES, 4) == pytest.approx(gained / ideal)


def test_a_note_passes_when_three_in_five_of_its_queries_find_it() -> None:
    def answers(note: str, found: int, asked: int) -> list[tuple[str, bool]]:
        return [(note, number < found) for number in range(asked)]

    passing = metrics.notes_passing(
        [
            *answers("3 of 5", 3, 5),
            *answers("2 of 5", 2, 5),
            *answers("2 of 3", 2, 3),
            *answers("1 of 2", 1, 2),
            *answers("1 of 1", 1, 1),
        ]
    )
    assert passing == {"3 of 5": 1, "2 of 5": 0, "2 of 3": 1, "1 of 2": 0, "1 of 1": 1}


# -- the averages ----------------------------------------------------------------------------------

CASES = (
    Case("q one", ("a",), "easy"),
    Case("q two", ("a",), "easy"),
    Case("q three", ("a", "b"), "hard"),
    Case("q four", ("b",)),
)
FOUND = {"q one": ["a", "b"], "q two": ["c", "a"], "q three": ["a", "c"], "q four": ["c"]}


def measured(found: dict[str, list[str]], k: int = 10) -> tuple[Dataset, Evaluation]:
    def search(question: Question, depth: int) -> Ranking:
        return [(name, 0.5) for name in found[question.text]]

    dataset = to_dataset("cases", CASES)
    return dataset, evaluate(dataset, search, k=k, by_note=True)


def test_averages_overall_and_by_category() -> None:
    _, result = measured(FOUND)
    assert result.overall["hit@10"] == (1 + 1 + 1 + 0) / 4
    assert result.overall["recall@10"] == (1 + 1 + 1 / 2 + 0) / 4
    assert result.overall["all@10"] == (1 + 1 + 0 + 0) / 4
    assert result.overall["mrr@10"] == (1 + 1 / 2 + 1 + 0) / 4
    assert result.overall["ndcg@10"] == pytest.approx(
        (1 + 1 / math.log2(3) + 1 / (1 + 1 / math.log2(3)) + 0) / 4
    )
    # a is found by three of its three queries, b by none of its two.
    assert result.scores["notes-passing"] == {"a": 1, "b": 0}
    assert result.overall["notes-passing"] == 1 / 2
    assert [*result.by_category] == ["easy", "hard"]
    assert result.by_category["easy"]["mrr@10"] == (1 + 1 / 2) / 2
    assert result.by_category["easy"]["notes-passing"] == 1
    assert result.by_category["hard"]["recall@10"] == 1 / 2


def test_k_decides_how_many_count() -> None:
    _, result = measured(FOUND, k=1)
    assert result.overall["hit@1"] == (1 + 0 + 1 + 0) / 4
    assert result.scores["notes-passing"] == {"a": 1, "b": 0}  # a: two of three


def test_progress_counts_the_questions() -> None:
    told: list[tuple[int, int]] = []
    evaluate(to_dataset("x", CASES), lambda question, k: [], lambda *at: told.append(at))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_misses_tell_what_failed_and_what_was_found_in_part() -> None:
    dataset, result = measured(FOUND)
    failed, partly = misses(dataset, result)
    assert (failed.question.text, failed.missing, failed.failed) == ("q four", ("b",), True)
    assert failed.found == (("c", 0.5),)
    assert (partly.question.text, partly.missing, partly.failed) == ("q three", ("b",), False)


# -- two runs --------------------------------------------------------------------------------------

differences = st.lists(st.floats(0.001, 1), min_size=1, max_size=40)


@given(st.integers(1, 40))
def test_identical_runs_differ_by_nothing(count: int) -> None:
    assert paired_interval([0.0] * count) == (0, 0)


@given(differences)
def test_a_run_that_is_better_on_every_query_is_above_zero(values: list[float]) -> None:
    low, high = paired_interval(values)
    assert 0 < low <= high
    assert min(values) - 1e-9 <= low
    assert high <= max(values) + 1e-9
    turned = paired_interval([-value for value in values])
    assert [*turned] == pytest.approx([-high, -low])


def test_the_interval_is_near_that_of_the_normal_distribution() -> None:
    values = [0.0, 1.0] * 200
    error = 1.96 * math.sqrt(0.25 / 400)
    assert paired_interval(values) == pytest.approx((0.5 - error, 0.5 + error), abs=0.01)
    assert paired_interval(values) == paired_interval(values)


def test_compare_is_the_second_less_the_first() -> None:
    _, first = measured(FOUND)
    _, second = measured({**FOUND, "q four": ["b"], "q two": ["a"]})
    by_name = {one.metric: one for one in compare(first, second)}
    assert by_name["hit@10"].difference == (0 + 0 + 0 + 1) / 4
    assert by_name["mrr@10"].difference == (0 + 1 / 2 + 0 + 1) / 4
    # b is found by one of its two queries now, which is not enough.
    assert by_name["notes-passing"] == Difference("notes-passing", 1 / 2, 1 / 2, 0, 0, 0)
    assert not by_name["hit@10"].clear
    assert Difference("x", 0, 1, 1, 0.5, 1).clear
    assert all(one.low == one.high == 0 for one in compare(first, first))


# -- thresholds ------------------------------------------------------------------------------------


def test_thresholds() -> None:
    names = ("recall@10", "notes-passing")
    assert parse_threshold("recall@10=0.8", names) == Threshold("recall@10", 0.8)
    assert parse_threshold("Recall=.8", names) == Threshold("recall@10", 0.8)
    figures = {"recall@10": (1 + 1 + 0) / 3, "notes-passing": 0.5}
    exact = Threshold("recall@10", 2 / 3)
    missed = Threshold("notes-passing", 0.6)
    assert find_missed(figures, [exact, missed]) == [(missed, 0.5)]


@pytest.mark.parametrize(
    "text", ["recal=0.8", "=1", "recall", "recall=", "recall=80", "recall=nan"]
)
def test_thresholds_that_make_no_sense(text: str) -> None:
    with pytest.raises(MemwellError, match=re.escape(repr(text))):
        parse_threshold(text, ("recall@10",))


# -- files of cases --------------------------------------------------------------------------------


def test_cases_as_jsonl(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(
        '\ufeff{"query": "cat", "note": "./a.md", "category": "pets", "more": 1}\n\n'
        '{"query": "a\u2028b", "note": ["a.md", "b/c.md"]}\r\n',
        encoding="utf-8",
    )
    assert read_cases(file) == (
        Case("cat", ("a.md",), "pets", 1),
        Case("a\u2028b", ("a.md", "b/c.md"), "", 3),
    )


def test_cases_as_a_yaml_list(tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(
        "- query: yes\n  note: a.md\n- {query: 2026-01-01, note: [a.md, b.md], category: d}\n"
    )
    assert read_cases(file) == (
        Case("yes", ("a.md",), "", 1),
        Case("2026-01-01", ("a.md", "b.md"), "d", 3),
    )


def test_cases_as_a_yaml_mapping(tmp_path: Path) -> None:
    file = tmp_path / "cases.yml"
    file.write_text("a.md:\n  - cat\n  - name of the cat\nb/c.md: dog\n")
    assert read_cases(file) == (
        Case("cat", ("a.md",), "", 2),
        Case("name of the cat", ("a.md",), "", 3),
        Case("dog", ("b/c.md",), "", 4),
    )


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("c.jsonl", '{"query": "x", "note": "a"}\n{"query": "x"}', 'c.jsonl:2 has no "note"'),
        ("c.jsonl", '{"note": "x"}', 'c.jsonl:1 has no "query"'),
        ("c.jsonl", "\n{oops", "c.jsonl:2 is not JSON"),
        ("c.jsonl", "[" * 100_000, "c.jsonl:1 is not JSON"),
        ("c.jsonl", "[1]", "c.jsonl:1 is not a JSON object"),
        ("c.jsonl", '{"query": " ", "note": "a"}', 'c.jsonl:1 has a "query" that is not a text'),
        ("c.jsonl", '{"query": "x", "note": []}', 'c.jsonl:1 has a "note" that is neither'),
        ("c.jsonl", '{"query": "x", "note": ["a", 3]}', 'c.jsonl:1 has a "note" that is neither'),
        ("c.jsonl", '{"query": "x", "note": "a", "category": 3}', 'has a "category" that is no'),
        ("c.jsonl", "\n", "c.jsonl has no case"),
        ("c.yaml", "", "c.yaml has no case"),
        ("c.yaml", "- query: x\n  note: a\n- query: y\n", 'c.yaml:3 has no "note"'),
        ("c.yaml", "a:\n- x\n- [y\n", "c.yaml:4 is not YAML"),
        ("c.yaml", "a:\n- x\nb:\n", "c.yaml:3 names a note without a query"),
        ("c.yaml", "a: []\n", "c.yaml:1 names a note without a query"),
        ("c.yaml", "a:\n- x: y\n", 'c.yaml:2 has a "query" that is not a text'),
        ("c.yaml", "- x\n", "c.yaml:1 is not a mapping"),
        ("c.yaml", "- ? [x]\n  : y\n", 'c.yaml:1 has no "query"'),
        ("c.yaml", "x", "c.yaml:1 is neither a list nor a mapping"),
        ("c.yaml", "a: \x01", "c.yaml is not YAML"),
        ("c.txt", "x", "c.txt is neither JSONL nor YAML"),
    ],
)
def test_a_malformed_file_is_named_with_the_line(
    tmp_path: Path, name: str, text: str, told: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(MemwellError, match=re.escape(told)) as raised:
        read_cases(tmp_path / name)
    assert raised.value.remedy.startswith(("Expected", "Name it"))


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(b"a: \xff")
    with pytest.raises(MemwellError, match="is not UTF-8"):
        read_cases(tmp_path / "c.yaml")
    with pytest.raises(NotFoundError, match="cannot be read"):
        read_cases(tmp_path / "gone.yaml")


def test_notes_that_are_not_there_are_named(tmp_path: Path) -> None:
    def known(paths: Iterable[str]) -> set[str]:
        return {"a.md"} & {*paths}

    cases = (Case("x", ("a.md", "b.md"), line=3), Case("y", ("c.md",), line=4))
    check_notes(tmp_path / "f", cases[:0], known)
    with pytest.raises(NotFoundError, match=r"index: b\.md \(.*f:3\), c\.md \(.*f:4\)\."):
        check_notes(tmp_path / "f", cases, known)


def test_a_set_whose_relevant_documents_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"id": "d1", "text": "x"}')
    (tmp_path / "queries.jsonl").write_text('{"id": "q1", "text": "x"}')
    (tmp_path / "qrels.tsv").write_text("q1\td2\t1\n")
    with pytest.raises(MemwellError, match=r"No relevant document of .* is in corpus"):
        load(tmp_path)
    (tmp_path / "qrels.tsv").write_text("q1\td1\t0\n")
    with pytest.raises(MemwellError, match=r"No query of .* has a relevant document"):
        load(tmp_path)
    (tmp_path / "corpus.jsonl").write_bytes(b"\xff")
    with pytest.raises(MemwellError, match="is not UTF-8"):
        load(tmp_path)


# -- a memory that is asked ------------------------------------------------------------------------


def test_a_note_counts_once_and_unanswered_legs_are_told() -> None:
    def search(query: str, k: int, ways: Sequence[object]) -> list[SearchResult]:
        hits = [
            Hit("b.md", "/w", 1, 1, 0.9, 0.9, "b.md 0.9"),
            Hit("a.md", "/w", 1, 1, 0.8, 0.8, "a.md 0.8", also=("twin.md:3",)),
            Hit("b.md", "/w", 5, 5, 0.7, 0.7, "b.md 0.7"),
        ]
        leg = Leg("meaning", False, "no vectors")
        return [SearchResult(query, tuple(hits[:k]), (leg,), Freshness(True, pending=1))]

    asked = NoteSearch(search)
    assert asked(Question("1", "x"), 3) == [("b.md", 0.9), ("a.md", 0.8), ("twin.md", 0.8)]
    assert asked.passages["1", "b.md"] == "b.md 0.9"
    assert asked.caveats["meaning did not answer: no vectors"] == 1
    assert len(asked.caveats) == 2


def test_known_notes_are_known_whatever_their_names(
    memory: Memory, workspace: Path, write: Write
) -> None:
    names = [
        "a.md",
        "A note.md",
        "é/Ünï [x].md",
        "what?.md",
        "it's *bold*.md",
        "日本.md",
        "sub/a.md",
    ]
    for name in names:
        write(name, f"# {name}\n\ntext\n")
    write("a.md.md", "another\n")
    write("twin.md", (workspace / "a.md").read_text())
    names.append("twin.md")
    memory.index(workspace)
    wanted = [*names, "gone.md", "sub/b.md", "x.md", *(f"n{number}.md" for number in range(250))]
    found = find_known_notes(wanted, lambda query, k: memory.search(query, k=k, mode="words"))
    assert found == {*names}


def test_settings_to_compare() -> None:
    text = "search.mode=words, embedding.chain=gguf,minilm,search.min_score=0.2"
    settings = parse_settings(text)
    assert settings == {
        "search.mode": "words",
        "embedding.chain": "gguf,minilm",
        "search.min_score": "0.2",
    }
    assert to_overrides(parse_settings("embedding.chain=gguf,minilm,search.k=3"), "--compare") == {
        "embedding.chain": ("gguf", "minilm"),
        "search.k": 3,
    }
    with pytest.raises(ConfigError, match=r"search\.k = 'many' \(--compare\) should be a whole"):
        to_overrides({"search.k": "many"}, "--compare")
    for wrong in ("words", "", "search.mod=words"):
        with pytest.raises(ConfigError):
            parse_settings(wrong)
    check_comparable(["chunk.size", "search.mode"], of_a_memory=False)
    check_comparable(["search.mode", "search.min_score"], of_a_memory=True)
    for name in ("search.k", "agent", "sync.on_search"):
        with pytest.raises(ConfigError, match="does not change any figure"):
            check_comparable([name], of_a_memory=False)
    with pytest.raises(ConfigError, match="as it is"):
        check_comparable(["chunk.size"], of_a_memory=True)


# -- the page --------------------------------------------------------------------------------------


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile_page() -> str:
    evil = "<script>alert('x')</script>\"{x}&amp;"
    cases = [Case(evil, (evil,), evil), Case("fine", ("a", "b"), "all")]
    dataset = to_dataset(evil, cases)
    result = evaluate(dataset, lambda question, k: [("a", 0.5), (evil * 9, 0.25)], by_note=True)
    comparison = Comparison(f"search.mode={evil}", compare(result, result))
    return page(dataset, result, [evil], lambda question, document: evil * 50, comparison)


def test_the_page_is_well_formed_and_needs_nothing_from_elsewhere() -> None:
    text = hostile_page()
    parsed = _Page(text)
    assert parsed.open == []
    assert not {"script", "link", "img", "iframe", "object"} & {*parsed.tags}
    assert not {"src", "href", "onload", "style"} & {name for name, _ in parsed.attributes}
    assert "url(" not in text
    assert "@import" not in text
    assert "http:" not in text.replace("http-equiv", "")
    assert "prefers-color-scheme: dark" in text


def test_the_page_shows_figures_and_every_failing_query() -> None:
    dataset, result = measured(FOUND)
    shown = _Page(
        page(dataset, result, ["Mode words."], lambda question, document: "passage " + document)
    )
    assert "1 of 4 queries failed" in shown.text
    assert "1 found only some of their documents" in shown.text
    assert "Missing: b" in shown.text
    assert "passage c" in shown.text
    assert f"{(1 + 1 + 1 / 2 + 0) / 4:.3f}" in shown.text
    assert shown.tags.count("svg") == 3 * 6  # all, easy, hard; six metrics
    documents = (Document("d", "x"),)
    nothing = Dataset("n", documents, (Question("q", "x"),), {"q": {"d": 1.0}})
    assert "Nothing was found." in page(nothing, evaluate(nothing, lambda question, k: []))


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def notes(workspace: Path, write: Write) -> Path:
    write("MEMORY.md", "# Pets\n\nThe cat is named Miso.\n")
    write("memory/doors.md", "# Doors\n\nThe door code is 4711.\n")
    lines = [
        {"query": "cat", "note": "MEMORY.md", "category": "pets"},
        {"query": "door code", "note": "memory/doors.md"},
        {"query": "zebra", "note": "memory/doors.md"},
    ]
    write("cases.jsonl", "\n".join(map(json.dumps, lines)))
    assert run("index", cwd=workspace).returncode == 0
    return workspace


def test_eval_asks_the_memory_a_users_own_cases(notes: Path) -> None:
    result = run_json("eval", "cases.jsonl", "--mode", "words", cwd=notes)
    assert (result["queries"], result["documents"], result["mode"]) == (3, 2, "words")
    assert result["metrics"]["hit@10"] == round((1 + 1 + 0) / 3, 4)
    assert result["metrics"]["notes-passing"] == 1 / 2  # doors: one of two
    assert result["categories"]["pets"]["mrr@10"] == 1
    assert result["failing"] == [{"query": "zebra", "missing": ["memory/doors.md"], "found": []}]
    shown = run("eval", "cases.jsonl", cwd=notes).stdout
    assert "cases.jsonl: 3 queries, 2 notes\n" in shown
    assert "  zebra: memory/doors.md; first: nothing\n" in shown


def test_eval_compares_reports_and_fails(notes: Path) -> None:
    done = run(
        *("eval", "cases.jsonl", "--compare", "search.mode=meaning", "--html", "r.html"),
        *("--fail-under", "recall=0.9", "--fail-under", "hit@10=0.1", "--run", "run.tsv", "--json"),
        cwd=notes,
    )
    assert (done.returncode, done.stderr) == (1, "recall@10 = 0.667 is below 0.9\n")
    compared = json.loads(done.stdout)["comparison"]
    assert compared["settings"] == "search.mode=meaning"
    recall = next(one for one in compared["differences"] if one["metric"] == "recall@10")
    assert recall["second"] == 0
    assert recall["difference"] == round(-2 / 3, 4)
    assert "zebra" in _Page((notes / "r.html").read_text(encoding="utf-8")).text
    assert (notes / "run.tsv").read_text().startswith("1\tMEMORY.md\t1\t")
    fine = run("eval", "cases.jsonl", "--compare", "search.mode=words", cwd=notes)
    assert fine.returncode == 0
    assert "with search.mode=words, and the difference (95 % interval)" in fine.stdout
    assert "recall@10      0.667  +0.000  (+0.000 to +0.000)" in fine.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["cases.jsonl", "--compare", "chunk.size=100"], 2, "chunk.size decides how"),
        (["cases.jsonl", "--compare", "search.mode=x"], 2, "search.mode = 'x'"),
        (["cases.jsonl", "--fail-under", "x=1"], 2, "does not name a metric"),
        ([".", "--fail-under", "notes-passing=1"], 2, "does not name a metric"),
        (["cases.jsonl", "--html", "gone/r.html"], 3, "its folder does not exist"),
        (["gone.jsonl"], 3, "gone.jsonl does not exist"),
        (["wrong.yaml"], 3, "Not in the index: memory/gone.md (wrong.yaml:1)"),
    ],
)
def test_eval_says_what_is_wrong(notes: Path, arguments: list[str], status: int, told: str) -> None:
    (notes / "wrong.yaml").write_text("memory/gone.md: cat\n")
    done = run("eval", *arguments, cwd=notes)
    assert done.returncode == status
    assert told in " ".join(done.stderr.split())


def test_eval_compares_on_a_labelled_set(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"id": "d1", "text": "The cat sleeps."}')
    (tmp_path / "queries.jsonl").write_text('{"id": "q1", "text": "cat"}')
    (tmp_path / "qrels.tsv").write_text("q1\td1\t1\n")
    result = run_json(
        "eval", ".", "-k", "3", "--compare", "chunk.size=100,chunk.overlap=0", cwd=tmp_path
    )
    assert [*result["metrics"]] == ["hit@3", "recall@3", "all@3", "mrr@3", "ndcg@3"]
    assert {one["difference"] for one in result["comparison"]["differences"]} == {0}
    unlike = run_json("eval", ".", "--compare", "search.mode=words", cwd=tmp_path)
    assert unlike["comparison"]["metrics"]["hit@10"] == 1
