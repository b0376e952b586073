"""A moved message is in its old place or in its new one, never in both and never in none."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_engine.delivery.progress import Progress
from storage_engine.errors import DiskFull
from storage_engine.moves.moves import Move, Mover, settles_for
from storage_engine.records.record import StoreMessage, encode_record
from storage_engine.records.record_parts import parts_of
from storage_engine.records.record_run import decode_records
from storage_engine.records.settles import (
    PROPERTY_SETTLES,
    Settles,
    settles_of,
    settles_value,
)
from storage_engine.wire.reads import PullRequest
from tests.storage_engine.doubles import FaultyFiles, OpenStore, message
from tests.storage_engine.stopping import kill

NAME = st.text("abcXYZ%|_-019", min_size=1, max_size=30)
NUMBER = st.integers(0, (1 << 63) - 1)


@given(st.builds(Settles, NAME, NAME, st.integers(0, 1_023), NUMBER, NUMBER))
def test_what_a_record_settles_survives_its_bytes(settles: Settles) -> None:
    record = encode_record(with_property(message(b"x"), settles_value(settles)))
    parts = parts_of(record)
    assert settles_of(parts.tail, parts.properties_at) == settles


@pytest.mark.parametrize("value", ["", "1@2@3@t", "1@2@3@t@g@h", "-1@2@3@t@g", "a@2@3@t@g"])
def test_a_value_that_makes_no_sense_settles_nothing(value: str) -> None:
    parts = parts_of(encode_record(with_property(message(b"x"), value)))
    assert settles_of(parts.tail, parts.properties_at) is None


async def test_a_client_may_not_say_that_a_record_settles(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        forged = with_property(message(b"x"), "0@0@0@t@g")
        answer = await store.put(message(b"a"), forged, message(b"b"))
        assert [offset < 0 for offset, _ in answer.offsets] == [False, True, False]
        assert store.pull_bodies() == [b"a", b"b"]


async def test_the_source_is_settled_when_the_record_is_durable_and_not_before(
    tmp_path: Path,
) -> None:
    files = FaultyFiles()
    async with OpenStore(tmp_path / "s", files=files) as store:
        await begin(store)
        files.sync_gate = threading.Event()
        moved = move(store, 0)
        assert consumer_offset(store) == 0
        assert u_bodies(store) == []
        files.sync_gate.set()
        await store.store.durability.durable_to(store.store._commit_log.append_offset)
        assert moved.is_set()
        assert consumer_offset(store) == 1
        assert u_bodies(store) == [b"a"]


async def test_a_process_killed_after_a_move_knows_it_from_the_log(tmp_path: Path) -> None:
    store = OpenStore(tmp_path / "s").open()
    await begin(store)
    await store.store.checkpoint()
    journal = (tmp_path / "s" / "offsets.journal").read_bytes()
    move(store, 1)
    await store.store.durability.durable_to(store.store._commit_log.append_offset)
    kill(store.store)
    # As if the settle had not been journaled: only the record says so.
    (tmp_path / "s" / "offsets.journal").write_bytes(journal)
    for _ in range(2):
        again = OpenStore(tmp_path / "s").open()
        assert u_bodies(again) == [b"b"]
        assert again.receive().bodies == [b"a", b"c"]
        kill(again.store)


async def test_a_full_journal_does_not_undo_a_move(tmp_path: Path) -> None:
    files = FaultyFiles()
    store = OpenStore(tmp_path / "s", files=files).open()
    await begin(store)
    files.full.add("append")
    move(store, 0)
    await store.store.durability.durable_to(store.store._commit_log.append_offset)
    assert consumer_offset(store) == 1
    with pytest.raises(DiskFull):
        await store.store.checkpoint()
    kill(store.store)
    async with OpenStore(tmp_path / "s") as again:
        assert consumer_offset(again) == 1


async def test_a_full_log_moves_nothing(tmp_path: Path) -> None:
    files = FaultyFiles()
    async with OpenStore(tmp_path / "s", files=files) as store:
        await begin(store)
        files.full.add("create")
        with pytest.raises(DiskFull):
            move(store, 0, body=bytes(2_000), count=3)
        assert consumer_offset(store) == 0
        assert u_bodies(store) == []


async def test_a_move_made_before_a_reset_settles_nothing_after_it(tmp_path: Path) -> None:
    store = OpenStore(tmp_path / "s").open()
    await begin(store)
    move(store, 0)
    await store.store.durability.durable_to(store.store._commit_log.append_offset)
    store.store._consumer_offsets.reset([(progress_of(store), 0)], lease_floor=1)
    kill(store.store)
    async with OpenStore(tmp_path / "s") as again:
        assert progress_of(again).reset_count == 1
        assert again.receive().bodies == [b"a", b"b", b"c"]


async def begin(store: OpenStore) -> None:
    """Three messages in ``t`` that group ``g`` has begun to read; an empty ``u``."""
    store.topic()
    store.topic("u")
    store.group()
    await store.put_bodies(b"a", b"b", b"c")
    store.receive(lease_ms=1_000)


def move(
    store: OpenStore, queue_offset: int, *, body: bytes | None = None, count: int = 1
) -> threading.Event:
    """Put a message of ``t`` into ``u`` instead; set when it has been moved."""
    offsets = store.store._consumer_offsets
    progress = progress_of(store)
    content = b"abc"[queue_offset : queue_offset + 1] if body is None else body
    value = settles_value(settles_for(progress, queue_offset))
    record = encode_record(with_property(message(content, topic="u"), value))
    moved = threading.Event()
    Mover(store.store._engine_puts, offsets).move(
        [Move(record, progress, queue_offset)] * count, moved.set
    )
    return moved


def progress_of(store: OpenStore) -> Progress:
    progress = store.store._consumer_offsets.find("g", "t", 0)
    assert progress is not None
    return progress


def consumer_offset(store: OpenStore) -> int:
    return progress_of(store).consumer_offset


def u_bodies(store: OpenStore) -> list[bytes]:
    request = PullRequest(topic="u", queue_id=0, queue_offset=0, messages_max=10, bytes_max=1 << 20)
    _, found = store.store.pull(request)
    return [record.body for record in decode_records(store.store.read_records(found))]


def with_property(plain: StoreMessage, value: str) -> StoreMessage:
    return msgspec.structs.replace(plain, properties={PROPERTY_SETTLES: value})
