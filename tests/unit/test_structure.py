"""What a machine does not check drifts."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import memwell

SOURCE = Path(memwell.__file__).parent

LAYERS = [
    {"surfaces"},
    {"evaluate"},
    {"memory"},
    {"extract"},
    {"facts"},
    {"search", "ingest"},
    {"store"},
    {"llm"},
    {"embed"},
    {"net"},
    {"config"},
    {"model", "reports", "token_estimate", "hashing", "files"},
    {"errors"},
]
"""From the top down: a module imports from its own layer's package or from below, never up."""

READS_CONFIG = {"surfaces", "memory"}
"""Others take the section that they need as a parameter; its class is in `memwell.config`."""


def modules() -> list[tuple[str, Path]]:
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        found.append((parts[0], file))
    return [(part, file) for part, file in found if part not in ("__init__", "__main__")]


def imported(file: Path, depth: int = 1) -> set[str]:
    """The parts of memwell that a module imports, lazily or not."""
    parts = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "memwell":
            names = [f"memwell.{alias.name}" for alias in node.names if alias.name != "__version__"]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively"
            names = [node.module or ""]
        parts |= {
            ".".join(name.split(".")[1 : depth + 1])
            for name in names
            if name.startswith("memwell.")
        }
    return parts


def test_imports_point_downwards() -> None:
    depth = {part: level for level, layer in enumerate(LAYERS) for part in layer}
    for part, file in modules():
        for other in imported(file) - {part}:
            assert depth[other] > depth[part], (
                f"{file.relative_to(SOURCE)} ({part}) imports {other}"
            )


def test_only_memory_and_the_surfaces_read_the_configuration() -> None:
    for part, file in modules():
        if {"config", "config.load"} & imported(file, depth=2) and part != "config":
            assert part in READS_CONFIG, f"{file.relative_to(SOURCE)} reads the configuration"


def test_pure_functions_know_no_sql_clock_or_environment() -> None:
    for name in (
        "normalise",
        "calibrate",
        "diversify",
        "fuse",
        "parse",
        "highlight",
        "snippet",
        "spelling",
    ):
        names = set()
        for node in ast.walk(
            ast.parse((SOURCE / "search" / f"{name}.py").read_text(encoding="utf-8"))
        ):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(node.module or "")
        assert not names & {"apsw", "os", "time", "sqlite3"}, name


def test_importing_memwell_prints_nothing_and_loads_nothing() -> None:
    code = "import memwell, sys; print(*sorted(m for m in sys.modules if m.startswith(('memwell', 'apsw', 'click', 'numpy'))))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["memwell"]
    assert run.stderr == ""


def test_a_search_loads_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['memwell', 'search', 'x']\n"
        "from memwell.surfaces.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(*sorted({m.split('.')[0] for m in sys.modules} & {'watchfiles', 'numpy', 'onnxruntime', 'yaml', 'anyio', 'mcp', 'pydantic', 'fastapi', 'starlette', 'uvicorn', 'jinja2'}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""


def test_all_is_what_is_visible() -> None:
    for name in memwell.__all__:
        assert getattr(memwell, name) is not None


def test_no_file_has_grown_too_long() -> None:
    for _, file in modules():
        assert len(file.read_text(encoding="utf-8").splitlines()) <= 450, file
