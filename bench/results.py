"""What a benchmark returns: rows of figures, each beside its target, as a table and as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import apsw

_WIDTHS = (44, 12, 8, 12, 4)


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure should be: at most, at least, or no further from zero than `limit`."""

    kind: str
    limit: float

    def met_by(self, figure: float) -> bool:
        """Whether a figure is what it should be."""
        if self.kind == ">=":
            return figure >= self.limit
        return (abs(figure) if self.kind == "±" else figure) <= self.limit

    def __str__(self) -> str:
        return f"{self.kind} {self.limit:g}"


def at_most(limit: float) -> Target:
    """Ask for a figure no greater than `limit`."""
    return Target("<=", limit)


def at_least(limit: float) -> Target:
    """Ask for a figure no smaller than `limit`."""
    return Target(">=", limit)


def near_zero(limit: float) -> Target:
    """Ask for a figure no further from zero than `limit`."""
    return Target("±", limit)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure; without a target it is there for scale."""

    name: str
    figure: float
    unit: str
    target: Target | None = None
    detail: Mapping[str, object] = field(default_factory=dict)
    """The measurements that the figure comes from."""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        return None if self.target is None else self.target.met_by(self.figure)


def header() -> str:
    """Return the first lines of the table."""
    titles = _line("benchmark", "figure", "unit", "target", "met")
    return f"{titles}\n{'-' * len(titles)}"


def table_line(row: Row) -> str:
    """Return a row as a line of the table."""
    met = "" if row.met is None else "yes" if row.met else "NO"
    return _line(row.name, _shown(row.figure), row.unit, str(row.target or ""), met)


def _line(name: str, figure: str, unit: str, target: str, met: str) -> str:
    wide, *rest = _WIDTHS
    return (
        f"{name:<{wide}}{figure:>{rest[0]}}  {unit:<{rest[1]}}{target:>{rest[2]}}  {met:<{rest[3]}}"
    )


def _shown(figure: float) -> str:
    return f"{figure:.4f}" if abs(figure) < 1 else f"{figure:.2f}"


def write(file: Path, rows: Mapping[str, Sequence[Row]]) -> None:
    """Write the rows of each benchmark, and what they were measured with, as JSON."""
    shown = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "benchmarks": {
            name: [{**asdict(row), "met": row.met} for row in found] for name, found in rows.items()
        },
    }
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(shown, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
