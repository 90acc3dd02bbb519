"""What one viewer can find out about another, and how servers tell their viewers apart."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from memwell import Memory
from memwell.surfaces.background import SERVER_SETTINGS
from memwell.surfaces.http.app import create_app
from memwell.surfaces.http.tokens import Tokens
from memwell.surfaces.mcp.tools import Tools
from tests.support.cli import run
from tests.support.http_servers import in_a_thread
from tests.support.postgres import app_url, new_tenant

SECRETS = [
    "Anna hides the kryptonite in Zanzibar.",
    "Anna flies to Zanzibar in April with Bertha.",
    "Anna's heron is called Methuselah.",
]


@pytest.fixture(params=["sqlite", "postgres"])
def ben(request: pytest.FixtureRequest, home: Path, write: Any, workspace: Path) -> Any:
    """The memory of Ben, who has a note and a fact."""
    write("notes.md", "# Birds\n\nThe heron eats fish.\n\n# Trees\n\nThe oak is old.\n")
    write("more.md", "The deploy goes out on Monday.\n")
    settings: dict[str, Any] = {"embedding.chain": ("test",)}
    if request.param == "postgres":
        settings |= {"store.url": app_url(), "store.tenant": new_tenant()}
    with Memory(home, user="ben", settings=settings) as memory:
        memory.index(workspace)
        memory.remember("Ben sails on Sundays.")
        memory.search("Sundays")
        memory.fill()
        yield memory


def test_counts_are_of_what_the_viewer_sees(ben: Memory) -> None:
    def counts() -> list[object]:
        status = ben.status()
        checks = [check for check in ben.doctor() if check.name == "vectors"]
        found = ben.search("heron", mode="hybrid")
        return [status.bytes, status.meaning, status.spaces, ben.spaces(), checks, found.freshness]

    before = counts()
    anna = ben.as_viewer("anna")
    for secret in SECRETS:
        anna.remember(secret)
    assert counts() == before
    assert anna.search("kryptonite").hits
    anna.fill()
    assert counts() == before
    (space,) = anna.spaces()
    assert space.chunks == space.embedded == ben.spaces()[0].chunks + 2


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_map_shows_the_same_points_beside_others(
    store: str, tmp_path: Path, workspace: Path, write: Any
) -> None:
    for number in range(9):
        write(f"{number}.md", f"The heron {number} eats fish.\n")
    samples: list[list[str]] = []
    for secrets in ([], SECRETS[:1]):
        settings: dict[str, Any] = {"embedding.chain": ("test",)}
        if store == "postgres":
            settings |= {"store.url": app_url(), "store.tenant": new_tenant()}
        with Memory(tmp_path / f"home{len(samples)}", user="ben", settings=settings) as ben:
            for secret in secrets:
                ben.as_viewer("anna").remember(secret)
                ben.as_viewer("anna").search("kryptonite")
            ben.index(workspace)
            points, _ = ben.contents.sample_with_vectors(4)
            samples.append([point.path for point in points])
    assert samples[0] == samples[1]
    assert len(samples[0]) == 3


def test_an_export_without_users_of_sessions_is_imported(tmp_path: Path) -> None:
    with Memory(tmp_path / "old", session="s1") as old:
        told = old.remember("The heron eats fish.", scope="session").fact
        exported = old.export().encode()
    assert told.target == "s1"
    with Memory(tmp_path / "new", user="anna", session="s1") as anna:
        assert anna.import_facts(exported).added == 1
        assert anna.facts.get(told.id).target == "s1@anna"


# -- everything that one viewer can observe ----------------------------------------------------------

_FACT_ID = re.compile(r"\b[0-9a-hjkmnp-tv-z]{20}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ][0-9:.]+(?:\+00:00|Z)?")
_DURATION = re.compile(
    r'"seconds": ?[\d.e-]+|memwell_request_seconds_(?:bucket|sum).*|\d+ ms(?=">)'
)
_ON_SERVER = re.compile(r'tenant-\w+|(?<="id":)\d+|(?<="id": )\d+|(?<=space )\d+|\d+(?= of 200")')
"""Tenants differ, and all tenants of a server share the numbers of vector spaces."""
_FORM_TOKEN = re.compile(r'name="token" value="[^"]*"')
_RANDOM = ((_TIME, "TIME"), (_DURATION, ""), (_FORM_TOKEN, ""), (_ON_SERVER, ""))


def make_words(count: int) -> list[str]:
    """Words that nobody says, each similar to four others."""
    chance = random.Random(7)
    words: list[str] = []
    while len(words) < count:
        word = "".join(chance.choice("bdfgklmnprstvz") + chance.choice("aeiou") for _ in range(4))
        words += [word[:-1] + end for end in ("a", "e", "o", "u", "y")]
    return words[:count]


@dataclass
class World:
    """A home with the notes and facts of Ben, and with or without those of Anna."""

    folder: Path
    words: list[str]
    settings: dict[str, Any]
    has_anna: bool
    is_new: bool = False
    """Whether Ben has no notes and facts yet."""

    def build(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        notes = self.folder / "workspace"
        notes.mkdir(parents=True)
        for number, word in enumerate([] if self.is_new else self.words[::3]):
            text = f"# Note {number}\n\nThe {word} stands beside the well.\n"
            (notes / f"note{number}.md").write_text(text, encoding="utf-8")
        with self.open("ben") as ben:
            ben.index(notes)
            if self.has_anna:
                self._tell_as_anna(ben)
            if not self.is_new:
                for word in self.words[::2]:
                    ben.remember(f"Ben probes {word} today.", scope="user")
                ben.remember("Ben's session is about wells.", scope="session")
            ben.search("wells")
            ben.fill()

    def open(self, user: str) -> Memory:
        session = "default"
        return Memory(self.folder / "home", user=user, session=session, settings=self.settings)

    def _tell_as_anna(self, memory: Memory) -> None:
        anna = memory.as_viewer("anna", "default")
        for number, word in enumerate(self.words):
            for copy in range(1 + number % 3):
                told = anna.remember(f"Anna hides {word} number {copy} in the cellar.")
                if number % 5 == 0:
                    anna.supersede(told.fact.id, f"Anna sold {word} number {copy} in spring.")
                if number % 7 == 0:
                    anna.remember(f"Anna's {word} is blue, says {copy}.", scope="user")
        anna.search("cellar")
        anna.recall(f"where is {self.words[0]}?")
        anna.fill()

    def observe(self) -> Iterator[tuple[str, str]]:
        """Yield each question of Ben with its answer."""
        ids: dict[str, str] = {}
        for question, answer in [*self._ask_http(), *self._ask_commands(), *self._ask_mcp()]:
            for pattern, name in _RANDOM:
                answer = pattern.sub(name, answer)
            for found in _FACT_ID.findall(answer):
                ids.setdefault(found, f"fact{len(ids)}")
            yield question, _FACT_ID.sub(lambda match: ids[match.group()], answer)

    def _ask_http(self) -> Iterator[tuple[str, str]]:
        tokens = Tokens(self.folder / "home")
        ben, anna = (tokens.add(name, name, "default") for name in ("ben", "anna"))
        settings = {**self.settings, **SERVER_SETTINGS}
        with (
            Memory(self.folder / "home", user="owner", settings=settings) as memory,
            in_a_thread(create_app(memory)) as server,
        ):
            if self.has_anna:
                replace(server, token=anna).get("/api/facts")
                replace(server, token=anna).post("/api/recall", {"message": self.words[0]})
            asker = replace(server, token=ben)
            for method, path, body in self._requests():
                answer = asker.ask(method, path, body)
                yield f"{method} {path} {body}", f"{answer.status} {answer.body.decode()}"

    def _requests(self) -> Iterator[tuple[str, str, Any]]:
        for number, word in enumerate(self.words):
            typo = word[:2] + word[3] + word[2] + word[4:]
            for mode in ("words", "meaning", "hybrid"):
                yield "POST", "/api/search", {"query": word, "mode": mode, "explain": True, "k": 50}
            history = {"include_superseded": True, "kind": "fact", "group": "passages"}
            yield "POST", "/api/search", {"query": f"{word} cellar", "explain": True, **history}
            common = f"Ben probes {word} beside the well today"
            for query in (typo, f'"{word} number"', f"{word[:4]}*", f"{word} -cellar", common):
                yield "POST", "/api/search", {"query": query, "explain": True}
            yield "POST", "/api/why", {"query": word, "path": f"note{number // 3}.md"}
            yield "POST", "/api/recall", {"message": f"where does {word} stand?"}
            yield "POST", "/api/search", {"query": typo, "mode": "words"}
            yield "GET", f"/hits?q={typo}", None
        for path in (
            *("status", "status?deep=true", "spaces", "doctor", "facts", "export", "verify"),
            *("facts?include_superseded=true", "facts?scope=session", "export?format=markdown"),
            *("get?reference=note0.md", "facts/01kh0000000000000000000000"),
        ):
            yield "GET", f"/api/{path}", None
        for path in (
            "facts",
            "timeline",
            "spaces",
            "map/regions",
            "map/points",
            "note?path=note0.md",
        ):
            yield "GET", f"/{path}", None
        for path in ("/metrics", "/v1/files", "/v1/vector_stores"):
            yield "GET", path, None
        yield "POST", "/api/index", None
        # The last one: a thread embeds it, sooner or later.
        told = {"text": f"Anna hides {self.words[0]} number 0 in the cellar.", "scope": "session"}
        yield "POST", "/api/remember", told

    def _ask_commands(self) -> Iterator[tuple[str, str]]:
        notes, viewer = self.folder / "workspace", ("--user", "ben", "--session", "default")
        environment = {
            **os.environ,
            "MEMWELL_HOME": str(self.folder / "home"),
            "MEMWELL_EMBEDDING_CHAIN": "test",
            **({"MEMWELL_STORE_URL": url} if (url := self.settings.get("store.url")) else {}),
            "MEMWELL_STORE_TENANT": self.settings.get("store.tenant", "default"),
        }
        commands: list[tuple[str, ...]] = [
            *(("search", word, "--explain", *viewer) for word in self.words[::5]),
            *(("search", f"{word[:-2]}x", "--mode", "words") for word in self.words[::5]),
            *(("recall", f"what about {word}?", *viewer) for word in self.words[::5]),
            *(("why", word, "note0.md") for word in self.words[::10]),
            *(("facts", "list", *viewer), ("facts", "list", "--session", "default")),
            *(("status",), ("status", *viewer), ("spaces",), ("spaces", *viewer)),
            *(("doctor",), ("doctor", *viewer), ("get", "note0.md")),
        ]
        for command in commands:
            done = run(*command, "--json", cwd=notes, env=environment)
            yield " ".join(command), f"{done.returncode} {done.stdout} {done.stderr}"
        done = run("export", *viewer, cwd=notes, env=environment)
        yield "export", f"{done.returncode} {done.stdout} {done.stderr}"

    def _ask_mcp(self) -> Iterator[tuple[str, str]]:
        with self.open("ben") as memory:
            tools = Tools(memory, lambda: None)
            for word in self.words[::5]:
                for answer in (tools.memory_search(word), tools.memory_recall(f"{word} well")):
                    yield f"mcp {word}", answer.model_dump_json()
            yield "mcp status", tools.memory_status().model_dump_json()


def compare_worlds(
    store: str,
    folder: Path,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
    *,
    ben_is_new: bool = False,
) -> None:
    monkeypatch.setenv("MEMWELL_NOW", "2026-03-01T10:00")
    observed = []
    tenant = new_tenant() if store == "postgres" else ""
    for number, has_anna in enumerate((False, True)):
        settings: dict[str, Any] = {"embedding.chain": ("test",)}
        if store == "postgres":
            settings |= {"store.url": app_url(), "store.tenant": f"{tenant}{number}"}
        if store == "lancedb":
            pytest.importorskip("lancedb")
            settings["vectors.backend"] = "lancedb"
        world = World(folder / "world", make_words(count), settings, has_anna, ben_is_new)
        world.build()
        observed.append([*world.observe()])
    alone, beside = observed
    assert len(alone) > 10 * count
    different = [
        f"{question}\n{_first_difference(before, after)}"
        for (question, before), (_, after) in zip(alone, beside, strict=True)
        if before != after
    ]
    summary = f"{len(different)} of {len(alone)} answers differ"
    assert not different, "\n".join([summary, *different[:20]])


def _first_difference(before: str, after: str) -> str:
    same = next((at for at, (x, y) in enumerate(zip(before, after, strict=False)) if x != y), 0)
    start = max(0, same - 60)
    return f"{before[start : start + 160]!r}\n{after[start : start + 160]!r}"


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "postgres", "lancedb"])
def test_nothing_that_a_viewer_observes_depends_on_others(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_worlds(store, tmp_path, 20, monkeypatch)


@pytest.mark.parametrize("store", ["sqlite", "postgres", "lancedb"])
def test_nothing_that_a_new_viewer_observes_depends_on_others(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_worlds(store, tmp_path, 5, monkeypatch, ben_is_new=True)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("store", ["sqlite", "postgres", "lancedb"])
def test_nothing_that_a_viewer_observes_depends_on_others_for_200_words(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_worlds(store, tmp_path, 200, monkeypatch)
