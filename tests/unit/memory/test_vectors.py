"""Nothing that happens to a provider, a model or an index ever stops a search."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import apsw
import pytest

from memwell import Memory
from memwell.errors import (
    MemwellError,
    NotFoundError,
    ProviderFailing,
    ProviderUnavailable,
)
from memwell.model import Leg, SearchResult
from memwell.store.sqlite.index import SqliteIndex
from tests.conftest import REPOSITORY, Write
from tests.support.cli import run
from tests.support.embedders import Faulty
from tests.support.states import index_file

Chain = Callable[..., Memory]


@pytest.fixture
def chained(monkeypatch: pytest.MonkeyPatch) -> Chain:
    """Open a memory whose chain is these providers, by name; all that were ever named exist."""
    monkeypatch.setenv("MEMWELL_SEARCH_MIN_SCORE", "0")  # the cosines of counted words mean little
    factories: dict[str, Callable[[], Faulty]] = {}

    def open_memory(**embedders: Faulty) -> Memory:
        monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", ",".join(embedders))
        factories.update({name: partial(_itself, made) for name, made in embedders.items()})
        return Memory(embedders=factories)

    return open_memory


def _itself(embedder: Faulty) -> Faulty:
    return embedder


@pytest.fixture
def notes(write: Write, workspace: Path) -> Path:
    write("cats.md", "# Cats\n\nthe cat sleeps all day\n")
    write("dogs.md", "# Dogs\n\nthe dog barks at night\n")
    return workspace


def leg(result: SearchResult, name: str) -> Leg:
    return next(leg for leg in result.legs if leg.name == name)


def failing() -> ProviderFailing:
    """A failure whose pause is longer than anybody waits."""
    return ProviderFailing("it is down", "wait", retry_after=1000.0)


# -- both legs -------------------------------------------------------------------------------------


def test_both_legs_answer_and_the_result_says_so(chained: Chain, notes: Path) -> None:
    with chained(mine=Faulty()) as memory:
        memory.index(notes)
        result = memory.search("the cat")
    assert result.hits[0].path == "cats.md"
    assert result.legs == (Leg("words", True), Leg("meaning", True, detail="words (mine)"))
    assert result.freshness.unembedded == 0


def test_a_provider_with_a_new_model_says_what_to_do(chained: Chain, notes: Path) -> None:
    with chained(mine=Faulty("first")) as memory:
        memory.index(notes)
    with chained(mine=Faulty("second")) as memory:
        result = memory.search("cat")
        assert leg(result, "words").answered
        assert leg(result, "meaning").reason == (
            "mine: The vectors are of an earlier model (first)."
            " Run `memwell index` to embed with second"
        )
        memory.index(notes)
        assert leg(memory.search("cat"), "meaning").answered


def test_the_mode_chooses_the_legs(chained: Chain, notes: Path) -> None:
    provider = Faulty()
    with chained(mine=provider) as memory:
        memory.index(notes)
        assert [leg.name for leg in memory.search("cat", mode="words").legs] == ["words"]
        assert provider.queries == 0
        assert [leg.name for leg in memory.search("cat", mode="meaning").legs] == ["meaning"]
        with pytest.raises(MemwellError, match="is not a mode"):
            memory.search("cat", mode="telepathy")


def test_what_must_and_must_not_match_holds_for_meaning_too(chained: Chain, notes: Path) -> None:
    with chained(mine=Faulty()) as memory:
        memory.index(notes)
        assert {hit.path for hit in memory.search("the").hits} == {"cats.md", "dogs.md"}
        assert {hit.path for hit in memory.search('the "cat sleeps"').hits} == {"cats.md"}
        assert {hit.path for hit in memory.search("the -cat").hits} == {"dogs.md"}
        assert {hit.path for hit in memory.search("the path:dogs").hits} == {"dogs.md"}


# -- degradation: the table, by fault injection ----------------------------------------------------


def break_words(home: Path) -> None:
    """Damage the keyword index and nothing else."""
    index = SqliteIndex(index_file(home))
    with index.database.writing() as connection:
        connection.execute("UPDATE words_data SET block = zeroblob(50) || block WHERE id > 10")
    index.close()


def test_embedding_fails_words_answer(chained: Chain, notes: Path) -> None:
    provider = Faulty()
    with chained(mine=provider) as memory:
        memory.index(notes)
        provider.fault = failing()
        result = memory.search("cat")
    assert result.hits[0].path == "cats.md"
    assert leg(result, "words").answered
    assert not leg(result, "meaning").answered
    assert "it is down" in leg(result, "meaning").reason


def test_words_are_broken_vectors_answer_and_the_index_repairs_itself(
    chained: Chain, notes: Path, home: Path
) -> None:
    with chained(mine=Faulty()) as memory:
        memory.index(notes)
    break_words(home)
    with chained(mine=Faulty()) as memory:
        result = memory.search("cat")
        assert result.hits[0].path == "cats.md"
        assert not leg(result, "words").answered
        assert leg(result, "meaning").answered
        again = memory.search("cat", mode="words")
    assert again.legs == (Leg("words", True),)
    assert again.hits[0].path == "cats.md"


def test_both_fail_the_result_is_empty_and_says_why(
    chained: Chain, notes: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The home cannot be written either, so that the keyword index cannot be built anew."""

    def refuse() -> None:
        raise apsw.ReadOnlyError

    provider = Faulty()
    with chained(mine=provider) as memory:
        memory.index(notes)
    break_words(home)
    provider.fault = failing()
    with chained(mine=provider) as memory:
        assert isinstance(memory._index, SqliteIndex)
        monkeypatch.setattr(memory._index.database, "_open_writer", refuse)
        result = memory.search("cat")
    assert result.hits == ()
    assert {leg.name: leg.answered for leg in result.legs} == {"words": False, "meaning": False}
    assert "damaged" in leg(result, "words").reason
    assert "it is down" in leg(result, "meaning").reason


