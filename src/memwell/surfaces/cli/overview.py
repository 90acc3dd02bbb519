"""The commands in groups, each with its summary and an example: `memwell --help` and `memwell`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CommandSummary:
    """A command as the overview shows it."""

    name: str
    summary: str
    example: str


_FILE = Path(__file__).with_name("overview.txt")
_FIRST_STEP = """\
Nothing is indexed yet. Begin with a folder of notes:

  memwell index ~/notes              index every Markdown and text file below it
  memwell search "your question"     find the passages that answer

Then `memwell ui` opens the page, and `memwell mcp config claude-code --write` connects an agent.
All commands: memwell --help
"""
_NEXT_STEPS = """\
  memwell search "your question"     find the passages that answer
  memwell remember "a fact"          remember it
  memwell ui                         open the page in the browser
  memwell status                     show what is indexed

All commands: memwell --help
"""


def read_groups() -> Iterator[tuple[str, list[CommandSummary]]]:
    """Yield each group of commands with its title."""
    for part in _FILE.read_text(encoding="utf-8").strip().split("\n\n"):
        title, *lines = part.splitlines()
        rows = [CommandSummary(*line.split(" | ")) for line in lines]
        yield title.removeprefix("# "), rows


def find_example(name: str) -> str:
    """Return an example of a command; "" if the overview has none."""
    examples = {row.name: row.example for _, rows in read_groups() for row in rows}
    return examples.get(name, "")


def next_steps(home: Path) -> str:
    """Return what to do first, or next if the home has an index."""
    is_new = not any(home.glob("agents/*/workspaces.json")) and not (home / "memory.db").exists()
    return _FIRST_STEP if is_new else _NEXT_STEPS
