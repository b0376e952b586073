"""Receives with an attempt ID, which can be repeated, or with leases that extend themselves.

    receive ──┬─ plain ──────────────────────────────────────────────▶ delivery
              ├─ attempt_id ──▶ attempts: answered before? waits? ───▶    │
              └─ auto_extend, or a member that asked for it before ──▶    │
    answer ◀── remembered, lease extended ◀────────────────────────────────┘

A plain one costs two comparisons more than without this. Loop thread only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec.structs import replace

from storage_engine.clock import Clock
from storage_engine.config import SECOND_MS
from storage_engine.delivery.delivery import Delivery, check_limits
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.subscription import Delivered, Subscriptions, WaitingReceive
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.wire.deliveries import ReceiveRequest
from storage_engine.wire.groups import GroupConfig

RETAINED_MS: Final = 300 * SECOND_MS
# Of all groups together, about 200 bytes each; one that waits or got nothing counts as one.
_MESSAGES_MAX: Final = 100_000
_Key = tuple[str, str, str, str]  # group, topic, member id, attempt id


# The leases of a member that is forgotten end as others do.
_MEMBERS_MAX: Final = 10_000


class _Member:
    """``until_ms``: end of the last extension that the member requested."""

    __slots__ = ("seen_ms", "until_ms", "waiting")

    def __init__(self) -> None:
        self.seen_ms = 0
        self.until_ms = 0
        self.waiting: WaitingReceive | None = None


def _extended_end_ms(member: _Member, lease_ms: int, until_ms: int, now_ms: int) -> int:
    """When a lease ends, as far as is known now; not after ``now_ms``: it is over."""
    if member.waiting is not None and not member.waiting.is_done:
        member.seen_ms = now_ms
    return min(member.seen_ms + lease_ms, until_ms)


class AutoExtends:
    """Extends leases while their member is alive, for members without a connection.

        receive, settle ── hear(member) ──▶ [AutoExtends]
        lease at its end ──▶ its extended_end_ms ──▶ later: goes on    now: over

    A lease ends ``lease_ms`` after its member was last heard of, and at the latest when the
    span is over that the receive asked for. A member is heard of when it receives or settles in
    the group, all the time that a receive of it is parked, and when that is answered; not when
    its connection closes. So a member that is busy with one message of many keeps the others by
    settling each as it is done, and one that died loses them as if nothing had been extended.
    Times are monotonic.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._members: OrderedDict[tuple[str, str], _Member] = OrderedDict()

    def __len__(self) -> int:
        return len(self._members)

    def member_seen(self, group: str, member_id: str) -> None:
        """A member is there; nothing unless it has leases that are to be extended."""
        member = self._members.get((group, member_id))
        if member is not None:
            member.seen_ms = self._clock.monotonic_ms()

    def member_seen_until_reply(
        self, request: ReceiveRequest, answer: Callable[[Delivered], None]
    ) -> Callable[[Delivered], None]:
        """Hear of the member now and when it is answered; its lease is then extended as asked."""
        member = self._member_of(request)
        if member is None:
            return answer
        member.seen_ms = self._clock.monotonic_ms()

        def heard(delivered: Delivered) -> None:
            now_ms = member.seen_ms = self._clock.monotonic_ms()
            if delivered.lease is not None and request.auto_extend_ms:
                until_ms = now_ms + request.auto_extend_ms
                member.until_ms = max(member.until_ms, until_ms)
                delivered.lease.extended_end_ms = partial(
                    _extended_end_ms, member, request.lease_ms, until_ms
                )
            answer(delivered)

        return heard

    def member_waits(self, request: ReceiveRequest, parked: WaitingReceive) -> None:
        """Its receive waits; while it does the member is there."""
        member = self._members.get((request.group, request.member_id))
        if member is not None:
            member.waiting = parked

    def _member_of(self, request: ReceiveRequest) -> _Member | None:
        key = request.group, request.member_id
        member = self._members.get(key)
        if not request.auto_extend_ms:
            return member
        if member is None:
            self._forget()
            member = self._members[key] = _Member()
        self._members.move_to_end(key)
        return member

    def _forget(self) -> None:
        """Those without a lease to extend, and the oldest when there are too many."""
        now_ms = self._clock.monotonic_ms()
        while self._members:
            key, member = next(iter(self._members.items()))
            is_waiting = member.waiting is not None and not member.waiting.is_done
            if len(self._members) < _MEMBERS_MAX and (member.until_ms > now_ms or is_waiting):
                return
            del self._members[key]


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
    """Repeats a receive whose reply was lost: the same messages again, and no others.

        receive ── attempt_id ──▶ [ReceiveAttempts] ─┬─ known: what is still under its lease, anew
                                                     ├─ the first one is parked: takes its place
                                                     └─ else: as any other, and remembered

    As SQS does with its ReceiveRequestAttemptId: for five minutes after the first answer a
    receive of the same member with the same id gives the messages that it got and still has,
    with the same receipts, and their leases begin anew, up to the consume timeout of the first
    delivery. What was settled or has lost its lease meanwhile is not among them; when nothing
    is left the receive is one like any other. Who repeats gets no new attempt counted. Only so
    many messages are remembered; a repeat of what was forgotten gets others, and the first ones
    come when their lease ends.
    """

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


class Receiver:
    """See the module's docstring."""

    def __init__(self, parts: EngineParts, delivery: Delivery) -> None:
        self._config = parts.config
        self._delivery = delivery
        self._attempts = ReceiveAttempts(parts.clock, delivery.subscriptions)
        self._auto_extends = AutoExtends(parts.clock)

    def member_seen(self, group: str, member_id: str) -> None:
        """See ``AutoExtends.hear``."""
        self._auto_extends.member_seen(group, member_id)

    def receive(
        self,
        group: GroupConfig,
        queues: list[ConsumeQueue],
        request: ReceiveRequest,
        answer: Callable[[Delivered], None],
    ) -> WaitingReceive | None:
        """See ``Delivery.receive``, which raises."""
        has_members = request.auto_extend_ms or len(self._auto_extends)
        if not (request.attempt_id or has_members):
            return self._delivery.receive(group, queues, request, answer)
        check_limits(self._config, request)
        if request.client_id:  # another client's members and attempts are others
            request = replace(request, group=group.group)
        if has_members:
            answer = self._auto_extends.member_seen_until_reply(request, answer)
        parked = (
            self._attempt(group, queues, request, answer)
            if request.attempt_id
            else self._delivery.receive(group, queues, request, answer)
        )
        if parked is not None and has_members:
            self._auto_extends.member_waits(request, parked)
        return parked

    def _attempt(
        self,
        group: GroupConfig,
        queues: list[ConsumeQueue],
        request: ReceiveRequest,
        answer: Callable[[Delivered], None],
    ) -> WaitingReceive | None:
        self._delivery.join(group, queues, request)
        delivered = self._attempts.find_repeat(request)
        if delivered is not None:
            answer(delivered)
            return None
        answer = self._attempts.remembering(request, answer)
        waiting = self._attempts.waiting(request)
        if waiting is not None and request.wait_ms:
            parked: WaitingReceive | None = self._delivery.waiting_receives.replace(
                waiting, request, answer
            )
        else:
            if waiting is not None:
                self._delivery.waiting_receives.cancel(waiting, answer=True)
            parked = self._delivery.receive(group, queues, request, answer)
        if parked is not None:
            self._attempts.note_waiting(request, parked)
        return parked
