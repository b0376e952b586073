"""RocketMQ's stores become stores of this engine: every message in its place, the source unread."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from storage_engine.disk.files import Files
from storage_engine.log.checkpoint import Checkpoint, write_checkpoint
from storage_engine.records.record_run import decode_records
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from storage_engine.tools.transfer.conversion import ImportLimits
from storage_engine.tools.transfer.importing import import_store, inspect_store
from storage_engine.tools.transfer.report import ImportReport, LeftBehind
from storage_engine.tools.transfer.source import SourceRejected
from storage_engine.tools.verify.verification import Verification
from storage_engine.wire.reads import LookUpRequest, PullRequest
from tests.storage_engine.doubles import ManualClock, OpenStore, tiny_config
from tests.storage_engine.rocketmq_store import PREPARED, STORED_MS, RocketmqStore

DAY_MS = 24 * 3_600_000
LIMITS = ImportLimits(name_chars_max=64, queue_count_max=256, retention_ms=30 * DAY_MS)
ID = "AC1100011234"


def ignored(_done_bytes: int, _total_bytes: int) -> None:
    """Nobody looks at the progress."""


def hashes(directory: Path) -> dict[str, str]:
    """Time of change and content of everything below a directory."""
    return {
        str(path.relative_to(directory)): f"{path.stat().st_mtime_ns} "
        + (hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "directory")
        for path in sorted(directory.rglob("*"))
    }


async def imported(source: Path, target: Path) -> ImportReport:
    before = hashes(source)
    report = await import_store(
        source, tiny_config(target), "acme", LIMITS, clock=ManualClock(), on_progress=ignored
    )
    assert hashes(source) == before
    return report


def messages_of(store: OpenStore, topic: str, queue_id: int) -> list[tuple[int, bytes]]:
    queue = store.store.catalog.get_queues(topic)[queue_id]
    request = PullRequest(
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue.min_offset,
        messages_max=1_000,
        bytes_max=1 << 20,
    )
    _, found = store.store.pull(request)
    records = decode_records(store.store.read_records(found))
    return [(record.queue_offset, record.body) for record in records]


def left_of(report: ImportReport, what: str) -> LeftBehind:
    return next(each for each in report.left_behind if each.what == what)


def properties(**pairs: str) -> str:
    return "\x02".join(f"{name}\x01{value}" for name, value in pairs.items())


@pytest.fixture
def plain(tmp_path: Path) -> tuple[RocketmqStore, Path]:
    """30 messages in two queues, of which one group has read some."""
    theirs = RocketmqStore(queue_file_units=4)
    for number in range(30):
        theirs.add(b"body %d " % number + bytes(number * 31 % 400), queue_id=number % 2)
    theirs.offsets = {"t@g": {0: 10, 1: 5}}
    return theirs, theirs.write(tmp_path / "source")


async def test_messages_offsets_keys_and_tags_are_where_they_were(
    plain: tuple[RocketmqStore, Path], tmp_path: Path
) -> None:
    theirs, source = plain
    report = await imported(source, tmp_path / "target")
    assert (report.messages, report.verified_messages, report.verified_queues) == (30, 30, 2)
    assert [(topic.name, topic.queues) for topic in report.topics] == [("t", 2)]
    async with OpenStore(tmp_path / "target") as store:
        assert messages_of(store, "acme%t", 0) == list(enumerate(theirs.bodies[::2]))
        assert messages_of(store, "acme%t", 1) == list(enumerate(theirs.bodies[1::2]))
        received = store.receive(30, topic="acme%t", group="acme%g")
        assert received.bodies == [*theirs.bodies[20::2], *theirs.bodies[11::2]]
        _, content = store.store.queries.look_up(
            LookUpRequest(topic="acme%t", key="k7", messages_max=5, bytes_max=1 << 20)
        )
        found = decode_records(content)[0]
        assert (found.body, found.tag, found.message_id) == (theirs.bodies[7], "red", f"{7:032X}")
        assert (found.born_timestamp_ms, found.store_timestamp_ms) == (STORED_MS - 5, STORED_MS)
    verification = Verification(tmp_path / "target", index_slots=5)
    list(verification.run())
    assert verification.report.findings == []


async def test_a_queue_whose_first_messages_have_expired_begins_where_it_began(
    tmp_path: Path,
) -> None:
    theirs = RocketmqStore(queue_file_units=4)
    for number in range(60):
        theirs.add(b"%d" % number + bytes(100))
    theirs.offsets = {"t@g": {0: 55}, "t@late": {0: 3}}
    source = theirs.write(tmp_path / "source")
    for segment in segments(source)[:2]:
        segment.unlink()
    start = int(segments(source)[0].name)
    kept = [at for at, unit in enumerate(theirs.units["t", 0]) if place_of(unit) >= start]
    report = await imported(source, tmp_path / "target")
    assert kept[0] > 0
    assert report.verified_messages == len(kept)
    assert left_of(report, "offset of group late on t").count == 1
    for _ in range(2):  # and so it is for a start that has a checkpoint
        async with OpenStore(tmp_path / "target") as store:
            assert [offset for offset, _ in messages_of(store, "acme%t", 0)] == kept
            received = store.receive(1, topic="acme%t", group="acme%g")
            assert received.records[0].queue_offset == 55
            late = store.receive(1, topic="acme%t", group="acme%late")
            assert late.records[0].queue_offset == kept[0]


def place_of(unit: bytes) -> int:
    place: int = struct.unpack(">qiq", unit)[0]
    return place


def segments(store: Path) -> list[Path]:
    return sorted((store / "commitlog").iterdir())


async def test_a_topic_whose_messages_have_all_expired_continues_behind_them(
    tmp_path: Path,
) -> None:
    theirs = RocketmqStore(queue_file_units=4)
    for number in range(3):
        theirs.add(b"%d" % number, topic="old", queue_id=1)
    for number in range(60):
        theirs.add(b"%d" % number + bytes(100))
    source = theirs.write(tmp_path / "source")
    segments(source)[0].unlink()
    await imported(source, tmp_path / "target")
    async with OpenStore(tmp_path / "target") as store:
        queues = store.store.catalog.get_queues("acme%old")
        assert [(queue.min_offset, queue.max_offset) for queue in queues] == [(0, 0), (3, 3)]


async def test_a_topic_that_was_made_again_has_its_new_messages_only(tmp_path: Path) -> None:
    theirs = RocketmqStore(queue_file_units=4)
    theirs.add(b"former")
    theirs.add(b"former too")
    theirs.units["t", 0].clear()
    theirs.add(b"new")
    theirs.add(b"deleted", topic="gone")
    source = theirs.write(tmp_path / "source")
    topics = source / "config" / "topics.json"
    topics.write_text(topics.read_text().replace('"gone"', '"other"'))
    report = await imported(source, tmp_path / "target")
    former = left_of(report, "messages of t")
    assert (former.count, former.is_loss) == (2, False)
    assert left_of(report, "messages of gone").why == "the topic was deleted"
    async with OpenStore(tmp_path / "target") as store:
        assert messages_of(store, "acme%t", 0) == [(0, b"new")]


async def test_delayed_messages_come_when_they_are_due(tmp_path: Path) -> None:
    theirs = RocketmqStore(queue_file_units=4)
    theirs.add(b"other")
    for body, level in ((b"delivered", 2), (b"5s", 2), (b"2h", 18)):
        theirs.add(
            body,
            topic=SCHEDULE_TOPIC,
            queue_id=level - 1,
            properties=properties(REAL_TOPIC="t", DELAY=str(level), REAL_QID="0", UNIQ_KEY=ID),
        )
    del theirs.units[SCHEDULE_TOPIC, 1], theirs.units[SCHEDULE_TOPIC, 17]
    source = theirs.write(tmp_path / "source")
    (source / "config" / "delayOffset.json").write_text('{"offsetTable":{2:1,18:0}}')
    report = await imported(source, tmp_path / "target")
    assert (report.delayed.messages, report.delayed.first_due_ms) == (2, STORED_MS + 5_000)
    assert report.delayed.last_due_ms == STORED_MS + 2 * 3_600_000
    assert left_of(report, "delayed messages").why == "they were delivered"
    async with OpenStore(tmp_path / "target") as store:
        await store.pass_time(STORED_MS + 4_999 - store.clock.now_ms())
        assert messages_of(store, "acme%t", 0) == [(0, b"other")]
        await store.pass_time(1)
        assert messages_of(store, "acme%t", 0) == [(0, b"other"), (1, b"5s")]


async def test_due_times_are_those_of_the_brokers_own_levels(tmp_path: Path) -> None:
    theirs = RocketmqStore(queue_file_units=4)
    theirs.add(b"other")
    asked = properties(REAL_TOPIC="t", DELAY="2", REAL_QID="0")
    theirs.add(b"custom", topic=SCHEDULE_TOPIC, queue_id=1, properties=asked)
    place, size, _ = struct.unpack(">qiq", theirs.units[SCHEDULE_TOPIC, 1][0])
    theirs.units[SCHEDULE_TOPIC, 1] = [struct.pack(">qiq", place, size, STORED_MS + 77_000)]
    report = await imported(theirs.write(tmp_path / "source"), tmp_path / "target")
    assert report.delayed.first_due_ms == STORED_MS + 77_000


def add_timer(theirs: RocketmqStore, body: bytes, out_ms: int, **pairs: str) -> None:
    known = {"REAL_TOPIC": "t", "REAL_QID": "0", "TIMER_OUT_MS": str(out_ms)}
    known["UNIQ_KEY"] = body.decode().upper()
    theirs.add(body, topic="rmq_sys_wheel_timer", properties=properties(**{**known, **pairs}))


async def test_timers_come_when_they_are_due_and_no_other_copy_of_them(tmp_path: Path) -> None:
    theirs = RocketmqStore(queue_file_units=4)
    theirs.add(b"other")
    due_ms = STORED_MS + 90_500
    add_timer(theirs, b"delivered", STORED_MS - 5_000)
    add_timer(theirs, b"exact", due_ms - 500, TIMER_DELIVER_MS=str(due_ms))
    add_timer(theirs, b"relative", due_ms - 500, TIMER_DELAY_SEC="90")
    add_timer(theirs, b"cancelled", due_ms - 500)
    add_timer(theirs, b"cancel", due_ms - 500, TIMER_DEL_UNIQKEY="t+CANCELLED")
    add_timer(theirs, b"rolled", STORED_MS + 9_000_000)
    add_timer(theirs, b"rolled", STORED_MS + 9_000_000, TIMER_ROLL_TIMES="1")
    source = theirs.write(tmp_path / "source")
    progress = struct.pack(">qqqq", STORED_MS, 0, 7, 7)
    (source / "config" / "timercheck").write_bytes(progress.ljust(4_096, b"\0"))
    report = await imported(source, tmp_path / "target")
    assert (report.timers.messages, report.timers.first_due_ms) == (3, due_ms)
    assert report.timers.last_due_ms == STORED_MS + 9_001_000
    async with OpenStore(tmp_path / "target") as store:
        await store.pass_time(due_ms - 1 - store.clock.now_ms())
        assert messages_of(store, "acme%t", 0) == [(0, b"other")]
        await store.pass_time(1)
        assert messages_of(store, "acme%t", 0) == [(0, b"other"), (1, b"exact")]
        await store.pass_time(500)
        assert messages_of(store, "acme%t", 0)[2:] == [(2, b"relative")]


async def test_retries_and_dead_letters_belong_to_their_groups(tmp_path: Path) -> None:
    theirs = RocketmqStore(queue_file_units=4)
    for topic in ("t", "u"):
        theirs.add(topic.encode(), topic=topic)
    for body, topic in ((b"consumed", "t"), (b"u again", "u"), (b"t again", "t")):
        origin = properties(RETRY_TOPIC=topic, ORIGIN_MESSAGE_ID="X", UNIQ_KEY=ID)
        theirs.add(body, topic="%RETRY%g", properties=origin)
    theirs.add(b"popped", topic="%RETRY%g_t", properties=properties(UNIQ_KEY=ID))
    theirs.add(b"dead", topic="%DLQ%g", properties=properties(RETRY_TOPIC="t", UNIQ_KEY=ID))
    theirs.offsets = {"t@g": {0: 1}, "u@g": {0: 1}, "%RETRY%g@g": {0: 1}}
    report = await imported(theirs.write(tmp_path / "source"), tmp_path / "target")
    assert (report.retries, report.dead_letters) == (3, 1)
    assert left_of(report, "retries").count == 1
    assert [(group.name, group.topics) for group in report.groups] == [("g", ["t", "u"])]
    async with OpenStore(tmp_path / "target") as store:
        received = store.receive(topic="acme%t", group="acme%g")
        assert received.bodies == [b"t again", b"popped"]
        assert store.receive(topic="acme%u", group="acme%g").bodies == [b"u again"]
        assert messages_of(store, "%DLQ%acme%g", 0) == [(0, b"dead")]
        (letter,) = decode_records(store.store.read_records([unit_of(store, "%DLQ%acme%g")]))
        assert letter.properties["DLQ_ORIGIN_TOPIC"] == "acme%t"


def unit_of(store: OpenStore, topic: str) -> tuple[int, int]:
    return store.store.catalog.get_queues(topic)[0].unit(0)[:2]


async def test_what_cannot_come_is_named_with_its_number(tmp_path: Path) -> None:
    theirs = RocketmqStore(queue_file_units=4)
    theirs.add(b"known")
    theirs.add(b"prepared", sysflag=PREPARED)
    theirs.add(b"of an instance", topic="INST%t")
    for message_id in ("H1", "H2"):
        half = properties(REAL_TOPIC="t", UNIQ_KEY=message_id)
        theirs.add(b"half", topic="RMQ_SYS_TRANS_HALF_TOPIC", properties=half)
    theirs.add(b"1,", topic="RMQ_SYS_TRANS_OP_HALF_TOPIC", properties=properties(TAGS="d"))
    theirs.add(b"a trace", topic="RMQ_SYS_TRACE_TOPIC")
    report = await imported(theirs.write(tmp_path / "source"), tmp_path / "target")
    losses = {each.what: (each.count, each.why) for each in report.left_behind if each.is_loss}
    assert losses["messages of INST%t"] == (1, "the topic is not imported")
    assert "characters other than" in losses["topic INST%t"][1]
    count, why = losses["open transactions of t"]
    assert (count, "H1" in why, "H2" in why) == (1, True, False)
    assert left_of(report, "half messages of transactions").count == 1
    assert left_of(report, "messages of RMQ_SYS_TRACE_TOPIC").count == 1
    assert len(losses) == 3


def add_pop(theirs: RocketmqStore, tag: str, **values: object) -> None:
    body = json.dumps({"t": "t", "c": "g", "q": 0, "pt": 7, **values}).encode()
    theirs.add(body, topic="rmq_sys_REVIVE_LOG_c", properties=properties(TAGS=tag))


async def test_what_pop_gave_out_and_nobody_acknowledged_comes_again(tmp_path: Path) -> None:
    theirs = RocketmqStore(queue_file_units=4)
    for number in range(6):
        theirs.add(b"%d" % number)
    add_pop(theirs, "ck", so=0, n=2, bm=0, d=[0, 1])
    add_pop(theirs, "ack", so=0, ao=0)
    add_pop(theirs, "bAck", so=0, aol=[1])
    add_pop(theirs, "ck", so=2, n=2, bm=1, d=[0, 1])
    theirs.offsets = {"t@g": {0: 5}}
    report = await imported(theirs.write(tmp_path / "source"), tmp_path / "target")
    assert any("goes back to 3 of t/0, from 5: 1 messages" in note for note in report.notes)
    async with OpenStore(tmp_path / "target") as store:
        assert store.receive(topic="acme%t", group="acme%g").bodies == [b"3", b"4", b"5"]


def test_a_dry_run_says_the_same_and_makes_nothing(
    plain: tuple[RocketmqStore, Path], tmp_path: Path
) -> None:
    before = hashes(tmp_path)
    report = inspect_store(plain[1], "acme", LIMITS, on_progress=ignored)
    assert hashes(tmp_path) == before
    assert (report.messages, report.verified_messages) == (30, 0)


def refusal(source: Path) -> str:
    before = hashes(source)
    with pytest.raises(SourceRejected) as caught:
        inspect_store(source, "acme", LIMITS, on_progress=ignored)
    assert hashes(source) == before
    return str(caught.value)


def test_a_store_that_a_broker_has_open_is_refused(plain: tuple[RocketmqStore, Path]) -> None:
    source = plain[1]
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    with (source / "lock").open("r+b") as held:
        fcntl.fcntl(held, fcntl.F_OFD_SETLK, lock)
        assert "is in use" in refusal(source)
    inspect_store(source, "acme", LIMITS, on_progress=ignored)


def hurt(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no topics": (lambda store: (store / "config/topics.json").unlink(), "topics.json is missing"),
    "torn topics": (
        lambda store: (store / "config/topics.json").write_text("{"),
        "topics.json.bak",
    ),
    "torn offsets": (
        lambda store: (store / "config/consumerOffset.json").write_text("["),
        "config/consumerOffset.json: ",
    ),
    "hole": (lambda store: segments(store)[1].unlink(), "is missing, the next one is"),
    "no end": (lambda store: segments(store)[-1].unlink(), "the last segments are missing"),
    "cut": (lambda store: os.truncate(segments(store)[1], 4_000), "not copied completely"),
    "flipped bit": (lambda store: hurt(segments(store)[1], 120), "is no record"),
    "no segments": (
        lambda store: list(map(os.unlink, segments(store))),
        "has no segments",
    ),
    "no log": (
        lambda store: (store / "commitlog").rename(store / "log"),
        "has no commitlog directory",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_store_is_refused_with_what_and_where(
    plain: tuple[RocketmqStore, Path], damage: str
) -> None:
    hurts, said = DAMAGES[damage]
    hurts(plain[1])
    assert said in refusal(plain[1])


def test_a_store_of_this_service_is_no_source(plain: tuple[RocketmqStore, Path]) -> None:
    write_checkpoint(Files(), plain[1] / "checkpoint", Checkpoint())
    assert "mqservice backup" in refusal(plain[1])


async def test_a_store_that_changes_meanwhile_is_not_used(
    plain: tuple[RocketmqStore, Path], tmp_path: Path
) -> None:
    def change(_done_bytes: int, _total_bytes: int) -> None:
        (plain[1] / "config" / "consumerOffset.json").write_text("{}")

    config = tiny_config(tmp_path / "target")
    with pytest.raises(SourceRejected, match="was changed while it was read"):
        await import_store(
            plain[1], config, "acme", LIMITS, clock=ManualClock(), on_progress=change
        )


def test_a_namespace_of_no_possible_name_is_refused(plain: tuple[RocketmqStore, Path]) -> None:
    with pytest.raises(SourceRejected, match="characters other than"):
        inspect_store(plain[1], "a%b", LIMITS, on_progress=ignored)
