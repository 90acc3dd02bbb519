"""The fixed list of what `same-answers` asks of both checkouts.

A line of a list is a command line of memwell. `@name` stands for the id of a fact that an earlier
step kept under that name, and `@world` for the folder that everything happens in,
and `@store` for the address of the server, where there is one.
"""

from __future__ import annotations

import datetime as dt
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

NOW = dt.datetime(2026, 2, 10, 14, 15)
"""The time that the first command is told. It is a second later for each that follows."""
Shown = Literal["json", "jsonl", "lines", "nothing"]


@dataclass(frozen=True, slots=True)
class Step:
    """One command, and what of its output is compared."""

    words: tuple[str, ...]
    shown: Shown = "json"
    """JSON, lines of JSON, lines of text as they are, or only the exit status."""
    stdin: str = ""
    keeps: str = ""
    """The name that the id of the fact in the answer is kept under."""
    fails: bool = False
    """The command is meant to end with status 2 or 3."""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The command line, for people."""
        return shlex.join(self.words)


@dataclass(frozen=True, slots=True)
class Edit:
    """A file beneath the world is written, moved or removed between two commands."""

    path: str
    text: str | None = None
    to: str = ""


@dataclass(frozen=True, slots=True)
class Read:
    """A file that commands wrote beneath the world is compared."""

    path: str
    shown: Shown = "lines"


@dataclass(frozen=True, slots=True)
class Code:
    """A program that uses `memwell.Memory` and prints JSON."""

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class Request:
    """One request to `memwell serve`."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    keeps: str = ""


@dataclass(frozen=True, slots=True)
class Serve:
    """A server is started, asked and stopped."""

    requests: tuple[Request, ...]


@dataclass(frozen=True, slots=True)
class Talk:
    """`memwell mcp` is started on standard input and output, and asked (method, parameters)."""

    messages: tuple[tuple[str, Mapping[str, Any]], ...]


Doing = Step | Edit | Read | Code | Serve | Talk


def shown(line: str, *, now: str = "", **more: Any) -> Step:
    """Return a step whose JSON is compared."""
    return Step((*shlex.split(line), "--json"), **_at(now, more))


def lines(line: str, *, now: str = "", **more: Any) -> Step:
    """Return a step whose output is compared line by line."""
    return Step(tuple(shlex.split(line)), "lines", **_at(now, more))


def code(line: str, *, now: str = "", **more: Any) -> Step:
    """Return a step of whose answer only the exit status is compared."""
    return Step(tuple(shlex.split(line)), "nothing", **_at(now, more))


def fails(line: str) -> Step:
    """Return a step that is meant to be refused."""
    return Step(tuple(shlex.split(line)), "nothing", fails=True)


def _at(now: str, more: dict[str, Any]) -> dict[str, Any]:
    environment = {**more.pop("environment", {}), **({"MEMWELL_NOW": now} if now else {})}
    return {**more, "environment": environment}


def _each(command: str, text: str) -> tuple[Step, ...]:
    return tuple(shown(f"{command} {line}") for line in text.strip().splitlines())


def _event(name: str, **more: Any) -> str:
    event = {"hook_event_name": name, "session_id": "s1", "transcript_path": "../session.jsonl"}
    return json.dumps({**event, **more})


# -- what is written first -------------------------------------------------------------------------

