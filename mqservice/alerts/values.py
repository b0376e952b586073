"""The value that a rule watches, from the newest samples.

    rules ──▶ [read_values] ── a query for each kind of sample ──▶ rule id → value, None: unknown

Of a thing that does not exist there is nothing to watch: its value is 0, so a rule whose group was
deleted does not fire for ever. An old sample says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from django.db import connection

from mqservice.alerts.limits import SAMPLE_MS_MAX
from mqservice.alerts.models import AlertRule
from mqservice.alerts.settings import AlertKind
from mqservice.sampling.limits import SAMPLE_MS

PERCENT: Final = 100

_GROUPS: Final = """
SELECT rule.id, rule.kind, known.id IS NOT NULL, now.lag_last, now.lag_ms_max, now.member_last,
    now.dead_last, before.dead_last, known.is_young
FROM alerts_alertrule AS rule
LEFT JOIN LATERAL (
    SELECT real.id, real.created_at > to_timestamp((%(now)s - rule.window_ms) / 1000.0) AS is_young
    FROM groups_consumergroup AS real
    WHERE real.namespace_id = rule.namespace_id AND real.name = rule.group_name
) AS known ON TRUE
LEFT JOIN LATERAL (
    SELECT * FROM sampling_groupsample AS sample
    WHERE sample.namespace_id = rule.namespace_id AND sample.group_name = rule.group_name
        AND sample.topic = rule.topic AND sample.resolution_ms = %(resolution)s
        AND sample.at_ms > %(now)s - %(fresh)s
    ORDER BY sample.at_ms DESC LIMIT 1
) AS now ON TRUE
LEFT JOIN LATERAL (
    SELECT sample.dead_last FROM sampling_groupsample AS sample
    WHERE rule.kind = 'dlq_growth'
        AND sample.namespace_id = rule.namespace_id AND sample.group_name = rule.group_name
        AND sample.topic = '' AND sample.resolution_ms = %(resolution)s
        AND sample.at_ms <= %(now)s - rule.window_ms
        AND sample.at_ms > %(now)s - rule.window_ms - %(fresh)s
    ORDER BY sample.at_ms DESC LIMIT 1
) AS before ON TRUE
WHERE rule.id = ANY(%(rules)s)
"""
_DISK: Final = """
SELECT max(%s * (disk_total_last - disk_free_last) / greatest(disk_total_last, 1))
FROM sampling_storesample
WHERE resolution_ms = %s AND at_ms > %s
"""


def read_values(rules: Sequence[AlertRule], now_ms: int) -> dict[int, int | None]:
    """The value of each rule by its id. Two queries at most."""
    values: dict[int, int | None] = {}
    disk = [rule.pk for rule in rules if rule.kind == AlertKind.DISK]
    if disk:
        values |= dict.fromkeys(disk, _disk_percent(now_ms))
    groups = [rule.pk for rule in rules if rule.kind != AlertKind.DISK]
    if groups:
        values |= dict(_group_values(groups, now_ms))
    return values


def _disk_percent(now_ms: int) -> int | None:
    with connection.cursor() as cursor:
        cursor.execute(_DISK, (PERCENT, SAMPLE_MS, now_ms - SAMPLE_MS_MAX))
        found = cursor.fetchone()
    return None if found is None or found[0] is None else int(found[0])


def _group_values(rule_ids: list[int], now_ms: int) -> Iterable[tuple[int, int | None]]:
    with connection.cursor() as cursor:
        cursor.execute(
            _GROUPS,
            {
                "rules": rule_ids,
                "now": now_ms,
                "fresh": SAMPLE_MS_MAX,
                "resolution": SAMPLE_MS,
            },
        )
        rows = cursor.fetchall()
    for rule_id, kind, is_there, lag, lag_ms, members, dead, dead_before, is_young in rows:
        if not is_there:
            yield rule_id, 0
        elif kind == AlertKind.LAG:
            yield rule_id, lag
        elif kind == AlertKind.OLDEST_AGE:
            yield rule_id, lag_ms
        elif kind == AlertKind.NO_CONSUMER:
            yield rule_id, None if members is None else int(members == 0)
        elif dead is None:
            yield rule_id, None
        elif dead_before is None:  # measured for less than the window
            yield rule_id, dead if is_young else None
        else:
            yield rule_id, max(0, dead - dead_before)
