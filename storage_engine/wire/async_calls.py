"""The requests of ``async_client`` that take one frame each way, as methods.

    caller ── struct ──▶ [AsyncCalls] ── op, struct ──▶ AsyncStoreClient ──▶ engine

What takes more than that is the client's own: putting, and receiving without a task.
"""

from __future__ import annotations

import abc
from typing import TypeVar

from storage_engine.records.record import Record
from storage_engine.records.record_run import decode_records
from storage_engine.wire.client_types import Received
from storage_engine.wire.dead_letters import (
    DeadLettersReply,
    DeadLettersRequest,
    PurgeReply,
    PurgeRequest,
    RedriveReply,
    RedriveRequest,
)
from storage_engine.wire.deliveries import (
    LeaveRequest,
    ReceiveRequest,
    SettleReply,
    SettleRequest,
    SubscribeReply,
    SubscribeRequest,
)
from storage_engine.wire.frames import (
    decode_look_up_reply,
    decode_pull_reply,
    decode_reply,
    decode_scheduled_reply,
)
from storage_engine.wire.groups import (
    GroupClients,
    GroupClientsRequest,
    GroupConfig,
    GroupList,
    GroupRef,
    GroupStats,
)
from storage_engine.wire.members import GroupMembers
from storage_engine.wire.offsets import (
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetResetReply,
    OffsetResetRequest,
)
from storage_engine.wire.protocol import CheckpointReply, Empty, Op, StatsReply
from storage_engine.wire.put_once import PutOncePlace, PutOnceReply, PutOnceRequest
from storage_engine.wire.reads import (
    LookUpHead,
    LookUpRequest,
    OffsetAtTimeReply,
    OffsetAtTimeRequest,
    PullHead,
    PullRequest,
)
from storage_engine.wire.reply_handlers import decode_received
from storage_engine.wire.scheduled import (
    DeliverDueRequest,
    ScheduledCancelRequest,
    ScheduledListHead,
    ScheduledListRequest,
    ScheduledMoveRequest,
    ScheduledReply,
    ScheduledSendRequest,
)
from storage_engine.wire.sessions import (
    SessionAbsentRequest,
    SessionSaveRequest,
    SessionTakeReply,
    SessionTakeRequest,
)
from storage_engine.wire.snapshots import (
    SnapshotRelease,
    SnapshotReleaseReply,
    SnapshotReply,
    SnapshotRequest,
)
from storage_engine.wire.struct import Wire
from storage_engine.wire.topics import (
    TopicConfig,
    TopicList,
    TopicPurgeReply,
    TopicPurgeRequest,
    TopicRef,
    TopicStats,
)
from storage_engine.wire.traces import TraceReply, TraceRequest
from storage_engine.wire.usage import UsageReply, UsageRequest

ReplyT = TypeVar("ReplyT", bound=Wire)