WRITING: tuple[Doing, ...] = (
    shown("status"),
    shown("doctor"),
    code("search cat"),
    shown("index . --no-embed"),
    shown("search 'what is the name of the cat' --mode words"),
    shown("index ."),
    shown("index ."),
    shown("status"),
    shown("status --deep"),
    shown("spaces"),
    shown("doctor"),
    shown(
        'remember "Rod\'s standup is at 9:30 Berlin time." --tag standup --tag team'
        " --scope global --category decision --importance 0.9",
        keeps="standup",
        now="2026-01-05T09:00:00",
    ),
    shown('remember "rod\'s STANDUP is at 9:30, Berlin time" --scope global'),
    shown(
        'supersede @standup "Rod\'s standup is at 14:15 Berlin time." --tag standup',
        keeps="standup2",
        now="2026-02-09T10:00:00",
    ),
    shown(
        "remember 'The port of staging is 5433.' --category technical --decay stable --tag port",
        keeps="port",
        now="2026-01-20T08:00:00",
    ),
    shown("remember 'The port of staging is 5434.' --category technical", keeps="other_port"),
    shown(
        "remember 'Anna prefers tea to coffee.' --user anna --scope user --category preference"
        " --confidence 0.7",
        keeps="tea",
        now="2026-01-21T08:00:00",
    ),
    shown(
        "remember 'The review of this session is on Friday.' --user anna --session s9"
        " --decay session",
        keeps="review",
        now="2026-02-10T13:00:00",
    ),
    shown(
        "remember 'The deploy is halfway through step four.' --decay checkpoint",
        keeps="deploy",
        now="2026-02-10T02:00:00",
    ),
    shown(
        "remember 'The heating was serviced by Bauer.' --valid-from 2025-10-01 --scope agent",
        keeps="heating",
        now="2026-01-22T08:00:00",
    ),
    shown("remember '下午的会议在七楼。' --scope global", now="2026-01-23T08:00:00"),
    shown(
        "remember 'The key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD.' --secrets redact",
        now="2026-01-24T08:00:00",
    ),
    fails("remember 'thanks!'"),
    fails("remember 'The key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD.'"),
    fails("remember ''"),
    fails("supersede nothing 'There is no such fact.'"),
    shown("index ."),
)

# -- what changes nothing --------------------------------------------------------------------------

SEARCHES = _each(
    "search",
    r"""
what is the name of the cat
what is the name of the cat -k 1
what is the name of the cat -k 20 --explain
'what to do when a task seems impossible' -k 3 --explain
会议 --explain
会议 --mode words
会议 --mode meaning
'会议室 七楼'
肉じゃが
김치
'ผัดไทย'
heizung
calefacción
Straße
ERR_NGX_502
ERR_NGX_502 --mode words --explain
bm25RankToScore
bm25rank
rank --mode words
10.20.40.54
sourdouhg
sourdouhg --mode words
'sourdouhg startr' --mode words
'rod standup after:2026-02-05' -k 1
'rod standup before:2026-02-05' --explain
'omada AND (vlan OR firewall)'
'omada AND (vlan OR firewall)' --mode words --explain
'cat NOT dog'
'cat -vacuum'
'conf*'
'post* upgrade' --mode words
'"late blight"'
'"late blight" roof'
'"this phrase is nowhere" tomato'
'tomato path:home'
'tomato path:garden' --explain
'path:"garden/*.md"' -k 20
'path:memory after:2026-01-01'
'-path:memory standup'
tag:garden
'tag:garden tomato'
'-tag:garden tomato'
'tag:nothing tomato'
'tomato blight' --fusion standard --explain
'tomato blight' --fusion rrf --explain
'tomato blight' --fusion weighted --explain
'how do I renew the certificate' --mode hybrid --fusion rrf -k 10
'how do I renew the certificate' --mode words --explain
'how do I renew the certificate' --mode meaning --explain
'how do I renew the certificate' --diversity mmr -k 10 --explain
'how do I renew the certificate' --diversity cluster -k 10 --explain
'how do I renew the certificate' --diversity off -k 10
'backup restore' --context neighbours
'backup restore' --context section
'backup restore' --min-score 0
'backup restore' --min-score 0.5
'backup restore' --min-score 0.99
'harvest in August 2025' --explain
'what happened last week' --explain
'what happened 2 days ago'
'since December guests' --explain
'between June 2025 and September 2025 tomatoes'
'before the move'
'standup' --now 2025-09-01 --explain
'standup' --now 2027-01-01 --explain
'when is the standup' --kind fact --explain
'when is the standup' --kind note
'when is the standup' --kind fact --include-superseded
'when is the standup' --kind fact --as-of 2026-01-10
'when is the standup' --kind fact --as-of 2020-01-01
'when is the standup' --kind fact --fusion rrf --explain
'the port of staging' --kind fact
'who prefers tea' --user anna
'who prefers tea' --user ben
'the review' --user anna --session s9 --kind fact
'the deploy step' --kind fact --now 2026-02-10T03:00
'quantum chromodynamics of gluons'
'((unbalanced "quotes AND'
'AND OR NOT'
'a the of and'
'🐈'
'cat' --all -k 12
'cat' --agent nobody
""",
)

