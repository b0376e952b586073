"""The trace of one message, from its records and its groups; changes nothing.

    id ──▶ [MessageTracer] ─▶ key index: topic, SCHEDULE_TOPIC_XXXX, %RETRY%g, %DLQ%g ──▶ hops
                └──────▶ process queue of each group that reads its topic ──────────▶ states

A message keeps its id in every record that it becomes, so its road is what the index has of that
id. What a member acked leaves no record: it shows as settled. One call looks through topics for a
limited time and says where to go on; the newest records come first, and what one call cannot hold
is missing and said to be. Nothing outside the namespace is shown, whoever has used the id. Loop
thread only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from storage_engine.clock import Clock
from storage_engine.delivery.clients import split_reader
from storage_engine.delivery.subscription import MOVING, ProcessQueue, Subscription
from storage_engine.errors import BadRequest, TopicNotFound
from storage_engine.groups.consumption import Consumption
from storage_engine.reads.queries import Queries
from storage_engine.records.record import Record
from storage_engine.records.record_run import decode_records
from storage_engine.records.retry_record import (
    DLQ_LAST_DELIVERY_MS,
    DLQ_REASON,
    RETRY_DELIVERY_MS,
    RETRY_MEMBER,
    RETRY_REASON,
    RETRY_TOPIC,
)
from storage_engine.records.schedule_topic import (
    PROPERTY_DELIVER_AT,
    REAL_TOPIC,
    SCHEDULE_TOPIC,
)
from storage_engine.records.settles import PROPERTY_SETTLES, parse_settles
from storage_engine.records.topic_names import dlq_topic_of, retry_topic_of
from storage_engine.wire.reads import LookUpRequest
from storage_engine.wire.traces import (
    TracedGroup,
    TraceHop,
    TraceReply,
    TraceRequest,
    TraceState,
)

_TIME_MS: Final = 10  # after that a call ends behind the topic it is at, the first or later
_PLACE_RECORDS_MAX: Final = 256  # of one topic, the newest
_PLACE_PAGES_MAX: Final = 4
_PAGE_BYTES: Final = 4 * 1024 * 1024
_GROUPS_MAX: Final = 200  # of one topic, by name
_ID_CHARS_MAX: Final = 255


class MessageTracer:
    """See the module's docstring."""

    def __init__(self, clock: Clock, queries: Queries, consumption: Consumption) -> None:
        self._clock = clock
        self._queries = queries
        self._consumption = consumption

    def trace(self, request: TraceRequest) -> TraceReply:
        """One part of the trace, about 10 ms. Raises ``BadRequest``."""
        if not 1 <= len(request.message_id) <= _ID_CHARS_MAX:
            raise BadRequest(
                f"an id has 1 to {_ID_CHARS_MAX} characters, found {len(request.message_id)}"
            )
        if not request.namespace or "%" in request.namespace:
            raise BadRequest(f"{request.namespace!r} is not a namespace")
        return _Trace(self._clock, self._queries, self._consumption, request).run()


