"""Hooks, as an agent runs them: real processes, events on stdin, and the socket of a server."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from memwell import Memory
from memwell import __version__ as memwell_version
from memwell.model import Fact
from memwell.store.contract.values import FactFilter
from memwell.surfaces.hook_socket import FILE_NAME, HookRequest, HookServer, ask_server
from memwell.surfaces.hooks.events import read_event
from memwell.surfaces.hooks.transcript import Position, read_messages
from tests.conftest import REPOSITORY
from tests.support.llm_servers import chatting
from tests.support.servers import silent, without_proxies
from tests.support.waiting import wait_until

DATA = REPOSITORY / "tests" / "support" / "data" / "hooks"
SCRIPTS = sysconfig.get_path("scripts")
SESSION = "7f3c1f0e-5b0a-4d0c-9a55-0d9b6a6f2c11"
TABS = "The user says: I prefer tabs over spaces in Go code."
QUEUE = "We decided to use Postgres for the job queue."

Done = subprocess.CompletedProcess[str]
Hook = Callable[..., Done]


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    file = tmp_path / "transcript.jsonl"
    file.write_bytes((DATA / "transcript.jsonl").read_bytes())
    return file


@pytest.fixture(autouse=True)
def recall_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a model for meaning, nothing is as relevant as recall expects by default."""
    monkeypatch.setenv("MEMWELL_RECALL_MIN_SCORE", "0.05")


@pytest.fixture
def hook(workspace: Path, transcript: Path) -> Hook:
    """Call a hook with an event that was recorded, some members of it changed."""

    def call(name: str, *options: str, **changed: Any) -> Done:
        event = event_of(name, workspace, transcript) | changed
        if "--timeout" not in options:
            options += ("--timeout", "60")  # a busy machine needs more than the default
        return run(*options, stdin=json.dumps(event))

    return call


def event_of(name: str, workspace: Path, transcript: Path) -> dict[str, Any]:
    text = (DATA / f"{name}.json").read_text(encoding="utf-8")
    event: dict[str, Any] = json.loads(text)
    return event | {"cwd": str(workspace), "transcript_path": str(transcript)}


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "memwell", "hook", *options]


def run(*options: str, stdin: str = "", **environment: str) -> Done:
    return subprocess.run(
        command(*options),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


def context(done: Done) -> str:
    """The context for the agent, in the form that Claude Code reads."""
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)["hookSpecificOutput"]
    assert {*output} == {"hookEventName", "additionalContext"}
    return str(output["additionalContext"])


def is_silent(done: Done) -> bool:
    return (done.returncode, done.stdout, done.stderr) == (0, "", "")


def facts(**viewer: str) -> list[Fact]:
    with Memory(**viewer) as memory:  # type: ignore[arg-type]
        return memory.facts.find(FactFilter(superseded=True))[::-1]


def texts() -> list[str]:
    return [fact.text for fact in facts()]


def log(home: Path) -> str:
    return (home / "hooks" / "log").read_text(encoding="utf-8")


# -- recall ----------------------------------------------------------------------------------------


def test_a_prompt_gets_what_is_remembered_of_it(hook: Hook, memory: Memory) -> None:
    memory.remember(QUEUE)
    block = context(hook("prompt", "recall"))
    assert block.startswith("<memwell-recall>")
    assert QUEUE in block


def test_a_prompt_of_which_nothing_is_known_gets_nothing(hook: Hook, memory: Memory) -> None:
    memory.remember("The boiler is in the cellar.")
    assert is_silent(hook("prompt", "recall", prompt="umbrellas"))
    assert is_silent(hook("prompt", "recall", prompt=""))


def test_the_notes_around_the_agents_folder_are_searched(hook: Hook, workspace: Path) -> None:
    (workspace / "MEMORY.md").write_text("# Queue\n\nThe job queue is in a database.\n")
    inside = workspace / "src"
    inside.mkdir()
    assert "MEMORY.md#L" in context(hook("prompt", "recall", cwd=str(inside)))


def test_only_the_users_and_the_sessions_own_facts_are_recalled(hook: Hook) -> None:
    with Memory(user="anna", session=SESSION) as memory:
        memory.remember("Anna keeps the job queue that we use.", scope="user")
    with Memory(session=SESSION) as memory:
        memory.remember("The job queue that we use was full.", scope="session")
    block = context(hook("prompt", "recall"))
    assert "was full" in block
    assert "Anna" not in block
    assert "Anna" in context(hook("prompt", "recall", "--user", "anna", session_id="other"))


