"""A start on a disk that is full to the last byte, with the reserve gone: all but puts goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.client import (
    DiskFull,
    GroupConfig,
    LeaseRef,
    ReceiveRequest,
    SettleRequest,
    StoreClient,
    StoreError,
    TopicConfig,
    encode_record,
)
from tests.services import wait_until
from tests.storage_engine.doubles import FaultyFiles, OpenStore, message
from tests.storage_engine.engines import Engine, pull_all
from tests.storage_engine.faults import machine

RESERVE = {"reserve_bytes": 4_096}


def full_files() -> FaultyFiles:
    files = FaultyFiles()
    files.full = {"replace", "create", "allocate"}
    files.disk = (1 << 20, 0)
    return files


async def test_a_start_without_any_room_reads_settles_and_heals(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits=RESERVE) as store:
        store.topic()
        store.group()
        await store.put_bodies(b"one", b"two")
        assert store.receive(1).bodies == [b"one"]
    (tmp_path / "s" / "reserve").unlink()
    files = full_files()
    store = OpenStore(tmp_path / "s", files=files, limits=RESERVE).open()
    assert store.pull_bodies() == [b"one", b"two"]
    assert store.ack(store.receive(1)).acked_count == 1
    with pytest.raises(DiskFull):
        store.start_put([message(b"refused")])
    with pytest.raises(DiskFull):
        await store.store.checkpoint()
    files.full, files.disk = set(), (1 << 40, 1 << 40)
    store.store.disk.measure()
    await store.put_bodies(b"three")
    await store.store.checkpoint()
    assert (tmp_path / "s" / "abort").exists()
    await store.close()
    async with OpenStore(tmp_path / "s", limits=RESERVE) as again:
        assert again.receive().bodies == [b"two", b"three"]


async def test_each_start_without_any_room_is_a_run_of_its_own(tmp_path: Path) -> None:
    epochs = []
    for files in (FaultyFiles(), full_files(), full_files(), FaultyFiles()):
        async with OpenStore(tmp_path / "s", files=files, limits=RESERVE) as store:
            epochs.append(store.store.epoch)
    assert epochs == sorted(set(epochs))


def receive(client: StoreClient, wait_ms: int = 5_000) -> tuple[LeaseRef, list[bytes]]:
    got = client.receive(
        ReceiveRequest(
            group="g", topic="t", member_id="m", messages_max=5, bytes_max=1 << 20,
            wait_ms=wait_ms, lease_ms=30_000,
        )
    )  # fmt: skip
    offsets = [record.queue_offset for record in got.records]
    generation = got.head.lease_generation
    ref = LeaseRef(topic="t", queue_id=0, lease_generation=generation, queue_offsets=offsets)
    return ref, [record.body for record in got.records]


def fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="28"):
        while True:
            file.write(bytes(4_096))


def test_an_engine_starts_on_a_disk_that_is_really_full(tmp_path: Path) -> None:
    machine.need_mounts()
    with (
        machine.tmpfs(3 * machine.MIB) as disk,
        Engine(
            MQ_ENGINE_STORE_DIR=str(disk / "store"),
            MQ_ENGINE_RESERVE_BYTES="262144",
            MQ_ENGINE_PREPARE_SEGMENTS="0",  # else a start finds the room of the next segment
        ) as engine,
    ):
        with engine.client() as client:
            client.topic_put(TopicConfig(topic="t", queue_count=1))
            client.group_put(GroupConfig(group="g"))
            record = [encode_record(message(b"m" * 5_000))]
            for _ in range(20):
                client.put(record)
            assert len(receive(client)[1]) == 5
            client.checkpoint()
            client.put(record)  # no checkpoint counts it
        engine.kill()
        (disk / "store" / "reserve").unlink()
        (disk / "store" / "spare").unlink(missing_ok=True)
        fill(disk / "ballast")
        for _ in range(2):
            engine.start()
            with engine.client() as client:
                assert len(pull_all(client, 0)) == 21
                ref, bodies = receive(client)
                assert len(bodies) == 5
                reply = client.settle(SettleRequest(group="g", acks=[ref]))
                assert (reply.acked_count, reply.failures) == (5, [])
                with pytest.raises(DiskFull) as refused:
                    client.put(record)
                assert refused.value.stored is False
            engine.kill()
        engine.start()
        (disk / "ballast").unlink()
        with engine.client() as client:
            wait_until(lambda: is_put(client, record), 20, "puts are taken again")
            client.checkpoint()
            assert len(pull_all(client, 0)) == 22
        engine.kill()
        engine.start()
        with engine.client() as client:
            left = 0
            while bodies := receive(client, wait_ms=200)[1]:
                left += len(bodies)
            assert left == 22 - 10


def is_put(client: StoreClient, record: list[bytes]) -> bool:
    try:
        client.put(record)
    except StoreError:
        return False
    return True
