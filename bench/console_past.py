"""``python -m bench.console_past NAMESPACE``: samples and reports, as if it had run for long.

Runs with the settings of the service that it is made in. An hour by 10 s and two hours by minutes
of every topic and group of the namespace, and a fortnight of reports with a row a topic.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
import time
from typing import Final

_STEPS: Final = ((10_000, 360), (60_000, 120))  # resolution in ms, how many back
_TOPICS: Final = """
    INSERT INTO sampling_topicsample
        (namespace_id, topic, resolution_ms, at_ms, sample_count, stored_last, readable_last)
    SELECT topic.namespace_id, topic.name, %(step)s, %(now)s - %(step)s * back, 1,
           10000 - 5 * back, 10000 - 5 * back
    FROM topics_topic AS topic, generate_series(0, %(count)s) AS back
    WHERE topic.namespace_id = %(namespace)s ON CONFLICT DO NOTHING
"""
_GROUPS: Final = """
    INSERT INTO sampling_groupsample
        (namespace_id, group_name, topic, resolution_ms, at_ms, sample_count, known_count, lag_sum,
         lag_max, lag_last, lag_ms_max, inflight_max, settled_last, member_last, dead_last)
    SELECT made.namespace_id, made.name, topic, %(step)s, %(now)s - %(step)s * back, 1, 1, 40,
           40, 40, 9000, 2, 9000 - 4 * back, 1, 0
    FROM groups_consumergroup AS made, generate_series(0, %(count)s) AS back,
         (VALUES (''), ('bench-0000'), ('bench-0001')) AS read (topic)
    WHERE made.namespace_id = %(namespace)s ON CONFLICT DO NOTHING
"""
_DAYS: Final = 14


def main(name: str) -> None:
    """Fill the tables, and let PostgreSQL know what is in them."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqservice.settings")
    import django

    django.setup()
    from django.db import connection

    from mqservice.accounts.models import Namespace
    from mqservice.topics.models import Topic

    namespace = Namespace.objects.get(name=name)
    now_ms = time.time_ns() // 1_000_000
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        for step_ms, count in _STEPS:
            given = {
                "namespace": namespace.pk, "step": step_ms, "count": count,
                "now": now_ms - now_ms % step_ms,
            }  # fmt: skip
            cursor.execute(_TOPICS, given)
            cursor.execute(_GROUPS, given)
    topics = Topic.objects.filter(namespace=namespace)
    _report(namespace.pk, list(topics.values_list("name", flat=True)), now_ms)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _report(namespace_id: int, topics: list[str], now_ms: int) -> None:
    from mqservice.reports.models import ReportPart

    today = dt.datetime.fromtimestamp(now_ms / 1_000, dt.UTC).date()
    for back in range(1, _DAYS + 1):
        date = today - dt.timedelta(days=back)
        usage = [
            {
                "topic": topic, "message_count": 200 + number, "body_bytes": 9_000,
                "record_bytes": 12_000, "stored_bytes": 12_000,
            }
            for number, topic in enumerate(topics)
        ]  # fmt: skip
        lags = [
            {
                "group": f"bench-{number % 100}", "topic": "bench-0000",
                "hour": f"{date}T{hour:02}:00:00.000Z", "sample_count": 60, "unknown_count": 0,
                "lag_max": 10 * number, "lag_p95": 5, "lag_last": 3, "lag_ms_max": 9_000,
                "over_threshold_ms": 0, "trend_per_s": 0.0, "drain_s": None,
            }
            for number in range(100) for hour in range(24)
        ]  # fmt: skip
        for report, rows in (("usage_daily", usage), ("consumer_lag_hourly", lags)):
            ReportPart.objects.create(
                namespace_id=namespace_id, report=report, date=date, zone="UTC", rows=rows,
                is_complete=True, made_ms=now_ms,
            )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1])