def test_a_session_begins_with_decisions_and_with_what_matters_most(
    hook: Hook, memory: Memory
) -> None:
    memory.remember("The harbour opens at six.", category="technical")
    memory.remember("I prefer tea.", category="preference", importance=0.9)
    memory.remember(QUEUE, category="decision")
    for number in range(20):
        memory.remember(f"Fact number {number} is told.")
    lines = context(hook("start", "recall")).splitlines()[2:-1]
    assert QUEUE in lines[0]
    assert "tea" in lines[1]
    assert "number 19" in lines[2]
    assert len(lines) == 1 + 8
    assert "harbour" not in "".join(lines)


def test_a_resumed_session_gets_no_context_again(hook: Hook, memory: Memory) -> None:
    memory.remember(QUEUE)
    assert is_silent(hook("start", "recall", source="resume"))
    assert context(hook("start", "recall", source="compact"))


# -- whatever happens ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["recall", "capture"])
@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"hook_event_name": 5}', "\ud800", '{"cwd": "\\u0000"}']
)
def test_a_malformed_event_does_not_disturb_the_agent(name: str, text: str) -> None:
    done = subprocess.run(
        command(name), input=text.encode("utf-8", "surrogatepass"), capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_log_has_the_reason(home: Path) -> None:
    assert is_silent(run("recall", stdin="{"))
    assert "not a JSON object" in log(home)
    assert "not a JSON object" in run("recall", "--debug", stdin="{").stderr
    assert stat.S_IMODE((home / "hooks" / "log").stat().st_mode) == 0o600


def test_a_log_that_has_grown_makes_room(home: Path) -> None:
    run("recall", stdin="{")
    (home / "hooks" / "log").write_text("x" * 70_000)
    run("recall", stdin="{")
    assert len(log(home)) < 200
    assert (home / "hooks" / "log.1").exists()


def test_a_wrong_option_does_not_stop_the_agent(hook: Hook) -> None:
    for wrong in (("--bogus",), ("--timeout", "soon"), ("surplus",)):
        done = hook("stop", "capture", *wrong)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr


def test_a_home_that_cannot_be_created_does_not_disturb_the_agent(hook: Hook, home: Path) -> None:
    home.write_text("a file, not a folder")
    assert is_silent(hook("prompt", "recall"))
    assert is_silent(hook("stop", "capture"))


def test_an_agent_that_does_not_close_its_end_is_not_waited_for() -> None:
    process = subprocess.Popen(command("recall", "--timeout", "0.2"), stdin=subprocess.PIPE)
    assert process.stdin is not None
    with process.stdin:  # it stays open: a hook that waited for its end would never end
        assert process.wait(60) == 0


def test_a_database_that_is_locked_is_waited_for_no_longer_than_there_is_time(
    hook: Hook, home: Path, memory: Memory
) -> None:
    memory.remember("The boiler is in the cellar.")
    connection = apsw.Connection(str(home / "memory.db"))
    connection.execute("BEGIN IMMEDIATE")
    assert is_silent(hook("stop", "capture", "--timeout", "1.5"))
    assert "gave up after 1.5 s" in log(home)
    connection.execute("ROLLBACK")
    connection.close()
    assert is_silent(hook("stop", "capture"))  # nothing was taken for done
    assert {TABS, QUEUE} <= {*texts()}


# -- capture ---------------------------------------------------------------------------------------


def test_only_facts_that_the_user_stated_are_captured(hook: Hook) -> None:
    assert is_silent(hook("stop", "capture"))
    found = facts()
    assert [fact.text for fact in found] == [TABS, QUEUE]
    assert [fact.category for fact in found] == ["preference", "decision"]
    assert [fact.origin for fact in found] == [f"{SESSION}#L4", f"{SESSION}#L9"]
    assert {(fact.source, fact.scope, fact.target) for fact in found} == {
        ("conversation", "agent", "main")
    }
    assert {fact.confidence for fact in found} == {0.8}


def test_a_second_capture_finds_only_what_is_new(hook: Hook, transcript: Path) -> None:
    hook("stop", "capture")
    hook("end", "capture")
    assert {fact.confidence for fact in facts()} == {0.8}  # not reinforced
    with transcript.open("a") as file:
        file.write(json.dumps({"type": "user", "message": {"content": "Call me Jo."}}) + "\n")
    hook("end", "capture")
    assert texts() == [TABS, QUEUE, "The user says: Call me Jo."]
    assert facts()[-1].origin == f"{SESSION}#L11"


def test_captures_at_the_same_time_store_nothing_twice(
    workspace: Path, transcript: Path, home: Path
) -> None:
    event = json.dumps(event_of("stop", workspace, transcript))
    together = [
        subprocess.Popen(command("capture"), stdin=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for process in together:
        assert process.stdin is not None
        process.stdin.write(event)
        process.stdin.close()
    assert [process.wait(60) for process in together] == [0] * 4
    assert texts() == [TABS, QUEUE]
    assert log(home).count("remembered") == 1


def test_a_fact_of_a_user_is_that_users_unless_said_otherwise(hook: Hook) -> None:
    hook("stop", "capture", "--user", "anna")
    assert {(fact.scope, fact.target) for fact in facts(user="anna")} == {("user", "anna")}
    hook("stop", "capture", "--scope", "session", session_id="s2")
    assert {(fact.scope, fact.target) for fact in facts(session="s2")} == {("session", "s2")}


@pytest.mark.parametrize(
    "changed",
    [{"stop_hook_active": True}, {"hook_event_name": "SubagentStop"}, {"transcript_path": "/none"}],
)
def test_some_events_are_not_for_capture(hook: Hook, home: Path, changed: dict[str, Any]) -> None:
    assert is_silent(hook("stop", "capture", **changed))
    assert not (home / "memory.db").exists()


def test_a_secret_is_refused_and_stands_in_no_log(hook: Hook, home: Path, transcript: Path) -> None:
    secret = "correct-Horse7battery!"
    said = f"Remember that the password is {secret} everywhere. I prefer tea."
    transcript.write_text(json.dumps({"type": "user", "message": {"content": said}}))
    assert is_silent(hook("stop", "capture"))
    assert texts() == ["The user says: I prefer tea."]
    assert "1 remembered, 1 refused" in log(home)
    assert secret not in log(home)


def test_a_model_that_makes_no_answer_up_in_time_does_not_cost_the_recall(
    hook: Hook, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.remember("The standup is at 14:15.")
    with chatting() as server:
        server.usually = silent
        for name, value in (
            ("SEARCH_HYDE_ENABLED", "true"),
            ("LLM_DEFAULT", "openai:a-model"),
            ("LLM_OPENAI_BASE_URL", server.url),
            ("EMBEDDING_CHAIN", "test"),
        ):
            monkeypatch.setenv(f"MEMWELL_{name}", value)
        done = hook("prompt", "recall", "--timeout", "20", prompt="when is the standup")
    assert "14:15" in context(done)


def test_a_language_model_reads_what_was_said_if_one_is_configured(
    hook: Hook, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    without_proxies(monkeypatch)
    monkeypatch.setenv("MEMWELL_LLM_DEFAULT", "openai:a-model")
    with chatting() as server:
        monkeypatch.setenv("MEMWELL_LLM_OPENAI_BASE_URL", server.url)
        assert is_silent(hook("stop", "capture", "--rules", session_id="by rule"))
        assert server.requests == []
        assert is_silent(hook("stop", "capture"))
        assert texts() == [TABS, QUEUE, "The harbour opens at six."]
        (request,) = server.requests
        sent = json.dumps(request.body)
        assert "tabs over spaces" in sent
        assert not any(word in sent for word in ("look first", "Redis", "as root", "be brief"))
        server.usually = silent
        assert is_silent(hook("stop", "capture", "--timeout", "20", session_id="slow"))
        assert "used the rules" in log(home).splitlines()[-1]


# -- transcripts -----------------------------------------------------------------------------------


def lines(*said: object) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in said)


def test_a_line_that_is_being_written_is_left_for_the_next_time(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    whole = lines(
        {"type": "user", "message": {"content": "one"}}, {"role": "user", "content": "two"}
    )
    file.write_bytes(whole[:-20])
    *said, last = read_messages(file, Position())
    assert [(one.text, one.line) for one in said] == [("one", 1)]
    file.write_bytes(whole[:-1])  # whole, though the end of the line is missing
    *said, last = read_messages(file, last.after)
    assert [(one.text, one.line) for one in said] == [("two", 2)]
    file.write_bytes(whole + lines({"role": "user", "content": "three"}))
    *said, last = read_messages(file, last.after)
    assert [(one.text, one.line) for one in said] == [("three", 3)]
    assert last.after == Position(file.stat().st_size, 3)


def test_a_transcript_that_became_shorter_is_read_from_its_beginning(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_bytes(lines({"role": "user", "content": "one"}))
    assert [one.text for one in read_messages(file, Position(10_000, 70))] == ["one", ""]


def test_lines_of_any_shape_are_accepted(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    odd = [
        None,
        5,
        "user",
        {"type": "user"},
        {"type": "user", "message": "user"},
        {"type": "user", "message": {"content": [None, {"type": "text", "text": 5}]}},
    ]
    file.write_bytes(lines(*odd) + b'"user" \xff\n' + b'["user"' * 100_000)
    assert [one.text for one in read_messages(file, Position())] == [""]


# -- the socket of a server ------------------------------------------------------------------------


def request(workspace: Path, **changed: Any) -> HookRequest:
    return HookRequest(**{"message": "the job queue", "place": str(workspace), **changed})


@pytest.fixture
def served(workspace: Path, home: Path) -> Iterator[Memory]:
    """A memory that a server has open, with its socket."""
    with Memory(fallback_workspace=workspace) as memory, HookServer(memory) as socket_server:
        memory.remember(QUEUE)
        assert socket_server.is_open
        yield memory


def test_a_server_answers_in_place_of_the_hook(
    workspace: Path, transcript: Path, served: Memory
) -> None:
    event = json.dumps(event_of("prompt", workspace, transcript))
    broken = {"MEMWELL_SEARCH_K": "with this the hook cannot open the memory itself"}
    done = run("recall", "--agent", "main", "--timeout", "20", stdin=event, **broken)
    assert QUEUE in context(done)


def test_a_socket_is_private_and_goes_with_its_server(home: Path, memory: Memory) -> None:
    path = home / "agents" / "main" / FILE_NAME
    with HookServer(memory):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()
    assert ask_server(home, "main", HookRequest("x"), 1) is None


def test_a_second_server_leaves_the_socket_to_the_first(
    home: Path, workspace: Path, served: Memory
) -> None:
    with HookServer(served) as second:
        assert not second.is_open
    assert ask_server(home, "main", request(workspace), 5)


def test_a_socket_that_a_dead_server_left_is_replaced(workspace: Path, home: Path) -> None:
    code = (
        "import sys, time\nfrom memwell import Memory\nfrom memwell.surfaces.hook_socket import HookServer\n"
        f"with Memory(fallback_workspace={str(workspace)!r}) as memory, HookServer(memory):\n"
        "    print('open', flush=True); time.sleep(60)"
    )
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    with server:
        assert server.stdout is not None
        server.stdout.readline()
        assert ask_server(home, "main", request(workspace), 5) == {"block": ""}
        server.kill()
    assert (home / "agents" / "main" / FILE_NAME).exists()
    assert ask_server(home, "main", request(workspace), 5) is None
    with Memory(fallback_workspace=workspace) as memory, HookServer(memory) as socket_server:
        assert socket_server.is_open
        assert ask_server(home, "main", request(workspace), 5) == {"block": ""}


def test_a_server_of_another_user_or_workspace_does_not_answer(
    home: Path, workspace: Path, served: Memory, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "MEMORY.md").write_text("Another workspace.")
    for changed in ({"user": "anna"}, {"place": str(other)}, {"only_there": True}):
        answer = ask_server(home, "main", request(workspace, **changed), 5)
        assert answer is not None
        assert "another" in answer["refused"]
    assert ask_server(home, "other-agent", request(workspace), 5) is None


def test_a_server_shows_a_session_its_own_facts(
    home: Path, workspace: Path, served: Memory
) -> None:
    served.as_viewer(session="s1").remember("The job queue was full.", scope="session")
    answers = [
        ask_server(home, "main", request(workspace, session=name), 5) for name in ("s1", "s2")
    ]
    assert ["was full" in str(answer) for answer in answers] == [True, False]


def test_hooks_do_without_a_server_that_never_answers(
    hook: Hook, home: Path, memory: Memory
) -> None:
    memory.remember(QUEUE)
    with listening(home):
        assert QUEUE in context(hook("prompt", "recall", "--timeout", "30"))


def test_the_time_limit_holds_with_a_server_that_never_answers(hook: Hook, home: Path) -> None:
    with listening(home):  # a hook that waited for the answer would never end
        assert is_silent(hook("prompt", "recall", "--timeout", "0.1"))


@contextlib.contextmanager
def listening(home: Path) -> Iterator[None]:
    """A socket that takes what comes and never answers."""
    path = home / "agents" / "main" / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        yield


def test_clients_that_are_slow_or_broken_do_not_stop_a_server(
    home: Path, workspace: Path, served: Memory
) -> None:
    path = str(home / "agents" / "main" / FILE_NAME)
    with contextlib.ExitStack() as rude:
        for said in (
            b"",
            b"{",
            b"null\n",
            b'{"message": 5}\n',
            b"\xff\n",
            b"[" * 100_000 + b"\n",
            b"x" * 500_000,
        ):
            client = rude.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(path)
            threading.Thread(target=_send, args=(client, said), daemon=True).start()
        answer = ask_server(home, "main", request(workspace), 20)
    assert answer is not None
    assert QUEUE in answer["block"]


def _send(client: socket.socket, said: bytes) -> None:
    with contextlib.suppress(OSError):
        client.sendall(said)


def test_a_home_whose_path_is_too_long_has_no_socket(tmp_path: Path) -> None:
    with Memory(tmp_path / ("long" * 40)) as memory, HookServer(memory) as socket_server:
        assert not socket_server.is_open


@pytest.mark.parametrize(
    "module",
    ["memwell.surfaces.hook_socket", "memwell.surfaces.cli.hook", "memwell.surfaces.hooks.recall"],
)
def test_asking_a_server_imports_nothing_heavy(module: str) -> None:
    code = (
        f"import sys, {module}; print({{'mcp', 'numpy', 'onnxruntime', 'apsw'}} & {{*sys.modules}})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# -- settings of the agent -------------------------------------------------------------------------


def test_the_settings_of_claude_code_keep_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / ".claude" / "settings.json"
    options = ("config", "claude-code", "--user", "anna o", "--file", str(file))
    monkeypatch.setenv("PATH", SCRIPTS, prepend=os.pathsep)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    block = json.loads(run(*options).stdout)
    assert not file.exists()
    stop = block["hooks"]["Stop"][0]["hooks"][0]
    assert stop["command"] == "memwell hook capture --user 'anna o'"
    file.parent.mkdir()
    mine = {"hooks": [{"type": "command", "command": "make lint"}]}
    file.write_text(json.dumps({"model": "opus", "hooks": {"Stop": [mine]}}))
    assert "Stop" in run(*options, "--write").stdout
    written = json.loads(file.read_text())
    assert written["model"] == "opus"
    assert written["hooks"]["Stop"] == [mine, *block["hooks"]["Stop"]]
    assert written["hooks"]["SessionStart"] == block["hooks"]["SessionStart"]
    assert "already" in run(*options, "--write").stdout
    assert json.loads(file.read_text()) == written


@pytest.mark.parametrize("broken", ["{", "[]", '{"hooks": []}', '{"hooks": {"Stop": {}}}'])
def test_settings_that_cannot_be_read_are_left_alone(tmp_path: Path, broken: str) -> None:
    file = tmp_path / "settings.json"
    file.write_text(broken)
    done = run("config", "claude-code", "--write", "--file", str(file))
    assert done.returncode == 3
    assert "settings.json" in done.stderr
    assert file.read_text() == broken


def test_an_event_may_lack_anything() -> None:
    assert read_event("{}").folder is None
    assert read_event('{"cwd": "/does/not/exist"}').folder is None


# -- other programs --------------------------------------------------------------------------------

EVENTS: dict[str, dict[str, dict[str, Any]]] = {
    "codex": {
        "recall": {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "{}"},
        "capture": {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "{}"},
    },
    "gemini-cli": {
        "recall": {"hook_event_name": "BeforeAgent", "session_id": "s", "prompt": "{}"},
        "capture": {"hook_event_name": "AfterAgent", "prompt": "{}", "prompt_response": "Ok."},
    },
    "cursor": {
        "capture": {"hook_event_name": "beforeSubmitPrompt", "conversation_id": "s", "prompt": "{}"}
    },
    "windsurf": {
        "capture": {
            "agent_action_name": "pre_user_prompt",
            "trajectory_id": "s",
            "tool_info": {"user_prompt": "{}"},
        }
    },
}
"""An event for each command, as the documentation of the program shows it."""


def with_prompt(event: dict[str, Any], prompt: str) -> str:
    return json.dumps(event).replace('"{}"', json.dumps(prompt))


@pytest.mark.parametrize("program", EVENTS)
def test_other_programs_capture_the_prompt_that_they_send(program: str, tmp_path: Path) -> None:
    event = with_prompt(EVENTS[program]["capture"], "We decided to use Postgres for the job queue.")
    assert is_silent(run("capture", "--timeout", "60", stdin=event))
    (fact,) = facts()
    assert (fact.text, fact.source) == (QUEUE, "conversation")
    assert "#" not in fact.origin


@pytest.mark.parametrize("program", ["codex", "gemini-cli"])
def test_other_programs_receive_what_is_remembered(program: str, memory: Memory) -> None:
    memory.remember(QUEUE)
    event = EVENTS[program]["recall"]
    done = run("recall", "--timeout", "60", stdin=with_prompt(event, "which job queue do we use?"))
    assert QUEUE in context(done)
    told = json.loads(done.stdout)["hookSpecificOutput"]["hookEventName"]
    assert told == event["hook_event_name"]


def test_a_session_of_cursor_begins_with_what_matters(memory: Memory) -> None:
    memory.remember(QUEUE, category="decision")
    event = {"hook_event_name": "sessionStart", "conversation_id": "s", "workspace_roots": ["/"]}
    done = run("recall", "--timeout", "60", stdin=json.dumps(event))
    assert QUEUE in json.loads(done.stdout)["additional_context"]


@pytest.mark.parametrize("program", ["codex", "gemini-cli", "cursor", "windsurf"])
def test_every_program_gets_commands_that_exist_and_keeps_its_own(
    program: str, tmp_path: Path
) -> None:
    file = tmp_path / "hooks.json"
    options = ("config", program, "--user", "anna", "--file", str(file))
    block = json.loads(run(*options).stdout)["hooks"]
    event, first = next(iter(block.items()))
    mine = {"command": "make lint"}
    file.write_text(json.dumps({"hooks": {event: [mine]}}))
    assert event in run(*options, "--write").stdout
    written = json.loads(file.read_text())["hooks"]
    assert written == {**block, event: [mine, *first]}
    assert "already" in run(*options, "--write").stdout
    for entries in block.values():
        for entry in entries:
            hook = entry["hooks"][0] if "hooks" in entry else entry
            words = shlex.split(hook["command"])
            assert words[1] == "hook"
            assert words[2] in ("recall", "capture")
            assert words[3:] == ["--user", "anna"]
            assert Path(words[0]).is_file() or words[0] == "memwell"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_plugin_of_opencode_adds_what_is_remembered_and_captures(
    tmp_path: Path, memory: Memory, workspace: Path
) -> None:
    memory.remember("The launch code of the rocket is kept in the blue safe.")
    file = tmp_path / "memwell.js"
    options = ("config", "opencode", "--file", str(file))
    assert "chat.message" in run(*options, "--write").stdout
    assert "already" in run(*options, "--write").stdout
    assert file.read_text() == run(*options).stdout
    patient = file.read_text().replace('"recall"', '"recall", "--timeout", "60"')
    (tmp_path / "memwell.mjs").write_text(patient)  # a busy machine needs more than the default
    (tmp_path / "use.mjs").write_text(
        """
        import { Memwell } from "./memwell.mjs"
        const hooks = await Memwell({ directory: process.argv[2] })
        const part = { id: "prt_1", messageID: "m", sessionID: "s", type: "text" }
        for (const text of ["We decided to use Postgres for the job queue.", "Where is the launch code?"]) {
          const parts = [{ ...part, text }]
          await hooks["chat.message"]({ sessionID: "s" }, { message: {}, parts })
          console.log(JSON.stringify(parts))
        }
        """
    )
    done = subprocess.run(
        ["node", str(tmp_path / "use.mjs"), str(workspace)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    typed, added = json.loads(done.stdout.splitlines()[1])
    assert "blue safe" in added["text"]
    assert (added["id"], added["synthetic"], typed["text"][:10]) == ("prt_1m", True, "Where is t")
    wait_until(lambda: QUEUE in texts())


def test_a_plugin_for_claude_code_has_hooks_a_server_and_a_command(tmp_path: Path) -> None:
    done = run("plugin", str(tmp_path / "plugin"))
    written = {line.split(" written")[0] for line in done.stdout.splitlines()}
    assert written == {str(file) for file in (tmp_path / "plugin").rglob("*") if file.is_file()}
    hooks = json.loads((tmp_path / "plugin" / "hooks" / "hooks.json").read_text())
    assert hooks == json.loads(run("config", "claude-code").stdout)
    servers = json.loads((tmp_path / "plugin" / ".mcp.json").read_text())["mcpServers"]
    assert servers["memwell"]["args"] == ["mcp"]
    manifest = json.loads((tmp_path / "plugin" / ".claude-plugin" / "plugin.json").read_text())
    assert (manifest["name"], manifest["version"]) == ("memwell", memwell_version)