READING: tuple[Doing, ...] = (
    *SEARCHES,
    lines("search tomato --files-only -k 20"),
    code("search tomato"),
    code("search tomato --explain --context section"),
    fails("search tomato --unknown"),
    fails("search tomato -k 0"),
    fails("search cat --workspace ../elsewhere"),
    fails("search tomato --min-score 7"),
    fails("search tomato --as-of yesterday"),
    *_each(
        "why",
        r"""
'Rod standup time' profiles/rod.md
'tomato path:home' garden/tomatoes.md
'tomato' nowhere.md
'cat -vacuum' home/pets.md
'standup' memory/2025-08-04.md
'standup' profiles/rod.md -k 1
'what is the name of the cat' home/books.md --mode words
'what is the name of the cat' home/books.md --mode meaning -k 3
'harvest in August 2025' memory/2026-02-10.md --now 2025-09-01
""",
    ),
    *_each(
        "get",
        r"""
home/pets.md
home/pets.md#L8
home/pets.md#L6-L9
home/pets.md:6-9
languages/zh-meeting.md#L7-L11
""",
    ),
    fails("get home/nothing.md"),
    fails("get ../outside.md"),
    fails("get home/pets.md#L900"),
    *_each(
        "facts list",
        r"""
--category technical
--tag standup
--scope global
--scope agent
--scope user --user anna
--source cli
--source ingest
--include-superseded
--include-superseded --user anna --session s9
--as-of 2026-01-10
--as-of 2020-01-01
--agent nobody
""",
    ),
    shown("facts list"),
    fails("facts list --as-of never"),
    shown("status"),
    shown("status --deep"),
    shown("spaces"),
    shown("config"),
    shown("config search.k"),
    shown("config search.k", environment={"MEMWELL_SEARCH_K": "3"}),
    fails("config search.kk"),
    shown("search cat", environment={"MEMWELL_SEARCH_K": "3"}),
    shown("search cat", environment={"MEMWELL_SEARCH_WORDS_WEIGHT": "0.8"}),
    shown("search cat", environment={"MEMWELL_EMBEDDING_CHAIN": ""}),
    fails("search cat --mode neither"),
)

# -- what changes things ---------------------------------------------------------------------------

_TRANSCRIPT = "".join(
    json.dumps({"type": kind, "message": {"role": kind, "content": text}}) + "\n"
    for kind, text in (
        ("user", "We decided to use Postgres for the job queue. Why does make fail?"),
        ("assistant", "I prefer to look first. From now on, I will always run the build."),
        ("user", "I prefer tabs over spaces in Go code. Never push on a Friday."),
        ("user", "Remember that my password is hunter2hunter2. Is it late?"),
    )
)
_CASES = """
home/sourdough.md:
  - how often is the starter fed
  - bread that rises overnight
runbooks/tls-renewal.md: renew the certificate
"""

FACTS: tuple[Doing, ...] = (
    shown("facts show @standup"),
    shown("facts show @standup2"),
    shown("facts show @tea --user anna"),
    fails("facts show @tea"),
    fails("facts show nothing"),
    shown("facts history @standup2"),
    shown("facts history @port"),
    shown("recall 'when does Rod have his standup?'"),
    shown("recall 'when does Rod have his standup?' --budget 60"),
    shown("recall 'when does Rod have his standup?' --as-of 2026-01-10"),
    shown("recall 'when does Rod have his standup?' --include-superseded"),
    shown("recall 'who feeds the cat' --session s1"),
    shown("recall 'who feeds the cat' --session s1"),
    shown("recall 'quantum chromodynamics of gluons'"),
    code("recall 'who feeds the cat'"),
    shown("facts show @standup2"),
    shown("facts edit @port --text 'The port of staging is 5435.' --tag port --tag staging"),
    shown("facts edit @port --category entity --importance 0.2 --confidence 0.4"),
    fails("facts edit @port"),
    shown("facts promote @tea global --user anna"),
    fails("facts promote @standup2 nobody"),
    shown("facts prune", now="2026-02-12T00:00:00"),
    shown("facts list --include-superseded"),
    shown("facts history @port"),
    shown("ingest-files --dry-run --paths 'TOOLS.md,skills/web-research/*.md'"),
    shown("ingest-files"),
    shown("ingest-files"),
    Edit("notes/TOOLS.md", "# Machines\n\nsiskin: the second resolver.\n\n- Use `make test`.\n"),
    shown("ingest-files --dry-run"),
    shown("ingest-files"),
    shown("ingest-files --paths nothing.md"),
    fails("ingest-files --paths ,"),
    shown("facts list --source ingest"),
    shown("search 'second resolver' --kind fact"),
    shown("export"),
    Step(("export",), "jsonl"),
    shown("export ../facts.jsonl"),
    shown("export ../facts.md --format markdown"),
    Read("facts.jsonl", "jsonl"),
    shown("import ../facts.jsonl"),
    shown("import ../broken.jsonl"),
    fails("import ../nothing.jsonl"),
    shown("forget @other_port"),
    fails("forget @other_port"),
    fails("forget"),
    shown("forget --query '\"tabs over spaces\"' --yes"),
    shown("forget --query heating --yes"),
    fails("forget --query standup"),
    shown("facts list"),
)

