"""Splitting cases, fitting settings, and `memwell tune`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memwell import Memory, config
from memwell.config.sections import SearchSettings
from memwell.errors import MemwellError
from memwell.evaluate.cases import Case, to_dataset
from memwell.evaluate.dataset import Question
from memwell.evaluate.report import Ranking
from memwell.evaluate.tune import Overrides, Tuning, candidates, grid, halves, split, tune
from tests.conftest import Write
from tests.support.cli import run, run_json
from tests.support.embedders import Faulty

# -- the two halves --------------------------------------------------------------------------------

names = st.sampled_from([f"{letter}.md" for letter in "abcdefghijklmnop"])
cases = st.lists(
    st.builds(
        lambda notes, number: Case(f"query {number}", tuple(notes)),
        st.lists(names, min_size=1, max_size=3, unique=True),
        st.integers(0, 1000),
    ),
    max_size=40,
)


@given(cases)
def test_the_cases_of_a_note_are_all_in_one_part(made: list[Case]) -> None:
    fitting, held_back = split(made)
    assert sorted([*fitting, *held_back], key=repr) == sorted(made, key=repr)
    of_one, of_other = (
        {note for case in part for note in case.notes} for part in (fitting, held_back)
    )
    assert not of_one & of_other


@given(cases, st.randoms())
def test_the_parts_do_not_depend_on_the_order(made: list[Case], chance: Any) -> None:
    mixed = [*made]
    chance.shuffle(mixed)
    parts = [[sorted(map(repr, part)) for part in split(order)] for order in (made, mixed)]
    assert parts[0] == parts[1]


@given(st.integers(1, 16))
def test_the_parts_are_halves_where_notes_have_as_many_cases(count: int) -> None:
    made = [Case(f"{query}", (f"{note}.md",)) for note in range(count) for query in range(3)]
    fitting, held_back = split(made)
    assert len(fitting) - len(held_back) == (3 if count % 2 else 0)


def several(notes: int, queries: int) -> list[Case]:
    return [
        Case(f"{note} {query}", (f"{note}.md",))
        for note in range(notes)
        for query in range(queries)
    ]


def test_few_cases_are_refused_with_their_number() -> None:
    assert len(halves("cases.yaml", several(4, 3))[0]) == 4 * 3 / 2
    with pytest.raises(MemwellError, match=r"cases\.yaml has 8 cases of 4 notes, .* at least 10"):
        halves("cases.yaml", several(4, 2))
    with pytest.raises(MemwellError, match=r"has 30 cases of 3 notes, .* at least 4 notes"):
        halves("cases.yaml", several(3, 10))
    knot = [*several(4, 3), Case("all", ("0.md", "1.md", "2.md", "3.md"))]
    with pytest.raises(MemwellError, match=r"All 13 cases of x are connected.*Add cases of other"):
        halves("x", knot)


# -- fitting and judging ---------------------------------------------------------------------------


def test_what_holds_now_is_tried_first_and_once() -> None:
    tried = candidates(SearchSettings())
    assert tried[0] == {
        "search.fusion": "standard",
        "search.words_weight": SearchSettings.words_weight,
    }
    assert len(tried) == len(grid()) == 8 + 3 + 3
    unusual: dict[str, str | float] = {
        "search.fusion": "rrf",
        "search.vector_weight": 2,
        "search.text_weight": 1,
    }
    settings = SearchSettings(fusion="rrf", vector_weight=2, text_weight=1)
    assert candidates(settings) == [unusual, *grid()]


WAYS: list[Overrides] = [{"search.words_weight": weight / 10} for weight in range(4)]


def tuned(ranks: Sequence[tuple[int, int]]) -> Tuning:
    """Tune where each way finds the note at one rank if the case is to fit, at another if not."""
    fitting, held_back = (to_dataset("x", several(2, 3)) for _ in range(2))

    def ask(question: Question, k: int, ways: Sequence[Overrides]) -> list[Ranking]:
        asked.append(len(ways))
        part = len(asked) > 6
        found = [ranks[WAYS.index(way)][part] for way in ways]
        note = f"{question.text[0]}.md"
        return [[*[("wrong.md", 1.0)] * (rank - 1), (note, 0.5)] for rank in found]

    asked: list[int] = []
    told: list[tuple[int, int]] = []
    result = tune(fitting, held_back, WAYS, ask, lambda *at: told.append(at))
    assert told == [(done, 12) for done in range(1, 13)]
    assert asked == [4] * 6 + [2] * 6  # those held back are not asked what was not chosen
    return result


def test_the_best_is_used_if_it_is_better_on_the_cases_held_back() -> None:
    result = tuned([(2, 4), (3, 1), (1, 2), (1, 1)])
    assert result.chosen == WAYS[2]  # the first of two that are as good
    assert (result.difference.first, result.difference.second) == (1 / 4, 1 / 2)
    assert result.difference.low == result.difference.high == 1 / 4  # each case differs by as much
    assert result.better


def test_what_is_better_only_on_the_cases_it_was_fitted_to_is_not_used() -> None:
    assert not tuned([(2, 2), (1, 3), (2, 1), (2, 1)]).better
    assert not tuned([(2, 2), (1, 2), (2, 1), (2, 1)]).better


def test_what_is_only_as_good_as_the_present_is_not_chosen() -> None:
    result = tuned([(2, 2), (2, 1), (3, 1), (2, 1)])
    assert (result.best, result.better) == (0, False)


# -- the command -----------------------------------------------------------------------------------

PLANTS = (
    "aloe",
    "basil",
    "cactus",
    "dahlia",
    "elder",
    "fern",
    "ginger",
    "hazel",
    "iris",
    "jasmine",
)
BELIEVES_MEANING = """\
# How this folder is searched.
agent = "main"

