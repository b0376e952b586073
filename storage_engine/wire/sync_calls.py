"""The requests of ``sync_client`` that take one frame each way, as methods.

caller ── struct ──▶ [SyncCalls] ── op, payload ──▶ StoreClient ──▶ engine
"""

from __future__ import annotations

import abc
from typing import TypeVar

from storage_engine.records.record import Record
from storage_engine.records.record_run import decode_records
from storage_engine.wire.client_types import PutResult, Received, put_results
from storage_engine.wire.dead_letters import (
    DeadLettersReply,
    DeadLettersRequest,
    PurgeReply,
    PurgeRequest,
    RedriveReply,
    RedriveRequest,
)
from storage_engine.wire.deliveries import ReceiveRequest, SettleReply, SettleRequest
from storage_engine.wire.frames import (
    decode_look_up_reply,
    decode_pull_reply,
    decode_put_reply,
    decode_receive_reply,
    decode_reply,
    decode_scheduled_reply,
    encode_struct,
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
from storage_engine.wire.observers import (
    ObserveReply,
    OffsetsChangedReply,
    OffsetsChangedRequest,
)
from storage_engine.wire.offsets import (
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetResetReply,
    OffsetResetRequest,
)
from storage_engine.wire.protocol import (
    CheckpointReply,
    Empty,
    Op,
    StatsReply,
)
from storage_engine.wire.put_once import PutOncePlace, PutOnceReply, PutOnceRequest
from storage_engine.wire.reads import (
    LookUpHead,
    LookUpRequest,
    OffsetAtTimeReply,
    OffsetAtTimeRequest,
    PullHead,
    PullRequest,
)
from storage_engine.wire.scheduled import (
    DeliverDueRequest,
    ScheduledCancelRequest,
    ScheduledListHead,
    ScheduledListRequest,
    ScheduledMoveRequest,
    ScheduledReply,
    ScheduledSendRequest,
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


class SyncCalls(abc.ABC):
    """See the module's docstring."""

    @abc.abstractmethod
    def _request(self, op: Op, payload: bytes, extra_wait_ms: int = 0) -> bytes:
        """Payload of the reply. Raises ``StoreError``."""

    def put(self, records: list[bytes]) -> list[PutResult]:
        """Append records of ``encode_record``; one result per record, in order."""
        payload = b"".join(records)
        store_timestamp_ms, offsets = decode_put_reply(self._request(Op.PUT, payload))
        return put_results(store_timestamp_ms, offsets, len(records))

    def put_once(self, records: list[bytes]) -> list[PutOncePlace]:
        """As a put, but records with a mark whose key is known are not stored again, and get the
        place of the first.
        """
        request = PutOnceRequest(records=b"".join(records))
        return self._call(Op.PUT_ONCE, request, PutOnceReply).places

    def receive(self, request: ReceiveRequest) -> Received:
        payload = self._request(Op.RECEIVE, encode_struct(request), extra_wait_ms=request.wait_ms)
        head, at = decode_receive_reply(payload)
        return Received(head, content=payload, at=at)

    def pull(self, request: PullRequest) -> tuple[PullHead, list[Record]]:
        payload = self._request(Op.PULL, encode_struct(request))
        head, at = decode_pull_reply(payload)
        return head, decode_records(payload, at)

    def look_up(self, request: LookUpRequest) -> tuple[LookUpHead, list[Record]]:
        """One page of the messages that have a key, newest first."""
        payload = self._request(Op.LOOK_UP, encode_struct(request))
        head, at = decode_look_up_reply(payload)
        return head, decode_records(payload, at)

    def offset_at_time(self, request: OffsetAtTimeRequest) -> OffsetAtTimeReply:
        return self._call(Op.OFFSET_AT_TIME, request, OffsetAtTimeReply)

    def offset_commit(self, request: OffsetCommitRequest) -> OffsetCommitReply:
        return self._call(Op.OFFSET_COMMIT, request, OffsetCommitReply)

    def offset_reset(self, request: OffsetResetRequest) -> OffsetResetReply:
        return self._call(Op.OFFSET_RESET, request, OffsetResetReply)

    def settle(self, request: SettleRequest) -> SettleReply:
        return self._call(Op.SETTLE, request, SettleReply)

    def topic_put(self, request: TopicConfig) -> None:
        self._call(Op.TOPIC_PUT, request, Empty)

    def topic_list(self) -> TopicList:
        return self._call(Op.TOPIC_LIST, Empty(), TopicList)

    def topic_delete(self, request: TopicRef) -> None:
        self._call(Op.TOPIC_DELETE, request, Empty)

    def topic_purge(self, request: TopicPurgeRequest) -> TopicPurgeReply:
        return self._call(Op.TOPIC_PURGE, request, TopicPurgeReply)

    def topic_stats(self, request: TopicRef) -> TopicStats:
        return self._call(Op.TOPIC_STATS, request, TopicStats)

    def group_put(self, request: GroupConfig) -> None:
        self._call(Op.GROUP_PUT, request, Empty)

    def group_list(self) -> GroupList:
        return self._call(Op.GROUP_LIST, Empty(), GroupList)

    def group_delete(self, request: GroupRef) -> None:
        self._call(Op.GROUP_DELETE, request, Empty)

    def group_clients(self, request: GroupClientsRequest) -> GroupClients:
        return self._call(Op.GROUP_CLIENTS, request, GroupClients)

    def group_stats(self, request: GroupRef) -> GroupStats:
        return self._call(Op.GROUP_STATS, request, GroupStats)

    def group_members(self, request: GroupRef) -> GroupMembers:
        return self._call(Op.GROUP_MEMBERS, request, GroupMembers)

    def trace(self, request: TraceRequest) -> TraceReply:
        """One part of the road of a message."""
        return self._call(Op.TRACE, request, TraceReply)

    def redrive(self, request: RedriveRequest) -> RedriveReply:
        return self._call(Op.REDRIVE, request, RedriveReply)

    def purge(self, request: PurgeRequest) -> PurgeReply:
        return self._call(Op.PURGE, request, PurgeReply)

    def dead_letters(self, request: DeadLettersRequest) -> DeadLettersReply:
        return self._call(Op.DEAD_LETTERS, request, DeadLettersReply)

    def deliver_due(self, ahead_ms: int = 0) -> None:
        """Have the scheduled messages delivered that are due by now, or soon, at their time."""
        self._call(Op.DELIVER_DUE, DeliverDueRequest(ahead_ms=ahead_ms), Empty)

    def scheduled_list(
        self, request: ScheduledListRequest
    ) -> tuple[ScheduledListHead, list[Record]]:
        """One page of a topic's messages that are still to come."""
        payload = self._request(Op.SCHEDULED_LIST, encode_struct(request))
        head, at = decode_scheduled_reply(payload)
        return head, decode_records(payload, at)

    def scheduled_cancel(self, request: ScheduledCancelRequest) -> ScheduledReply:
        return self._call(Op.SCHEDULED_CANCEL, request, ScheduledReply)

    def scheduled_move(self, request: ScheduledMoveRequest) -> ScheduledReply:
        return self._call(Op.SCHEDULED_MOVE, request, ScheduledReply)

    def scheduled_send_now(self, request: ScheduledSendRequest) -> ScheduledReply:
        return self._call(Op.SCHEDULED_SEND_NOW, request, ScheduledReply)

    def checkpoint(self) -> CheckpointReply:
        return self._call(Op.CHECKPOINT, Empty(), CheckpointReply)

    def offsets_changed(self, request: OffsetsChangedRequest) -> OffsetsChangedReply:
        """A page of the consumer offsets that have changed since the page before."""
        return self._call(Op.OFFSETS_CHANGED, request, OffsetsChangedReply)

    def observe(self) -> ObserveReply:
        return self._call(Op.OBSERVE, Empty(), ObserveReply)

    def use(self, request: UsageRequest) -> UsageReply:
        """How much namespaces and topics hold."""
        return self._call(Op.USE, request, UsageReply)

    def snapshot(self, request: SnapshotRequest) -> SnapshotReply:
        """Keep the log's files for a reader of them."""
        return self._call(Op.SNAPSHOT, request, SnapshotReply)

    def snapshot_release(self, request: SnapshotRelease) -> SnapshotReleaseReply:
        return self._call(Op.SNAPSHOT_RELEASE, request, SnapshotReleaseReply)

    def stats(self) -> StatsReply:
        return self._call(Op.STATS, Empty(), StatsReply)

    def ping(self) -> None:
        self._call(Op.PING, Empty(), Empty)

    def _call(self, op: Op, request: Wire, kind: type[ReplyT]) -> ReplyT:
        reply = decode_reply(op, self._request(op, encode_struct(request)))
        assert isinstance(reply, kind)
        return reply