FILES: tuple[Doing, ...] = (
    shown("import ../facts.jsonl", environment={"MEMWELL_HOME": "../second-home"}),
    shown("facts list --include-superseded", environment={"MEMWELL_HOME": "../second-home"}),
    shown("backup ../copy.db"),
    fails("backup ../copy.db"),
    shown("backup ../copy.db --force"),
    shown("verify ../copy.db"),
    shown("verify ../broken.jsonl"),
    fails("verify ../nothing.db"),
    shown("forget @port"),
    shown("restore ../copy.db"),
    fails("restore ../broken.jsonl"),
    shown("facts list"),
    shown("verify"),
    shown("search 'the port of staging' --kind fact --explain"),
    shown("forget --scope global --yes"),
    shown("facts list"),
)
"""Only where a memory is kept in files."""

SERVER: tuple[Doing, ...] = (
    shown("doctor"),
    fails("backup ../copy.db"),
    fails("verify"),
    shown("store index --smallest 1"),
    shown("search 'renew the certificate' --explain"),
    shown("search 会议 --mode words --explain"),
    shown("store copy @store ../third-home"),
)
"""Only where a memory is kept on a server."""

_OTHER = {"MEMWELL_EMBEDDING_CHAIN": "test:other"}
"""Another model: its vectors are a space of their own."""

