"""Figures by tenant have few labels and cover the last minutes."""

from __future__ import annotations

import pytest

from memwell.surfaces.http import tenant_metrics
from memwell.surfaces.http.tenant_metrics import MINUTES, TenantMetrics


class Clock:
    now = 1_767_225_600.0

    def __call__(self) -> float:
        return self.now


def figures(metrics: TenantMetrics, most: int, name: str = "requests") -> list[str]:
    lines = metrics.lines(most)
    start = f"memwell_tenant_{name}{{"
    return [line.removeprefix(start) for line in lines if line.startswith(start)]


def test_the_busiest_have_names_and_the_rest_is_together() -> None:
    metrics = TenantMetrics()
    for number in range(20):
        for _ in range(number + 1):
            metrics.count(f"tenant-{number}", 200, 0.5)
    assert figures(metrics, 2) == [
        'tenant="tenant-19"} 20',
        'tenant="tenant-18"} 19',
        f'tenant="other"}} {sum(range(1, 19))}',
    ]
    assert figures(metrics, 1, "request_seconds")[0] == 'tenant="tenant-19"} 10'


def test_refused_and_failed_requests_are_told_apart() -> None:
    metrics = TenantMetrics()
    for status in (200, 404, 429, 429, 503, 504, 500):
        metrics.count("acme", status, 0.0)
    assert figures(metrics, 5)[0] == 'tenant="acme"} 7'
    assert figures(metrics, 5, "refused_requests")[0] == 'tenant="acme"} 2'
    assert figures(metrics, 5, "failed_requests")[0] == 'tenant="acme"} 3'


def test_old_minutes_are_dropped() -> None:
    clock = Clock()
    metrics = TenantMetrics(clock)
    metrics.count("acme", 200, 0.1)
    clock.now += 60 * (MINUTES - 1)
    metrics.count("beta", 200, 0.1)
    assert len(figures(metrics, 5)) == len(("acme", "beta", "other"))
    clock.now += 60
    assert [line.split("}")[0] for line in figures(metrics, 5)] == [
        'tenant="beta"',
        'tenant="other"',
    ]


def test_the_figures_of_workers_are_added() -> None:
    one, two = TenantMetrics(), TenantMetrics()
    one.count("acme", 200, 0.1)
    two.count("acme", 429, 0.1)
    one.add(two.to_json())
    assert figures(one, 5) == ['tenant="acme"} 2', 'tenant="other"} 0']


def test_names_cannot_break_out_of_their_label(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = TenantMetrics()
    metrics.count('a"b\\c\nd', 200, 0.1)
    metrics.count("other", 200, 0.1)
    assert figures(metrics, 5) == [r'tenant="a\"b\\c\nd"} 1', 'tenant="other"} 1']
    monkeypatch.setattr(tenant_metrics, "_MOST_KEPT", 4)
    metrics = TenantMetrics()
    metrics.count("acme", 200, 0.1)
    metrics.count("beta", 200, 0.1)  # no room
    assert figures(metrics, 5) == ['tenant="acme"} 1', 'tenant="other"} 1']