[search]  # ours
k = 5  # enough
words_weight = 0.1  # believe the meaning

[scan]
extra = []
"""


@pytest.fixture
def plants(workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Notes that differ by one word each, and one that counting words takes for every answer.

    What the queries say besides is in all of the notes, and tells the keyword leg nothing.
    """
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    write("MEMORY.md", "How do I look after it when we are away?\n")
    asked = []
    for plant in PLANTS:
        noise = " ".join(f"{plant[:2]}{one}{other}" for one in "bdfgk" for other in "aeiou")
        write(
            f"memory/{plant}.md",
            f"{noise} {plant}. How do I look after it when we are away? The {noise[::-1]}.\n",
        )
        for query in (f"how do I look after the {plant}", f"when we are away the {plant}"):
            asked.append({"query": query, "note": f"memory/{plant}.md"})
    write("cases.jsonl", "\n".join(map(json.dumps, asked)))
    assert run("index", cwd=workspace).returncode == 0
    return workspace


def test_tune_believes_the_words_where_they_find_more(plants: Path) -> None:
    file = plants / "memwell.toml"
    file.write_text(BELIEVES_MEANING)
    assert run("trust", cwd=plants).returncode == 0  # it names its agent
    done = run("tune", "cases.jsonl", cwd=plants)
    assert (done.returncode, done.stderr) == (0, "")
    assert "cases.jsonl: 20 queries, 10 notes; 10 queries to fit, 10 held back\n" in done.stdout
    assert "fusion=standard words_weight=0.1  (present)\n" in done.stdout
    assert re.search(r" 1\.000  best  \+0\.\d{3}  \(\+0\.\d{3} to \+0\.\d{3}\)\n", done.stdout)
    written = re.search(r"search\.words_weight = (\d\.\d+)  \(was 0\.1\)\n", done.stdout)
    assert written
    assert f"Written to {file}:\n" in done.stdout
    assert float(written[1]) > 0.1
    changed = f"words_weight = {written[1]}  # believe"
    assert file.read_text() == BELIEVES_MEANING.replace("words_weight = 0.1  # believe", changed)

    with Memory(workspace=plants) as memory:
        assert memory.settings.search.words_weight == float(written[1])
        assert memory.settings.search.k == 5
        for plant in PLANTS:
            assert (
                memory.search(f"when we are away the {plant}").hits[0].path == f"memory/{plant}.md"
            )
    again = run("tune", "cases.jsonl", cwd=plants)
    assert again.returncode == 1
    assert again.stdout.endswith("\nThe present settings are the best: nothing is written.\n")


