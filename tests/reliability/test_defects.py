"""The tests of `defects` are complete, and can run on the version that was reviewed."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent / "defects"
PUBLIC = {"Hit", "IndexReport", "Memory", "MemwellError", "SearchResult", "__version__"}
"""The names that the version which was reviewed has, too."""


def find_imports(file: Path) -> Iterator[tuple[str, str]]:
    """Yield each module that a file imports, with each name that it imports from there."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


def test_each_defect_has_a_test() -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in FOLDER.glob("test_*.py"))
    found = {int(number) for number in re.findall(r"def test_reliability_d(\d\d)_", text)}
    # D27 is about the order of hits: tests/laws/test_indexing_order.py.
    assert found == {*range(1, 33)} - {27}
    on_servers = {int(number) for number in re.findall(r"def test_postgres_d(\d\d)_", text)}
    assert on_servers == {*range(1, 12)}


def test_the_tests_of_defects_use_only_what_old_versions_have() -> None:
    for file in FOLDER.glob("*.py"):
        for module, name in find_imports(file):
            allowed = (
                module.partition(".")[0] in {*sys.stdlib_module_names, "numpy", "psycopg", "pytest"}
                or (module == "memwell" and name in PUBLIC)
                or (module, name) == ("memwell.surfaces.cli", "main")
                or module in ("tests.conftest", "tests.reliability.defects")
                or module in ("tests.support.cluster", "tests.support.waiting")
                or module.startswith("tests.reliability.defects.")
            )
            assert allowed, f"{file.name} imports {name} from {module}"
