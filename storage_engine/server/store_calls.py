"""What the store answers at once, for any caller: one call of it for each operation.

    server ── request ──▶ [store_calls] ─ call ──▶ Store ── reply ──▶ server

What concerns a connection, or is answered later, is the server's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from storage_engine.clock import measured_ns
from storage_engine.disk.adopted_store import split_number_of
from storage_engine.groups.group_members import members_of
from storage_engine.groups.message_trace import MessageTracer
from storage_engine.groups.offset_feed import OffsetFeed
from storage_engine.records.topic_names import namespace_of
from storage_engine.schedule.pending_bytes import PendingBytes
from storage_engine.server.namespace_usage import NamespaceUsageCounter
from storage_engine.store import STORE_HOST, Store
from storage_engine.wire.groups import GroupList, GroupRef, GroupStats, GroupStatsRequest
from storage_engine.wire.namespaces import NamespaceHoldsReply
from storage_engine.wire.observers import ObserveReply
from storage_engine.wire.operations import AnyOperation, Op, Operation
from storage_engine.wire.protocol import Empty, HelloReply, HelloRequest
from storage_engine.wire.snapshots import SnapshotRelease, SnapshotReleaseReply
from storage_engine.wire.topics import TopicList
from storage_engine.wire.traces import TraceReply, TraceRequest

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")


def observe(store: Store) -> ObserveReply:
    """All of the reply, now. Raises ``OSError`` where the disk is gone."""
    config = store.config
    usage = os.statvfs(config.store_path)
    now_ms = store.parts.clock.monotonic_ms()
    return ObserveReply(
        broker=config.broker,
        epoch=store.epoch,
        disk_total_bytes=usage.f_frsize * usage.f_blocks,
        disk_free_bytes=usage.f_frsize * usage.f_bavail,
        disk_state=store.disk.state.name.lower(),
        is_writable=store.refusal is None,
        lost_message_count=store.retention.lost_message_count,
        member_counts=store.consumption.delivery.subscriptions.member_counts(now_ms),
    )


class StoreCalls:
    """Calls by operation; each takes the operation's request and gives its reply."""

    def __init__(self) -> None:
        # Any: each call fits its own operation, which ``add`` checks.
        self._calls: dict[AnyOperation, Callable[[Any], Any]] = {}

    def __getitem__(self, operation: Operation[RequestT, ReplyT]) -> Callable[[RequestT], ReplyT]:
        return self._calls[operation]

    def __iter__(self) -> Iterator[AnyOperation]:
        return iter(self._calls)

    def add(
        self, operation: Operation[RequestT, ReplyT], call: Callable[[RequestT], ReplyT]
    ) -> None:
        """``call`` answers ``operation``."""
        self._calls[operation] = call

    def add_done(
        self, operation: Operation[RequestT, Empty], call: Callable[[RequestT], object]
    ) -> None:
        """``call`` does what ``operation`` asks; there is nothing to say of it."""

        def answer(request: RequestT) -> Empty:
            call(request)
            return Empty()

        self.add(operation, answer)


def store_calls(store: Store) -> StoreCalls:
    """Those of one store, for all its connections; each raises what the store does.

    The store must be open. Loop thread only.
    """
    calls = StoreCalls()
    _add_connecting(calls, store)
    _add_consumption(calls, store)
    _add_catalog(calls, store)
    _add_inspection(calls, store)
    _add_status(calls, store)
    return calls


def _add_connecting(calls: StoreCalls, store: Store) -> None:
    def hello(_: HelloRequest) -> HelloReply:
        return HelloReply(
            shard=store.config.shard,
            broker=store.config.broker,
            epoch=store.epoch,
            frame_bytes_max=store.config.frame_bytes_max,
            body_bytes_max=store.config.body_bytes_max,
            store_host=STORE_HOST,
            is_replicated=store.replication is not None,
        )

    calls.add(Op.HELLO, hello)
    calls.add(Op.PING, lambda _: Empty())


def _add_consumption(calls: StoreCalls, store: Store) -> None:
    consumption = store.consumption
    calls.add(Op.SETTLE, consumption.settle)
    calls.add(Op.OFFSET_COMMIT, consumption.offset_commit)
    calls.add(Op.OFFSET_RESET, consumption.offset_reset)
    calls.add(Op.PURGE, consumption.dead_letters.purge)
    calls.add(Op.DEAD_LETTERS, consumption.dead_letters.counts)
    calls.add_done(
        Op.DELIVER_DUE, lambda request: consumption.schedule.deliver_due(request.ahead_ms)
    )
    calls.add(Op.SCHEDULED_CANCEL, store.scheduled.cancel)


def _add_catalog(calls: StoreCalls, store: Store) -> None:
    catalog, consumption = store.catalog, store.consumption
    calls.add(Op.TOPIC_LIST, lambda _: TopicList(topics=catalog.topic_list()))
    calls.add(Op.TOPIC_STATS, lambda request: store.topic_stats(request.topic))
    calls.add_done(
        Op.TOPIC_DELETE, lambda request: consumption.deletions.topic_delete(request.topic)
    )
    calls.add(Op.TOPIC_PURGE, consumption.deletions.topic_purge)
    calls.add(Op.GROUP_LIST, lambda _: GroupList(groups=catalog.group_list()))
    calls.add_done(Op.GROUP_DELETE, lambda request: consumption.group_delete(request.group))


def _add_inspection(calls: StoreCalls, store: Store) -> None:
    """Those that show details to people; they change nothing."""
    consumption = store.consumption

    def group_stats(request: GroupRef) -> GroupStats:
        asked = cast("GroupStatsRequest", request)  # as which it was decoded
        return consumption.group_stats(asked.group, asked.client_id)

    def trace(request: TraceRequest) -> TraceReply:
        return MessageTracer(consumption.clock, store.queries, consumption).trace(request)

    calls.add(Op.OFFSET_AT_TIME, store.queries.offset_at_time)
    calls.add(Op.KEY_TOPICS, store.queries.key_topics)
    calls.add(Op.GROUP_STATS, group_stats)
    calls.add(Op.GROUP_CLIENTS, consumption.group_clients)
    calls.add(Op.GROUP_MEMBERS, lambda request: members_of(consumption, request.group))
    calls.add(Op.TRACE, trace)


def _add_status(calls: StoreCalls, store: Store) -> None:
    """Those of observers, which come again and again; each handler states what it costs the
    loop.
    """
    feed = OffsetFeed(store.consumption.delivery)
    queues, consumption = store.parts.queues, store.consumption
    pending = PendingBytes(
        store.parts.commit_log,
        consumption.schedule.sources,
        lambda topic: namespace_of(topic.decode(errors="replace")),
    )
    uses = NamespaceUsageCounter(
        queues, consumption.delivery.subscriptions, measured_ns, pending=pending
    )
    snapshots = store.retention.snapshots

    def release(request: SnapshotRelease) -> SnapshotReleaseReply:
        return SnapshotReleaseReply(was_held=snapshots.release(request.snapshot_id))

    calls.add(Op.OFFSETS_CHANGED, feed.changed)
    calls.add(Op.OBSERVE, lambda _: observe(store))
    calls.add(Op.USE, uses.usage)
    calls.add(Op.SNAPSHOT, snapshots.take)
    calls.add(Op.SNAPSHOT_RELEASE, release)

    calls.add(
        Op.NAMESPACE_HOLDS,
        lambda _: NamespaceHoldsReply(
            held=store.catalog.holds.numbers, split_number=split_number_of(store.config.store_path)
        ),
    )
