"""The parts of the documentation that a machine writes, and how it checks them.

``python -m tests.support.documents`` (or ``make docs``) writes them anew; test_docs.py fails while they
are not what they would be. A block that begins with ``$ command`` is run, in a copy of the
examples, and must print what it shows.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from memwell.config.fields import to_toml
from memwell.config.settings import SETTINGS
from memwell.surfaces import cli
from tests.support import reference
from tests.support.embedders import embedding_once
from tests.support.llm_servers import chatting, says

REPOSITORY = Path(__file__).parents[2]
PLACE = "/home/you/memwell"
"""The folder that the documentation shows instead of the one in which the commands ran."""
MODEL = "127.0.0.1:11434"
"""The address that the documentation shows instead of that of the test's language model."""
MADE_UP = "Frost is forecast. The hoses on the plot are drained, and the pump stands indoors."
"""The answer of that language model."""

_BLOCK = re.compile(r"(```console\n)(.*?)(```\n)", re.S)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")
_SIZE = re.compile(r"\(\d\.\d MB\)")
"""The size of an index depends on its write-ahead log."""
_SIMPLE = re.compile(
    r"(?:cd (?P<folder>[\w./-]+) && )?memwell (?P<arguments>(?:[^'\"|;&<>$`]|'[^']*'|\"[^\"$`]*\")*)"
)
"""A command of memwell without pipes, redirections or variables."""
_SETTINGS = re.compile(r"(<!-- settings -->\n).*?(<!-- end -->)", re.S)


def documents() -> list[Path]:
    """Every page a user reads."""
    return [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


def settings_table() -> str:
    """The table of settings, from the settings themselves."""
    rows = [
        f"| `{setting.name}` | `{to_toml(setting.default)}` | `{setting.variable}` | {setting.reason} |"
        for setting in SETTINGS
    ]
    return "\n".join(["| setting | default | environment | why |", "|---|---|---|---|", *rows, ""])


def rewritten(text: str) -> str:
    """A page with every generated part as it should be."""
    text = _SETTINGS.sub(lambda match: match[1] + settings_table() + match[2], text)
    if not _BLOCK.search(text):
        return text
    with sandbox() as folder, chatting() as model:
        model.usually = says(MADE_UP)
        return _BLOCK.sub(
            lambda match: match[1] + transcript(match[2], folder, model.url) + match[3], text
        )


def transcript(block: str, folder: Path, model: str) -> str:
    """Run the commands of a block and return it with what they print."""
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"$ {command}\n{run(command, folder, model)}" for command in commands)


def run(command: str, folder: Path, model: str) -> str:
    """Run a command as a reader would, with memwell on the path and a language model at hand."""
    if command == "make demo":
        command = "bash examples/demo.sh memwell"
    others = {name: value for name, value in os.environ.items() if not name.startswith("MEMWELL_")}
    environment = {
        **others,
        "MEMWELL_HOME": str(folder / ".home"),
        "MEMWELL_CONFIG": str(folder / ".config"),
        "MEMWELL_NOW": "2026-02-10",
        "MEMWELL_LLM_OPENAI_BASE_URL": model,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    simple = _SIMPLE.fullmatch(command)
    if simple:
        cwd = folder / (simple["folder"] or ".")
        printed = _run_in_process(shlex.split(simple["arguments"]), cwd, environment)
    else:
        printed = _run_in_shell(command, folder, environment)
    printed = printed.replace(str(folder), PLACE).replace(model.split("/")[2], MODEL)
    return _SIZE.sub("(1.5 MB)", _TIME.sub("2026-02-10T09:30:00+00:00", printed))


def _run_in_process(arguments: list[str], cwd: Path, environment: dict[str, str]) -> str:
    """Run `memwell` without a new process: half of the time of a page went into starting them."""
    written = io.BytesIO()
    output = io.TextIOWrapper(written, "utf-8", write_through=True)
    with (
        mock.patch.dict(os.environ, environment, clear=True),
        embedding_once(),
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
    ):
        cli.run(arguments)
    return written.getvalue().decode()


def _run_in_shell(command: str, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    return done.stdout


@contextmanager
def sandbox() -> Iterator[Path]:
    """A copy of the examples to run commands in."""
    # A server that a page ends may still be writing its last.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary).resolve() / "memwell"
        shutil.copytree(REPOSITORY / "examples", folder / "examples")
        yield folder


if __name__ == "__main__":
    reference.write_all()
    for page in documents():
        page.write_text(rewritten(page.read_text(encoding="utf-8")), encoding="utf-8")
