"""Opens what a crash left behind and compares it with what clients had been told.

image on disk, promises ──▶ [examine] ──▶ nothing, or a Violation with the name of the anomaly

refused             the store does not open                                   S5, S6
key-forgotten       a request that was answered is stored again or refused       L4
not-idempotent      a second recovery changed files                           S5
quarantined         a crash alone was taken for corruption                    S4
damaged-log         the log holds something that is no record                 S1
index-differs       a queue's units are not those of the log                  S2, S3
gap                 queue offsets of a queue are not dense                    O5
lost-write          an acknowledged message is missing                        D1, D2, D3
inconsistent-offset an acknowledged offset holds something else               O1
aborted-read        a message that was definitely refused is there            D6
phantom             a message is there that nobody sent to this queue         L2
reordered           messages of a queue are not in the order they were sent   O3
settle-lost         a durable settle is forgotten                             D9
doubled             a message that failed is in its old place and in another  D9
poll-skip           a message is not delivered although nobody settled it     D9
came-back           a message that had expired can be read again              O1
alarm-lost          nothing tells of a damaged message any more               S4
not-found           the index does not lead to a message                      S3
unusable            a put or a read afterwards fails                          B3
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import msgspec

from storage_engine.delivery.clients import split_reader
from storage_engine.delivery.subscription import Delivered
from storage_engine.errors import StoreError
from storage_engine.records.delay_levels import DELAY_MS_MAX
from storage_engine.records.record import Record, verify_record
from storage_engine.records.record_run import decode_records
from storage_engine.records.retry_record import RETRY_TOPIC
from storage_engine.records.schedule_topic import (
    REAL_TOPIC,
    SCHEDULE_TOPIC,
)
from storage_engine.records.scheduled_message import Wait, scheduled
from storage_engine.records.topic_names import dlq_topic_of, retry_topic_of
from storage_engine.wire.deliveries import ReceiveRequest
from storage_engine.wire.reads import PullRequest
from tests.storage_engine.crash.log_reader import BadLog, LogRecord, read_log, read_units
from tests.storage_engine.crash.once_puts import check_keys
from tests.storage_engine.crash.promises import Promises, Queue
from tests.storage_engine.crash.recorder import read_tree
from tests.storage_engine.crash.violation import Violation
from tests.storage_engine.doubles import FaultyFiles, OpenStore, message
from tests.storage_engine.index.keyed import pages
from tests.storage_engine.stopping import kill

ALARM_FILE: Final = "config/quarantine.json"
# Differ from run to run by design: the epoch counts runs, lock and abort name the process.
_RUN_FILES: Final = frozenset({"epoch", "lock", "abort"})
_PULL_COUNT: Final = 1_000
_BYTES_MAX: Final = 1 << 20


class AnotherBoot(FaultyFiles):
    """The machine has been started again since the files were written."""

    def medium_id(self, path: Path) -> str:
        return "another boot"


async def examine(
    store_dir: Path,
    promises: Promises,
    limits: dict[str, int],
    *,
    was_killed: bool = False,
    is_twice: bool = True,
) -> None:
    """Recover, twice if asked, check every promise, then go on working. Raises ``Violation``.

    ``was_killed``: only the process ended; then async messages and settles are kept as well (D1).
    """
    files = FaultyFiles() if was_killed else AnotherBoot()
    store = _opened(store_dir, limits, files)
    try:
        if is_twice:
            once = _files(store_dir)
            kill(store.store)
            store = _opened(store_dir, limits, files)
            _check_equal(once, _files(store_dir))
        _check_messages(store, store_dir, promises, was_killed=was_killed)
        _check_settles(store, promises, was_killed=was_killed)
        if promises.keyed:
            await check_keys(store, promises)
            for queue in {queue for queue, _ in promises.keyed.values()}:
                end = store.store.topic_stats(queue[0]).queues[queue[1]].max_offset
                _check_once(queue, pulled(store, queue, 0, end))
        await _check_use(store, promises)
    finally:
        kill(store.store)


def _check_once(queue: Queue, records: list[Record]) -> None:
    bodies = [record.body for record in records]
    if len(bodies) != len(set(bodies)):
        raise Violation("duplicate", f"{queue}: a message under a key is there twice")


def _check_equal(once: dict[str, bytes | None], twice: dict[str, bytes | None]) -> None:
    if once != twice:
        paths = once.keys() | twice.keys()
        changed = sorted(path for path in paths if once.get(path) != twice.get(path))
        raise Violation("not-idempotent", str(changed))


def _opened(store_dir: Path, limits: dict[str, int], files: FaultyFiles) -> OpenStore:
    try:
        return OpenStore(store_dir, limits=limits, files=files).open()
    except StoreError as exc:
        raise Violation("refused", str(exc)) from exc


def _files(store_dir: Path) -> dict[str, bytes | None]:
    found = read_tree(store_dir) if store_dir.is_dir() else {}
    return {path: found[path] for path in found if path.rpartition("/")[2] not in _RUN_FILES}


def _check_messages(
    store: OpenStore, store_dir: Path, promises: Promises, *, was_killed: bool
) -> None:
    try:
        log = read_log(store_dir, promises.damaged_places)
    except BadLog as exc:
        raise Violation("damaged-log", str(exc)) from exc
    has_alarm = (store_dir / ALARM_FILE).exists()
    if has_alarm and not promises.damaged:
        raise Violation("quarantined", "a crash is no corruption")
    if promises.has_alarm and not has_alarm:
        raise Violation("alarm-lost", "a damaged message had been met")
    by_queue: dict[Queue, list[LogRecord]] = {}
    for record in log:
        by_queue.setdefault((record.topic, record.queue_id), []).append(record)
    for topic, queue_count in promises.topics.items():
        if topic not in store.store.catalog.topics:
            raise Violation("lost-write", f"topic {topic} was created and is gone")
        for queue_id in range(queue_count):
            of_log = by_queue.pop((topic, queue_id), [])
            queue = topic, queue_id
            served = _check_queue(store, store_dir, promises, queue, of_log)
            _check_acked(served, promises, queue, was_killed=was_killed)
        _check_index(store, topic)


def _check_queue(
    store: OpenStore, store_dir: Path, promises: Promises, queue: Queue, of_log: list[LogRecord]
) -> list[Record]:
    """What the queue serves, after all that needs no knowledge of acks has been checked."""
    stats = store.store.topic_stats(queue[0]).queues[queue[1]]
    served = pulled(store, queue, stats.min_offset, stats.max_offset)
    offsets = [record.queue_offset for record in served]
    damaged = promises.damaged[queue].difference(offsets)
    if sorted(damaged.union(offsets)) != list(range(stats.min_offset, stats.max_offset)):
        raise Violation("gap", f"{queue} serves {offsets} of {stats}")
    if stats.min_offset > promises.may_expire_below[queue]:
        raise Violation("lost-write", f"{queue} begins at {stats.min_offset}")
    if stats.min_offset < promises.expired_below[queue]:
        raise Violation("came-back", f"{queue} begins at {stats.min_offset}")
    readable = [record for record in of_log if record.queue_offset >= stats.min_offset]
    units = read_units(store_dir, *queue, stats.min_offset, stats.max_offset)
    whole = [unit for at, unit in enumerate(units, stats.min_offset) if at not in damaged]
    if whole != [record.unit for record in readable]:
        raise Violation("index-differs", f"{queue}: {units} of {readable}")
    for record in served:
        if record.body in promises.refused:
            raise Violation("aborted-read", f"{queue} serves {record.body[:40]!r}")
        if promises.sent.get(record.body) != queue:
            raise Violation("phantom", f"{queue} serves {record.body[:40]!r}")
    order = [promises.order[record.body] for record in served]
    if order != sorted(set(order)) and queue[0] != SCHEDULE_TOPIC:
        raise Violation("reordered", f"{queue}: {order}")
    return served


def _check_acked(
    served: list[Record], promises: Promises, queue: Queue, *, was_killed: bool
) -> None:
    bodies = {record.queue_offset: record.body for record in served}
    may_be_gone = set(promises.damaged[queue])
    moved: set[bytes] = set()
    if queue[0] == SCHEDULE_TOPIC:
        moved.update(record.body for record in served)
    else:
        may_be_gone.update(range(promises.may_expire_below[queue]))
    for queue_offset, body in promises.acked[queue].items():
        if queue_offset in bodies:
            if bodies[queue_offset] != body:
                raise Violation("inconsistent-offset", f"{queue} at {queue_offset}")
        elif body in moved or queue_offset in may_be_gone:
            continue
        elif was_killed or queue_offset < promises.safe_below[queue]:
            raise Violation("lost-write", f"{queue} at {queue_offset}: {body[:40]!r}")


def pulled(store: OpenStore, queue: Queue, start: int, end: int) -> list[Record]:
    """What a pull gives, with every CRC verified again."""
    records: list[Record] = []
    while start < end:
        request = PullRequest(
            topic=queue[0], queue_id=queue[1], queue_offset=start,
            messages_max=_PULL_COUNT, bytes_max=_BYTES_MAX,
        )  # fmt: skip
        head, found = store.store.pull(request)
        if head.next_offset <= start:
            break
        start = head.next_offset
        content = store.store.read_records(found)
        at = 0
        for _, record_bytes in found:
            try:
                verify_record(content, at)
            except StoreError as exc:
                raise Violation("damaged-log", f"{queue} serves a torn record: {exc}") from exc
            at += record_bytes
        records += decode_records(content)
    return records


def _check_index(store: OpenStore, topic: str) -> None:
    """Every message that a pull gives is found by its id; all have the same."""
    served: list[Record] = []
    for stats in store.store.topic_stats(topic).queues:
        served += pulled(store, (topic, stats.queue_id), stats.min_offset, stats.max_offset)
    served.sort(key=lambda record: -record.physical_offset)
    found = pages(store, "01" * 17, topic=topic)
    if [one.physical_offset for one in found] != [one.physical_offset for one in served]:
        raise Violation("not-found", f"{topic}: {len(found)} of {len(served)} messages")


def _check_settles(store: OpenStore, promises: Promises, *, was_killed: bool) -> None:
    for group in promises.groups:
        for topic, queue_count in promises.topics.items():
            delivered = _received(store, group, topic)
            for queue_id in range(queue_count):
                key = group, (topic, queue_id)
                got = delivered.get(queue_id, set())
                kept = promises.settled if was_killed else promises.settled_safe
                safe = kept.get(key, set()) & got
                if safe:
                    raise Violation("settle-lost", f"{key} gets {sorted(safe)} again")
                stats = store.store.topic_stats(topic).queues[queue_id]
                missing = set(range(stats.min_offset, stats.max_offset)) - got
                skipped = missing - promises.settling[key] - promises.damaged[key[1]]
                skipped.difference_update(range(promises.may_expire_below[key[1]]))
                if skipped:
                    raise Violation("poll-skip", f"{key} never gets {sorted(skipped)}")


def _received(store: OpenStore, group: str, topic: str) -> dict[int, set[int]]:
    """Everything the group can get of a topic, now or later, or has given up; by queue.

    A message that has failed is named by the place in the topic that it had.
    """
    got: dict[int, set[int]] = {}
    places: dict[bytes, tuple[int, int]] = {}
    for stats in store.store.topic_stats(topic).queues:
        for record in pulled(store, (topic, stats.queue_id), stats.min_offset, stats.max_offset):
            places[record.body] = record.queue_id, record.queue_offset
    for record in _deliverable(store, group, topic) + _elsewhere(store, group, topic):
        queue_id, queue_offset = places.get(record.body, (-1, record.queue_offset))
        offsets = got.setdefault(queue_id, set())
        if queue_offset in offsets:
            raise Violation("doubled", f"{group} has {topic} {queue_id} {queue_offset} twice")
        offsets.add(queue_offset)
    return got


def _deliverable(store: OpenStore, group: str, topic: str) -> list[Record]:
    records: list[Record] = []
    answers: list[Delivered] = []
    name, client_id = split_reader(group)
    request = ReceiveRequest(
        group=name, topic=topic, member_id="checker", messages_max=_PULL_COUNT,
        bytes_max=_BYTES_MAX, wait_ms=0, lease_ms=60_000, client_id=client_id,
    )  # fmt: skip
    while True:
        store.store.consumption.receive(request, answers.append)
        delivered = answers.pop()
        if not delivered.records:
            return records
        records += decode_records(store.store.read_records(delivered.records))


def _elsewhere(store: OpenStore, group: str, topic: str) -> list[Record]:
    """Messages of the topic that wait for their next delivery to the group, or are given up."""
    found: list[Record] = []
    for source in store.store.consumption.schedule.sources:
        queue = source.queue
        for record in pulled(
            store, (SCHEDULE_TOPIC, queue.queue_id), queue.min_offset, queue.max_offset
        ):
            if record.properties.get(REAL_TOPIC) == retry_topic_of(group):
                found += [record] if source.is_pending(record.queue_offset) else []
    dlq = dlq_topic_of(group)
    if dlq in store.store.catalog.topics:
        (stats,) = store.store.topic_stats(dlq).queues
        found += pulled(store, (dlq, 0), stats.min_offset, stats.max_offset)
    return [record for record in found if record.properties.get(RETRY_TOPIC) == topic]


async def _check_use(store: OpenStore, promises: Promises) -> None:
    """One more message to every topic's first queue: it gets the next offset and can be read."""
    for topic in promises.topics:
        end = store.store.topic_stats(topic).queues[0].max_offset
        one = message(b"after the crash", topic=topic)
        if topic == SCHEDULE_TOPIC:
            plain = message(b"after the crash", topic=next(iter(promises.topics)))
            one = msgspec.structs.replace(scheduled(plain, Wait(delay_ms=DELAY_MS_MAX)), queue_id=0)
        try:
            async with asyncio.timeout(10):
                put = await store.put(one)
        except StoreError as exc:
            raise Violation("unusable", f"{topic}: {exc!r}") from exc
        if put.error is not None or put.offsets[0][0] != end:
            raise Violation("unusable", f"{topic}: {put} at {end}")
        served = pulled(store, (topic, 0), end, end + 1)
        if [record.body for record in served] != [b"after the crash"]:
            raise Violation("unusable", f"{topic}: {served}")
