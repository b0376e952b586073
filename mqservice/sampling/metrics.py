"""A namespace's newest samples in Prometheus format.

    samples of the last minute ──▶ the newest of each group, topic ──▶ [namespace_metrics] ──▶ text

What nobody knows is left out, never 0. The table for people is in docs/operations.md, and the
rules that alerts become name these metrics; tests keep all three alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from django.db import connection
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from mqservice.accounts.models import Namespace
from mqservice.lib.durations import SECOND_MS
from mqservice.sampling.limits import FRESH_MS, METRIC_ROWS_MAX, SAMPLE_MS

METRICS_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
NAMESPACE_LABEL: Final = "mq_namespace"  # ``namespace`` is what Kubernetes calls its own

GROUP_LAG: Final = "mq_group_lag_messages"
GROUP_AGE: Final = "mq_group_oldest_age_seconds"
GROUP_MEMBERS: Final = "mq_group_members"
GROUP_DEAD_LETTERS: Final = "mq_group_dead_letters_total"
GROUP_TOPIC_LAG: Final = "mq_group_topic_lag_messages"
GROUP_TOPIC_AGE: Final = "mq_group_topic_oldest_age_seconds"


class MetricColumn(NamedTuple):
    """One metric: which column of a row it is, and what one of it is worth there."""

    name: str
    help: str
    column: int
    unit: int = 1


OF_GROUPS: Final = (
    MetricColumn(
        GROUP_LAG,
        "Messages that the group has not settled: not delivered, in flight, or "
        "waiting for a retry.",
        0,
    ),
    MetricColumn(
        GROUP_AGE, "Age of the oldest message that the group has not settled.", 1, SECOND_MS
    ),
    MetricColumn("mq_group_inflight_messages", "Messages in flight.", 2),
    MetricColumn(GROUP_MEMBERS, "Consumers that read for the group.", 3),
    MetricColumn(GROUP_DEAD_LETTERS, "Messages that the group has dead-lettered, all time.", 4),
    MetricColumn("mq_group_waiting_retry_messages", "Failed messages waiting for a retry.", 5),
    MetricColumn("mq_group_lag_estimated", "1 where the lag is estimated, 0 where it is exact.", 6),
)
OF_GROUP_TOPICS: Final = (
    MetricColumn(GROUP_TOPIC_LAG, "Messages of one topic that the group has not settled.", 0),
    MetricColumn(
        GROUP_TOPIC_AGE,
        "Age of the oldest message of the topic that the group has not settled.",
        1,
        SECOND_MS,
    ),
    MetricColumn("mq_group_topic_inflight_messages", "Messages of a topic in flight.", 2),
    MetricColumn(
        "mq_group_topic_waiting_retry_messages",
        "Failed messages of a topic waiting for a retry.",
        5,
    ),
    MetricColumn(
        "mq_group_topic_lag_estimated",
        "1 where the lag of the topic is estimated, 0 where it is exact.",
        6,
    ),
)
OF_TOPICS: Final = (
    MetricColumn("mq_topic_messages_total", "Messages that were stored in the topic, all time.", 0),
    MetricColumn("mq_topic_readable_messages", "Messages in the topic that can still be read.", 1),
)
NAMES: Final = frozenset(told.name for told in (*OF_GROUPS, *OF_GROUP_TOPICS, *OF_TOPICS))

_NEWEST_GROUPS: Final = """
SELECT DISTINCT ON (group_name, topic) group_name, topic,
    lag_last, lag_ms_max, inflight_max, member_last, dead_last, waiting_retry_last,
    CASE WHEN known_count > 0 THEN estimated_count END
FROM sampling_groupsample
WHERE namespace_id = %s AND resolution_ms = %s AND at_ms > %s
ORDER BY group_name, topic, at_ms DESC LIMIT %s
"""
_NEWEST_TOPICS: Final = """
SELECT DISTINCT ON (topic) topic, stored_last, readable_last
FROM sampling_topicsample
WHERE namespace_id = %s AND resolution_ms = %s AND at_ms > %s
ORDER BY topic, at_ms DESC LIMIT %s
"""
Numbers = Sequence[int | None]
Rows = Iterable[tuple[tuple[str, ...], Numbers]]  # names, and columns as ``Told`` counts them


def namespace_metrics(namespace: Namespace, now_ms: int) -> bytes:
    """The text exposition. Two queries, ``METRIC_ROWS_MAX`` rows of each at most."""
    return generate_latest(_Families(list(_families(namespace, now_ms))))


class _Families(Collector):
    """Families that there are already, as the library wants to be given them."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _families(namespace: Namespace, now_ms: int) -> Iterator[Metric]:
    since_ms = now_ms - FRESH_MS
    parameters = [namespace.pk, SAMPLE_MS, since_ms, METRIC_ROWS_MAX]
    with connection.cursor() as cursor:
        cursor.execute(_NEWEST_GROUPS, parameters)
        groups = cursor.fetchall()
        cursor.execute(_NEWEST_TOPICS, parameters)
        topics = cursor.fetchall()
    whole = [((group,), numbers) for group, topic, *numbers in groups if not topic]
    of_topics = [((group, topic), numbers) for group, topic, *numbers in groups if topic]
    by_topic = [((topic,), numbers) for topic, *numbers in topics]
    for metrics, labels, rows in (
        (OF_GROUPS, ("group",), whole),
        (OF_GROUP_TOPICS, ("group", "topic"), of_topics),
        (OF_TOPICS, ("topic",), by_topic),
    ):
        for told in metrics:
            yield _family(told, namespace.name, labels, rows)


def _family(told: MetricColumn, namespace: str, labels: tuple[str, ...], rows: Rows) -> Metric:
    names = [NAMESPACE_LABEL, *labels]
    family: GaugeMetricFamily | CounterMetricFamily
    if told.name.endswith("_total"):
        family = CounterMetricFamily(told.name, told.help, labels=names)
    else:
        family = GaugeMetricFamily(told.name, told.help, labels=names)
    for values, numbers in rows:
        number = numbers[told.column]
        if number is not None:
            family.add_metric([namespace, *values], number / told.unit)
    return family