def test_broken_words_do_not_keep_meaning_from_filtering(
    chained: Chain, notes: Path, home: Path
) -> None:
    with chained(mine=Faulty()) as memory:
        memory.index(notes)
        break_words(home)
        result = memory.search('the "cat sleeps" -dog path:dogs', mode="meaning")
        assert {hit.path for hit in result.hits} == {"dogs.md"}


# -- the chain -------------------------------------------------------------------------------------


def test_unavailable_the_next_member_becomes_live(chained: Chain, notes: Path) -> None:
    first, second = Faulty("first"), Faulty("second", 32)
    first.fault = ProviderUnavailable("the key was refused", "get another")
    with chained(first=first, second=second) as memory:
        memory.index(notes)
        assert any("first: the key was refused" in notice for notice in memory.notices)
        result = memory.search("cat")
        status = memory.status()
    assert leg(result, "meaning").detail == "second (second)"
    assert [(p.name, p.usable) for p in status.providers] == [("first", False), ("second", True)]
    assert "the key was refused" in status.providers[0].detail


def test_a_member_that_is_back_takes_over_and_embeds_only_what_is_new(
    chained: Chain, notes: Path, write: Write
) -> None:
    first, second = Faulty("first"), Faulty("second", 32)
    with chained(first=first, second=second) as memory:
        memory.index(notes)
        first.fault = ProviderUnavailable("the key was refused")
        write("new.md", "# New\n\na hamster\n")
        memory.index(notes)
        assert leg(memory.search("cat"), "meaning").detail == "second (second)"
        first.fault = None
        before = len(first.texts)
        write("newer.md", "# Newer\n\na parrot\n")
        memory.index(notes)
        assert len(first.texts) - before == 2  # the hamster and the parrot
        assert leg(memory.search("cat"), "meaning").detail == "first (first)"
        assert {space.state for space in memory.spaces()} == {"live", "retired"}