def test_tune_writes_nothing_where_nothing_is_better(
    plants: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_SEARCH_WORDS_WEIGHT", "1.0")
    done = run_json("tune", "cases.jsonl", cwd=plants)
    assert (done["better"], done["changes"], done["written"]) == (False, {}, False)
    assert done["held_back"]["present"] == done["held_back"]["best"] == 1
    assert run("tune", "cases.jsonl", cwd=plants).returncode == 1
    assert not (plants / "memwell.toml").exists()


def test_a_dry_run_writes_nothing(plants: Path) -> None:
    file = plants / "memwell.toml"
    file.write_text(BELIEVES_MEANING)
    done = run("tune", "cases.jsonl", "--dry-run", cwd=plants)
    assert done.returncode == 0
    assert f"Would be written to {file}:\n  search.words_weight = 0." in done.stdout
    assert file.read_text() == BELIEVES_MEANING


def test_tune_as_json_and_what_the_environment_overrides(
    plants: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_SEARCH_WORDS_WEIGHT", "0.1")
    told = run_json("tune", "cases.jsonl", "-k", "5", "--dry-run", cwd=plants)
    assert [*told] == [
        *("name", "queries", "notes", "metric", "fitting", "held_back", "better", "changes"),
        *("file", "written", "overridden_by"),
    ]
    assert (told["queries"], told["notes"], told["metric"]) == (20, 10, "mrr@5")
    tried = told["fitting"]["tried"]
    assert len(tried) == 14
    assert [one["present"] for one in tried] == [True, *[False] * 13]
    (best,) = (one for one in tried if one["best"])
    assert best["metrics"]["mrr@5"] == max(one["metrics"]["mrr@5"] for one in tried)
    judged = told["held_back"]
    assert judged["difference"] == pytest.approx(judged["best"] - judged["present"], abs=1e-3)
    assert judged["low"] <= judged["difference"] <= judged["high"]
    assert told["changes"] == {"search.words_weight": best["settings"]["search.words_weight"]}
    assert (told["written"], told["file"]) == (False, str(plants / "memwell.toml"))
    assert told["overridden_by"] == ["MEMWELL_SEARCH_WORDS_WEIGHT"]

    done = run("tune", "cases.jsonl", cwd=plants)
    assert done.returncode == 0
    assert done.stderr == "$MEMWELL_SEARCH_WORDS_WEIGHT overrides the file: unset it\n"
    monkeypatch.delenv("MEMWELL_SEARCH_WORDS_WEIGHT")
    assert config.load(plants).search.words_weight == told["changes"]["search.words_weight"]


def test_outside_of_a_workspace_the_users_file_is_written(plants: Path, tmp_path: Path) -> None:
    user = tmp_path / "config" / "memwell.toml"
    user.parent.mkdir()
    user.write_text("[search]\nwords_weight = 0.1\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = run("tune", str(plants / "cases.jsonl"), cwd=elsewhere)
    assert done.returncode == 0
    assert f"Written to {user}:\n" in done.stdout
    assert config.load(None).search.words_weight > 0.1
    assert not (plants / "memwell.toml").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["few.yaml"], 3, "few.yaml has 2 cases of 1 notes, too few"),
        (["broken.jsonl"], 3, "broken.jsonl:1 "),
        (["gone.jsonl"], 3, "gone.jsonl cannot be read"),
        (["strange.jsonl"], 3, "Not in the index: memory/rose.md (strange.jsonl:21)"),
        (["memory"], 2, "is a directory"),
        (["cases.jsonl", "-k", "0"], 2, "0 is not in the range"),
        ([], 2, "Missing argument"),
    ],
)
def test_tune_says_what_is_wrong(
    plants: Path, write: Write, arguments: list[str], status: int, told: str
) -> None:
    write("few.yaml", "memory/fern.md: [fern, the fern]\n")
    write("broken.jsonl", "{\n")
    strange = json.dumps({"query": "thorns", "note": "memory/rose.md"})
    write("strange.jsonl", f"{(plants / 'cases.jsonl').read_text()}\n{strange}\n")
    done = run("tune", *arguments, cwd=plants)
    assert done.returncode == status
    assert told in " ".join(done.stderr.split())
    assert not (plants / "memwell.toml").exists()


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("MEMWELL_SEARCH_MODE", "words", 'search.mode = "words" ($MEMWELL_SEARCH_MODE)'),
        ("MEMWELL_EMBEDDING_CHAIN", "", "embedding.chain = [] ($MEMWELL_EMBEDDING_CHAIN)"),
    ],
)
def test_there_is_nothing_to_tune_without_both_legs(
    plants: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, told: str
) -> None:
    monkeypatch.setenv(variable, value)
    done = run("tune", "cases.jsonl", cwd=plants)
    assert done.returncode == 3
    assert f"Error: {told}: keyword search and vector search are not fused" in done.stderr


# -- one query in several ways ---------------------------------------------------------------------


def test_a_query_is_embedded_once_for_all_settings(
    workspace: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "test")
    write("MEMORY.md", "# Pets\n\nThe cat is named Miso.\n")
    write("memory/doors.md", "# Doors\n\nThe code of the cat door is 4711.\n")
    provider = Faulty()
    with Memory(workspace=workspace, embedders={"test": lambda **_: provider}) as memory:
        memory.index()
        ways = grid()
        together = memory.search_with("the cat door", ways, k=3)
        assert provider.queries == 1
        assert memory.search_with("the cat door", []) == ()
        modes = [{"search.mode": mode} for mode in ("words", "hybrid")]
        by_words, by_both = memory.search_with("the cat door", modes)
        assert by_words.hits == memory.search("the cat door", mode="words").hits
        assert by_both.hits == memory.search("the cat door").hits
        for way, result in zip(ways, together, strict=True):
            for name, value in way.items():
                monkeypatch.setenv(config.setting_named(name).variable, str(value))
            assert result.hits == memory.search("the cat door", k=3).hits  # synced_at may move on
