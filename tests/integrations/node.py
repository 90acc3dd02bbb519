"""Programs of Node that use memwell: the TypeScript client, the MCP SDK and the MCP Inspector."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.integrations.environments import FOLDER, CannotInstallError
from tests.support.documents import sandbox
from tests.support.http_servers import served

PAGE = REPOSITORY / "docs" / "integrations.md"
CLIENT = REPOSITORY / "clients" / "typescript"
TOKEN = "none"
_TIMEOUT = 240


def run_http_clients(kind: str) -> str:
    """Run the example of a client against a real server."""
    program, shown = _example(kind)
    with sandbox() as folder, served(folder / "home", folder) as server:
        if kind == "python":
            code = program.replace("http://127.0.0.1:8765", server.address)
            printed = _run([sys.executable, "-c", code], folder, {"MEMWELL_TOKEN": TOKEN})
            version = "this checkout"
        else:
            project = install_packages("client", ["typescript", "@types/node"])
            compiled = project / "node_modules" / "memwell-client"
            shutil.rmtree(compiled, ignore_errors=True)
            tsc = [str(project / "node_modules" / ".bin" / "tsc")]
            output = str(compiled / "dist")
            _run([*tsc, "--project", str(CLIENT), "--outDir", output], project)
            shutil.copy(CLIENT / "package.json", compiled)
            (project / "example.ts").write_text(program, encoding="utf-8")
            options = ["--target", "es2022", "--module", "nodenext", "--types", "node", "--strict"]
            _run([*tsc, *options, "--ignoreConfig", "example.ts"], project)
            variables = {"MEMWELL_URL": server.address, "MEMWELL_TOKEN": TOKEN}
            printed = _run(["node", "example.js"], project, variables)
            version = "typescript " + package_version(project, "typescript")
    assert printed == shown, f"it printed\n{printed}"
    return version


def run_mcp_sdk() -> str:
    """Run the documented session with the SDK of the protocol."""
    program, shown = _example("javascript")
    project = install_packages("mcp", ["@modelcontextprotocol/sdk"])
    (project / "example.mjs").write_text(program, encoding="utf-8")
    with sandbox() as folder:
        printed = _run(["node", str(project / "example.mjs")], folder, _memwell(folder))
    if "--write" in sys.argv:
        text = PAGE.read_text(encoding="utf-8")
        block = f"{program}```\n\n```text\n"
        PAGE.write_text(text.replace(block + shown, block + printed), encoding="utf-8")
    else:
        assert printed == shown, f"it printed\n{printed}"
    return "@modelcontextprotocol/sdk " + package_version(project, "@modelcontextprotocol/sdk")


def run_inspector() -> str:
    """List the tools and call some with the MCP Inspector."""
    project = install_packages("inspector", ["@modelcontextprotocol/inspector"])
    inspector = str(project / "node_modules" / ".bin" / "mcp-inspector")
    memwell = str(Path(sys.executable).with_name("memwell"))

    def ask(folder: Path, *options: str) -> dict[str, object]:
        command = [inspector, "--cli", memwell, "mcp", "--method", *options]
        answer: dict[str, object] = json.loads(_run(command, folder, _memwell(folder)))
        return answer

    with sandbox() as folder:
        tools = ask(folder, "tools/list")["tools"]
        assert isinstance(tools, list)
        assert "memory_search" in [tool["name"] for tool in tools]
        text = "text=The harbour office opens at six."
        call = ["tools/call", "--tool-name"]
        stored = ask(folder, *call, "memory_store", "--tool-arg", text)["structuredContent"]
        assert isinstance(stored, dict)
        assert stored["outcome"] == "added", stored
        query = "query=when does the harbour office open"
        found = ask(folder, *call, "memory_search", "--tool-arg", query)["structuredContent"]
        assert isinstance(found, dict)
        assert found["hits"][0]["citation"] == stored["citation"], found
    return "@modelcontextprotocol/inspector " + package_version(
        project, "@modelcontextprotocol/inspector"
    )


TASKS: dict[str, Callable[[], str]] = {
    "Python over HTTP": lambda: run_http_clients("python"),
    "TypeScript over HTTP": lambda: run_http_clients("typescript"),
    "MCP TypeScript SDK": run_mcp_sdk,
    "MCP Inspector": run_inspector,
}


def _example(language: str) -> tuple[str, str]:
    """Return the last example of the page in a language, and what it prints."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(rf"```{language}\n(.*?)```\n\n```text\n(.*?)```", text, re.S)
    program, shown = blocks[-1]
    assert len(program.splitlines()) <= 20
    return program, shown


def install_packages(name: str, packages: Sequence[str]) -> Path:
    """Return a project with npm packages, installed once."""
    if shutil.which("npm") is None:
        raise CannotInstallError("node and npm are not installed")
    project = FOLDER / f"node-{name}"
    stamp = project / "installed"
    wanted = hashlib.sha256(repr(packages).encode()).hexdigest()
    if not stamp.is_file() or stamp.read_text() != wanted:
        shutil.rmtree(project, ignore_errors=True)
        project.mkdir(parents=True)
        (project / "package.json").write_text('{"private": true, "type": "module"}')
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", *packages]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr or done.stdout).strip().splitlines() or ["no reason"]
            raise CannotInstallError(f"npm failed: {reason[-1]}")
        stamp.write_text(wanted)
    return project


def package_version(project: Path, package: str) -> str:
    file = project / "node_modules" / package / "package.json"
    return str(json.loads(file.read_text(encoding="utf-8"))["version"])


def _memwell(folder: Path) -> dict[str, str]:
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"MEMWELL_HOME": str(folder / "home"), "MEMWELL_CONFIG": str(folder), "PATH": scripts}


def _run(command: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None) -> str:
    others = {name: value for name, value in os.environ.items() if not name.startswith("MEMWELL_")}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**others, **(variables or {})},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"{command[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout
