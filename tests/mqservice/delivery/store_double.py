"""The engine in memory, as far as the data plane sees it: puts, reads, leases, settles, polls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from mqservice.lib.clock import Clock, SystemClock
from mqservice.store import (
    Extend,
    KeyTopicsReply,
    KeyTopicsRequest,
    LeaseExpired,
    LeaseRef,
    LeaveRequest,
    LookUpHead,
    LookUpRequest,
    Nack,
    Notice,
    OffsetAtTimeReply,
    OffsetAtTimeRequest,
    OutcomeUnknown,
    PendingReceive,
    PullHead,
    PullRequest,
    PullStatus,
    PutCall,
    PutOncePlace,
    PutResult,
    QueueStats,
    Received,
    ReceiveHead,
    ReceiveReplyHandler,
    ReceiveRequest,
    Record,
    ScheduledCancelRequest,
    ScheduledListHead,
    ScheduledListRequest,
    ScheduledMoveRequest,
    ScheduledReply,
    ScheduledSendRequest,
    SessionAbsentRequest,
    SessionSaveRequest,
    SessionTakeReply,
    SessionTakeRequest,
    SettleFailure,
    SettleReply,
    SettleReplyHandler,
    SettleRequest,
    StoreBusy,
    StoreError,
    StoreUnavailable,
    SubscribeReply,
    SubscribeRequest,
    TopicRef,
    TopicStats,
    UsageReply,
    UsageRequest,
)
from storage_engine.records.record import decode_record
from tests.mqservice.delivery.reply_handler_double import HoldDouble, tell_settled

POLL_SECONDS = 0.02
T = TypeVar("T")


@dataclass
class Progress:
    """What a group has done with one queue."""

    next_offset: int = 0
    leases: dict[int, tuple[int, int]] = field(default_factory=dict)
    ready: list[int] = field(default_factory=list)
    attempts: dict[int, int] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)


class StoreDouble:
    """Same methods as the asynchronous client; used on one loop, looked at from any thread."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self.is_connected = True
        self.put_error: StoreError | None = None
        self.refused_bodies: dict[bytes, StoreError] = {}
        self.queues: dict[tuple[str, int], list[Record]] = {}
        self.progress: dict[tuple[str, str, int], Progress] = {}
        self.parked_count = 0
        self.receives: list[ReceiveRequest] = []
        self.settles: list[SettleRequest] = []
        self.is_settle_held = False
        self.held_settle_count = 0
        self._settle_under_way: asyncio.Task[None] | None = None
        self.is_index_complete = True
        self._generation = 0
        self._physical_offset = 0
        self._changed = asyncio.Event()

    def records(self, topic: str) -> list[Record]:
        """Everything stored in ``topic``, by queue and offset."""
        return [r for (name, _), log in sorted(self.queues.items()) if name == topic for r in log]

    def leased_count(self, group: str) -> int:
        return sum(len(p.leases) for (name, _, _), p in self.progress.items() if name == group)

    def settled_count(self, group: str) -> int:
        return sum(len(p.settled) for (name, _, _), p in self.progress.items() if name == group)

    def put(self, records: list[bytes]) -> asyncio.Future[list[PutResult]]:
        future: asyncio.Future[list[PutResult]] = asyncio.get_running_loop().create_future()
        try:
            self.put_for(future, records)
        except StoreError as error:
            future.set_exception(error)
        return future

    def put_for(self, call: PutCall, records: list[bytes], *, is_replicated: bool = False) -> None:
        if not self.is_connected:
            raise StoreUnavailable("no engine answers at /a/secret/path")
        loop = asyncio.get_running_loop()
        if self.put_error is not None:
            loop.call_soon(_tell, call.set_exception, call, self.put_error)
            return
        results = [self._append(decode_record(record)) for record in records]
        loop.call_soon(_tell, call.set_result, call, results)
        self._wake()

    async def put_once(self, records: list[bytes], window_ms: int) -> list[PutOncePlace]:
        raise StoreUnavailable("the double knows no keys of requests: ask the real engine")

    async def use(self, request: UsageRequest) -> UsageReply:
        raise StoreUnavailable("the double counts no bytes: ask the real engine")

    def _append(self, record: Record) -> PutResult:
        error = self.refused_bodies.get(record.body)
        if error is not None:
            return PutResult(-1, -1, 0, error)
        log = self.queues.setdefault((record.topic, record.queue_id), [])
        stored_ms = self._clock.now_ms()
        self._physical_offset += 1
        log.append(
            msgspec.structs.replace(
                record,
                queue_offset=len(log),
                physical_offset=self._physical_offset,
                store_timestamp_ms=stored_ms,
            )
        )
        return PutResult(len(log) - 1, 0, stored_ms)

    async def receive(self, request: ReceiveRequest) -> Received:
        self.receives.append(request)
        deadline = time.monotonic() + request.wait_ms / 1_000
        self.parked_count += 1
        try:
            while True:
                if not self.is_connected:
                    raise StoreUnavailable("no engine answers")
                received = self._lease(request)
                if received.records or time.monotonic() >= deadline:
                    return received
                changed = self._changed
                try:
                    async with asyncio.timeout(POLL_SECONDS):
                        await changed.wait()
                except TimeoutError:
                    continue
        finally:
            self.parked_count -= 1

    def receive_for(self, told: ReceiveReplyHandler, request: ReceiveRequest) -> PendingReceive:
        if not self.is_connected:
            raise StoreUnavailable("no engine answers at /a/secret/path")
        return HoldDouble(self.receive, self._release, told, request, self._settle_under_way)

    def _release(self, request: ReceiveRequest, received: Received) -> None:
        for record in received.records:
            progress = self._progress(request.group, record.topic, record.queue_id)
            del progress.leases[record.queue_offset]
            progress.ready.append(record.queue_offset)

    def _lease(self, request: ReceiveRequest) -> Received:
        self._generation += 1
        until_ms = self._clock.now_ms() + request.lease_ms
        records: list[Record] = []
        attempts: list[int] = []
        total_bytes = 0
        for (topic, queue_id), log in self.queues.items():
            if topic != request.topic:
                continue
            progress = self._progress(request.group, topic, queue_id)
            for offset, (_, lease_until_ms) in list(progress.leases.items()):
                if lease_until_ms <= self._clock.now_ms():
                    del progress.leases[offset]
                    progress.ready.append(offset)
            while len(records) < request.messages_max:
                if progress.ready:
                    offset = progress.ready[0]
                elif progress.next_offset < len(log):
                    offset = progress.next_offset
                else:
                    break
                record = log[offset]
                if records and total_bytes + len(record.body) > request.bytes_max:
                    break
                if progress.ready:
                    progress.ready.pop(0)
                else:
                    progress.next_offset += 1
                total_bytes += len(record.body)
                progress.attempts[offset] = progress.attempts.get(offset, 0) + 1
                progress.leases[offset] = (self._generation, until_ms)
                records.append(record)
                attempts.append(progress.attempts[offset])
        head = ReceiveHead(
            lease_generation=self._generation, lease_until_ms=until_ms, attempts=attempts
        )
        return Received(head, records)

    async def subscribe(self, request: SubscribeRequest) -> SubscribeReply:
        """Refuses nothing: filters are for a real engine."""
        if not self.is_connected:
            raise StoreUnavailable("no engine answers")
        return SubscribeReply(is_paused=False)

    def listen(self, heard: Callable[[Notice], None]) -> None:
        """This double tells nothing by itself."""

    async def session_keep(self, request: SessionSaveRequest) -> None:
        raise StoreBusy("this double keeps no sessions")

    async def session_take(self, request: SessionTakeRequest) -> SessionTakeReply:
        return SessionTakeReply(content=None, gone=[])

    async def session_absent(self, request: SessionAbsentRequest) -> None:
        """Nobody is asked."""

    async def leave(self, request: LeaveRequest) -> None:
        """This double knows no members."""

    def settle_for(self, told: SettleReplyHandler, request: SettleRequest) -> None:
        if not self.is_connected:
            raise StoreUnavailable("no engine answers at /a/secret/path")
        self._settle_under_way = asyncio.ensure_future(tell_settled(self.settle(request), told))

    async def settle(self, request: SettleRequest) -> SettleReply:
        self.held_settle_count += 1
        while self.is_settle_held:
            await asyncio.sleep(0.005)
        self.held_settle_count -= 1
        if not self.is_connected:
            raise OutcomeUnknown("the connection broke")
        self.settles.append(request)
        acked = nacked = dead = 0
        failures: list[SettleFailure] = []
        extended: list[int] = []
        for lease in request.acks:
            for offset in lease.queue_offsets:
                progress = self._progress(request.group, lease.topic, lease.queue_id)
                held = progress.leases.get(offset)
                if held is not None and held[0] != lease.lease_generation:
                    failures.append(_failure(lease, offset))
                    continue
                progress.leases.pop(offset, None)
                if offset in progress.ready:
                    progress.ready.remove(offset)
                progress.settled.add(offset)
                acked += 1
        for nack in request.nacks:
            progress = self._progress(request.group, nack.topic, nack.queue_id)
            held = progress.leases.get(nack.queue_offset)
            if held is None or held[0] != nack.lease_generation:
                failures.append(_failure(nack, nack.queue_offset))
                continue
            del progress.leases[nack.queue_offset]
            if nack.is_dead:
                progress.settled.add(nack.queue_offset)
                dead += 1
            else:
                progress.ready.append(nack.queue_offset)
                nacked += 1
        for extend in request.extends:
            progress = self._progress(request.group, extend.topic, extend.queue_id)
            held = progress.leases.get(extend.queue_offset)
            if held is None or held[0] != extend.lease_generation:
                failures.append(_failure(extend, extend.queue_offset))
                extended.append(0)
                continue
            until_ms = self._clock.now_ms() + extend.lease_ms
            progress.leases[extend.queue_offset] = (held[0], until_ms)
            extended.append(until_ms)
        self._wake()
        return SettleReply(
            acked_count=acked,
            nacked_count=nacked,
            dead_lettered_count=dead,
            extended_until_ms=extended,
            failures=failures,
        )

    async def pull(self, request: PullRequest) -> tuple[PullHead, list[Record]]:
        log = self._log(request.topic, request.queue_id)
        offset, status = request.queue_offset, PullStatus.NO_NEW_MSG
        records: list[Record] = []
        if offset > len(log):
            offset, status = len(log), PullStatus.OFFSET_ILLEGAL
        elif offset < len(log):
            records = [r for r in log[offset:] if not request.tags or r.tag in request.tags]
            records = records[: request.messages_max]
            offset = records[-1].queue_offset + 1 if records else len(log)
            status = PullStatus.FOUND if records else PullStatus.NO_MATCHED_MSG
        head = PullHead(status=status, next_offset=offset, min_offset=0, max_offset=len(log))
        return head, records

    async def topic_stats(self, request: TopicRef) -> TopicStats:
        queue_ids = sorted(queue_id for name, queue_id in self.queues if name == request.topic)
        queues = [
            QueueStats(
                queue_id=queue_id, min_offset=0, max_offset=len(self._log(request.topic, queue_id))
            )
            for queue_id in queue_ids
        ]
        return TopicStats(topic=request.topic, queues=queues)

    async def look_up(self, request: LookUpRequest) -> tuple[LookUpHead, list[Record]]:
        found = [
            record
            for record in self.records(request.topic)
            if request.key in (record.message_id, *record.keys)
            and request.from_ms <= record.store_timestamp_ms <= request.to_ms
        ]
        found.sort(key=lambda record: -record.physical_offset)
        start = int(request.cursor or "0")
        stop = start + request.messages_max
        cursor = str(stop) if stop < len(found) else ""
        return LookUpHead(cursor=cursor, is_complete=self.is_index_complete), found[start:stop]

    async def key_topics(self, request: KeyTopicsRequest) -> KeyTopicsReply:
        indexes = [
            at
            for at, topic in enumerate(request.topics)
            if any(
                key in (record.message_id, *record.keys)
                for record in self.records(topic)
                for key in request.keys
            )
        ]
        return KeyTopicsReply(indexes=indexes, is_complete=self.is_index_complete)

    async def offset_at_time(self, request: OffsetAtTimeRequest) -> OffsetAtTimeReply:
        log = self._log(request.topic, request.queue_id)
        before = sum(record.store_timestamp_ms < request.timestamp_ms for record in log)
        later = [
            sum(record.store_timestamp_ms < time_ms for record in log)
            for time_ms in request.later_ms
        ]
        return OffsetAtTimeReply(
            queue_offset=before, min_offset=0, max_offset=len(log), later_offsets=later
        )

    def _log(self, topic: str, queue_id: int) -> list[Record]:
        if not self.is_connected:
            raise StoreUnavailable("no engine answers")
        return self.queues.get((topic, queue_id), [])

    async def scheduled_list(
        self, request: ScheduledListRequest
    ) -> tuple[ScheduledListHead, list[Record]]:
        raise StoreUnavailable("the double keeps no schedule: ask the real engine")

    async def scheduled_cancel(self, request: ScheduledCancelRequest) -> ScheduledReply:
        raise StoreUnavailable("the double keeps no schedule: ask the real engine")

    async def scheduled_send_now(self, request: ScheduledSendRequest) -> ScheduledReply:
        raise StoreUnavailable("the double keeps no schedule: ask the real engine")

    async def scheduled_move(self, request: ScheduledMoveRequest) -> ScheduledReply:
        raise StoreUnavailable("the double keeps no schedule: ask the real engine")

    async def wait_connected(self, timeout_ms: int) -> None:
        if not self.is_connected:
            await asyncio.sleep(min(timeout_ms, 20) / 1_000)
            raise StoreUnavailable("no engine answers")

    def _progress(self, group: str, topic: str, queue_id: int) -> Progress:
        return self.progress.setdefault((group, topic, queue_id), Progress())

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _failure(of: LeaseRef | Nack | Extend, queue_offset: int) -> SettleFailure:
    return SettleFailure(
        topic=of.topic,
        queue_id=of.queue_id,
        lease_generation=of.lease_generation,
        queue_offset=queue_offset,
        code=LeaseExpired.code,
    )


def _tell(tell: Callable[[T], None], call: PutCall, what: T) -> None:
    if not call.done():
        tell(what)
