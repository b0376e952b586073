"""Reads of consumer groups, with their progress from the engine."""

from __future__ import annotations

from collections.abc import Sequence

from mqservice.accounts.models import Namespace
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.problem import Problem
from mqservice.store import GroupQueueStats, GroupRef, GroupStats, StoreClient, StoreError

GROUPS_PAGE_MAX = 1_000


def groups_of(
    namespace: Namespace, *, after: str = "", contains: str = "", limit: int = GROUPS_PAGE_MAX
) -> list[ConsumerGroup]:
    """Groups whose name comes after ``after`` and has ``contains`` in it, by name, at most
    ``limit``. One query.
    """
    rows = namespace.groups.filter(name__gt=after).order_by("name")
    if contains:
        rows = rows.filter(name__icontains=contains)
    return list(rows[: min(limit, GROUPS_PAGE_MAX)])


def group_names_of(namespace: Namespace, *, limit: int = GROUPS_PAGE_MAX) -> list[str]:
    """The first names of groups, at most ``limit``. One query."""
    rows = ConsumerGroup.objects.filter(namespace=namespace).order_by("name")
    return list(rows.values_list("name", flat=True)[:limit])


def get_group(namespace: Namespace, name: str) -> ConsumerGroup:
    """Raises Problem GROUP_NOT_FOUND. One query."""
    rows = ConsumerGroup.objects.select_related("namespace")
    group = rows.filter(namespace=namespace, name=name).first()
    if group is None:
        raise Problem.of("GROUP_NOT_FOUND", f"{name} does not exist in {namespace.name}")
    return group


def progress(client: StoreClient, group: ConsumerGroup) -> GroupStats | None:
    """The group's progress; None when the engine cannot tell. One call to the engine."""
    return progress_of_all(client, [group])[0]


def progress_of_all(
    client: StoreClient, groups: Sequence[ConsumerGroup]
) -> list[GroupStats | None]:
    """The progress of each in order; None where the engine cannot tell. It is asked for several of
    them at a time.
    """
    try:
        replies = client.group_stats_all([GroupRef(group=each.engine_name) for each in groups])
    except StoreError:
        return [None] * len(groups)
    return [None if isinstance(reply, StoreError) else reply for reply in replies]


def offset_lag(queue: GroupQueueStats) -> int:
    """What RocketMQ calls lag: offsets between the consumer offset and the end of the queue, never
    negative. What a group has still to do is in ``lag.py``.
    """
    return max(0, queue.max_offset - queue.consumer_offset)
