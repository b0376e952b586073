"""The current numbers of a namespace's topics and groups, for every page and socket.

    samples (PostgreSQL, each 10 s) ── rates, and all of it in a large namespace ─┐
    engine, asked for each topic and group ─── counts, up to DIRECT_ROWS_MAX ─────┴─▶ Figures

What nobody knows is None and is shown as unknown, never as 0. Samples older than ``FRESH_MS`` are
not believed any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from django.db.models import QuerySet

from mqservice.accounts.models import Namespace
from mqservice.console.shared.listing import NAMES_MAX
from mqservice.groups.lag import lag_of
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.queries import group_names_of, groups_of, progress_of_all
from mqservice.lib.durations import HOUR_MS, SECOND_MS
from mqservice.lib.names import ENGINE_SEPARATOR
from mqservice.sampling.group_health import (
    GroupHealth,
    Trend,
    TrendPoint,
    conditions_of,
    health_of,
)
from mqservice.sampling.limits import SAMPLE_MS
from mqservice.sampling.models import GroupSample, TopicSample
from mqservice.store import GroupStats, StoreClient
from mqservice.topics.models import Topic
from mqservice.topics.queries import queue_stats_of_all, topic_names_of, topics_of

# Topics and groups that the engine is asked for: some tenths of a millisecond each.
DIRECT_ROWS_MAX: Final = 200
# Groups of a namespace of which each is asked whether it reads a topic; of more, samples say it.
READERS_MAX: Final = 50
FRESH_MS: Final = 4 * SAMPLE_MS  # far enough to have two rounds, which may be late
_DAY_MS: Final = 24 * HOUR_MS
_COLUMNS: Final = (
    "lag_last", "lag_ms_max", "inflight_max", "settled_last", "dead_last", "member_last",
    "waiting_retry_last",
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class TopicFigures:
    """``stored``: ever, ``readable``: now; ``lag`` by the groups that read the topic."""

    stored: int | None = None
    readable: int | None = None
    in_per_s: float | None = None
    lag_by_group: dict[str, int | None] = field(default_factory=dict)

    @property
    def lag(self) -> int | None:
        """Of the group furthest behind; None when no group reads it, or one is not known."""
        known = [lag for lag in self.lag_by_group.values() if lag is not None]
        return max(known) if known and len(known) == len(self.lag_by_group) else None


@dataclass(slots=True, kw_only=True)
class GroupFigures:
    """``lag`` is all that the group has still to do; ``ready`` (not delivered), ``inflight`` and
    ``waiting_retry`` are its parts; ``lag_ms``: age of the oldest of it. ``is_estimated``: counted
    by a sample, as the engine says it now. ``dead``: dead letters ever, ``member_count``: as
    sampled. ``is_known``: False when neither engine nor samples can tell; a group that has read
    nothing is known and has no ``lag``.
    """

    lag: int | None = None
    lag_ms: int | None = None
    ready: int | None = None
    inflight: int | None = None
    waiting_retry: int | None = None
    is_estimated: bool = False
    settled: int | None = None
    out_per_s: float | None = None
    dead: int | None = None
    member_count: int | None = None
    lag_by_topic: dict[str, int | None] = field(default_factory=dict)
    is_known: bool = False
    health: GroupHealth = GroupHealth.UNKNOWN

    @property
    def is_new(self) -> bool:
        """Whether it is known that it has read nothing."""
        return self.is_known and not self.lag_by_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """By name. ``topics`` and ``groups`` have an entry for each there is, up to what is listed."""

    at_ms: int
    topics: dict[str, TopicFigures]
    groups: dict[str, GroupFigures]
    is_direct: bool

    @property
    def readable(self) -> int | None:
        return whole(each.readable for each in self.topics.values())

    @property
    def in_per_s(self) -> float | None:
        return known_sum(each.in_per_s for each in self.topics.values())

    @property
    def out_per_s(self) -> float | None:
        return known_sum(each.out_per_s for each in self.groups.values())

    @property
    def lag(self) -> int | None:
        """Of the groups that have read something; None when one of them cannot be told."""
        readers = [each for each in self.groups.values() if not each.is_known or each.lag_by_topic]
        return whole(each.lag for each in readers) if readers else None

    @property
    def oldest_ms(self) -> int | None:
        ages = (each.lag_ms for each in self.groups.values() if each.lag_ms is not None)
        return max(ages, default=None)

    @property
    def dead(self) -> int | None:
        counts = [each.dead for each in self.groups.values() if each.dead is not None]
        return sum(counts) if counts else None


def whole(values: Iterable[int | None]) -> int | None:
    """The sum, or None when one of the values is unknown."""
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def known_sum(values: Iterable[float | None]) -> float | None:
    """The sum of what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def figures_of(
    namespace: Namespace,
    client: StoreClient | None,
    now_ms: int,
    *,
    direct_max: int = DIRECT_ROWS_MAX,
) -> Figures:
    """All but the health of the groups. Four queries, or six and a question to the engine for each
    topic and group where there are few.

    Args:
        client: None when the engine is known to be away.
    """
    # Names alone: a thousand rows as models take longer than all the rest.
    topic_names = topic_names_of(namespace, limit=NAMES_MAX)
    group_names = group_names_of(namespace, limit=NAMES_MAX)
    found = sampled(namespace, topic_names, group_names, now_ms)
    if len(topic_names) + len(group_names) > direct_max:
        return found
    measure_topics(found, client, topics_of(namespace))
    measure_groups(found, client, groups_of(namespace))
    by_topic(found)
    return Figures(at_ms=now_ms, topics=found.topics, groups=found.groups, is_direct=True)


