"""The figures of a peer, and the table of all of them as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians of one peer; seconds and bytes. Each time is a pair: processor and wall."""

    name: str
    search: str
    """The search that it offers: hybrid, or vectors alone."""
    index: tuple[float, float]
    cold: tuple[float, float]
    warm: tuple[float, float]
    peak: float
    """Memory of a process that searches."""
    index_peak: float
    disk: float
    ndcg: Mapping[str, float]
    """nDCG@10 by the name of the set."""


def table(peers: Sequence[Figures]) -> str:
    """Return the table; the best figure of each column is bold."""
    columns: list[tuple[str, Callable[[Figures], float], Callable[[Figures], str], bool]] = [
        ("index, s", lambda one: one.index[0], lambda one: _pair(one.index, 1), False),
        ("cold query, ms", lambda one: one.cold[0], lambda one: _pair(one.cold, 1000), False),
        ("warm query, ms", lambda one: one.warm[0], lambda one: _pair(one.warm, 1000), False),
        ("memory, MB", lambda one: one.peak, lambda one: f"{one.peak / 1e6:.0f}", False),
        ("to index", lambda one: one.index_peak, lambda one: f"{one.index_peak / 1e6:.0f}", False),
        ("disk, MB", lambda one: one.disk, lambda one: f"{one.disk / 1e6:.1f}", False),
    ]
    for name in peers[0].ndcg:
        columns.append((name, *_ndcg_column(name), True))
    lines = [["", "search", *(title for title, *_ in columns)]]
    lines.append(["---"] * len(lines[0]))
    best = [
        (max if greatest else min)(value(one) for one in peers) for _, value, _, greatest in columns
    ]
    for one in peers:
        cells = [
            f"**{show(one)}**" if value(one) == most else show(one)
            for (_, value, show, _), most in zip(columns, best, strict=True)
        ]
        lines.append([one.name, one.search, *cells])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def package_table(packages: Iterable[tuple[str, str, str]]) -> str:
    """Return the table of what was compared: package, version, licence."""
    rows = [("package", "version", "licence"), ("---",) * 3, *packages]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _ndcg_column(name: str) -> tuple[Callable[[Figures], float], Callable[[Figures], str]]:
    return lambda one: one.ndcg[name], lambda one: f"{one.ndcg[name]:.3f}".removeprefix("0")


def _pair(times: tuple[float, float], factor: float) -> str:
    """Show processor time and, in brackets, wall time."""
    spent, waited = (_short(factor * time) for time in times)
    return f"{spent} ({waited})"


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.1f}" if number >= 1 else f"{number:.2f}"
