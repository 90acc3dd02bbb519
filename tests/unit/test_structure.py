"""The structure of the code: layers, public names, old names, and how sentences begin."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import memwell
from memwell import Memory
from tests.conftest import REPOSITORY, Write

SOURCE = Path(memwell.__file__).parent

LAYERS = [
    {"surfaces", "integrations", "client"},
    {"evaluate", "consolidate"},
    {"memory"},
    {"extract", "sources"},
    {"facts"},
    {"search", "ingest"},
    {"store"},
    {"llm"},
    {"embed"},
    {"net"},
    {"config"},
    {"model", "reports", "token_estimate", "files", "progress"},
    {"errors", "scripts", "platform"},
]
"""From the top down: a module imports from its own package or from layers below, never up."""

READS_CONFIG = {"surfaces", "evaluate", "memory"}
"""Only these load settings; all others receive values or a section of them."""

FORMER_MODULES = [
    "asking",
    "chain",
    "copying",
    "diagnosis",
    "evaluation",
    "meaning",
    "opened",
    "options",
    "passages",
    "remote",
    "settings",
    "settings_file",
    "tokens",
    "workspaces",
    "embed/answers",
    "embed/files",
    "embed/http",
    "embed/onnx",
    "embed/packages",
    "embed/patience",
    "embed/yardstick",
    "facts/conversation",
    "facts/copying",
    "facts/extract",
    "facts/forgetting",
    "facts/hyde",
    "facts/ingest",
    "facts/keeping",
    "facts/ledger",
    "facts/phrases",
    "facts/readers",
    "facts/recently",
    "facts/sources",
    "facts/transfer",
    "ingest/fill",
    "ingest/read",
    "ingest/recipe",
    "llm/lines",
    "llm/models",
    "llm/remote",
    "search/elsewhere",
    "search/mark",
    "search/select",
    "search/suggest",
    "search/when",
    "store/assemble",
    "store/backup",
    "store/base",
    "store/cache",
    "store/choose",
    "store/contained",
    "store/contents",
    "store/copying",
    "store/digests",
    "store/expressions",
    "store/facts",
    "store/facts_contract",
    "store/facts_schema",
    "store/filesystem",
    "store/filters",
    "store/index",
    "store/index_file",
    "store/keyword",
    "store/lance",
    "store/lance_tables",
    "store/lexicon",
    "store/notes",
    "store/places",
    "store/projection",
    "store/registry",
    "store/rests",
    "store/schema",
    "store/scratch",
    "store/snapshot",
    "store/spaces",
    "store/spaces_contract",
    "store/vector_sql",
    "store/vector_store",
    "store/vector_stores",
    "store/verify",
    "store/postgres/beside",
    "store/postgres/building",
    "store/postgres/candidates",
    "store/postgres/connect",
    "store/postgres/contained",
    "store/postgres/lexicon",
    "store/postgres/migrating",
    "store/postgres/own",
    "store/postgres/said",
    "store/postgres/sought",
    "store/postgres/tokens",
    "store/postgres/words",
    "surfaces/plain",
    "surfaces/socket",
    "surfaces/cli/agents",
    "surfaces/cli/copying",
    "surfaces/cli/evaluating",
    "surfaces/cli/explaining",
    "surfaces/cli/hooking",
    "surfaces/cli/indexing",
    "surfaces/cli/ingesting",
    "surfaces/cli/own_indexes",
    "surfaces/cli/passages",
    "surfaces/cli/remembering",
    "surfaces/cli/searching",
    "surfaces/cli/serving",
    "surfaces/cli/settings",
    "surfaces/cli/state",
    "surfaces/cli/storing",
    "surfaces/cli/transferring",
    "surfaces/cli/tuning",
    "surfaces/cli/watching",
    "surfaces/hooks/limits",
    "surfaces/hooks/progress",
    "surfaces/http/files",
    "surfaces/http/filters",
    "surfaces/http/indexing",
    "surfaces/http/records",
    "surfaces/http/shapes",
    "surfaces/http/store_files",
    "surfaces/http/stores",
    "surfaces/http/vector_stores",
    "surfaces/http/verbs",
]
"""Module paths that were renamed; none may come back."""


def modules() -> list[tuple[str, Path]]:
    """Return each module file with the part of memwell that it belongs to."""
    files = sorted(SOURCE.rglob("*.py"))
    parts = [file.relative_to(SOURCE).with_suffix("").parts[0] for file in files]
    return [
        (part, file)
        for part, file in zip(parts, files, strict=True)
        if part not in ("__init__", "__main__")
    ]


def imported_modules(file: Path) -> set[str]:
    """Return the modules that a file imports, lazily or not."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "memwell":
            found |= {f"memwell.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively"
            found.add(node.module or "")
    return found


def imported_parts(file: Path) -> set[str]:
    """Return the parts of memwell that a file imports."""
    names = [name.split(".") for name in imported_modules(file)]
    return {name[1] for name in names if name[0] == "memwell" and len(name) > 1} - {"__version__"}


# -- layers ----------------------------------------------------------------------------------------

DEPTH = {part: level for level, layer in enumerate(LAYERS) for part in layer}


def test_imports_point_downwards() -> None:
    for part, file in modules():
        for other in imported_parts(file) - {part}:
            assert DEPTH[other] > DEPTH[part], (
                f"{file.relative_to(SOURCE)} ({part}) imports {other}"
            )


def test_calls_point_downwards_too(workspace: Path, write: Write) -> None:
    """No layer below `memory` calls a method of `Memory`, not even through a protocol."""
    write("TOOLS.md", "# Tools\n\n- The staging database listens on port 5433.\n")
    memory_file = str(SOURCE / "memory" / "__init__.py")
    above = {"memory", "evaluate", "surfaces"}
    upward = set()

    def watch(frame: Any, event: str, _: Any) -> None:
        if event != "call" or frame.f_code.co_filename != memory_file or not frame.f_back:
            return
        caller = Path(frame.f_back.f_code.co_filename)
        is_method = "<locals>" not in frame.f_code.co_qualname  # callbacks may be called
        below = caller.is_relative_to(SOURCE) and caller.relative_to(SOURCE).parts[0] not in above
        if is_method and below:
            upward.add(f"{caller.relative_to(SOURCE)} calls {frame.f_code.co_qualname}")

    with Memory(workspace=workspace) as memory:
        sys.setprofile(watch)
        try:
            memory.index(workspace)
            memory.ingest_files(workspace)
            memory.remember("The cat is named Miso.")
            memory.recall("what is the cat called?")
            memory.why("staging port", "TOOLS.md")
        finally:
            sys.setprofile(None)
    assert upward == set()


def test_no_protocol_of_a_lower_layer_describes_memory() -> None:
    names = {name for name in dir(Memory) if not name.startswith("_")}
    for part, file in modules():
        if DEPTH[part] <= DEPTH["memory"]:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and any(
                isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases
            ):
                members = {
                    member.name for member in node.body if isinstance(member, ast.FunctionDef)
                } - {"__call__", "close"}
                assert not members or not members <= names, f"{file.name}: {node.name}"


def test_only_the_upper_layers_load_the_configuration() -> None:
    for part, file in modules():
        if imported_modules(file) & {"memwell.config", "memwell.config.load"}:
            assert part in (*READS_CONFIG, "config"), file.relative_to(SOURCE)


def test_each_store_engine_stands_alone() -> None:
    """PostgreSQL uses no SQLite module, and the words package uses no engine at all."""
    for package, forbidden in (
        ("postgres", ("memwell.store.sqlite", "memwell.store.vectors", "apsw")),
        ("words", ("memwell.store.sqlite", "memwell.store.postgres", "apsw", "psycopg")),
        ("contract", ("memwell.store.sqlite", "memwell.store.postgres", "apsw", "psycopg")),
    ):
        for file in (SOURCE / "store" / package).rglob("*.py"):
            wrong = [name for name in imported_modules(file) if name.startswith(forbidden)]
            assert not wrong, f"{file.relative_to(SOURCE)} imports {wrong}"


@pytest.mark.parametrize(
    "name",
    ["calibrate", "diversify", "fuse", "fuse_others", "highlight", "parse", "snippet", "spelling"],
)
def test_pure_functions_know_no_sql_clock_or_environment(name: str) -> None:
    names = imported_modules(SOURCE / "search" / f"{name}.py")
    assert not names & {"apsw", "os", "sqlite3", "time"}


# -- layout ----------------------------------------------------------------------------------------


def test_the_top_level_stays_small() -> None:
    assert len([*SOURCE.glob("*.py")]) <= 9
    assert len([*(SOURCE / "store").glob("*.py")]) <= 6


def test_no_former_module_comes_back() -> None:
    for name in FORMER_MODULES:
        assert not (SOURCE / f"{name}.py").exists(), name
    dotted = {"memwell." + name.replace("/", ".") for name in FORMER_MODULES}
    packages = {"memwell." + ".".join(p.relative_to(SOURCE).parts) for p in SOURCE.rglob("*")}
    for folder in ("src", "tests", "bench"):
        for file in (REPOSITORY / folder).rglob("*.py"):
            assert not imported_modules(file) & (dotted - packages), file


def test_the_formatter_lays_out_every_line() -> None:
    for folder in ("src", "tests", "bench"):
        for file in (REPOSITORY / folder).rglob("*.py"):
            if file != Path(__file__):
                assert "# fmt: skip" not in file.read_text(encoding="utf-8"), file


def test_no_file_has_grown_too_long() -> None:
    for _, file in modules():
        assert len(file.read_text(encoding="utf-8").splitlines()) <= 720, file


# -- public names ----------------------------------------------------------------------------------


@pytest.mark.process
def test_all_is_exactly_what_is_visible() -> None:
    assert sorted(memwell.__all__) == memwell.__all__
    assert dir(memwell) == sorted(memwell.__all__)
    for name in memwell.__all__:
        assert getattr(memwell, name) is not None
    code = (
        "import memwell, sys; [getattr(memwell, n) for n in memwell.__all__]; print(*vars(memwell))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    visible = {name for name in run.stdout.split() if not name.startswith("_")}
    submodules = {file.stem for file in SOURCE.iterdir()}
    assert visible - submodules - {"annotations", "Any", "TYPE_CHECKING"} <= {*memwell.__all__}


def public_methods(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a class."""
    for name, member in vars(kind).items():
        if not name.startswith("_"):
            yield name, member.fget if isinstance(member, property) else member


def test_every_type_that_memory_returns_is_public() -> None:
    source = Path(inspect.getsourcefile(Memory) or "").read_text(encoding="utf-8")
    (memory,) = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == "Memory"
    ]
    for method in memory.body:
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
            returned = re.findall(r"[A-Z]\w+", ast.unparse(method.returns or ast.Constant("")))
            assert {*returned} - {"None", "Path", "Self"} <= {*memwell.__all__}, method.name


def test_memory_has_one_class_and_typed_parameters() -> None:
    assert Memory.__bases__ == (object,)
    for name, method in public_methods(Memory):
        for parameter in inspect.signature(method).parameters.values():
            assert parameter.kind is not parameter.VAR_KEYWORD, f"{name}(**{parameter.name})"
            assert parameter.name == "self" or parameter.annotation is not parameter.empty, name


def test_remember_and_supersede_offer_the_fields_of_a_new_fact() -> None:
    from memwell.facts.service import NewFact

    defaults = {field.name: field.default for field in fields(NewFact) if field.name != "text"}
    for method in (Memory.remember, Memory.supersede):
        parameters = inspect.signature(method).parameters.values()
        named = {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}
        assert named == defaults, method.__name__


@pytest.mark.process
@pytest.mark.process
def test_a_user_program_sees_real_types(tmp_path: Path) -> None:
    assert (SOURCE / "py.typed").exists()
    program = tmp_path / "program.py"
    program.write_text(
        "from memwell import Memory\n"
        "with Memory() as memory:\n"
        "    reveal_type(memory.search('cat').hits[0].score)\n"
        "    reveal_type(memory.remember('The cat is Miso.', tags=['pets']).fact.id)\n"
        "    memory.remember('The cat is Miso.', importence=1)\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "program.py"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert 'Revealed type is "float"' in run.stdout.replace("builtins.", "")
    assert 'Revealed type is "str"' in run.stdout.replace("builtins.", "")
    assert 'Unexpected keyword argument "importence"' in run.stdout
    assert run.stdout.count("error:") == 1


def test_the_error_tree_is_complete_and_drawn() -> None:
    from memwell import errors

    drawn = {*re.findall(r"^[│├└─\s]*(\w+) {2,}", errors.__doc__ or "", re.M)}
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert drawn == defined
    for _, file in modules():
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                bases = {ast.unparse(base) for base in node.bases}
                is_error = bases & {"Exception", "ValueError", *defined}
                assert file.name == "errors.py" or not is_error, f"{file.name}: {node.name}"


# -- sentences -------------------------------------------------------------------------------------


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the string constants of a file, docstrings and messages alike, with their lines."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_no_docstring_begins_with_what() -> None:
    for _, file in modules():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                text = node.value.value
                assert not (isinstance(text, str) and re.match(r"What(ever)?\b", text)), (
                    f"{file.relative_to(SOURCE)}:{node.lineno}: {text[:60]}"
                )


def test_no_message_says_is_no_where_is_not_a_is_meant() -> None:
    for _, file in modules():
        for line, text in texts(file):
            found = re.search(r"(?<![Tt]here )\bis no (?!longer|more)\w+", text)
            assert not found, f"{file.relative_to(SOURCE)}:{line}: {text[:80]}"


# -- start -----------------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.process
def test_importing_memwell_prints_nothing_and_loads_nothing() -> None:
    code = "import memwell, sys; print(*sorted(m for m in sys.modules if m.startswith(('memwell', 'apsw', 'click', 'numpy'))))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["memwell"]
    assert run.stderr == ""


HEAVY = {
    "anyio",
    "fastapi",
    "httpx2",
    "jinja2",
    "mcp",
    "numpy",
    "onnxruntime",
    "pydantic",
    "starlette",
    "tomlkit",
    "uvicorn",
    "watchfiles",
    "yaml",
}


@pytest.mark.process
@pytest.mark.process
def test_a_search_loads_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['memwell', 'search', 'x']\n"
        "from memwell.surfaces.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        f"print(*sorted({{m.split('.')[0] for m in sys.modules}} & {HEAVY}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""
