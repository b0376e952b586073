"""One store under this engine and under a real RocketMQ broker in turn, in place."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from storage_engine.errors import StoreInUse
from storage_engine.records.record import decode_record, verify_record
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from storage_engine.tools.verify.report import Report
from storage_engine.tools.verify.verification import Verification
from storage_engine.wire.deliveries import Nack, SettleRequest
from tests.rocketmq.broker_program import (
    refusal_of_broker,
    run_broker,
    running_broker,
)
from tests.rocketmq.test_broker_stores import Opened
from tests.storage_engine.doubles import ManualClock, OpenStore, fingerprint, message
from tests.storage_engine.faults.machine import need_broker
from tests.storage_engine.schedule.delaying import delayed, put_delayed

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600), pytest.mark.xdist_group("rocketmq")]
TOPIC = "acme%t"
GROUP = "acme%g"
RETRY = f"%RETRY%{GROUP}"
HOUR_MS = 3_600_000


def opened(path: Path) -> Opened:
    """The broker lives by the real time: so must what runs before and after it."""
    return Opened(path, ManualClock(time.time_ns() // 1_000_000))


def verified(path: Path) -> Report:
    verification = Verification(path)
    list(verification.run())
    assert verification.report.findings == []
    return verification.report


def bodies_in(store: OpenStore, topic: str = TOPIC) -> dict[tuple[str, int, int], str]:
    """As ``Served.messages``; every record is verified."""
    found = {}
    for queue in store.store.catalog.get_queues(topic):
        for offset in range(queue.min_offset, queue.max_offset):
            place, record_bytes, _ = queue.unit(offset)
            record = store.store.read_records([(place, record_bytes)])
            assert verify_record(record).record_bytes == record_bytes
            found[topic, queue.queue_id, offset] = decode_record(record).body.decode()
    return found


def used_files(directory: Path) -> dict[str, bytes]:
    """Without the segments that a broker has prepared and written nothing into."""
    return {name: content for name, content in fingerprint(directory).items() if any(content)}


def consumer_offsets(store: OpenStore) -> dict[int, int]:
    queues = store.store.consumption.group_stats(GROUP).queues
    return {each.queue_id: each.consumer_offset for each in queues if each.topic == TOPIC}


async def fill(path: Path) -> bytes:
    """Messages, progress, a retry and delays of every kind, a dead letter; the log that is left."""
    async with opened(path) as store:
        store.topic(TOPIC, queues=2)
        store.group(GROUP)
        for number in range(12):
            await store.put(message(b"%d" % number, topic=TOPIC, queue_id=number % 2, tag="red"))
        await put_delayed(
            store,
            delayed(b"level of 1s", 1, level=1, topic=TOPIC),
            delayed(b"level of 2h", 2, level=18, topic=TOPIC),
            delayed(b"any delay", 3, delay_ms=HOUR_MS + 1, topic=TOPIC),
        )
        for delay_ms in (1_000, None):  # None: a dead letter
            leased = store.receive(1, topic=TOPIC, group=GROUP)
            (record,) = leased.records
            nack = Nack(
                topic=TOPIC,
                queue_id=record.queue_id,
                lease_generation=leased.generation,
                queue_offset=record.queue_offset,
                delay_ms=delay_ms,
                is_dead=delay_ms is None,
                reason="bad",
            )
            store.store.consumption.settle(SettleRequest(group=GROUP, nacks=[nack]))
        store.ack(store.receive(2, topic=TOPIC, group=GROUP), group=GROUP)
        await store.settled()
        assert sum(consumer_offsets(store).values()) == 4
        end = store.store.stats(0).append_offset
    return (path / "commitlog" / f"{0:020d}").read_bytes()[:end]


@pytest.mark.torture
async def test_our_store_goes_to_a_broker_and_back_twice(tmp_path: Path) -> None:
    need_broker()
    path = tmp_path / "store"
    ours = await fill(path)
    async with opened(path) as store:
        before = bodies_in(store)
        offsets = consumer_offsets(store)
        assert len(before) == 12
        assert "Lock failed" in refusal_of_broker(tmp_path, "read", str(path))

    # The broker adds 50 and delivers what is due by then: the retry and the level of 1 s.
    served = run_broker(tmp_path, "add", str(path), TOPIC, GROUP, f"{TOPIC}=63", f"{RETRY}=1")
    assert before.items() <= served.messages.items()
    assert GROUP in served.groups
    assert len(served.bodies(f"%DLQ%{GROUP}")) == 1
    report = verified(path)
    assert report.counts["index files"].item_count > 2 * 50
    assert "timerwheel" in " ".join(report.notes)
    log = (path / "commitlog" / f"{0:020d}").read_bytes()
    assert log[: len(ours)] == ours
    # It copies our properties, and with them the CRC of the record before.
    assert b"__CRC32#" in log[len(ours) :]

    async with opened(path) as store:
        found = bodies_in(store)
        assert found == {key: body for key, body in served.messages.items() if key[0] == TOPIC}
        assert len(found) == 63
        now = {queue_id: served.offsets[f"{TOPIC}@{GROUP}", queue_id] for queue_id in (0, 1)}
        assert now[0] > offsets[0]
        assert consumer_offsets(store) == now
        await store.settled()
        assert len(bodies_in(store)) == 63  # nothing that the broker delivered comes again
        leased = store.receive(200, topic=TOPIC, group=GROUP)
        (retried,) = [at for at, record in enumerate(leased.records) if record.topic == RETRY]
        assert leased.attempts[retried] == 2
        assert sorted(leased.bodies) == sorted(
            [
                leased.bodies[retried],
                *(
                    body.encode()
                    for (_, queue_id, offset), body in found.items()
                    if offset >= now[queue_id]
                ),
            ]
        )
        store.ack(leased, group=GROUP)
        ends = consumer_offsets(store)
    verified(path)

    # Again: the broker goes on from where we are, and we from where it is.
    with running_broker(tmp_path, "add", str(path), TOPIC, GROUP, f"{TOPIC}=113") as (served, _):
        before_refusal = fingerprint(path / "commitlog")
        with pytest.raises(StoreInUse, match="RocketMQ's lock"):
            opened(path).open()
        assert fingerprint(path / "commitlog") == before_refusal
    assert served.offsets[f"{TOPIC}@{GROUP}", 1] == ends[1]
    assert found.items() <= served.messages.items()
    verified(path)
    async with opened(path) as store:
        found = {key: body for key, body in served.messages.items() if key[0] == TOPIC}
        assert len(found) == 113
        await store.pass_time(3 * HOUR_MS)
        # What only we deliver has waited for us.
        late = [body for key, body in bodies_in(store).items() if key not in found]
        assert sorted(late) == ["any delay", "level of 2h"]
        leased = store.receive(200, topic=TOPIC, group=GROUP)
        added = [body for (_, queue, at), body in found.items() if queue == 1 and at >= ends[1]]
        assert len(added) == 25
        assert sorted(leased.bodies) == sorted(body.encode() for body in [*late, *added])
        schedule = store.store.catalog.get_queues(SCHEDULE_TOPIC)
        assert [queue.max_offset for queue in schedule if queue.max_offset] == [2, 1, 1]
    verified(path)


@pytest.mark.torture
@pytest.mark.parametrize(
    "is_killed",
    [
        pytest.param(False, marks=pytest.mark.torture, id="stopped in order"),
        pytest.param(True, id="killed"),
    ],
)
async def test_what_a_broker_wrote_is_read_whole_and_stays(tmp_path: Path, is_killed: bool) -> None:
    """Several segments, with RocketMQ's defaults: records without ``__CRC32#``."""
    need_broker()
    path = tmp_path / "store"
    with running_broker(tmp_path, "fill", str(path)) as (served, broker):
        if is_killed:
            broker.kill()
    assert (path / "abort").exists() is is_killed
    report = verified(path)
    assert report.counts["commit log"].item_count == 600
    assert report.counts["index files"].item_count == (0 if is_killed else 3 * 600)
    kept = ["commitlog"] if is_killed else ["commitlog", "consumequeue"]
    before = {name: used_files(path / name) for name in kept}
    assert len(before["commitlog"]) == 3
    assert all(b"__CRC32#" not in content for content in before["commitlog"].values())
    async with opened(path) as store:
        assert bodies_in(store, "orders") == served.messages
    assert {name: used_files(path / name) for name in kept} == before
    assert verified(path).counts["index files"].item_count == 2 * 600
    shutil.rmtree(path)
