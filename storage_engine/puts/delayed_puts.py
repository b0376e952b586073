"""A producer's record for the schedule topic: its real topic, and when it is due.

    TIMER_DELIVER_MS = 13 zeros, with DELAY or TIMER_DELAY_MS ──▶ due = now + delay, written there
    TIMER_DELIVER_MS = epoch ms                               ──▶ due = that

A delay begins when the record is appended: only the engine knows how long it took to come, and its
clock for delays does not jump. Nothing is refused later that could be refused now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from storage_engine.errors import BadRequest, RecordRefused, TopicNotFound
from storage_engine.log.commit_log import Entry
from storage_engine.puts.delay_clock import JUMP_MS, DelayClock
from storage_engine.puts.route import Route
from storage_engine.records.delay_levels import DELAY_MS_MAX, level_delay_ms
from storage_engine.records.schedule_topic import (
    DELAY_LEVEL,
    DELAY_MS,
    DUE_HOLE,
    PROPERTY_DELIVER_AT,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    SCHEDULE_TOPIC_BYTES,
)

_TOPIC: Final = REAL_TOPIC.encode()
_QUEUE_ID: Final = REAL_QUEUE_ID.encode()
_DELIVER_AT: Final = PROPERTY_DELIVER_AT.encode()
_LEVEL: Final = DELAY_LEVEL.encode()
_DELAY_MS: Final = DELAY_MS.encode()
_HOLE: Final = DUE_HOLE.encode()
_HEAD: Final = _DELIVER_AT + b"\x01"
_DIGITS_MAX: Final = 15
_WHOLE_MS: Final = 1  # what has begun of the millisecond counts in full: never early


class Delayed(NamedTuple):
    """``hole_at``: where in the payload the due time is to be written, ``delay_ms`` from when it is
    appended; -1: it stands there, and is ``due_ms``.
    ``refusal``: code of the error for a record that cannot be scheduled; 0 for a good one.
    ``awaits``: as its real topic wants.
    """

    due_ms: int
    hole_at: int
    delay_ms: int
    refusal: int
    awaits: int = 0


class DelayedPuts:
    """See the module's docstring. ``find_route(topic)``: None when there is no such topic."""

    def __init__(self, clock: DelayClock, find_route: Callable[[bytes], Route | None]) -> None:
        self._clock = clock
        self._find_route = find_route

    def read(self, payload: bytes, properties_at: int, end: int) -> Delayed:
        """What the record says whose properties stand in ``payload[properties_at:end]``."""
        properties: dict[bytes, bytes] = {}
        pairs = payload[properties_at:end].split(b"\x02")
        for pair in pairs:
            name, _, value = pair.partition(b"\x01")
            properties[name] = value
        if len(properties) < len(pairs):  # of a name that is there twice, which one counts?
            return _refused(RecordRefused.code)
        topic, queue_id = properties.get(_TOPIC, b""), _number(properties.get(_QUEUE_ID, b""))
        route = None if topic == SCHEDULE_TOPIC_BYTES else self._find_route(topic)
        if route is None:
            return _refused(TopicNotFound.code)
        if queue_id is None or queue_id >= route.writable_count:
            return _refused(route.refusal)
        value = properties.get(_DELIVER_AT, b"")
        if value != _HOLE:
            due_ms = _number(value)
            if due_ms is None or due_ms > self._clock.time_ms() + DELAY_MS_MAX + JUMP_MS:
                return _refused(RecordRefused.code)
            return Delayed(due_ms, -1, 0, 0, route.awaits)
        delay_ms = _delay_ms(properties)
        if delay_ms is None or not 1 <= delay_ms <= DELAY_MS_MAX:
            return _refused(RecordRefused.code)
        before = payload[properties_at : properties_at + len(_HEAD)]
        hole_at = properties_at + len(_HEAD)
        if before != _HEAD:
            hole_at = payload.index(b"\x02" + _HEAD, properties_at, end) + 1 + len(_HEAD)
        return Delayed(0, hole_at, delay_ms, 0, route.awaits)

    def fill(
        self, payload: bytes, entries: list[Entry], holes: dict[int, Delayed]
    ) -> tuple[bytes, list[Entry], dict[int, int]]:
        """The payload with due times written into the holes of the entries numbered, the entries
        with them, and those times by entry as they are shown. To be appended without a pause.
        """
        begun_ms = self._clock.delay_ms() + _WHOLE_MS
        content, timed = bytearray(payload), list(entries)
        shown: dict[int, int] = {}
        for index, delayed in holes.items():
            due_ms = begun_ms + delayed.delay_ms
            content[delayed.hole_at : delayed.hole_at + len(_HOLE)] = b"%0*d" % (len(_HOLE), due_ms)
            timed[index] = (*entries[index][:4], due_ms)
            shown[index] = self._clock.shown_ms(due_ms)
        return bytes(content), timed, shown


def _refused(code: int) -> Delayed:
    return Delayed(0, -1, 0, code)


def _number(digits: bytes) -> int | None:
    return int(digits) if digits.isdigit() and len(digits) <= _DIGITS_MAX else None


def _delay_ms(properties: dict[bytes, bytes]) -> int | None:
    if _LEVEL not in properties:
        return _number(properties.get(_DELAY_MS, b""))
    level = _number(properties[_LEVEL])
    try:
        return None if level is None else level_delay_ms(level)
    except BadRequest:
        return None
