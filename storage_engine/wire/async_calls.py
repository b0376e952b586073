"""The requests of ``async_client`` that take one frame each way, as methods.

    caller ── struct ──▶ [AsyncCalls] ── op, struct ──▶ AsyncStoreClient ──▶ engine

Receiving and putting have more to them and are the client's own.
"""

from __future__ import annotations

import abc
from typing import TypeVar

from storage_engine.records.record import Record, decode_records
from storage_engine.wire.dead_letters import PurgeReply, PurgeRequest, RedriveReply, RedriveRequest
from storage_engine.wire.deliveries import (
    LeaveRequest,
    SettleReply,
    SettleRequest,
    SubscribeRequest,
)
from storage_engine.wire.frames import decode_look_up_reply, decode_pull_reply, decode_reply
from storage_engine.wire.groups import GroupConfig, GroupList, GroupRef, GroupStats
from storage_engine.wire.offsets import (
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetResetReply,
    OffsetResetRequest,
)
from storage_engine.wire.protocol import CheckpointReply, Empty, Op, StatsReply
from storage_engine.wire.reads import (
    LookUpHead,
    LookUpRequest,
    OffsetAtTimeReply,
    OffsetAtTimeRequest,
    PullHead,
    PullRequest,
)
from storage_engine.wire.snapshots import (
    SnapshotRelease,
    SnapshotReleaseReply,
    SnapshotReply,
    SnapshotRequest,
)
from storage_engine.wire.struct import Wire
from storage_engine.wire.topics import TopicConfig, TopicList, TopicRef, TopicStats

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
        return await self._ask(Op.OFFSET_AT_TIME, request, OffsetAtTimeReply)

    async def offset_commit(self, request: OffsetCommitRequest) -> OffsetCommitReply:
        return await self._ask(Op.OFFSET_COMMIT, request, OffsetCommitReply)

    async def offset_reset(self, request: OffsetResetRequest) -> OffsetResetReply:
        return await self._ask(Op.OFFSET_RESET, request, OffsetResetReply)

    async def subscribe(self, request: SubscribeRequest) -> None:
        """Raises ``FilterInvalid``, ``SubscriptionConflict`` as the receives would."""
        await self._ask(Op.SUBSCRIBE, request, Empty)

    async def settle(self, request: SettleRequest) -> SettleReply:
        return await self._ask(Op.SETTLE, request, SettleReply)

    async def topic_put(self, request: TopicConfig) -> None:
        await self._ask(Op.TOPIC_PUT, request, Empty)

    async def topic_list(self) -> TopicList:
        return await self._ask(Op.TOPIC_LIST, Empty(), TopicList)

    async def topic_delete(self, request: TopicRef) -> None:
        await self._ask(Op.TOPIC_DELETE, request, Empty)

    async def topic_stats(self, request: TopicRef) -> TopicStats:
        return await self._ask(Op.TOPIC_STATS, request, TopicStats)

    async def group_put(self, request: GroupConfig) -> None:
        await self._ask(Op.GROUP_PUT, request, Empty)

    async def group_list(self) -> GroupList:
        return await self._ask(Op.GROUP_LIST, Empty(), GroupList)

    async def group_delete(self, request: GroupRef) -> None:
        await self._ask(Op.GROUP_DELETE, request, Empty)

    async def group_stats(self, request: GroupRef) -> GroupStats:
        return await self._ask(Op.GROUP_STATS, request, GroupStats)

    async def leave(self, request: LeaveRequest) -> None:
        await self._ask(Op.LEAVE, request, Empty)

    async def redrive(self, request: RedriveRequest) -> RedriveReply:
        """Send dead letters on their way again; answered when they are durable there."""
        return await self._ask(Op.REDRIVE, request, RedriveReply)

    async def purge(self, request: PurgeRequest) -> PurgeReply:
        """Drop dead letters."""
        return await self._ask(Op.PURGE, request, PurgeReply)

    async def checkpoint(self) -> CheckpointReply:
        return await self._ask(Op.CHECKPOINT, Empty(), CheckpointReply)

    async def snapshot(self, request: SnapshotRequest) -> SnapshotReply:
        """Keep the log's files for a reader of them."""
        return await self._ask(Op.SNAPSHOT, request, SnapshotReply)

    async def snapshot_release(self, request: SnapshotRelease) -> SnapshotReleaseReply:
        return await self._ask(Op.SNAPSHOT_RELEASE, request, SnapshotReleaseReply)

    async def stats(self) -> StatsReply:
        return await self._ask(Op.STATS, Empty(), StatsReply)

    async def ping(self) -> None:
        await self._ask(Op.PING, Empty(), Empty)

    async def _ask(self, op: Op, request: Wire, kind: type[ReplyT]) -> ReplyT:
        reply = decode_reply(op, await self._request(op, request))
        assert isinstance(reply, kind)
        return reply