class _Trace:
    """One call."""

    def __init__(
        self, clock: Clock, queries: Queries, consumption: Consumption, request: TraceRequest
    ) -> None:
        self._clock = clock
        self._queries = queries
        self._consumption = consumption
        self._request = request
        self._prefix = f"{request.namespace}%"
        self._is_complete = True
        self._hops: dict[int, TraceHop] = {}  # by physical offset
        self._groups: list[TracedGroup] = []

    def run(self) -> TraceReply:
        end_ms = self._clock.monotonic_ms() + _TIME_MS
        scheduled = [
            hop for hop in self._find(SCHEDULE_TOPIC) if self._is_in_namespace(hop.target_topic)
        ]
        after = ""
        for topic in self._topics():
            # One topic at least: without a place to go on from, nobody would know of the others.
            if self._clock.monotonic_ms() >= end_ms and after:
                break
            after = topic
            found = self._find(topic)
            on_its_way = [hop for hop in scheduled if hop.target_topic == topic]
            if found or on_its_way:
                self._add_hop([*found, *on_its_way])
                self._follow(topic, [*found, *on_its_way], scheduled)
        else:
            after = ""
        hops = [self._hops[offset] for offset in sorted(self._hops)]
        return TraceReply(
            hops=hops, groups=self._groups, after=after, is_complete=self._is_complete
        )

    def _topics(self) -> list[str]:
        wanted, after = self._request.topic, self._request.after
        topics = [wanted] if wanted else self._queries.topic_names
        return sorted([name for name in topics if name.startswith(self._prefix) and name > after])

    def _is_in_namespace(self, topic: str) -> bool:
        return topic.startswith((self._prefix, retry_topic_of(self._prefix)))

    def _add_hop(self, hops: list[TraceHop]) -> None:
        self._hops.update({hop.physical_offset: hop for hop in hops})

    def _follow(self, topic: str, found: list[TraceHop], scheduled: list[TraceHop]) -> None:
        """What became of it for each group that reads the topic."""
        for count, subscription in enumerate(self._readers(topic)):
            group, client_id = split_reader(subscription.group)
            if count == _GROUPS_MAX:
                self._is_complete = False
                return
            if client_id:  # what it fails to consume goes nowhere
                newest = max(found, key=lambda hop: hop.physical_offset)
                self._groups.append(self._state(subscription, newest))
                continue
            retry_topic = retry_topic_of(group)
            own = [hop for hop in scheduled if hop.target_topic == retry_topic]
            own += self._find(retry_topic)
            own += self._find(dlq_topic_of(group))
            own = [hop for hop in own if hop.origin_topic == topic]
            self._add_hop(own)
            newest = max([*found, *own], key=lambda hop: hop.physical_offset)
            self._groups.append(self._state(subscription, newest))

    def _readers(self, topic: str) -> Iterator[Subscription]:
        delivery, wanted = self._consumption.delivery, self._request.group
        names = [each.group for each in delivery.subscriptions if each.topic == topic]
        # Clients of broadcast groups come last: there may be more than are shown.
        for name in sorted(names, key=lambda each: (bool(split_reader(each)[1]), each)):
            subscription = delivery.subscriptions.find(name, topic)
            is_ours = name.startswith(self._prefix) and wanted in ("", split_reader(name)[0])
            if subscription is not None and is_ours:
                yield subscription

    def _hop(self, record: Record) -> TraceHop:
        hop = _hop_of(record)
        schedule = self._consumption.schedule
        if hop.topic != SCHEDULE_TOPIC or hop.due_ms <= schedule.now_ms(hop.queue_id):
            return hop
        # As the list of scheduled messages shows it.
        due_ms = schedule.shown_ms(hop.queue_id, hop.due_ms)
        return hop if due_ms == hop.due_ms else msgspec.structs.replace(hop, due_ms=due_ms)

    def _find(self, topic: str) -> list[TraceHop]:
        """The records of the id in a topic, the newest ones; none where there is no such topic."""
        hops: list[TraceHop] = []
        cursor = ""
        for _ in range(_PLACE_PAGES_MAX):
            request = LookUpRequest(
                topic=topic,
                key=self._request.message_id,
                messages_max=_PLACE_RECORDS_MAX,
                bytes_max=_PAGE_BYTES,
                cursor=cursor,
            )
            try:
                head, content = self._queries.look_up(request, shows_gone=True)
            except TopicNotFound:
                return []
            self._is_complete = self._is_complete and head.is_complete
            records = decode_records(content)
            wanted = self._request.message_id
            hops += [self._hop(record) for record in records if record.message_id == wanted]
            cursor = head.cursor
            if not cursor:
                return hops
            if len(hops) >= _PLACE_RECORDS_MAX:
                break
        self._is_complete = False
        return hops

    # States ---------------------------------------------------------------------------------

    def _state(self, subscription: Subscription, newest: TraceHop) -> TracedGroup:
        state, lease_end_ms, member_id = TraceState.UNKNOWN, 0, ""
        attempts = newest.reconsume_times
        if newest.topic == SCHEDULE_TOPIC:
            state, lease_end_ms = self._scheduled(newest)
        elif newest.topic == dlq_topic_of(subscription.group):
            place = newest.topic, newest.queue_id, newest.queue_offset
            is_gone = self._consumption.dead_letters.is_removed(*place)
            state = TraceState.GONE if is_gone else TraceState.DEAD
        else:
            process_queue = _process_queue(subscription, newest)
            if process_queue is not None:
                state, lease_end_ms, member_id = self._of(process_queue, newest.queue_offset)
                attempts += process_queue.attempts(newest.queue_offset)
                attempts += state in (TraceState.IN_FLIGHT, TraceState.MOVING)
        group, client_id = split_reader(subscription.group)
        return TracedGroup(
            group=group,
            client_id=client_id,
            topic=subscription.topic,
            state=state,
            place_topic=newest.topic,
            queue_id=newest.queue_id,
            queue_offset=newest.queue_offset,
            attempts=attempts,
            member_id=member_id,
            until_ms=lease_end_ms,
        )

    def _scheduled(self, hop: TraceHop) -> tuple[TraceState, int]:
        sources = self._consumption.schedule.sources
        if hop.queue_id >= len(sources):
            return TraceState.UNKNOWN, 0
        source = sources[hop.queue_id]
        if hop.queue_offset in source.moving:
            return TraceState.MOVING, 0
        if source.is_pending(hop.queue_offset):
            return TraceState.SCHEDULED, hop.due_ms
        return TraceState.UNKNOWN, 0

    def _of(self, process_queue: ProcessQueue, queue_offset: int) -> tuple[TraceState, int, str]:
        """State, until when, and whose."""
        progress = process_queue.progress
        lease = process_queue.inflight.get(queue_offset)
        if lease is not None:
            if lease is MOVING:
                return TraceState.MOVING, 0, ""
            return TraceState.IN_FLIGHT, lease.until_ms, lease.member_id
        if queue_offset in progress.skipped:
            return TraceState.SKIPPED, 0, ""
        if progress.is_settled(queue_offset):
            return TraceState.SETTLED, 0, ""
        if queue_offset < process_queue.queue.min_offset:
            return TraceState.EXPIRED, 0, ""
        ready_ms = process_queue.ready_ms(queue_offset)
        now_ms = self._clock.monotonic_ms()
        if ready_ms is not None and ready_ms > now_ms:
            return TraceState.WAITING, self._clock.now_ms() + ready_ms - now_ms, ""
        return TraceState.READY, 0, ""


