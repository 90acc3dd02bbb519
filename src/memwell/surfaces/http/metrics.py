"""Counters and times, in the text format that Prometheus reads."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memwell.model import Viewer
from memwell.surfaces.http.tenant_metrics import TenantMetrics
from memwell.surfaces.http.viewer import ViewerMemory, viewer_of

_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_MOST_VIEWERS = 10_000
"""Viewers whose figures are kept; those of the first one are dropped."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"})

_WRITE_SECONDS = 2.0
"""How often a worker writes its counters."""
_TENANTS = "tenants"

router = APIRouter(tags=["server"])


class Metrics:
    """Counts and times of the requests since the server started."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._buckets: Counter[float] = Counter()
        self._seconds = 0.0

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        with self._lock:
            self._requests[method if method in _METHODS else "other", route, status] += 1
            self._seconds += seconds
            for bound in _BOUNDS:
                self._buckets[bound] += seconds <= bound

    def to_json(self) -> dict[str, Any]:
        """Return the counters, for another worker to add."""
        with self._lock:
            return {
                "requests": [[*request, count] for request, count in self._requests.items()],
                "buckets": [[bound, count] for bound, count in self._buckets.items()],
                "seconds": self._seconds,
            }

    def add(self, counters: dict[str, Any]) -> None:
        """Add the counters of a worker."""
        with self._lock:
            for method, route, status, count in counters["requests"]:
                self._requests[method, route, status] += count
            for bound, count in counters["buckets"]:
                self._buckets[bound] += count
            self._seconds += counters["seconds"]

    def lines(self) -> list[str]:
        """Return one figure per line."""
        with self._lock:
            requests, buckets, seconds = dict(self._requests), dict(self._buckets), self._seconds
        total = sum(requests.values())
        searches = sum(
            count
            for (_, route, status), count in requests.items()
            if route.endswith(("/search", "/recall")) and status == 200
        )
        return [
            "# TYPE memwell_requests_total counter",
            *(
                f'memwell_requests_total{{method="{method}",route="{route}",status="{status}"}}'
                f" {count}"
                for (method, route, status), count in sorted(requests.items())
            ),
            "# TYPE memwell_request_seconds histogram",
            *(
                f'memwell_request_seconds_bucket{{le="{bound}"}} {buckets.get(bound, 0)}'
                for bound in _BOUNDS
            ),
            f'memwell_request_seconds_bucket{{le="+Inf"}} {total}',
            f"memwell_request_seconds_sum {seconds:.6f}",
            f"memwell_request_seconds_count {total}",
            "# TYPE memwell_searches_total counter",
            f"memwell_searches_total {searches}",
        ]


class ViewerMetrics:
    """The figures of all requests, and of those of each viewer.

    Each worker of a server writes its own to a folder now and then, and adds those of the others
    when it is asked. The figures of a worker that died stay.
    """

    def __init__(self, folder: Path | None = None, named_tenants: int = 0) -> None:
        self._all = Metrics()
        self._tenants = TenantMetrics()
        self._named_tenants = named_tenants
        self._by_viewer: dict[Viewer, Metrics] = {}
        self._folder = folder
        self._stop = threading.Event()

    def __enter__(self) -> ViewerMetrics:
        if self._folder:
            threading.Thread(target=self._keep_writing, name="counters", daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()

    def count(
        self, viewer: Viewer | None, method: str, route: str, status: int, seconds: float
    ) -> None:
        """Count a request; it has no viewer if its token was refused, or if none is needed."""
        request = method, route, status, seconds
        self._all.count(*request)
        if viewer and viewer.tenant and self._named_tenants:
            self._tenants.count(viewer.tenant, status, seconds)
        if viewer:
            if viewer not in self._by_viewer and len(self._by_viewer) >= _MOST_VIEWERS:
                self._by_viewer.pop(next(iter(self._by_viewer)))
            self._by_viewer.setdefault(viewer, Metrics()).count(*request)

    def visible_to(self, viewer: Viewer) -> Metrics:
        """Return the figures of a viewer's own requests; an administrator sees those of all.

        Nobody sees those of other tenants but an administrator of the server.
        """
        sees_all = _sees_all(viewer)
        own = self._all if sees_all else self._by_viewer.get(viewer, Metrics())
        name = "" if sees_all else repr(viewer)
        total = Metrics()
        total.add(own.to_json())
        for counters in self._counters_of_others():
            if name in counters:
                total.add(counters[name])
        return total

    def tenant_lines(self, viewer: Viewer) -> list[str]:
        """Return the figures of the busiest tenants, for an administrator of the server."""
        if not self._named_tenants or not _sees_all(viewer):
            return []
        total = TenantMetrics()
        total.add(self._tenants.to_json())
        for counters in self._counters_of_others():
            total.add(counters[_TENANTS])
        return total.lines(self._named_tenants)

    def _counters_of_others(self) -> Iterator[dict[str, Any]]:
        """Yield the counters of each other worker."""
        for file in [*self._folder.glob("*.json")] if self._folder else []:
            if file.stem != str(os.getpid()):
                yield json.loads(file.read_text(encoding="utf-8"))

    def _keep_writing(self) -> None:
        written = ""
        while not self._stop.wait(_WRITE_SECONDS):
            viewers = {repr(viewer): own.to_json() for viewer, own in [*self._by_viewer.items()]}
            tenants = self._tenants.to_json()
            text = json.dumps({"": self._all.to_json(), _TENANTS: tenants, **viewers})
            if text != written and self._folder:
                part = self._folder / f"{os.getpid()}.part"
                part.write_text(text, encoding="utf-8")
                part.replace(part.with_suffix(".json"))
                written = text


def _sees_all(viewer: Viewer) -> bool:
    """Whether a viewer administers the server, not only a tenant."""
    return viewer.is_admin and not viewer.tenant


@dataclass(slots=True)
class MetricsMiddleware:
    """Counts every request by its route; addresses would be too many labels."""

    app: ASGIApp
    metrics: ViewerMetrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request and count it."""
        started, status = time.perf_counter(), 0

        async def send_and_note(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        await self.app(scope, receive, send_and_note)
        if scope["type"] == "http":
            route = getattr(scope.get("route"), "path", "other")
            seconds = time.perf_counter() - started
            self.metrics.count(scope.get("viewer"), scope["method"], route, status, seconds)


@router.get("/metrics", response_class=PlainTextResponse)
def get_metrics(request: Request, memory: ViewerMemory) -> PlainTextResponse:
    """Return counters, times and sizes for Prometheus, of what the viewer may see."""
    metrics: ViewerMetrics = request.app.state.metrics
    status = memory.status()
    gauges = {
        "memwell_index_bytes": status.bytes,
        "memwell_notes": sum(row.notes for row in status.workspaces),
        "memwell_chunks": sum(row.chunks for row in status.workspaces),
    }
    viewer = viewer_of(request)
    lines = metrics.visible_to(viewer).lines() + metrics.tenant_lines(viewer)
    for name, value in gauges.items():
        lines += [f"# TYPE {name} gauge", f"{name} {value}"]
    return PlainTextResponse("\n".join(lines) + "\n")


@router.get("/health")
async def health() -> dict[str, str]:  # not in a thread: all of them may be busy
    """Return that the server is running, and nothing else."""
    return {"status": "ok"}
