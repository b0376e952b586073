"""How many retries of a group wait in the schedule, counted without reading them each time.

    units of SCHEDULE_TOPIC_XXXX ── each looked at once, a slice a turn ──▶ [ScheduledRetries]
                                             places of retries, by group ◀──┘ ── group ──▶ counts

A consume queue of the schedule does not know where its messages go; the records do. What was looked
at once stays true, for places hold one message each. So only what is new is looked at, and of other
groups' messages, or those without a group, nothing is kept. A call looks at a slice; while more is
left the loop looks on by itself, and until it has seen all, counts are unknown. Unknown as well is
the count of a group with more than ``_GROUP_MAX`` retries, or one that found no room among those of
all groups. Nothing is written down. Loop thread only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from storage_engine.groups.retry_record import RETRY_TOPIC
from storage_engine.log.commit_log import CommitLog
from storage_engine.records.record import split_properties
from storage_engine.records.schedule_topic import REAL_QUEUE_ID, REAL_TOPIC
from storage_engine.schedule.real_topics import real_topic, real_topics
from storage_engine.schedule.schedule import Schedule
from storage_engine.schedule.source import Source
from storage_engine.topic_names import RETRY_PREFIX, retry_topic_of

_SLICE: Final = 4_096  # messages looked at in a turn, of any topic; about 3 ms
_READ_COST: Final = 32  # of reading one, in messages looked at
_GROUP_MAX: Final = 10_000  # retries of one group; about 3 ms to count
_PLACES_MAX: Final = 200_000  # of all groups; about 25 MB
_PREFIX: Final = RETRY_PREFIX.encode()


class _Place(NamedTuple):
    source: Source
    queue_offset: int
    physical_offset: int
    queue_id: int  # of the retry topic
    retry_of: str  # topic that the message was produced to

    @property
    def is_over(self) -> bool:
        start, progress = self.source.start, self.source.progress
        return self.queue_offset < start or progress.is_settled(self.queue_offset)


class ScheduledRetries:
    """See the module's docstring.

    ``gone_below`` of the retry topic and the topic that messages are from: where in the log stands
    what is not deleted or purged since. ``later`` has something done in the next turn of the loop.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        schedule: Schedule,
        gone_below: Callable[[str, str], int],
        later: Callable[[Callable[[], None]], object],
    ) -> None:
        self._commit_log = commit_log
        self._schedule = schedule
        self._gone_below = gone_below
        self._later = later
        self._seen: dict[int, int] = {}  # queue id → where looking goes on
        self._places: dict[str, list[_Place]] = {}  # retry topic → in the order of the queues
        self._place_count = 0
        # Retry topics with too many → behind the last of them, by queue id.
        self._too_many: dict[str, dict[int, int]] = {}
        self._has_turn = False

    def counts(self, group: str) -> Counter[int] | None:
        """By queue of the group's retry topic; None while, or where, it is not known."""
        self._look_on()
        if any(self._next_of(source) < source.end for source in self._schedule.sources):
            self._begin_turn()
            return None
        topic = retry_topic_of(group)
        if self._has_too_many(topic):
            return None
        self._forget_old(topic)
        places = self._places.get(topic, ())
        gone_below = {
            name: self._gone_below(topic, name) for name in {each.retry_of for each in places}
        }
        return Counter(
            each.queue_id for each in places if each.physical_offset >= gone_below[each.retry_of]
        )

    def _begin_turn(self) -> None:
        if not self._has_turn:
            self._has_turn = True
            self._later(self._turn)

    def _turn(self) -> None:
        self._has_turn = False
        if self._schedule.is_stopped:
            return
        self._look_on()
        if any(self._next_of(source) < source.end for source in self._schedule.sources):
            self._begin_turn()

    def _next_of(self, source: Source) -> int:
        return max(self._seen.get(source.queue.queue_id, 0), source.start)

    def _look_on(self) -> None:
        """Look at the next slice of what has not been looked at."""
        left = _SLICE
        for source in self._schedule.sources:
            place = self._next_of(source)
            stop = min(source.end, place + left)
            if place >= stop:
                continue
            physical_offsets = source.queue.physical_offsets(place, stop)
            topics = real_topics(self._commit_log, physical_offsets)
            left -= len(topics)
            for queue_offset, topic in enumerate(topics, start=place):
                if topic is None or topic.startswith(_PREFIX):
                    if left <= -_SLICE:  # many had to be read
                        self._seen[source.queue.queue_id] = queue_offset
                        return
                    left -= _READ_COST
                    self._read(source, queue_offset)
            self._seen[source.queue.queue_id] = stop
            if left <= 0:
                return

    def _read(self, source: Source, queue_offset: int) -> None:
        """Keep the place of a message that is a retry, and still to come."""
        if source.progress.is_settled(queue_offset):
            return
        physical_offset, record_bytes, _ = source.queue.unit(queue_offset)
        content = self._commit_log.properties(physical_offset, record_bytes) or b""
        if not real_topic(content).startswith(_PREFIX):
            return
        *_, properties = split_properties(content.decode("utf-8", "replace"))
        queue_id = properties.get(REAL_QUEUE_ID, "")
        if not (queue_id.isascii() and queue_id.isdigit()):
            return
        place = _Place(
            source, queue_offset, physical_offset, int(queue_id), properties.get(RETRY_TOPIC, "")
        )
        self._keep(properties[REAL_TOPIC], place)

    def _keep(self, topic: str, place: _Place) -> None:
        if self._has_too_many(topic):
            self._too_many[topic][place.source.queue.queue_id] = place.queue_offset + 1
            return
        if self._place_count >= _PLACES_MAX:
            for each in list(self._places):
                self._forget_old(each)
        places = self._places.setdefault(topic, [])
        if len(places) >= _GROUP_MAX:
            self._forget_old(topic)
            places = self._places.setdefault(topic, [])
        places.append(place)
        self._place_count += 1
        if len(places) > _GROUP_MAX or self._place_count > _PLACES_MAX:
            self._too_many[topic] = {
                each.source.queue.queue_id: each.queue_offset + 1 for each in places
            }
            self._place_count -= len(self._places.pop(topic))

    def _has_too_many(self, topic: str) -> bool:
        """Until all those are over that are not kept."""
        ends = self._too_many.get(topic)
        if ends is None:
            return False
        sources = self._schedule.sources
        if any(sources[queue_id].start < end for queue_id, end in ends.items()):
            return True
        del self._too_many[topic]
        return False

    def _forget_old(self, topic: str) -> None:
        """Places of messages that were delivered, cancelled or stored again elsewhere."""
        old = self._places.get(topic)
        if old is None:
            return
        left = [each for each in old if not each.is_over]
        self._place_count -= len(old) - len(left)
        if left:
            self._places[topic] = left
        else:
            del self._places[topic]
