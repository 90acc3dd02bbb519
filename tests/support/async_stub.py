"""Writes src/memwell/memory/async_memory.pyi from the classes whose methods it declares.

python -m tests.support.async_stub
"""

from __future__ import annotations

import ast
import copy
import subprocess
import sys
from pathlib import Path
from textwrap import indent

from tests.conftest import REPOSITORY

SOURCE = REPOSITORY / "src" / "memwell"
STUB = SOURCE / "memory" / "async_memory.pyi"
CLASSES = {
    "AsyncFactService": ("facts/service.py", "FactService"),
    "AsyncNoteBrowser": ("store/browse.py", "NoteBrowser"),
    "AsyncMemory": ("memory/__init__.py", "Memory"),
}
EXTRA = {
    "AsyncFactService": "def __init__(self, memory: Memory) -> None: ...",
    "AsyncNoteBrowser": "def __init__(self, memory: Memory) -> None: ...",
    "AsyncMemory": (
        "memory: Memory\n"
        "async def __aenter__(self) -> Self: ...\n"
        "async def __aexit__(self, *error: object) -> None: ...\n"
        "@property\ndef facts(self) -> AsyncFactService: ...\n"
        "@property\ndef contents(self) -> AsyncNoteBrowser: ..."
    ),
}
NOT_AWAITED = {"__init__", "as_viewer"}


def stub() -> str:
    """Return the stub as it should be."""
    imports: dict[str, None] = {}
    classes = []
    for name, (file, kind) in CLASSES.items():
        tree = ast.parse((SOURCE / file).read_text(encoding="utf-8"))
        imports |= dict.fromkeys(_imports(tree))
        (node,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == kind)
        lines = "\n".join([EXTRA[name], *_methods(node)])
        classes.append(f"class {name}:\n{indent(lines, '    ')}")
    head = [*imports, "from memwell.memory import Memory", "from typing import Self"]
    return _tidy("\n".join([*head, "", *classes, ""]))


def _imports(tree: ast.Module) -> list[str]:
    """Return the imports of a module, also those for type checking alone."""
    nodes = [*tree.body, *(n for top in tree.body if isinstance(top, ast.If) for n in top.body)]
    return [
        ast.unparse(node)
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        and not (isinstance(node, ast.ImportFrom) and node.module == "__future__")
    ]


def _methods(node: ast.ClassDef) -> list[str]:
    """Return the public methods as they are awaited."""
    found = []
    for member in node.body:
        if not isinstance(member, ast.FunctionDef):
            continue
        decorators = {ast.unparse(decorator) for decorator in member.decorator_list}
        is_public = not member.name.startswith("_") and "property" not in decorators
        if not is_public and not (member.name == "__init__" and node.name == "Memory"):
            continue
        arguments = copy.deepcopy(member.args)
        arguments.defaults = [ast.Constant(...) for _ in arguments.defaults]
        arguments.kw_defaults = [default and ast.Constant(...) for default in arguments.kw_defaults]
        returned = ast.unparse(member.returns) if member.returns else "None"
        kind = "def" if member.name in NOT_AWAITED else "async def"
        found.append(f"{kind} {member.name}({ast.unparse(arguments)}) -> {returned}: ...")
    return found


def _tidy(text: str) -> str:
    """Remove unused imports and format, as ruff does."""
    for arguments in (
        ["check", "--select", "F401,I001,UP", "--fix", "--quiet"],
        ["format", "--quiet"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(STUB), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        text = done.stdout
    return text


if __name__ == "__main__":
    Path(STUB).write_text(stub(), encoding="utf-8")
