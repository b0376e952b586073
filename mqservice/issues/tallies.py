"""What a batch of dead letters adds to issues; pure.

records of a DLQ ──▶ [tally] ──▶ (topic, cause) → Tally
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from mqservice.issues.limits import EXAMPLES_MAX, HOURS_RETAINED, SAMPLE_CHARS_MAX
from mqservice.issues.samples import sample_of
from mqservice.lib.durations import HOUR_MS
from mqservice.lib.names import ENGINE_SEPARATOR, NAME_CHARS_MAX
from mqservice.store import Record, cause_of, find_dead_letter, shown_record


class Cause(NamedTuple):
    """What makes letters of one group one issue. ``topic`` is empty where a letter does not say."""

    topic: str
    reason: str


@dataclass(slots=True, kw_only=True)
class Tally:
    """Letters of one cause. ``messages``: (id, ms) of the newest, the newest first."""

    count: int = 0
    first_ms: int = 0
    last_ms: int = 0
    sample: str = ""
    hours: Counter[int] = field(default_factory=Counter)
    messages: list[tuple[str, int]] = field(default_factory=list)


def tally(records: Iterable[Record]) -> dict[Cause, Tally]:
    """By cause; records in the order of the queue."""
    found: dict[Cause, Tally] = {}
    for record in records:
        letter = find_dead_letter(record)
        topic = "" if letter is None else letter.origin_topic.partition(ENGINE_SEPARATOR)[2]
        reason = "" if letter is None else letter.reason
        cause = Cause(topic[:NAME_CHARS_MAX], cause_of(reason))
        at_ms = record.store_timestamp_ms
        one = found.setdefault(cause, Tally(first_ms=at_ms))
        one.count += 1
        one.first_ms = min(one.first_ms, at_ms)
        one.last_ms = max(one.last_ms, at_ms)
        one.sample = sample_of(reason, SAMPLE_CHARS_MAX)
        one.hours[at_ms // HOUR_MS] += 1
        message_id = shown_record(record).message_id
        if message_id and message_id.isprintable():  # another is in no address, nor in PostgreSQL
            one.messages = [(message_id, at_ms), *one.messages][:EXAMPLES_MAX]
    return found


def merged_hours(hours: dict[str, int], more: Counter[int]) -> dict[str, int]:
    """The newest hours of both, as a JSON column has them."""
    both = Counter({int(hour): count for hour, count in hours.items()}) + more
    return {str(hour): both[hour] for hour in sorted(both)[-HOURS_RETAINED:]}
