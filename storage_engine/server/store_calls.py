"""The requests that one call of the store completes immediately, for any caller.

    server ── request ──▶ [store_calls] ─ call ──▶ Store ── reply ──▶ server

What concerns a connection, or is answered later, is the server's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from storage_engine.server.inspection_calls import inspection_calls
from storage_engine.store import STORE_HOST, Store
from storage_engine.wire.dead_letters import DeadLettersRequest, PurgeRequest
from storage_engine.wire.deliveries import SettleRequest
from storage_engine.wire.groups import (
    GroupClientsRequest,
    GroupList,
    GroupRef,
    GroupStatsRequest,
)
from storage_engine.wire.offsets import OffsetCommitRequest, OffsetResetRequest
from storage_engine.wire.protocol import Empty, HelloReply, Op
from storage_engine.wire.reads import OffsetAtTimeRequest
from storage_engine.wire.scheduled import DeliverDueRequest, ScheduledCancelRequest
from storage_engine.wire.snapshots import SnapshotRelease, SnapshotReleaseReply, SnapshotRequest
from storage_engine.wire.struct import Wire
from storage_engine.wire.topics import TopicList, TopicPurgeRequest, TopicRef


def store_calls(store: Store) -> dict[int, Callable[[Wire], Wire]]:
    """By opcode; each raises what the store does. The store must be open."""
    consumption, catalog = store.consumption, store.catalog

    def hello(_: Wire) -> Wire:
        return HelloReply(
            broker=store.config.broker,
            epoch=store.epoch,
            frame_bytes_max=store.config.frame_bytes_max,
            body_bytes_max=store.config.body_bytes_max,
            store_host=STORE_HOST,
        )

    def group_stats(request: Wire) -> Wire:
        asked = cast("GroupStatsRequest", request)
        return consumption.group_stats(asked.group, asked.client_id)

    def done(call: Callable[[Wire], None]) -> Callable[[Wire], Wire]:
        def answer(request: Wire) -> Wire:
            call(request)
            return Empty()

        return answer

    return {
        Op.HELLO: hello,
        Op.PING: lambda _: Empty(),
        Op.SETTLE: lambda request: consumption.settle(cast("SettleRequest", request)),
        Op.OFFSET_AT_TIME: lambda request: store.queries.offset_at_time(
            cast("OffsetAtTimeRequest", request)
        ),
        Op.OFFSET_COMMIT: lambda request: consumption.offset_commit(
            cast("OffsetCommitRequest", request)
        ),
        Op.OFFSET_RESET: lambda request: consumption.offset_reset(
            cast("OffsetResetRequest", request)
        ),
        Op.TOPIC_LIST: lambda _: TopicList(topics=catalog.topic_list()),
        Op.TOPIC_STATS: lambda request: store.topic_stats(cast("TopicRef", request).topic),
        Op.TOPIC_DELETE: done(
            lambda request: consumption.deletions.topic_delete(cast("TopicRef", request).topic)
        ),
        Op.TOPIC_PURGE: lambda request: consumption.topic_purge.run(
            cast("TopicPurgeRequest", request)
        ),
        Op.GROUP_LIST: lambda _: GroupList(groups=catalog.group_list()),
        Op.GROUP_STATS: group_stats,
        Op.GROUP_CLIENTS: lambda request: consumption.group_clients(
            cast("GroupClientsRequest", request)
        ),
        Op.GROUP_DELETE: done(
            lambda request: consumption.group_delete(cast("GroupRef", request).group)
        ),
        Op.PURGE: lambda request: consumption.dead_letters.purge(cast("PurgeRequest", request)),
        Op.DEAD_LETTERS: lambda request: consumption.dead_letters.counts(
            cast("DeadLettersRequest", request)
        ),
        Op.SNAPSHOT: lambda request: store.retention.snapshots.take(
            cast("SnapshotRequest", request)
        ),
        Op.SNAPSHOT_RELEASE: lambda request: SnapshotReleaseReply(
            was_held=store.retention.snapshots.release(cast("SnapshotRelease", request).snapshot_id)
        ),
        Op.DELIVER_DUE: done(
            lambda request: consumption.schedule.deliver_due(
                cast("DeliverDueRequest", request).ahead_ms
            )
        ),
        Op.SCHEDULED_CANCEL: lambda request: store.scheduled.cancel(
            cast("ScheduledCancelRequest", request)
        ),
        **inspection_calls(store),
    }
