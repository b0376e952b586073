"""Repeats a receive whose reply was lost: the same messages again, and no others.

    receive ── attempt_id ──▶ [ReceiveAttempts] ─┬─ known: what is still under its lease, lease anew
                                           ├─ the first one is parked still: takes its place
                                           └─ else: as any other, and remembered

As SQS does with its ReceiveRequestAttemptId: for five minutes after the first answer a receive of
the same member with the same id gives the messages that it got and still has, with the same
receipts, and their leases begin anew, up to the consume timeout of the first delivery. What was
settled or has lost its lease meanwhile is not among them; when nothing is left the receive is one
like any other. Who repeats gets no new attempt counted. Only so many messages are remembered; a
repeat of what was forgotten gets others, and the first ones come when their lease ends. Loop thread
only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from storage_engine.clock import Clock
from storage_engine.config import SECOND_MS
from storage_engine.delivery.subscription import Delivered, Subscriptions, WaitingReceive
from storage_engine.wire.deliveries import ReceiveRequest

RETAINED_MS: Final = 300 * SECOND_MS
# Of all groups together, about 200 bytes each; one that waits or got nothing counts as one.
_MESSAGES_MAX: Final = 100_000
_Key = tuple[str, str, str, str]  # group, topic, member id, attempt id


class _Attempt:
    __slots__ = ("delivered", "started_ms", "waiting_receive")

    def __init__(self, started_ms: int) -> None:
        self.started_ms = started_ms
        self.delivered: Delivered | None = None
        self.waiting_receive: WaitingReceive | None = None

    @property
    def weight(self) -> int:
        return 1 if self.delivered is None else len(self.delivered.records)


class ReceiveAttempts:
    """See the module's docstring."""

    def __init__(self, clock: Clock, subscriptions: Subscriptions) -> None:
        self._clock = clock
        self._lease_until = subscriptions.leases.push
        self._known: OrderedDict[_Key, _Attempt] = OrderedDict()
        self.message_count = 0

    def find_repeat(self, request: ReceiveRequest) -> Delivered | None:
        """What the member got with this id and still has; None when there is nothing."""
        key = _key(request)
        known = self._known.get(key)
        if known is None or known.delivered is None or known.delivered.lease is None:
            return None
        now_ms = self._clock.monotonic_ms()
        found = (
            self._renew(known.delivered, request)
            if now_ms < known.started_ms + RETAINED_MS
            else None
        )
        if found is None:
            self._drop(key)
        return found

    def waiting(self, request: ReceiveRequest) -> WaitingReceive | None:
        """The receive with this id that is still parked."""
        known = self._known.get(_key(request))
        if known is None or known.waiting_receive is None or known.waiting_receive.is_done:
            return None
        return known.waiting_receive

    def remembering(
        self, request: ReceiveRequest, answer: Callable[[Delivered], None]
    ) -> Callable[[Delivered], None]:
        """An answer that is remembered when it has messages."""
        key = _key(request)

        def remember(delivered: Delivered) -> None:
            if delivered.records:
                self._begin(key).delivered = delivered._replace(content=None)
                self.message_count += len(delivered.records) - 1
            answer(delivered)

        return remember

    def note_waiting(self, request: ReceiveRequest, parked: WaitingReceive) -> None:
        """The receive waits; a repeat takes its place."""
        self._begin(_key(request)).waiting_receive = parked

    def _begin(self, key: _Key) -> _Attempt:
        if key in self._known:
            self._drop(key)
        now_ms = self._clock.monotonic_ms()
        while self._known:
            oldest, known = next(iter(self._known.items()))
            if self.message_count < _MESSAGES_MAX and now_ms < known.started_ms + RETAINED_MS:
                break
            self._drop(oldest)
        attempt = self._known[key] = _Attempt(now_ms)
        self.message_count += 1
        return attempt

    def _drop(self, key: _Key) -> None:
        self.message_count -= self._known.pop(key).weight

    def _renew(self, delivered: Delivered, request: ReceiveRequest) -> Delivered | None:
        """The messages still under their lease, under one that begins now."""
        first = delivered.lease
        assert first is not None
        now_ms = self._clock.monotonic_ms()
        lease_ms = min(request.lease_ms, first.deadline_ms - now_ms)
        if lease_ms <= 0:
            return None  # the next tick takes them
        places = [(queue, offset) for queue, offsets in first.parts for offset in offsets]
        renewed = first.renewed()
        records: list[tuple[int, int]] = []
        attempts: list[int] = []
        given = dict(zip(delivered.records, delivered.attempts, strict=True))
        for process_queue, queue_offset in places:
            lease = process_queue.inflight.get(queue_offset)
            queue = process_queue.queue
            if (
                lease is None
                or lease.generation != first.generation
                or queue_offset < queue.min_offset
            ):
                continue
            record = queue.unit(queue_offset)[:2]
            if record in given:  # else it was found damaged
                process_queue.move(queue_offset, renewed)
                records.append(record)
                attempts.append(given[record])
        if not records:
            return None
        renewed.is_repeated = True
        renewed.until_ms, renewed.ends_ms = self._clock.now_ms() + lease_ms, now_ms + lease_ms
        self._lease_until(renewed.ends_ms, renewed)
        return Delivered(
            first.generation,
            renewed.until_ms,
            records,
            attempts,
            first_until_ms=delivered.lease_until_ms,
        )


def _key(request: ReceiveRequest) -> _Key:
    return request.group, request.topic, request.member_id, request.attempt_id
