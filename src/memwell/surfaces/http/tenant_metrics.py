"""Figures of the busiest tenants for Prometheus: few labels, however many tenants there are.

They are gauges of the last minutes, not counters: the busiest tenants change, and a counter of the
others would fall whenever one of them got a name.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

MINUTES = 5
OTHERS = "other"
_MOST_KEPT = 50_000
"""Figures that are kept one by one; later ones of the same minutes belong to the others."""
_REQUESTS = "memwell_tenant_requests"
_REFUSED = "memwell_tenant_refused_requests"
_FAILED = "memwell_tenant_failed_requests"
_SECONDS = "memwell_tenant_request_seconds"


class TenantMetrics:
    """The requests of each tenant within the last minutes."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._figures: defaultdict[tuple[int, str, str], float] = defaultdict(float)
        self._minute = 0

    def count(self, tenant: str, status: int, seconds: float) -> None:
        """Count a request of a tenant."""
        with self._lock:
            minute = self._drop_old()
            if len(self._figures) >= _MOST_KEPT:
                tenant = OTHERS
            self._figures[minute, tenant, _REQUESTS] += 1
            self._figures[minute, tenant, _REFUSED] += status == 429
            self._figures[minute, tenant, _FAILED] += status >= 500
            self._figures[minute, tenant, _SECONDS] += seconds

    def to_json(self) -> list[list[Any]]:
        """Return the figures, for another worker to add."""
        with self._lock:
            self._drop_old()
            return [[*key, figure] for key, figure in self._figures.items()]

    def add(self, figures: Iterable[list[Any]]) -> None:
        """Add the figures of a worker."""
        with self._lock:
            for minute, tenant, name, figure in figures:
                self._figures[minute, tenant, name] += figure

    def lines(self, most: int) -> list[str]:
        """Return one figure per line, of the busiest tenants and of all others together."""
        by_tenant: dict[str, Counter[str]] = {}
        for _, tenant, name, figure in self.to_json():
            by_tenant.setdefault(tenant, Counter())[name] += figure
        others = by_tenant.pop(OTHERS, Counter())
        ranked = sorted(by_tenant, key=lambda tenant: (-by_tenant[tenant][_REQUESTS], tenant))
        for tenant in ranked[most:]:
            others.update(by_tenant[tenant])
        shown = [*((tenant, by_tenant[tenant]) for tenant in ranked[:most]), (OTHERS, others)]
        return [
            line
            for name in (_REQUESTS, _REFUSED, _FAILED, _SECONDS)
            for line in (
                f"# TYPE {name} gauge",
                *(f'{name}{{tenant="{_quote(of)}"}} {figures[name]:g}' for of, figures in shown),
            )
        ]

    def _drop_old(self) -> int:
        """Drop the figures of old minutes when another one begins; return the present minute."""
        minute = int(self._clock() // 60)
        if minute != self._minute:
            for key in [key for key in self._figures if key[0] <= minute - MINUTES]:
                del self._figures[key]
            self._minute = minute
        return minute


def _quote(name: str) -> str:
    """Return a name as the value of a label."""
    return name.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
