"""The parts of the documentation that a machine writes, and how it checks them.

``python -m tests.support.documents`` (or ``make docs``) writes them anew; test_docs.py fails while they
are not what they would be. A block that begins with ``$ command`` is run, in a copy of the
examples, and must print what it shows.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memwell.config.fields import to_toml
from memwell.config.settings import SETTINGS
from tests.support.llm_servers import chatting, says

REPOSITORY = Path(__file__).parents[2]
PLACE = "/home/you/memwell"
"""What stands in the documentation for wherever the commands really ran."""
MODEL = "127.0.0.1:11434"
"""What stands for the address of the language model that answers there."""
MADE_UP = "Frost is forecast. The hoses on the plot are drained, and the pump stands indoors."
"""What it answers."""

_BLOCK = re.compile(r"(```console\n)(.*?)(```\n)", re.S)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")
_SIZE = re.compile(r"\(\d\.\d MB\)")
"""How large an index is just now depends on its log."""
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
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    home = {
        "MEMWELL_HOME": str(folder / ".home"),
        "MEMWELL_CONFIG": str(folder / ".config"),
        "MEMWELL_NOW": "2026-02-10",
        "MEMWELL_LLM_OPENAI_BASE_URL": model,
    }
    others = {name: value for name, value in os.environ.items() if not name.startswith("MEMWELL_")}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**others, **home, "PATH": path},
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )
    told = done.stdout.replace(str(folder), PLACE).replace(model.split("/")[2], MODEL)
    return _SIZE.sub("(1.5 MB)", _TIME.sub("2026-02-10T09:30:00+00:00", told))


@contextmanager
def sandbox() -> Iterator[Path]:
    """A copy of the examples to run commands in."""
    # A server that a page ends may still be writing its last.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary).resolve() / "memwell"
        shutil.copytree(REPOSITORY / "examples", folder / "examples")
        yield folder


if __name__ == "__main__":
    for page in documents():
        page.write_text(rewritten(page.read_text(encoding="utf-8")), encoding="utf-8")
