"""How much waits for somebody, for the navigation of each page.

    groups that get nothing, open issues, failing schedules, firing alerts ──▶ counts, by page

Remembered for some seconds by each process, and counted anew after whatever the user changes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from mqservice.accounts.models import Namespace
from mqservice.alerts.models import AlertRule, AlertState
from mqservice.issues.queries import open_count
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import SECOND_MS
from mqservice.lib.lookup_cache import make_room
from mqservice.sampling.group_health import conditions_of
from mqservice.schedules.models import Schedule

COUNTED_MS: Final = 10 * SECOND_MS  # as often as groups are sampled
NAMESPACES_MAX: Final = 1_000
_counted: dict[int, tuple[int, Mapping[str, int]]] = {}
_writing = threading.Lock()  # pages are made by several threads


def waiting_counts(namespace: Namespace) -> Mapping[str, int]:
    """By what the pages call themselves. Five queries, none within ``COUNTED_MS``."""
    clock = SystemClock()
    at_ms = clock.monotonic_ms()
    found = _counted.get(namespace.pk)
    if found is not None and at_ms - found[0] < COUNTED_MS:
        return found[1]
    conditions = conditions_of(namespace, clock.now_ms())
    schedules = Schedule.objects.filter(namespace=namespace, is_enabled=True)
    rules = AlertRule.objects.filter(namespace=namespace, is_enabled=True)
    counts = {
        "groups": sum(each.is_stuck for each in conditions),
        "issues": open_count(namespace),
        "schedules": schedules.exclude(last_error="").count(),
        "alerts": rules.filter(state=AlertState.FIRING.value).count(),
    }
    with _writing:
        make_room(_counted, namespace.pk, NAMESPACES_MAX)
        _counted[namespace.pk] = at_ms, counts
    return counts


def forget_counts(namespace: Namespace) -> None:
    """Somebody has changed something in the namespace."""
    with _writing:
        _counted.pop(namespace.pk, None)
