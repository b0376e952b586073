"""Measures groups, topics and the store of a shard once, and saves the finest samples.

    rows of groups and topics ── names ──▶ engine, several at a time ──▶ [take_samples] ──▶ rows
                                                                               └──▶ marks

One round for each moment that is a multiple of ``SAMPLE_MS``: a second one for the same moment
writes nothing. What the engine does not know of a thing is NULL.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from mqservice.groups.lag import lag_of
from mqservice.groups.models import ConsumerGroup
from mqservice.sampling.limits import SAMPLE_MS, SAMPLED_GROUPS_MAX, SAMPLED_TOPICS_MAX
from mqservice.sampling.models import GroupSample, StoreSample, TopicSample
from mqservice.sampling.progress_marks import GroupPositions, write_marks
from mqservice.store import (
    Dispatch,
    GroupNotFound,
    GroupRef,
    GroupStats,
    ObserveReply,
    StoreClient,
    StoreError,
    TopicLag,
    TopicNotFound,
    TopicRef,
    TopicStats,
    dlq_topic_of,
)
from mqservice.topics.models import Topic

ReplyT = TypeVar("ReplyT")

log = logging.getLogger(__name__)

DISK_STATES: Final = ("fine", "clean", "force", "full")
_WHOLE_GROUP: Final = ""


def take_samples(client: StoreClient, now_ms: int) -> int:
    """Measure and write everything of a shard; the number of things measured.

    The engine is asked twice about each group and once about each topic. Raises ``StoreError`` or
    ``DatabaseError``.
    """
    at_ms = now_ms - now_ms % SAMPLE_MS
    observed = client.observe()
    groups = _sampled_groups(client.shard)
    names = [group.engine_name for group in groups]
    all_stats = client.group_stats_all([GroupRef(group=name) for name in names])
    letters = client.topic_stats_all([TopicRef(topic=dlq_topic_of(name)) for name in names])
    group_rows: list[GroupSample] = []
    standings: list[GroupPositions] = []
    for group, reply, of_letters in zip(groups, all_stats, letters, strict=True):
        stats = _unless(GroupNotFound, reply)
        if stats is None:
            continue  # deleted since, or its deletion was cut off
        whole = _group_sample(group, _WHOLE_GROUP, stats, stats.topics, at_ms, now_ms)
        whole.member_last = observed.member_counts.get(group.engine_name, 0)
        whole.dead_last = _stored_count(_unless(TopicNotFound, of_letters))
        group_rows += [*_topic_group_samples(group, stats, at_ms, now_ms), whole]
        if group.dispatch != Dispatch.BROADCAST:  # its clients are each somewhere else
            standings.append(GroupPositions(group.namespace_id, group.name, stats.queues))
    topics = _sampled_topics(client.shard)
    replies = client.topic_stats_all([TopicRef(topic=topic.engine_name) for topic in topics])
    topic_rows = [
        _topic_sample(topic, known, at_ms)
        for topic, reply in zip(topics, replies, strict=True)
        if (known := _unless(TopicNotFound, reply)) is not None
    ]
    GroupSample.objects.bulk_create(group_rows, ignore_conflicts=True, batch_size=1_000)
    TopicSample.objects.bulk_create(topic_rows, ignore_conflicts=True, batch_size=1_000)
    StoreSample.objects.bulk_create([_store_sample(observed, at_ms)], ignore_conflicts=True)
    write_marks(observed.broker, standings, now_ms)
    if observed.disk_state != DISK_STATES[0]:
        log.warning(
            "The store's disk is filling up",
            extra={
                "action": "disk_filling",
                "broker": observed.broker,
                "state": observed.disk_state,
                "free_bytes": observed.disk_free_bytes,
                "total_bytes": observed.disk_total_bytes,
            },
        )
    return len(groups) + len(topics)


def _sampled_groups(shard: str) -> list[ConsumerGroup]:
    rows = ConsumerGroup.objects.filter(namespace__shard=shard)
    rows = rows.select_related("namespace").order_by("id")
    rows = rows.only("name", "dispatch", "namespace__name")
    found = list(rows[: SAMPLED_GROUPS_MAX + 1])
    _warn_beyond("groups", len(found), SAMPLED_GROUPS_MAX)
    return found[:SAMPLED_GROUPS_MAX]


def _sampled_topics(shard: str) -> list[Topic]:
    rows = Topic.objects.filter(namespace__shard=shard)
    rows = rows.select_related("namespace").only("name", "namespace__name").order_by("id")
    found = list(rows[: SAMPLED_TOPICS_MAX + 1])
    _warn_beyond("topics", len(found), SAMPLED_TOPICS_MAX)
    return found[:SAMPLED_TOPICS_MAX]


def _warn_beyond(things: str, count: int, count_max: int) -> None:
    if count > count_max:
        log.warning(
            "More topics or groups than can be sampled; the newest are left out",
            extra={"action": "sampling_limited", "things": things, "count_max": count_max},
        )


def _unless(absent: type[StoreError], reply: ReplyT | StoreError) -> ReplyT | None:
    """None where the engine does not have it; raises what else was wrong."""
    if not isinstance(reply, StoreError):
        return reply
    if isinstance(reply, absent):
        return None
    raise reply


def _topic_group_samples(
    group: ConsumerGroup, stats: GroupStats, at_ms: int, now_ms: int
) -> Iterable[GroupSample]:
    prefix_chars = len(group.namespace.name) + 1
    for topic in stats.topics:
        yield _group_sample(group, topic.topic[prefix_chars:], stats, [topic], at_ms, now_ms)


def _group_sample(
    group: ConsumerGroup,
    topic: str,
    stats: GroupStats,
    topics: Sequence[TopicLag],
    at_ms: int,
    now_ms: int,
) -> GroupSample:
    sample = GroupSample(
        namespace_id=group.namespace_id,
        group_name=group.name,
        topic=topic,
        resolution_ms=SAMPLE_MS,
        at_ms=at_ms,
        known_count=0,
    )
    lag = lag_of(topics, now_ms)
    sample.inflight_max = lag.inflight
    sample.waiting_retry_last = lag.waiting_retry
    names = {each.topic for each in topics}
    if names:
        own = [queue for queue in stats.queues if queue.topic in names]
        sample.settled_last = sum(queue.consumer_offset for queue in own)
    if lag.count is not None:  # else it has read nothing yet, or nobody knows what waits
        sample.known_count = 1
        sample.estimated_count = int(lag.is_estimated)
        sample.lag_sum = sample.lag_max = sample.lag_last = lag.count
        sample.lag_ms_max = lag.known_age_ms
    return sample


def _stored_count(stats: TopicStats | None) -> int:
    """Ever; of a topic that is not there, nothing was stored yet."""
    return 0 if stats is None else sum(queue.max_offset for queue in stats.queues)


def _topic_sample(topic: Topic, stats: TopicStats, at_ms: int) -> TopicSample:
    return TopicSample(
        namespace_id=topic.namespace_id,
        topic=topic.name,
        resolution_ms=SAMPLE_MS,
        at_ms=at_ms,
        stored_last=_stored_count(stats),
        readable_last=sum(queue.max_offset - queue.min_offset for queue in stats.queues),
    )


def _store_sample(observed: ObserveReply, at_ms: int) -> StoreSample:
    return StoreSample(
        broker=observed.broker,
        resolution_ms=SAMPLE_MS,
        at_ms=at_ms,
        disk_total_last=observed.disk_total_bytes,
        disk_free_last=observed.disk_free_bytes,
        disk_free_min=observed.disk_free_bytes,
        disk_state_max=DISK_STATES.index(observed.disk_state),
        lost_last=observed.lost_message_count,
    )