def test_failing_nothing_is_embedded_by_another_and_the_work_is_finished_later(
    chained: Chain, notes: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Faulty("first"), Faulty("second", 32)
    with chained(first=first, second=second) as memory:
        memory.index(notes)
        first.fault = failing()
        write("new.md", "# New\n\na hamster\n")
        memory.index(notes, embed=False)
        report = memory.fill()
        assert (report.provider, report.left, second.texts) == ("first", 1, [])
        assert "it is down" in report.notes[0]
        first.fault = None
        assert memory.fill().embedded == 1


def test_a_failing_provider_is_left_alone_by_every_search(chained: Chain, notes: Path) -> None:
    provider = Faulty()
    with chained(mine=provider) as memory:
        memory.index(notes)
    provider.fault = failing()
    for _ in range(5):
        with chained(mine=provider) as memory:  # as five commands would
            result = memory.search("cat")
            assert result.hits
    assert provider.queries == 1
    assert "in its cooldown: it is down" in leg(result, "meaning").reason
    with chained(mine=provider) as memory:
        (status,) = memory.status().providers
        assert not status.usable
        assert "in its cooldown until 20" in status.detail
        provider.fault = None
        memory.index(notes)  # the user asks: it is tried again
        assert leg(memory.search("cat"), "meaning").answered


def test_another_filled_space_answers_while_a_provider_fails(chained: Chain, notes: Path) -> None:
    first, second = Faulty("first"), Faulty("second", 32)
    with chained(second=second) as memory:
        memory.index(notes)
    with chained(first=first, second=second) as memory:
        memory.index(notes)
        assert leg(memory.search("cat"), "meaning").detail == "first (first)"
        first.fault = failing()
        result = memory.search("cat")
    assert leg(result, "meaning").detail == "second (second)"
    assert result.hits[0].path == "cats.md"


def test_a_remote_provider_is_used_only_if_it_is_named(chained: Chain, notes: Path) -> None:
    remote, local = Faulty("remote", remote=True), Faulty("local", 32)
    with chained(remote=remote) as memory:
        memory.index(notes)
    asked = remote.queries
    with chained(local=local) as memory:
        result = memory.search("cat")  # the remote space is still the live one
        assert not leg(result, "meaning").answered
        assert "no longer in embedding.chain" in leg(result, "meaning").reason
    assert remote.queries == asked


def test_a_search_embeds_the_few_passages_that_came_since(
    chained: Chain, notes: Path, write: Write
) -> None:
    provider, remote = Faulty(), Faulty("far", remote=True)
    with chained(mine=provider) as memory:
        memory.index(notes)
        write("new.md", "# New\n\na hamster\n")
        assert memory.search("hamster", mode="meaning").hits[0].path == "new.md"
        for number in range(20):
            write(f"many{number}.md", f"number {number} of many\n")
        result = memory.search("many")
        assert result.freshness.unembedded == 20
        memory.fill()
    with chained(remote=remote) as memory:
        memory.fill()
        before = len(remote.texts)
        write("newest.md", "a newt\n")
        assert memory.search("newt").freshness.unembedded == 1
    assert len(remote.texts) == before


def test_no_chain_means_words_alone_and_no_complaint(memory: Memory, notes: Path) -> None:
    memory.index(notes)
    result = memory.search("cat")
    assert result.legs == (Leg("words", True),)
    assert result.freshness.unembedded == 0
    assert memory.status().meaning == "off (embedding.chain is empty)"


# -- spaces ----------------------------------------------------------------------------------------


def test_the_first_space_answers_while_it_is_filled_a_later_one_when_it_is_full(
    chained: Chain, notes: Path
) -> None:
    old, new = Faulty("old"), Faulty("new", 32)
    with chained(old=old) as memory:
        memory.index(notes)
        (first,) = memory.spaces()
        assert (first.state, first.embedded, first.chunks) == ("live", 2, 2)
    new.fault = failing()
    with chained(new=new, old=old) as memory:
        memory.fill()
        assert {s.model: (s.state, s.embedded) for s in memory.spaces()} == {
            "old": ("live", 2),
            "new": ("filling", 0),
        }
        assert leg(memory.search("cat"), "meaning").detail == "old (old)"
        new.fault = None
        memory.fill()
        assert {s.model: s.state for s in memory.spaces()} == {"new": "live", "old": "retired"}


def test_going_back_holds_until_the_chain_changes(
    chained: Chain, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = Faulty("old"), Faulty("new", 32)
    with chained(old=old) as memory:
        memory.index(notes)
    with chained(new=new, old=old) as memory:
        memory.index(notes)
        number = next(space.id for space in memory.spaces() if space.model == "old")
        assert memory.switch_space(number).state == "live"
        memory.index(notes)
        assert leg(memory.search("cat"), "meaning").detail == "old (old)"
    with chained(new=new) as memory:
        memory.index(notes)
        assert memory.spaces()[0].model == "new"


def test_dropping_a_space_leaves_nothing_of_it(chained: Chain, notes: Path, home: Path) -> None:
    old, new = Faulty("old"), Faulty("new", 32)
    with chained(old=old) as memory:
        memory.index(notes)
        memory._index.compact(old.fingerprint, even_if_little_changed=True)
        with pytest.raises(MemwellError, match="is live"):
            memory.drop_space(1)
        with pytest.raises(NotFoundError, match="Known spaces: 1"):
            memory.drop_space(7)
    with chained(new=new) as memory:
        memory.index(notes)
        memory.drop_space(1)
        assert [space.model for space in memory.spaces()] == ["new"]
    connection = apsw.Connection(str(index_file(home)))
    assert connection.execute("SELECT count(*) FROM vectors WHERE space_id = 1").get == 0
    assert connection.execute("SELECT count(*) FROM dead_vectors").get == 0
    assert not [*home.rglob("vectors-1-*")]


def test_a_retired_space_goes_when_it_is_old(
    chained: Chain, notes: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_KEEP_DAYS", "7")
    with chained(old=Faulty("old")) as memory:
        memory.index(notes)
    with chained(new=Faulty("new", 32)) as memory:
        memory.index(notes)
        for days, left in ((6, ["new", "old"]), (8, ["new"])):
            retired_at = dt.datetime.now(dt.UTC) - dt.timedelta(days=days)
            connection = apsw.Connection(str(index_file(home)))
            connection.execute(
                "UPDATE spaces SET retired_at = ? WHERE model = 'old'",
                (retired_at.isoformat(timespec="seconds"),),
            )
            connection.close()
            memory.index(notes)
            assert [space.model for space in memory.spaces()] == left


def test_a_search_replaces_a_scanned_file_that_it_cannot_use(
    chained: Chain, notes: Path, home: Path
) -> None:
    """It may be of an earlier version; without it a search reads all vectors from the index."""
    with chained(mine=Faulty()) as memory:
        memory.index(notes)
        memory._index.compact(memory.spaces()[0].fingerprint, even_if_little_changed=True)
    (file,) = home.rglob("vectors-1-*")
    file.write_bytes(file.read_bytes().replace(b"memwell vectors 3", b"memwell vectors 2"))
    with chained(mine=Faulty()) as memory:
        assert memory.search("the cat").hits[0].path == "cats.md"
        (new,) = home.rglob("vectors-1-*")
        assert new != file
        assert memory.search("the dog").hits[0].path == "dogs.md"
    assert [*home.rglob("vectors-1-*")] == [new]


def test_random_pairs_are_measured_while_filling(chained: Chain, write: Write) -> None:
    """Texts without a common word have the cosine 0, equal ones 1: here one pair in three is."""
    for number in range(30):
        write(f"{number}.md", ["aa bb", "cc dd", "ee ff"][number % 3])
    with chained(mine=Faulty(dimensions=4096)) as memory:
        memory.index(write("x.md", "gg hh").parent)
        (space,) = memory.spaces()
    assert space.random_mean is not None
    assert space.random_deviation is not None
    assert 0.05 < space.random_mean < 0.6
    assert space.random_deviation > 0.2


def test_another_chunk_size_leaves_no_gap(
    chained: Chain, write: Write, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the new passages have vectors, those of the former ones on the same lines answer."""
    animals = ["cat", "dog", "hamster", "parrot", "newt", "carp", "hen", "goat"]
    write("zoo.md", "# Zoo\n\n" + "\n\n".join(f"the {animal} " * 20 for animal in animals))
    for number in range(5):
        write(f"other{number}.md", "nothing of the kind")
    provider = Faulty(dimensions=1024)
    with chained(mine=provider) as memory:
        memory.index(workspace)
        monkeypatch.setenv("MEMWELL_CHUNK_SIZE", "40")
        monkeypatch.setenv("MEMWELL_CHUNK_OVERLAP", "0")
        memory.index(workspace, embed=False)
        space = memory.spaces()[0]
        assert space.embedded < space.chunks
        monkeypatch.setenv("MEMWELL_EMBEDDING_ON_SEARCH", "0")
        result = memory.search("goat", mode="meaning", k=3)
        assert result.hits[0].path == "zoo.md"
        assert result.freshness.unembedded == space.chunks - space.embedded
        memory.fill()
        best, *_ = memory.search("goat", mode="meaning").hits
        assert "goat" in best.text
        assert memory.spaces()[0].embedded == memory.spaces()[0].chunks
        assert isinstance(memory._index, SqliteIndex)
        windows = memory._index.database
        with windows.reading() as connection:
            assert connection.execute("SELECT count(*) FROM vectors WHERE window < 0").get == 0


# -- a change of model, killed in the middle -------------------------------------------------------

CHUNKS = 2_000
PER_NOTE = 50
EACH_TIME = 640
"""Chunks that a process embeds before its model hangs: ten batches."""


def large_workspace(workspace: Path) -> None:
    for number in range(CHUNKS // PER_NOTE):
        sections = (
            f"# Part {number} {part}\n\nword{number} item{part}\n" for part in range(PER_NOTE)
        )
        (workspace / f"{number}.md").write_text("\n".join(sections), encoding="utf-8")


FILL = """
import sys
sys.path.insert(0, {repository!r})
from memwell import Memory
from tests.support.embedders import Faulty
new = Faulty("new", 48, batch_texts=64, hang_after={hang_after})
with Memory(embedders={{"new": lambda: new, "old": lambda: Faulty("old")}}) as memory:
    print("begun", flush=True)
    report = memory.fill()
    print(report.embedded, flush=True)
"""


@pytest.mark.process
def test_a_model_change_goes_on_after_kill_and_searches_always_answer(
    workspace: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large_workspace(workspace)
    old, new = Faulty("old"), Faulty("new", 48)
    factories = {"old": lambda: old, "new": lambda: new}
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "old")
    with Memory(embedders=factories) as memory:
        memory.index(workspace)
        assert memory.spaces()[0].embedded == CHUNKS
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "new,old")
    details: list[str] = []
    done_before = 0
    with Memory(embedders=factories) as memory:
        for kill in (True, True, False):
            child = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    FILL.format(repository=str(REPOSITORY), hang_after=EACH_TIME if kill else None),
                ],
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ.copy(),
            )
            assert child.stdout is not None
            child.stdout.readline()
            while child.poll() is None:
                result = memory.search("word7 item3", k=3)
                assert len(result.hits) == 3
                assert result.hits[0].path == "7.md"
                details.append(leg(result, "meaning").detail)
                filled = {space.model: space for space in memory.spaces()}.get("new")
                if kill and filled and filled.embedded >= done_before + EACH_TIME:
                    child.send_signal(signal.SIGKILL)
                    child.wait()
            filled = {space.model: space for space in memory.spaces()}["new"]
            if kill:
                assert done_before < filled.embedded < CHUNKS
                done_before = filled.embedded
            else:
                # Nothing that was written is embedded again.
                assert int(child.stdout.read()) == CHUNKS - done_before
            child.stdout.close()
        assert {*details} <= {"old (old)", "new (new)"}
        assert details == sorted(details, key="new (new)".__eq__)  # old ... old new ... new
        assert leg(memory.search("word7 item3"), "meaning").detail == "new (new)"
        assert {s.model: s.state for s in memory.spaces()} == {"new": "live", "old": "retired"}
    lengths = apsw.Connection(str(index_file(home))).execute(
        "SELECT DISTINCT s.model, length(v.vector) FROM vectors v JOIN spaces s ON s.id = v.space_id"
    )
    assert {*lengths} == {("old", 64), ("new", 48)}


# -- keys ------------------------------------------------------------------------------------------

KEY = "sk-secret-0123456789abcdef"


def test_keys_appear_nowhere(
    notes: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing listens at the address, so that errors are made as well."""
    config = tmp_path / "config"
    config.mkdir()
    (config / "memwell.toml").write_text(
        f"""
        [embedding]
        chain = ["openai", "gemini"]
        [embedding.openai]
        key = "{KEY}"
        base_url = "http://127.0.0.1:9/v1"
        [embedding.gemini]
        base_url = "http://127.0.0.1:9"
        """
    )
    environment = {
        **os.environ,
        "GEMINI_API_KEY": KEY,
        "MEMWELL_HOME": str(home),
        "MEMWELL_CONFIG": str(config),
    }
    del environment["MEMWELL_EMBEDDING_CHAIN"]
    said = ""
    for command in (
        ["index", str(notes), "--no-embed"],
        ["search", "cat", "--all"],
        ["status"],
        ["status", "--json"],
        ["doctor"],
        ["doctor", "--json"],
        ["config"],
        ["config", "--json"],
        ["spaces"],
    ):
        done = run(*command, cwd=tmp_path, env=environment)
        said += done.stdout + done.stderr
    assert "openai" in said
    assert '"***"' in said
    monkeypatch.setattr("memwell.embed.batch.RetryPolicy.attempts", 1, raising=False)
    for name in ("MEMWELL_EMBEDDING_CHAIN", "MEMWELL_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MEMWELL_CONFIG", str(config))
    with Memory() as memory:
        said += repr(memory.settings) + repr(memory.status()) + repr(vars(memory))
    assert KEY not in said
    for file in home.rglob("*"):
        if file.is_file():
            assert KEY.encode() not in file.read_bytes(), file


def test_a_workspace_cannot_choose_where_notes_are_sent(
    workspace: Path, write: Write, memory: Memory
) -> None:
    write("MEMORY.md", "# Secrets\n")
    write("memwell.toml", '[embedding]\nchain = ["openai"]\n')
    memory.index(workspace)
    assert not memory.settings.embedding.chain
    assert "embedding.chain" in memory.notices[0]


# -- providers of other packages -------------------------------------------------------------------


def test_another_package_offers_a_provider(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example of docs/providers.md, installed as a package would be."""
    text = (REPOSITORY / "docs" / "providers.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(# memwell_initials\.py.*?)```", text, re.S)
    entry = re.search(
        r"```toml\n\[project\.entry-points\.\"memwell\.embedders\"\]\n(.*?)```", text, re.S
    )
    assert code
    assert entry
    site = tmp_path / "site"
    (site / "memwell_initials-1.0.dist-info").mkdir(parents=True)
    (site / "memwell_initials.py").write_text(code.group(1))
    (site / "memwell_initials-1.0.dist-info" / "METADATA").write_text(
        "Name: memwell-initials\nVersion: 1.0\n"
    )
    points = "[memwell.embedders]\n" + entry.group(1).replace('"', "")
    (site / "memwell_initials-1.0.dist-info" / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "initials")
    with Memory() as memory:
        memory.index(notes)
        result = memory.search("cat")
        assert leg(result, "meaning").answered
        assert json.dumps(memory.spaces()[0].provider) == '"initials"'


def test_a_name_that_nobody_offers_is_said(
    memory: Memory, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "nobody")
    with Memory() as opened:
        opened.index(notes)
        (status,) = opened.status().providers
    assert "nobody is not an embedding provider" in status.detail
    assert "minilm" in status.detail


def test_an_index_of_a_provider_that_is_gone_names_the_remedy(
    chained: Chain, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chained(mine=Faulty()) as memory:
        memory.index(notes)
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "memwell")
    with Memory() as memory:
        meaning = leg(memory.search("cat"), "meaning")
        assert not meaning.answered
        assert meaning.reason.endswith("run `memwell index` to embed with memwell")
        memory.index(notes)
        assert leg(memory.search("cat"), "meaning").answered


def test_without_a_provider_only_what_no_space_holds_is_waiting(
    chained: Chain, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chained(mine=Faulty()) as memory:
        memory.index(notes)
    monkeypatch.setenv("MEMWELL_EMBEDDING_CHAIN", "minlm")
    with Memory() as memory:
        report = memory.fill()
    assert (report.provider, report.left) == ("", 0)
    assert "minlm is not an embedding provider" in report.notes[0]
