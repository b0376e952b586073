"""A request with a key stores its message once: again, together, after kills and power cuts."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from storage_engine.errors import KeyReused, StoreBusy, StoreError
from storage_engine.records.dedup_mark import PROPERTY_DEDUP, dedup_mark_of, dedup_value
from storage_engine.records.record import StoreMessage, encode_record
from storage_engine.records.retry_record import shown_record
from storage_engine.records.scheduled_message import Wait, scheduled
from storage_engine.wire.put_once import PutOncePlace, PutOnceReply, PutOnceRequest
from storage_engine.wire.topics import TopicRef
from tests.storage_engine.doubles import BORN_MS, OpenStore

WINDOW_MS = 600_000


def marked(
    key: str, body: bytes = b"a", *, topic: str = "t", queue_id: int = 0, wait: Wait | None = None
) -> bytes:
    """A record whose fingerprint is of its body."""
    message = StoreMessage(
        topic=topic,
        queue_id=queue_id,
        body=body,
        message_id=f"{marked_ids.pop():034d}",
        born_timestamp_ms=BORN_MS,
        born_host=("127.0.0.1", 1),
        properties={
            "x__DEDUP": "not this one",
            PROPERTY_DEDUP: dedup_value(body.ljust(16, b"."), key),
        },
    )
    return encode_record(message if wait is None else scheduled(message, wait))


marked_ids = list(range(10_000))


async def put_once(store: OpenStore, *records: bytes, window_ms: int = 0) -> list[PutOncePlace]:
    """Places of the records; raises what the store answers."""
    answered: asyncio.Future[list[PutOncePlace]] = asyncio.get_running_loop().create_future()

    def answer(reply: PutOnceReply | None, error: StoreError | None) -> None:
        if error is not None:
            answered.set_exception(error)
        else:
            assert reply is not None
            answered.set_result(reply.places)

    request = PutOnceRequest(records=b"".join(records), window_ms=window_ms)
    store.store.once_puts.put(request, answer)
    return await answered


@contextlib.asynccontextmanager
async def opened(path: Path, **limits: int) -> AsyncIterator[OpenStore]:
    """With topic t of two queues."""
    async with OpenStore(path, limits=limits) as store:
        store.topic(queues=2)
        yield store


def killed(path: Path) -> Path:
    """What a kill at this moment would leave."""
    copy = path.with_name(f"{path.name}-killed")
    shutil.copytree(path, copy)
    return copy


def stored_count(store: OpenStore, topic: str = "t") -> int:
    return sum(queue.max_offset for queue in store.store.topic_stats(topic).queues)


async def test_the_same_request_gets_the_first_answer_and_stores_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        (first,) = await put_once(store, marked("k"))
        (again,) = await put_once(store, marked("k", queue_id=1))
        assert not first.is_duplicate
        assert again.is_duplicate
        assert again == msgspec.structs.replace(first, is_duplicate=True)
        assert stored_count(store) == 1


async def test_another_content_under_the_key_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await put_once(store, marked("k", b"a"))
        (refused,) = await put_once(store, marked("k", b"b"))
        assert refused.code == KeyReused.code
        assert stored_count(store) == 1


async def test_keys_of_other_topics_are_others(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        store.topic("u")
        places = await put_once(store, marked("k"), marked("k", topic="u"))
        assert [place.is_duplicate for place in places] == [False, False]


async def test_two_that_come_together_are_one(tmp_path: Path) -> None:
    """Also while the first is not durable yet, and inside one request."""
    async with opened(tmp_path) as store:
        results = await asyncio.gather(*(put_once(store, marked("k")) for _ in range(10)))
        assert sum(not place.is_duplicate for (place,) in results) == 1
        assert len({place.message_id for (place,) in results}) == 1
        assert store.store.unsynced_bytes == 0  # nobody was answered before the disk had it
        three = await put_once(store, marked("l"), marked("l"), marked("l", b"other"))
        assert [place.code for place in three] == [0, 0, KeyReused.code]
        assert [place.is_duplicate for place in three[:2]] == [False, True]
        assert stored_count(store) == 2


async def test_records_without_a_mark_go_along(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        plain = encode_record(
            StoreMessage(
                topic="t",
                queue_id=0,
                body=b"plain",
                message_id="0" * 34,
                born_timestamp_ms=BORN_MS,
                born_host=("127.0.0.1", 1),
            )
        )
        for expected in (2, 3):
            places = await put_once(store, marked("k"), plain)
            assert [place.code for place in places] == [0, 0]
            assert stored_count(store) == expected


async def test_what_the_put_refuses_is_not_remembered(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        (refused,) = await put_once(store, marked("k", topic="absent"))
        assert refused.code != 0
        store.topic("absent")
        (stored,) = await put_once(store, marked("k", topic="absent"))
        assert (stored.code, stored.is_duplicate) == (0, False)


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_key_is_known_after_a_stop_and_after_a_kill(
    tmp_path: Path, checkpoint: bool, is_killed: bool
) -> None:
    path = tmp_path / "store"
    async with opened(path) as store:
        (first,) = await put_once(store, marked("k"))
        if checkpoint:
            await store.store.checkpoint()
        (later,) = await put_once(store, marked("l"))
        if is_killed:
            path = killed(path)
    async with OpenStore(path) as again:
        for key, known in (("k", first), ("l", later)):
            (place,) = await put_once(again, marked(key))
            assert place.is_duplicate
            assert (place.message_id, place.queue_offset, place.store_timestamp_ms) == (
                known.message_id,
                known.queue_offset,
                known.store_timestamp_ms,
            )
        assert stored_count(again) == 2


async def test_a_key_is_forgotten_after_its_window_and_its_file_goes(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await put_once(store, marked("k"))
        await store.store.checkpoint()
        assert len(list((tmp_path / "dedup").iterdir())) == 1
        await store.pass_time(WINDOW_MS - 1_000)
        assert (await put_once(store, marked("k")))[0].is_duplicate
        await store.pass_time(WINDOW_MS // 8 + 2_000)
        await store.store.checkpoint()
        assert list((tmp_path / "dedup").iterdir()) == []
        assert not (await put_once(store, marked("k")))[0].is_duplicate
        assert stored_count(store) == 2


async def test_a_put_may_ask_for_a_shorter_window(tmp_path: Path) -> None:
    window_ms = WINDOW_MS // 2
    async with opened(tmp_path) as store:
        (first,) = await put_once(store, marked("k"), window_ms=window_ms)
        await store.pass_time(window_ms - 1_000)
        assert (await put_once(store, marked("k"), window_ms=window_ms))[0].is_duplicate
        await store.pass_time(WINDOW_MS // 8 + 2_000)
        (other,) = await put_once(store, marked("k"))
        assert (other.is_duplicate, other.queue_offset) == (True, first.queue_offset)
        (second,) = await put_once(store, marked("k"), window_ms=window_ms)
        assert (second.is_duplicate, second.queue_offset) == (False, first.queue_offset + 1)
        again = OpenStore(killed(tmp_path), clock=store.clock).open()
        for each in (store, again):
            for asked_ms in (0, window_ms):
                (known,) = await put_once(each, marked("k"), window_ms=asked_ms)
                assert (known.is_duplicate, known.queue_offset) == (True, second.queue_offset)
        await again.close()


async def test_memory_is_bounded_and_no_key_goes_before_its_time(tmp_path: Path) -> None:
    async with opened(tmp_path, dedup_count_max=8) as store:
        store.topic("other%t")
        for number in range(2):
            await put_once(store, marked(f"k{number}"))
        with pytest.raises(StoreBusy):
            await put_once(store, marked("one too many of a namespace"))
        assert (await put_once(store, marked("k0")))[0].is_duplicate
        await put_once(store, marked("k", topic="other%t"))
        assert stored_count(store) == 2


async def test_a_recreated_topic_knows_its_own_keys_only(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await put_once(store, marked("k"))
        store.store.consumption.deletions.topic_delete(TopicRef(topic="t").topic)
        store.topic()
        assert not (await put_once(store, marked("k")))[0].is_duplicate
        assert (await put_once(store, marked("k")))[0].is_duplicate


async def test_a_message_that_waits_is_stored_once_and_its_delivery_is_no_request(
    tmp_path: Path,
) -> None:
    wait = Wait(delay_ms=5_000)
    async with opened(tmp_path / "store") as store:
        (first,) = await put_once(store, marked("k", queue_id=1, wait=wait))
        assert (first.code, first.queue_id) == (0, 1)
        assert (await put_once(store, marked("k", wait=wait)))[0].message_id == first.message_id
        await store.pass_time(6_000)
        assert stored_count(store) == 1
        store.group("g")
        (record,) = store.receive().records
        assert shown_record(record).properties == {"x__DEDUP": "not this one"}
        path = killed(tmp_path / "store")
    async with OpenStore(path) as again:
        (place,) = await put_once(again, marked("k", wait=wait))
        assert (place.is_duplicate, place.message_id) == (True, first.message_id)


async def test_a_failed_write_of_keys_is_repeated(tmp_path: Path) -> None:
    async with opened(tmp_path / "store") as store:
        await put_once(store, marked("k"))
        store.files.broken.add("append")
        with pytest.raises(StoreError):
            await store.store.checkpoint()
        store.files.broken.clear()
        await put_once(store, marked("l"))
        await store.store.checkpoint()
        path = killed(tmp_path / "store")
        assert len(list((path / "dedup").iterdir())) == 2
        (path / "dedup" / "00000001").unlink()  # what a failed sync has written may be gone
    async with OpenStore(path) as again:
        for key in ("k", "l"):
            assert (await put_once(again, marked(key)))[0].is_duplicate


async def test_a_key_is_known_after_two_kills_without_a_checkpoint_of_its_own(
    tmp_path: Path,
) -> None:
    """The checkpoint that a start writes counts records whose keys are in the log alone."""
    async with opened(tmp_path / "store") as store:
        await put_once(store, marked("k"))
        path = killed(tmp_path / "store")
    async with OpenStore(path):
        path = killed(path)
    async with OpenStore(path) as third:
        assert (await put_once(third, marked("k")))[0].is_duplicate


@pytest.mark.parametrize("is_zeroed", [False, True])
async def test_a_torn_file_of_keys_ends_where_it_is_torn(tmp_path: Path, is_zeroed: bool) -> None:
    async with opened(tmp_path) as store:
        for key in ("k", "l"):
            await put_once(store, marked(key))
            await store.store.checkpoint()
    (path,) = (tmp_path / "dedup").iterdir()
    whole = path.read_bytes()
    torn = whole[: len(whole) // 2] + bytes(len(whole) // 2) if is_zeroed else whole[:-5]
    path.write_bytes(torn)
    async with OpenStore(tmp_path) as again:
        assert (await put_once(again, marked("k")))[0].is_duplicate
        assert not (await put_once(again, marked("l")))[0].is_duplicate
    async with OpenStore(tmp_path) as third:  # what came after the tear was not lost
        assert (await put_once(third, marked("l")))[0].is_duplicate


@pytest.mark.parametrize(
    "properties",
    [b"", b"__DEDUP\x01short\x02", b"__DEDUP\x01" + b"z" * 32 + b"k\x02", b"a__DEDUP\x01x\x02"],
)
def test_marks_without_sense_are_none(properties: bytes) -> None:
    assert dedup_mark_of(properties) is None