def figures_of_topic(
    namespace: Namespace, topic: Topic, client: StoreClient | None, now_ms: int
) -> Figures:
    """Of one topic and the groups that read it. Four queries, a call to the engine for the topic,
    and a question for each of these groups; where there are few groups, for each of the namespace.
    """
    group_names = group_names_of(namespace, limit=READERS_MAX + 1)
    are_many = len(group_names) > READERS_MAX
    if are_many:
        fresh = GroupSample.objects.filter(
            namespace=namespace,
            resolution_ms=SAMPLE_MS,
            at_ms__gte=now_ms - FRESH_MS,
            topic=topic.name,
        )
        group_names = sorted(set(fresh.values_list("group_name", flat=True)))
    found = sampled(namespace, [topic.name], group_names, now_ms, lag_on=[topic.name])
    measure_topics(found, client, [topic])
    if are_many and client is None:
        return found
    readers = ConsumerGroup.objects.filter(
        namespace=namespace, name__in=group_names[:DIRECT_ROWS_MAX]
    )
    measure_groups(found, client, list(readers.select_related("namespace")))
    by_topic(found)
    return found


def sampled(
    namespace: Namespace,
    topic_names: Sequence[str],
    group_names: Sequence[str],
    now_ms: int,
    *,
    lag_on: Sequence[str] | None = None,
) -> Figures:
    """Of these from the last rounds of samples alone. Two queries, one without topics.

    ``lag_on``: topics on which the progress of the groups is read; None: all.
    """
    found = Figures(
        at_ms=now_ms,
        topics={name: TopicFigures() for name in topic_names},
        groups={name: GroupFigures() for name in group_names},
        is_direct=False,
    )
    of_topics = TopicSample.objects.filter(
        namespace=namespace, resolution_ms=SAMPLE_MS, at_ms__gte=now_ms - FRESH_MS
    )
    of_groups = GroupSample.objects.filter(
        namespace=namespace, resolution_ms=SAMPLE_MS, at_ms__gte=now_ms - FRESH_MS
    )
    # Samples of others take longer to read than all the rest of a page.
    if len(topic_names) <= DIRECT_ROWS_MAX:
        of_topics = of_topics.filter(topic__in=topic_names)
    if len(group_names) <= DIRECT_ROWS_MAX:
        of_groups = of_groups.filter(group_name__in=group_names)
    if lag_on is not None:
        of_groups = of_groups.filter(topic__in=["", *lag_on])
    _add_topic_samples(found, of_topics)
    _add_group_samples(found, of_groups)
    by_topic(found)
    return found


def add_health(figures: Figures, namespace: Namespace, names: Sequence[str] | None = None) -> None:
    """Tell of each group, or of these, how it is doing: by its samples, and by what the engine has
    said of one that was not sampled yet. Two queries.
    """
    if names is None and len(figures.groups) <= DIRECT_ROWS_MAX:
        names = list(figures.groups)
    for condition in conditions_of(namespace, figures.at_ms, names=names):
        group = figures.groups.get(condition.name)
        if group is None:
            continue
        group.health = condition.health
        if condition.now is None and group.health is GroupHealth.UNKNOWN and group.is_known:
            said = TrendPoint(
                figures.at_ms, group.lag, group.lag_ms, group.inflight, group.waiting_retry,
                group.settled, group.member_count,
            )  # fmt: skip
            group.health = health_of(Trend(said), is_paused=False, lease_ms=0)


def by_topic(figures: Figures) -> None:
    """Tell each topic how far its groups are behind."""
    for topic in figures.topics.values():
        topic.lag_by_group = {}
    for name, group in figures.groups.items():
        for topic_name, behind in group.lag_by_topic.items():
            if topic_name in figures.topics:
                figures.topics[topic_name].lag_by_group[name] = behind


