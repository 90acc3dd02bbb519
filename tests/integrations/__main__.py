"""`make integrations`: runs the examples of docs/integrations.md and the checks beside this file.

A framework that cannot be installed, for example without a network, is skipped with one line that
says so. Everything else that fails is printed, and the exit status is 1. With --write, the outputs
in docs/integrations.md are written anew.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.integrations import agents, node
from tests.integrations.environments import CannotInstallError, Framework
from tests.support.documents import sandbox
from tests.support.llm_servers import chatting, says

PAGE = REPOSITORY / "docs" / "integrations.md"
MOST_LINES = 20
SKIPPED, FAILED = "SKIPPED", "FAILED"
FRAMEWORKS = {
    "LangChain": Framework(["langchain-core"]),
    "LangGraph": Framework(["langgraph"]),
    "LlamaIndex": Framework(["llama-index-core"]),
    "OpenAI Agents SDK": Framework(["openai-agents"]),
    "Pydantic AI": Framework(["pydantic-ai-slim"]),
    "CrewAI": Framework(["crewai"], ["mcp"]),
    "AutoGen": Framework(["autogen-core"]),
    "Haystack": Framework(["haystack-ai"]),
}
EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.S)


def sections() -> dict[str, str]:
    """Return the sections of the page, by their headings."""
    parts = re.split(r"^## (.+)\n", PAGE.read_text(encoding="utf-8"), flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def run_python(python: Path, program: str, folder: Path, model: str) -> str:
    """Run a program as a user would, and return what it prints; raise if it fails."""
    keys = ("MEMWELL_", "OPENAI_", "PYTHONPATH")
    others = {name: value for name, value in os.environ.items() if not name.startswith(keys)}
    environment = {
        **others,
        "MEMWELL_HOME": str(folder / "home"),
        "MEMWELL_CONFIG": str(folder / "config"),
        "OPENAI_BASE_URL": model,
        "OPENAI_API_KEY": "none",
        "CREWAI_DISABLE_TELEMETRY": "true",
        "OTEL_SDK_DISABLED": "true",
        "HAYSTACK_TELEMETRY_ENABLED": "false",
    }
    done = subprocess.run(
        [str(python), "-W", "ignore", "-c", program],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"exit status {done.returncode}\n{done.stdout}{done.stderr[-3000:]}")
    return done.stdout


def run_framework(name: str, framework: Framework, *, write: bool) -> str:
    """Run the example and the check of a framework; return what happened."""
    match = EXAMPLE.search(sections()[name])
    assert match, f"docs/integrations.md has no example for {name}"
    program, shown = match.groups()
    assert len(program.splitlines()) <= MOST_LINES, f"the example has over {MOST_LINES} lines"
    folder_name = name.lower().replace(" ", "_")
    python = framework.python(folder_name)
    with sandbox() as folder, chatting() as model:
        model.usually = says("At the harbour office.")
        printed = run_python(python, program, folder, model.url)
        if write:
            text = PAGE.read_text(encoding="utf-8")
            block = f"{program}```\n\n```text\n"
            PAGE.write_text(text.replace(block + shown, block + printed), encoding="utf-8")
        else:
            assert printed == shown, f"it printed\n{printed}"
    check = Path(__file__).with_name(f"check_{folder_name}.py")
    if check.exists():
        with sandbox() as folder, chatting() as model:
            model.usually = says("At the harbour office.")
            run_python(python, check.read_text(encoding="utf-8"), folder, model.url)
    return framework.version(folder_name)


def tasks(*, write: bool) -> dict[str, Callable[[], str]]:
    """Return everything that there is to run, by its name."""
    frameworks = {
        name: partial(run_framework, name, framework, write=write)
        for name, framework in FRAMEWORKS.items()
    }
    return {**frameworks, **node.TASKS, **agents.TASKS}


def run_task(name: str, task: Callable[[], str]) -> str:
    """Run a task, print how it ended and return the first word of that."""
    began = time.monotonic()
    try:
        outcome = f"ok, {task()}"
    except CannotInstallError as error:
        outcome = f"{SKIPPED}, it cannot be installed here ({error})"
    except (AssertionError, subprocess.TimeoutExpired) as error:
        outcome = f"{FAILED}: {error}"
    sys.stdout.write(f"{name}: {outcome} ({time.monotonic() - began:.0f} s)\n")
    sys.stdout.flush()
    return re.split(r"\W", outcome)[0]


def main() -> int:
    """Run everything, two tasks at a time; return the exit status."""
    write = "--write" in sys.argv
    named = [name for name in sys.argv[1:] if not name.startswith("--")]
    wanted = {name: task for name, task in tasks(write=write).items() if name in (named or [name])}
    with ThreadPoolExecutor(1 if write else 2) as pool:
        ends = [*pool.map(run_task, wanted, wanted.values())]
    if SKIPPED in ends:
        count = ends.count(SKIPPED)
        sys.stdout.write(f"{count} of {len(ends)} integrations were skipped, not tested\n")
    return 1 if FAILED in ends else 0


if __name__ == "__main__":
    sys.exit(main())
