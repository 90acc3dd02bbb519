"""`python -m bench [NAME ...]`: run the benchmarks, print a table, write bench/out/results.json.

`python -m bench same-answers OLD NEW` compares two checkouts instead.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bench import (
    diversity,
    embedding,
    facts,
    fusion,
    hooks,
    indexing,
    load,
    mcp_search,
    memory,
    million,
    own_indexes,
    page,
    quality,
    queries,
    ranking,
    results,
    same_answers,
    scale,
    search,
    server,
    start,
    stores,
    sync,
    unanswerable,
    vectors,
    windows,
)
from bench.data import MissingData
from bench.peers import compare
from bench.results import Row

BENCHMARKS: Mapping[str, Callable[[], list[Row]]] = {
    "indexing": indexing.run,
    "memory": memory.run,
    "sync": sync.run,
    "queries": queries.run,
    "ranking": ranking.run,
    "quality": quality.run,
    "start": start.run,
    "vectors": vectors.run,
    "facts": facts.run,
    "hooks": hooks.run,
    "mcp": mcp_search.run,
}
ON_DEMAND: Mapping[str, Callable[[], list[Row]]] = {
    "million": million.run,
    "peers": compare.run,
    "search": search.run,
    "search-million": search.run_million,
    "windows": windows.run,
    "embedding": embedding.run,
    "unanswerable": unanswerable.run,
    "fusion": fusion.run,
    "diversity": diversity.run,
    "load": load.run,
    "server": server.run,
    "stores": stores.run,
    "scale": scale.run,
    "own-indexes": own_indexes.run,
    "page": page.run,
}
"""Only when named: they take many minutes."""
COMMANDS: Mapping[str, Callable[[list[str]], int]] = {"same-answers": same_answers.main}
"""They take arguments of their own and measure nothing."""
_FILE = Path(__file__).resolve().parent / "out" / "results.json"


def main(names: list[str]) -> int:
    """Run the benchmarks named, or all, or a command; return the exit status."""
    if names and names[0] in COMMANDS:
        return COMMANDS[names[0]](names[1:])
    known = {**BENCHMARKS, **ON_DEMAND}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"No benchmark {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    found: dict[str, list[Row]] = {}
    print(results.header(), flush=True)
    for name in names or BENCHMARKS:
        rows = _run(name)
        if rows:
            found[name] = rows
            results.write(_FILE, found)
    return 0


def _run(name: str) -> list[Row]:
    """Run one benchmark and print its rows, or why it was skipped."""
    started = time.perf_counter()
    try:
        rows = {**BENCHMARKS, **ON_DEMAND}[name]()
    except MissingData as missing:
        print(f"{name}: skipped, {missing}", flush=True)
        return []
    for row in rows:
        print(results.table_line(row), flush=True)
    print(f"{name} took {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