REST: tuple[Doing, ...] = (
    Edit("cases.yaml", _CASES),
    Edit("wrong.yaml", "home/nowhere.md: what\n"),
    Edit("session.jsonl", _TRANSCRIPT),
    Step(("hook", "capture", "--timeout", "60"), "lines", stdin=_event("Stop")),
    Step(("hook", "capture", "--timeout", "60"), "lines", stdin=_event("Stop")),
    Step(
        ("hook", "capture", "--user", "ben", "--rules", "--timeout", "60"),
        "lines",
        stdin=_event("SessionEnd", session_id="s2"),
    ),
    shown("facts list --source conversation --user ben"),
    Step(
        ("hook", "recall", "--timeout", "60"),
        stdin=_event("UserPromptSubmit", prompt="which database has the job queue?"),
    ),
    Step(
        ("hook", "recall", "--timeout", "60"),
        "lines",
        stdin=_event("UserPromptSubmit", prompt="which database has the job queue?"),
    ),
    Step(("hook", "recall", "--timeout", "60"), stdin=_event("SessionStart", source="startup")),
    Step(
        ("hook", "recall", "--timeout", "60"),
        "lines",
        stdin=_event("SessionStart", source="resume"),
    ),
    Step(("hook", "recall", "--timeout", "60"), "lines", stdin="not JSON"),
    code("hook recall --wrong"),
    Step(("hook", "config", "claude-code", "--user", "anna")),
    code("hook config claude-code --write"),
    code("hook config claude-code --write"),
    Read("notes/.claude/settings.json", "json"),
    *(
        Step(("mcp", "config", client, "--user", "anna", "--workspace", "."))
        for client in ("claude-code", "claude-desktop", "cursor", "openclaw", "vscode")
    ),
    code("mcp config cursor --write"),
    code("mcp config cursor --write"),
    Read(".cursor/mcp.json", "json"),
    fails("mcp config nobody"),
    fails("mcp --user anna config cursor"),
    shown("eval ../cases.yaml"),
    shown("eval ../cases.yaml -k 3 --mode words --fail-under recall@3=0.99"),
    shown("eval ../cases.yaml --compare search.mode=words --fail-under mrr=1"),
    shown("eval ../asked.jsonl --run ../run.tsv --html ../page.html"),
    Read("run.tsv"),
    fails("eval ../wrong.yaml"),
    fails("eval ../cases.yaml --compare search.nothing=1"),
    fails("eval ../cases.yaml --fail-under nothing=1"),
    shown("tune ../asked.jsonl --dry-run"),
    fails("tune ../cases.yaml"),
    Edit("notes/home/new.md", "# New\n\nThe xylophone stands in the attic.\n"),
    shown("search xylophone"),
    Edit("notes/home/new.md", "# New\n\nThe xylophone stands in the cellar.\n"),
    shown("search xylophone"),
    Edit("notes/home/new.md", to="notes/garden/moved.md"),
    shown("index ."),
    shown("search xylophone --mode words"),
    Edit("notes/garden/moved.md"),
    shown("search xylophone --mode words"),
    Edit("notes/home/odd.md", "---\ntitle: [unclosed\n---\n\nThe front matter is broken.\n"),
    Edit("notes/home/long.md", "# Long\n\n" + "All work and no play. " * 3000),
    shown("index ."),
    Edit("notes/home/long.md"),
    shown("note 'The plumber comes on Friday.' --now 2026-02-11T09:30"),
    shown("note 'The electrician comes on Monday.'"),
    Step(("note", "--json"), stdin="Told on standard input.\n"),
    fails("note ''"),
    fails("note late --now tomorrow"),
    shown("search plumber -k 2"),
    shown("get memory/2026-02-11.md"),
    shown("index .", environment=_OTHER),
    shown("spaces", environment=_OTHER),
    shown("search 'tomato blight' --explain", environment=_OTHER),
    shown("spaces switch 1"),
    shown("spaces"),
    fails("spaces switch 77"),
    fails("spaces drop"),
    shown("spaces drop 2"),
    shown("index ../elsewhere"),
    shown("search hermit --all"),
    shown("search hermit"),
    shown("status"),
    code("reset --workspace @world/elsewhere --yes"),
    shown("status"),
    code("reset --yes", environment={"MEMWELL_AGENT": "other"}),
    shown("index memory --agent other --no-embed"),
    shown("search standup --agent other --mode words"),
    fails("search cat --agent a/b"),
    shown("serve token add laptop --user anna"),
    shown("serve token add phone"),
    fails("serve token add phone"),
    shown("serve token list"),
    code("serve token remove laptop"),
    code("serve token remove phone"),
    fails("serve token remove phone"),
    shown("serve token list"),
    lines("store roles"),
    lines("store roles --role app --tenant house --scope user:anna --scope agent:main"),
    fails("store roles --scope user:anna"),
    lines("store ddl --citus"),
    fails("store index"),
    shown("store copy ../home ../third-home"),
    shown("store copy ../home ../third-home"),
    fails("store copy ../nothing ../fourth-home"),
    lines("completion bash"),
    lines("completion zsh"),
    lines("completion fish"),
    lines("--version"),
    code("--help"),
    *(
        code(f"{command} --help")
        for command in (
            "index",
            "search",
            "why",
            "get",
            "note",
            "remember",
            "recall",
            "supersede",
            "forget",
            "facts",
            "ingest-files",
            "export",
            "import",
            "store",
            "backup",
            "restore",
            "verify",
            "status",
            "doctor",
            "reset",
            "spaces",
            "config",
            "watch",
            "eval",
            "tune",
            "mcp",
            "hook",
            "serve",
            "ui",
        )
    ),
    fails("serch cat"),
    Edit("notes/memwell.toml", "[search]\nk = 2\n"),
    shown("search cat"),
    shown("config search.k"),
    shown("doctor"),
    Edit("notes/memwell.toml", "[search]\nkk = 2\n"),
    fails("search cat"),
    Edit("notes/memwell.toml"),
    shown("tune ../asked.jsonl"),
    Read("notes/memwell.toml"),
    Edit("notes/memwell.toml"),
)

