"""Splits a shard: some of its namespaces, with all that they have, become another shard.

    plan ─▶ copy in rounds ─▶ hold ─▶ the rest, without what is not theirs ─▶ the target serves it
            the source serves │ requests wait                                       │
                              │              rows: they live in the target ◀────────┘
                              └─ too slow, or anything fails ─▶ release: the source serves on
                                 either way the other one deletes what it has of them afterwards

The decision is one transaction (``shards.splits``). Whoever is killed leaves a split that the clock
ends within seconds of its time (``resolve``): released before the decision, and deleted at the
target; deleted at the source after it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from mqservice.accounts.shard_changes import commit_split
from mqservice.accounts.shard_parts import (
    CopyRoom,
    PartProgram,
    local_replica,
    local_shard,
    plan_copy,
    sole_copy_into,
)
from mqservice.accounts.split_target import node_elsewhere
from mqservice.lib.durations import SECOND_MS
from mqservice.lib.problem import Problem
from mqservice.shards import splits
from mqservice.shards.models import Split
from mqservice.shards.split_lines import SplitDone, SplitPlan
from mqservice.store import (
    DeadLettersRequest,
    GroupRef,
    NamespaceHoldRequest,
    ScheduledListRequest,
    StoreAdoptRequest,
    StoreClient,
    StoreError,
    TopicRef,
    UsageRequest,
    blocking_client,
)

log = logging.getLogger(__name__)

_ROUNDS_MAX: Final = 20
_SMALL_BYTES: Final = 8 * 1024 * 1024  # of a round: copied and read again within a moment
# From when web processes let requests wait until the engine refuses them: what is under way ends.
_NOTICE_MS: Final = 200
_LOOK_MS: Final = 20
_PAGE_COUNT: Final = 1_000
_SCHEDULED_COUNT_MAX: Final = 100_000


def plan_split(source: str, target: str, namespaces: Sequence[str]) -> SplitPlan:
    """Changes nothing. Raises Problem, as ``splits.check_split``, and CONFLICT where the disk has
    too little room; ``StoreError``.
    """
    splits.check_split(source, target, namespaces)
    node = node_elsewhere(source, target)
    from_shard = local_shard(source)
    to_shard = local_replica(target) if node else local_shard(target)
    copy = plan_copy(from_shard, to_shard)
    with blocking_client(source) as client:
        return _counted(client, source, target, namespaces, copy, node)


def split_shard(
    source: str, target: str, namespaces: Sequence[str], *, say: Callable[[int, int], None]
) -> SplitDone:
    """On return the target serves the namespaces, and the source has nothing of them. ``say``:
    called with the bytes that a round has copied, and has to copy.

    Raises Problem, ``StoreError``, ``OSError``; the source serves the namespaces then.
    """
    plan_split(source, target, namespaces)
    from_shard, to_shard = local_shard(source), local_shard(target)
    with sole_copy_into(to_shard):
        splits.end_left(source, target)
        split = splits.begin(source, target, namespaces)
        try:
            with PartProgram(
                from_shard,
                to_shard,
                namespaces,
                split.number,
                last_number=_last_number(target),
                say=say,
            ) as program:
                for _ in range(_ROUNDS_MAX):
                    if program.copy().copied_bytes <= _SMALL_BYTES:
                        break
                done = _move(split, program)
        except BaseException:
            splits.fail(split)
            raise
        _resolve(split)
    return done


def _move(split: Split, program: PartProgram) -> SplitDone:
    """From the hold to the decision."""
    began_ns = time.monotonic_ns()
    splits.hold(split)
    try:
        time.sleep(_NOTICE_MS / SECOND_MS)
        with blocking_client(split.source) as client:
            client.namespace_hold(
                NamespaceHoldRequest(namespaces=split.namespaces, number=split.number)
            )
            expected = _names(client, split.namespaces)
        part = program.finish()
        _have_adopted(split, expected)
        commit_split(split)
    except BaseException:
        if splits.begin_release(split):
            _resolve(split)
        if not splits.is_moved(split):
            if splits.is_given_up(split):
                program.discard(is_in_log=_is_in_log(split))
            raise
        # The database was lost while it said yes.
        log.warning(
            "The namespaces were moved, although the command heard of an error",
            extra={"action": "split_committed", "source": split.source, "target": split.target},
        )
    held_ms = (time.monotonic_ns() - began_ns) // 1_000_000
    return SplitDone(topics=part.topic_count, groups=part.group_count, held_ms=held_ms)


def _resolve(split: Split) -> None:
    """End what is left of it; where an engine is away the clock does so later."""
    try:
        splits.resolve(split)
    except StoreError as exc:
        log.warning(
            "Could not end what a split has left to do in one of its shards; trying again soon",
            extra={
                "action": "split_not_finished",
                "source": split.source,
                "target": split.target,
                "reason": str(exc),
            },
        )


def _have_adopted(split: Split, expected: set[str]) -> None:
    """The target's engine serves its new store. Raises Problem CONFLICT, ``StoreError``."""
    with blocking_client(split.target) as client:
        client.store_adopt(StoreAdoptRequest(number=split.number))
    for _ in range(splits.HELD_MS_MAX // _LOOK_MS):
        try:
            with blocking_client(split.target) as client:
                if client.namespace_holds().split_number == split.number:
                    missing = expected - _names(client, split.namespaces)
                    if missing:
                        raise Problem.of("CONFLICT", f"the copy lacks {sorted(missing)[0]}")
                    return
        except StoreError:  # it is between the two stores
            pass
        time.sleep(_LOOK_MS / SECOND_MS)
    raise Problem.of("CONFLICT", f"{split.target} does not serve its new store")


def _last_number(shard: str) -> int:
    """Of the last split that its log says, which the shard began with. Raises ``StoreError``."""
    with blocking_client(shard) as client:
        return client.namespace_holds().split_number


def _is_in_log(split: Split) -> bool:
    """Whether the target's log may say that the shard began with it, although it was given up: its
    other machines need what was uploaded then. Asked after its engine has answered that it was
    given up: no engine begins with it from then on.
    """
    try:
        return _last_number(split.target) >= split.number
    except StoreError:
        return True


def _names(client: StoreClient, namespaces: Sequence[str]) -> set[str]:
    """Full names of the topics and groups that an engine has of these namespaces."""
    topics = {each.topic for each in client.topic_list().topics}
    groups = {each.group for each in client.group_list().groups}
    prefixes = tuple(f"{name}%" for name in namespaces)
    return {name for name in topics | groups if name.startswith(prefixes)}


def _counted(
    client: StoreClient,
    source: str,
    target: str,
    namespaces: Sequence[str],
    copy: CopyRoom,
    node: str,
) -> SplitPlan:
    names = _names(client, namespaces)
    topics = [each.topic for each in client.topic_list().topics if each.topic in names]
    groups = [each.group for each in client.group_list().groups if each.group in names]
    stats = client.topic_stats_all([TopicRef(topic=name) for name in topics])
    messages = sum(
        queue.max_offset - queue.min_offset
        for each in stats
        if not isinstance(each, StoreError)
        for queue in each.queues
    )
    lags = [
        lag
        for each in client.group_stats_all([GroupRef(group=name) for name in groups])
        if not isinstance(each, StoreError)
        for lag in each.topics
    ]
    usage = client.use(UsageRequest(namespaces=list(namespaces))).namespaces
    return SplitPlan(
        source=source,
        target=target,
        namespaces=list(namespaces),
        topics=len(topics),
        groups=len(groups),
        messages=messages,
        stored_bytes=sum(each.stored_bytes for each in usage),
        dead_letters=_dead_letters(client, groups),
        retries=sum(lag.retry_waiting_count + (lag.retry_scheduled_count or 0) for lag in lags),
        scheduled=sum(_scheduled(client, name) for name in namespaces),
        leases=sum(each.inflight_count for each in usage),
        copied_bytes=copy.copied_bytes,
        fetched_bytes=copy.fetched_bytes,
        free_bytes=copy.free_bytes,
        node=node,
    )


def _dead_letters(client: StoreClient, groups: Sequence[str]) -> int:
    found = 0
    for first in range(0, len(groups), _PAGE_COUNT):
        asked = DeadLettersRequest(groups=list(groups[first : first + _PAGE_COUNT]))
        found += sum(each.count for each in client.dead_letters(asked).counts)
    return found


def _scheduled(client: StoreClient, namespace: str) -> int:
    """How many messages of producers wait for their time, 100,000 at most."""
    found = queue_id = queue_offset = 0
    while found < _SCHEDULED_COUNT_MAX:
        head, records = client.scheduled_list(
            ScheduledListRequest(
                topic=namespace,
                is_namespace=True,
                queue_id=queue_id,
                queue_offset=queue_offset,
                messages_max=_PAGE_COUNT,
                bytes_max=_SMALL_BYTES,
            )
        )
        found += len(records)
        queue_id, queue_offset = head.queue_id, head.queue_offset
        if head.is_end:
            break
    return min(found, _SCHEDULED_COUNT_MAX)