class AsyncCalls(abc.ABC):
    """See the module's docstring."""

    @abc.abstractmethod
    async def _request(self, op: Op, request: Wire, extra_wait_ms: int = 0) -> bytes:
        """Payload of the reply. Raises ``StoreError``."""

    async def pull(self, request: PullRequest) -> tuple[PullHead, list[Record]]:
        """Read records at an offset; changes no delivery state."""
        payload = await self._request(Op.PULL, request)
        head, at = decode_pull_reply(payload)
        return head, decode_records(payload, at)

    async def look_up(self, request: LookUpRequest) -> tuple[LookUpHead, list[Record]]:
        """One page of the messages that have a key, newest first."""
        payload = await self._request(Op.LOOK_UP, request)
        head, at = decode_look_up_reply(payload)
        return head, decode_records(payload, at)

    async def offset_at_time(self, request: OffsetAtTimeRequest) -> OffsetAtTimeReply:
        return await self._call(Op.OFFSET_AT_TIME, request, OffsetAtTimeReply)

    async def offset_commit(self, request: OffsetCommitRequest) -> OffsetCommitReply:
        return await self._call(Op.OFFSET_COMMIT, request, OffsetCommitReply)

    async def offset_reset(self, request: OffsetResetRequest) -> OffsetResetReply:
        return await self._call(Op.OFFSET_RESET, request, OffsetResetReply)

    async def subscribe(self, request: SubscribeRequest) -> SubscribeReply:
        """Raises ``FilterInvalid``, ``SubscriptionConflict`` as the receives would."""
        return await self._call(Op.SUBSCRIBE, request, SubscribeReply)

    async def receive(self, request: ReceiveRequest) -> Received:
        """Lease messages, parked up to ``request.wait_ms``. Cancelling gives the place and leases
        back.
        """
        return decode_received(await self._request(Op.RECEIVE, request, request.wait_ms))

    async def settle(self, request: SettleRequest) -> SettleReply:
        return await self._call(Op.SETTLE, request, SettleReply)

    async def topic_put(self, request: TopicConfig) -> None:
        await self._call(Op.TOPIC_PUT, request, Empty)

    async def topic_list(self) -> TopicList:
        return await self._call(Op.TOPIC_LIST, Empty(), TopicList)

    async def topic_delete(self, request: TopicRef) -> None:
        await self._call(Op.TOPIC_DELETE, request, Empty)

    async def topic_purge(self, request: TopicPurgeRequest) -> TopicPurgeReply:
        return await self._call(Op.TOPIC_PURGE, request, TopicPurgeReply)

    async def topic_stats(self, request: TopicRef) -> TopicStats:
        return await self._call(Op.TOPIC_STATS, request, TopicStats)

    async def group_put(self, request: GroupConfig) -> None:
        await self._call(Op.GROUP_PUT, request, Empty)

    async def group_list(self) -> GroupList:
        return await self._call(Op.GROUP_LIST, Empty(), GroupList)

    async def group_delete(self, request: GroupRef) -> None:
        await self._call(Op.GROUP_DELETE, request, Empty)

    async def group_stats(self, request: GroupRef) -> GroupStats:
        """``GroupStatsRequest``: of one client of a broadcast group."""
        return await self._call(Op.GROUP_STATS, request, GroupStats)

    async def group_members(self, request: GroupRef) -> GroupMembers:
        return await self._call(Op.GROUP_MEMBERS, request, GroupMembers)

    async def trace(self, request: TraceRequest) -> TraceReply:
        """One part of the road of a message."""
        return await self._call(Op.TRACE, request, TraceReply)

    async def group_clients(self, request: GroupClientsRequest) -> GroupClients:
        """A page of the clients of a broadcast group."""
        return await self._call(Op.GROUP_CLIENTS, request, GroupClients)

    async def leave(self, request: LeaveRequest) -> None:
        await self._call(Op.LEAVE, request, Empty)

    async def session_keep(self, request: SessionSaveRequest) -> None:
        """Raises ``StoreBusy`` when there is no room; nothing has changed then."""
        await self._call(Op.SESSION_KEEP, request, Empty)

    async def session_take(self, request: SessionTakeRequest) -> SessionTakeReply:
        """Waits for ``request.wait_ms`` at most."""
        payload = await self._request(Op.SESSION_TAKE, request, extra_wait_ms=request.wait_ms)
        reply = decode_reply(Op.SESSION_TAKE, payload)
        assert isinstance(reply, SessionTakeReply)
        return reply

    async def session_absent(self, request: SessionAbsentRequest) -> None:
        await self._call(Op.SESSION_ABSENT, request, Empty)

    async def redrive(self, request: RedriveRequest) -> RedriveReply:
        """Send dead letters on their way again; answered when they are durable there."""
        return await self._call(Op.REDRIVE, request, RedriveReply)

    async def purge(self, request: PurgeRequest) -> PurgeReply:
        """Drop dead letters."""
        return await self._call(Op.PURGE, request, PurgeReply)

    async def dead_letters(self, request: DeadLettersRequest) -> DeadLettersReply:
        """How many dead letters groups have."""
        return await self._call(Op.DEAD_LETTERS, request, DeadLettersReply)

    async def deliver_due(self, ahead_ms: int = 0) -> None:
        """Have the scheduled messages delivered that are due by now, or soon, at their time."""
        await self._call(Op.DELIVER_DUE, DeliverDueRequest(ahead_ms=ahead_ms), Empty)

    async def scheduled_list(
        self, request: ScheduledListRequest
    ) -> tuple[ScheduledListHead, list[Record]]:
        """One page of a topic's messages that are still to come."""
        payload = await self._request(Op.SCHEDULED_LIST, request)
        head, at = decode_scheduled_reply(payload)
        return head, decode_records(payload, at)

    async def scheduled_cancel(self, request: ScheduledCancelRequest) -> ScheduledReply:
        """Deliver a message never; durable when it is answered."""
        return await self._call(Op.SCHEDULED_CANCEL, request, ScheduledReply)

    async def scheduled_move(self, request: ScheduledMoveRequest) -> ScheduledReply:
        """See ``scheduled_cancel``."""
        return await self._call(Op.SCHEDULED_MOVE, request, ScheduledReply)

    async def scheduled_send_now(self, request: ScheduledSendRequest) -> ScheduledReply:
        """Deliver a message now; durable when it is answered."""
        return await self._call(Op.SCHEDULED_SEND_NOW, request, ScheduledReply)

    async def put_once(self, records: list[bytes]) -> list[PutOncePlace]:
        """Append records of ``encode_record``; those with a mark whose key is known are not stored
        again, and get the place of the first. Done when all of it is as durable as after a put.

        Raises as a put does; ``StoreBusy`` also when no more keys can be remembered.
        """
        request = PutOnceRequest(records=b"".join(records))
        return (await self._call(Op.PUT_ONCE, request, PutOnceReply)).places

    async def checkpoint(self) -> CheckpointReply:
        return await self._call(Op.CHECKPOINT, Empty(), CheckpointReply)

    async def snapshot(self, request: SnapshotRequest) -> SnapshotReply:
        """Keep the log's files for a reader of them."""
        return await self._call(Op.SNAPSHOT, request, SnapshotReply)

    async def snapshot_release(self, request: SnapshotRelease) -> SnapshotReleaseReply:
        return await self._call(Op.SNAPSHOT_RELEASE, request, SnapshotReleaseReply)

    async def use(self, request: UsageRequest) -> UsageReply:
        """How much namespaces and topics hold."""
        return await self._call(Op.USE, request, UsageReply)

    async def stats(self) -> StatsReply:
        return await self._call(Op.STATS, Empty(), StatsReply)

    async def ping(self) -> None:
        await self._call(Op.PING, Empty(), Empty)

    async def _call(self, op: Op, request: Wire, kind: type[ReplyT]) -> ReplyT:
        reply = decode_reply(op, await self._request(op, request))
        assert isinstance(reply, kind)
        return reply
