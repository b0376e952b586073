"""One group's page: its offset on each queue, its consumers, what waits and why.

    row ── samples: rate, dead letters ──┐
    engine ── progress, members ─────────┼──▶ GroupPage ──▶ template, ``group_health``
    engine ── times of first messages ───┘

What the engine cannot tell is None.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from mqservice.accounts.models import Namespace
from mqservice.console.shared.figures import (
    GroupFigures,
    add_health,
    measure_from,
    sampled,
    whole,
)
from mqservice.console.topics.topic import stored_ms_at
from mqservice.groups.lag import Lag, lag_of
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.queries import offset_lag
from mqservice.lib.clock import SystemClock
from mqservice.lib.names import CONSUMER_PREFIX, ENGINE_SEPARATOR
from mqservice.monitoring.sampling import engine_stats
from mqservice.sampling.group_health import GroupHealth
from mqservice.store import (
    GroupQueueStats,
    GroupRef,
    GroupStats,
    GroupStatsRequest,
    Member,
    StoreClient,
    StoreError,
    TopicMembers,
    blocking_client,
)
from mqservice.topics.models import Topic

TIMED_QUEUES_MAX: Final = 32  # whose first message is read
MEMBERS_SHOWN: Final = 100  # of one topic
_STUCK: Final = (GroupHealth.STALLED, GroupHealth.NO_MEMBERS, GroupHealth.PAUSED)
_SOON_PERCENT: Final = 80
_PERCENT: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """``kind``: socket, named, request or client; ``queue_ids`` only of an exclusive group.

    ``consumer``: what its socket calls it. ``address``, ``client``, ``flow``: of its socket, empty
    where it has none that is known.
    """

    name: str
    consumer: str
    kind: str
    topic: str
    client_id: str
    heard_ms: int
    is_waiting: bool
    inflight: int
    queue_ids: tuple[int, ...]
    zone: str
    address: str = ""
    client: str = ""
    flow: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """Progress on one queue. ``first_ms``: when its first readable message was stored,
    ``oldest_ms`` when the first unsettled one was; None where there is none, or nobody knows.
    """

    queue_id: int
    owner: str
    min_offset: int
    consumer_offset: int
    max_offset: int
    offset_lag: int
    ready: int
    inflight: int
    first_ms: int | None
    oldest_ms: int | None
    now_ms: int
    retention_ms: int | None

    @property
    def left(self) -> int:
        """Messages that are not settled, and wanted by the group's filter."""
        return self.ready + self.inflight

    @property
    def lag_ms(self) -> int | None:
        if not self.left:
            return 0
        return None if self.oldest_ms is None else max(0, self.now_ms - self.oldest_ms)

    @property
    def retained_ms(self) -> int | None:
        """How far back messages can still be read."""
        return None if self.first_ms is None else max(0, self.now_ms - self.first_ms)

    @property
    def lost(self) -> int:
        """Messages that expired before the group had settled them."""
        return max(0, self.min_offset - self.consumer_offset)

    @property
    def expires_in_ms(self) -> int | None:
        """Until the first unsettled message may be taken away, where that is soon."""
        if not self.left or self.lag_ms is None or not self.retention_ms:
            return None
        if self.lag_ms * _PERCENT < self.retention_ms * _SOON_PERCENT:
            return None
        return max(0, self.retention_ms - self.lag_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPart:
    """What the group reads of one topic, and how much it has still to do of it."""

    name: str
    queues: list[QueueRow]
    members: list[MemberRow]
    member_count: int
    is_complete: bool
    is_held_up: bool
    filter: str
    unassigned: tuple[int, ...]
    lag: Lag

    @property
    def left(self) -> int:
        """Messages in its queues that are not settled: without those that wait for a retry."""
        return sum(queue.left for queue in self.queues)

    @property
    def ready(self) -> int:
        return sum(queue.ready for queue in self.queues)

    @property
    def inflight(self) -> int:
        return sum(queue.inflight for queue in self.queues)

    @property
    def lost(self) -> int:
        return sum(queue.lost for queue in self.queues)

    @property
    def more_members(self) -> int:
        return max(0, self.member_count - len(self.members))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    """``is_known``: whether the engine answered. ``dropped``: of a broadcast group."""

    group: ConsumerGroup
    figures: GroupFigures
    parts: list[TopicPart] = field(default_factory=list)
    dropped: int = 0
    is_known: bool = False

    @property
    def is_stuck(self) -> bool:
        """Whether messages wait and none is delivered."""
        return self.figures.health in _STUCK

    @property
    def retry_waiting(self) -> int | None:
        """Failed messages to be delivered again now."""
        return self._total([part.lag.retry_waiting for part in self.parts])

    @property
    def retry_scheduled(self) -> int | None:
        """Failed messages to be delivered again later; None when nobody knows."""
        return self._total([part.lag.retry_scheduled for part in self.parts])

    def _total(self, counts: list[int | None]) -> int | None:
        return whole(counts) if self.is_known else None

    @property
    def has_expired(self) -> bool:
        return any(part.lost for part in self.parts)


def group_page(namespace: Namespace, group: ConsumerGroup) -> GroupPage:
    """Five queries, two calls to the engine, and one for each queue whose time is shown."""
    now_ms = SystemClock().now_ms()
    found = sampled(namespace, (), [group.name], now_ms)
    figures = found.groups[group.name]
    parts: list[TopicPart] = []
    stats = None
    if engine_stats(namespace.shard) is not None:
        with blocking_client(namespace.shard) as client:
            try:
                stats = client.group_stats(GroupStatsRequest(group=group.engine_name))
                members = client.group_members(GroupRef(group=group.engine_name))
            except StoreError:
                stats = None
            else:
                figures.member_count = len({
                    member.member_id for each in members.topics for member in each.members
                })  # fmt: skip
                of_topic = {each.topic: each for each in members.topics}
                parts = _parts(client, namespace, group, stats, of_topic, now_ms)
    measure_from(figures, stats, now_ms)
    add_health(found, namespace)
    return GroupPage(
        group=group,
        figures=figures,
        parts=parts,
        dropped=0 if stats is None else stats.dropped_count,
        is_known=stats is not None,
    )


def _parts(
    client: StoreClient,
    namespace: Namespace,
    group: ConsumerGroup,
    stats: GroupStats,
    members: dict[str, TopicMembers],
    now_ms: int,
) -> list[TopicPart]:
    names = sorted({each.topic for each in stats.queues if not each.retry_of})
    found = Topic.objects.filter(namespace=namespace, name__in=[_short(name) for name in names])
    retention = dict(found.values_list("name", "retention_age_ms"))
    timed_left = TIMED_QUEUES_MAX
    parts = []
    for name in names:
        own = [each for each in stats.queues if each.topic == name]
        of_topic = members.get(name)
        owners = _owners(of_topic)
        rows = []
        for queue in own:
            first_ms = None
            if timed_left and queue.max_offset > queue.min_offset:
                timed_left -= 1
                first_ms = stored_ms_at(client, name, queue.queue_id, queue.min_offset)
            owner, keeps = owners.get(queue.queue_id, ""), retention.get(_short(name))
            rows.append(_queue_row(queue, owner, first_ms, keeps, now_ms))
        lag = lag_of([each for each in stats.topics if each.topic == name], now_ms)
        parts.append(_part(name, rows, of_topic, lag, now_ms))
    return parts


def _part(
    name: str,
    rows: list[QueueRow],
    of_topic: TopicMembers | None,
    lag: Lag,
    now_ms: int,
) -> TopicPart:
    there = of_topic.members if of_topic is not None else []
    return TopicPart(
        name=_short(name),
        queues=rows,
        members=[member_row(each, _short(name), now_ms) for each in there[:MEMBERS_SHOWN]],
        member_count=len(there),
        is_complete=of_topic is None or of_topic.is_complete,
        is_held_up=of_topic is not None and of_topic.is_full,
        filter="" if of_topic is None else of_topic.filter,
        unassigned=() if of_topic is None else of_topic.unassigned,
        lag=lag,
    )


def _queue_row(
    queue: GroupQueueStats, owner: str, first_ms: int | None, retention_ms: int | None, now_ms: int
) -> QueueRow:
    return QueueRow(
        queue_id=queue.queue_id,
        owner=owner,
        min_offset=queue.min_offset,
        consumer_offset=queue.consumer_offset,
        max_offset=queue.max_offset,
        offset_lag=offset_lag(queue),
        ready=queue.ready_count,
        inflight=queue.inflight_count,
        first_ms=first_ms,
        oldest_ms=queue.oldest_stored_ms,
        now_ms=now_ms,
        retention_ms=retention_ms,
    )


def _owners(topic: TopicMembers | None) -> dict[int, str]:
    """Of an exclusive group, by queue; in others nobody has a queue to himself."""
    if topic is None:
        return {}
    return {at: shown_member(each)[0] for each in topic.members for at in each.queue_ids}


def member_row(member: Member, topic: str, now_ms: int) -> MemberRow:
    """What a page shows of a member, without its socket."""
    name, kind = shown_member(member)
    return MemberRow(
        name=name,
        consumer=member.member_id.removeprefix(CONSUMER_PREFIX),
        kind=kind,
        topic=topic,
        client_id=member.client_id,
        heard_ms=now_ms - member.silent_ms,
        is_waiting=member.is_waiting,
        inflight=member.inflight_count,
        queue_ids=member.queue_ids,
        zone=member.zone,
    )


def shown_member(member: Member) -> tuple[str, str]:
    """Name and kind. Who gives no name is known by the service's own of its socket or request."""
    member_id = member.member_id
    if member_id.startswith(CONSUMER_PREFIX):
        return member_id.removeprefix(CONSUMER_PREFIX), "named"
    if member_id.startswith("ws-"):
        return member_id.removeprefix("ws-"), "socket"
    if member_id.startswith("client-"):
        return member_id.removeprefix("client-"), "client"
    return member_id.partition("-")[2] or member_id, "request"


def _short(engine_topic: str) -> str:
    return engine_topic.partition(ENGINE_SEPARATOR)[2]