FACADE = Code(
    "memwell.Memory",
    """
import dataclasses, json
from memwell import Hit, IndexReport, Memory, MemwellError, SearchResult, __version__
with Memory(workspace=".") as memory:
    (report,) = memory.index(".")
    found = [memory.search("what is the name of the cat", k=3), memory.search("blight", k=2)]
assert isinstance(report, IndexReport) and isinstance(found[0], SearchResult)
assert isinstance(found[0].hits[0], Hit)
try:
    Memory(agent="a/b")
    refused = False
except MemwellError:
    refused = True
told = {"report": dataclasses.asdict(report), "found": [dataclasses.asdict(one) for one in found]}
print(json.dumps({**told, "refused": refused, "version": __version__}))
""",
)

# A server embeds what it is told when it has time. Whatever depends on that is asked before.
SERVING: tuple[Doing, ...] = (
    FACADE,
    Talk(
        (
            ("tools/list", {}),
            ("resources/templates/list", {}),
            ("prompts/list", {}),
            ("tools/call", {"name": "memory_search", "arguments": {"query": "name of the cat"}}),
            (
                "tools/call",
                {
                    "name": "memory_search",
                    "arguments": {"query": "cat", "k": 2, "full": True, "kind": "note"},
                },
            ),
            ("tools/call", {"name": "memory_get", "arguments": {"path": "home/pets.md#L6-L9"}}),
            ("tools/call", {"name": "memory_get", "arguments": {"path": "home/nothing.md"}}),
            (
                "tools/call",
                {"name": "memory_recall", "arguments": {"message": "who feeds the cat?"}},
            ),
            ("tools/call", {"name": "memory_status", "arguments": {}}),
            ("resources/read", {"uri": "memwell://note/home/pets.md"}),
            ("prompts/get", {"name": "recall", "arguments": {"message": "who feeds the cat?"}}),
            ("tools/call", {"name": "memory_store", "arguments": {"text": "The cellar is damp."}}),
            ("tools/call", {"name": "memory_store", "arguments": {"text": "thanks!"}}),
        )
    ),
    code("index ."),
    Serve(
        (
            Request("GET", "/openapi.json"),
            Request(
                "POST", "/api/search", {"query": "renew the certificate", "k": 3, "explain": True}
            ),
            Request("POST", "/api/search", {"query": "cat", "mode": "words", "context": "section"}),
            Request("POST", "/api/search", {"query": "cat", "k": 0}),
            Request("POST", "/api/why", {"query": "cat", "path": "home/books.md"}),
            Request("GET", "/api/get?reference=home/pets.md%23L6-L9"),
            Request("GET", "/api/get?reference=home/nothing.md"),
            Request("POST", "/api/recall", {"message": "who feeds the cat?"}),
            Request("GET", "/api/status"),
            Request("GET", "/api/spaces"),
            Request("GET", "/api/doctor"),
            Request("POST", "/api/remember", {"text": "The attic has a window."}, keeps="attic"),
            Request("POST", "/api/remember", {"text": "thanks!"}),
            Request(
                "POST",
                "/api/supersede",
                {"old": "@attic", "text": "The attic has no window."},
                keeps="attic2",
            ),
            Request("GET", "/api/facts"),
            Request("GET", "/api/facts/@attic2"),
            Request("GET", "/api/facts/@attic2/history"),
            Request("PATCH", "/api/facts/@attic2", {"category": "entity"}),
            Request("POST", "/api/facts/@attic2/promote", {"scope": "global"}),
            Request("POST", "/api/facts/prune"),
            Request("GET", "/api/export"),
            Request("GET", "/api/verify"),
            Request("POST", "/api/index"),
            Request("POST", "/api/forget", {"ids": ["@attic2"]}),
            Request("GET", "/api/facts/@attic2"),
            Request("GET", "/health"),
            Request("POST", "/v1/vector_stores", {"name": "house"}),
            Request("GET", "/v1/vector_stores"),
            Request("GET", "/v1/files"),
            Request("GET", "/nothing"),
        )
    ),
)