def _process_queue(subscription: Subscription, hop: TraceHop) -> ProcessQueue | None:
    for source in subscription.sources:
        if source.queue.topic == hop.topic and source.queue.queue_id == hop.queue_id:
            return source
    return None


def _hop_of(record: Record) -> TraceHop:
    properties = record.properties
    settles = parse_settles(properties.get(PROPERTY_SETTLES, ""))
    return TraceHop(
        topic=record.topic,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        physical_offset=record.physical_offset,
        born_ms=record.born_timestamp_ms,
        stored_ms=record.store_timestamp_ms,
        reconsume_times=record.reconsume_times,
        origin_topic=properties.get(RETRY_TOPIC, ""),
        target_topic=properties.get(REAL_TOPIC, ""),
        due_ms=_ms_of(properties.get(PROPERTY_DELIVER_AT, "")),
        member_id=properties.get(RETRY_MEMBER, ""),
        reason=properties.get(DLQ_REASON, properties.get(RETRY_REASON, "")),
        delivered_ms=_ms_of(
            properties.get(DLQ_LAST_DELIVERY_MS, properties.get(RETRY_DELIVERY_MS, ""))
        ),
        from_group=settles.group if settles else "",
        from_topic=settles.topic if settles else "",
        from_offset=settles.queue_offset if settles else 0,
    )


def _ms_of(digits: str) -> int:
    return int(digits) if digits.isascii() and digits.isdigit() else 0