def dead_in_a_day(namespace: Namespace, figures: Figures) -> int | None:
    """Dead letters of the last 24 hours. One query."""
    at_ms = figures.at_ms - _DAY_MS
    at_ms -= at_ms % HOUR_MS  # the hour in which it was
    before = dict(
        GroupSample.objects.filter(
            namespace=namespace, topic="", resolution_ms=HOUR_MS, at_ms=at_ms
        ).values_list("group_name", "dead_last")
    )
    counts = [
        group.dead - (before.get(name) or 0)
        for name, group in figures.groups.items()
        if group.dead is not None
    ]
    return sum(max(0, count) for count in counts) if counts else None


def _add_topic_samples(found: Figures, rows: QuerySet[TopicSample]) -> None:
    before: dict[str, tuple[int, int | None]] = {}
    for name, at_ms, stored, readable in rows.order_by("at_ms").values_list(
        "topic", "at_ms", "stored_last", "readable_last"
    ):
        topic = found.topics.get(name)
        if topic is None:
            continue
        topic.stored, topic.readable = stored, readable
        topic.in_per_s = _rate(before.get(name), at_ms, stored)
        before[name] = at_ms, stored


def _add_group_samples(found: Figures, rows: QuerySet[GroupSample]) -> None:
    before: dict[str, tuple[int, int | None]] = {}
    columns = ("group_name", "topic", "at_ms", *_COLUMNS)
    for name, topic, at_ms, *values in rows.order_by("at_ms").values_list(*columns):
        group = found.groups.get(name)
        if group is None:
            continue
        behind, behind_ms, inflight, settled, dead, member_count, waiting_retry = values
        group.is_known = True
        if topic:
            group.lag_by_topic[topic] = behind
            continue
        group.lag, group.lag_ms, group.inflight = behind, behind_ms, inflight
        group.settled, group.dead, group.member_count = settled, dead, member_count
        group.waiting_retry = waiting_retry
        if behind is not None and inflight is not None and waiting_retry is not None:
            group.ready = max(0, behind - inflight - waiting_retry)
        group.out_per_s = _rate(before.get(name), at_ms, settled)
        before[name] = at_ms, settled


def _rate(before: tuple[int, int | None] | None, at_ms: int, total: int | None) -> float | None:
    """Per second since the sample right before; None where that says nothing."""
    if before is None or total is None or before[1] is None or at_ms - before[0] != SAMPLE_MS:
        return None
    return (total - before[1]) * SECOND_MS / SAMPLE_MS if total >= before[1] else None


def measure_topics(found: Figures, client: StoreClient | None, topics: Sequence[Topic]) -> None:
    """Ask the engine for the counts of these topics."""
    all_queues = [None] * len(topics) if client is None else queue_stats_of_all(client, topics)
    for topic, queues in zip(topics, all_queues, strict=True):
        figures = found.topics.setdefault(topic.name, TopicFigures())
        if queues is None:
            figures.stored = figures.readable = None
            continue
        figures.stored = sum(queue.max_offset for queue in queues)
        figures.readable = sum(queue.max_offset - queue.min_offset for queue in queues)


def measure_groups(
    found: Figures, client: StoreClient | None, groups: Sequence[ConsumerGroup]
) -> None:
    """Ask the engine how far these groups are; the topics are not told."""
    all_stats = [None] * len(groups) if client is None else progress_of_all(client, groups)
    for group, stats in zip(groups, all_stats, strict=True):
        measure_from(found.groups.setdefault(group.name, GroupFigures()), stats, found.at_ms)


def measure_from(figures: GroupFigures, stats: GroupStats | None, now_ms: int) -> None:
    """The same of what the engine has said; None: nothing."""
    figures.is_known = stats is not None
    lag = lag_of(() if stats is None else stats.topics, now_ms)
    figures.lag, figures.lag_ms, figures.inflight = lag.count, lag.known_age_ms, lag.inflight
    figures.ready, figures.waiting_retry = lag.ready, lag.waiting_retry
    figures.is_estimated = lag.is_estimated
    figures.lag_by_topic = {}
    if stats is None:
        return
    if not stats.topics:
        figures.ready = figures.inflight = figures.waiting_retry = 0
        return
    figures.lag_by_topic = {
        each.topic.partition(ENGINE_SEPARATOR)[2]: each.lag for each in stats.topics
    }
    own = [queue for queue in stats.queues if not queue.retry_of]
    figures.settled = sum(queue.consumer_offset for queue in own)
