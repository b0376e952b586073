"""What groups had settled, across restarts, power cuts and kills at every file operation."""

from __future__ import annotations

import shutil
from pathlib import Path

from storage_engine.wire.deliveries import LeaseRef, SettleRequest
from storage_engine.wire.topics import Durability
from tests.storage_engine.doubles import (
    SEGMENT_BYTES,
    FaultyFiles,
    Killed,
    OpenStore,
    copy_store,
    fingerprint,
)
from tests.storage_engine.recovering import BODIES, filled, poke, pulled

QUEUE_ID_AT = 12  # in a record


async def test_a_power_cut_of_an_async_topic_never_skips_what_comes_next(tmp_path: Path) -> None:
    """The log lost its tail but the journal kept its acks: new messages get those offsets."""
    running = await filled(tmp_path / "s", [])
    running.topic("t", queues=2, durability=Durability.ASYNC)
    await running.put_bodies(b"kept", queue_id=0)
    cut = running.store.stats(0).append_offset
    await running.put_bodies(b"lost", b"lost too", queue_id=0)
    running.ack(running.receive())
    copy = copy_store(tmp_path / "s", tmp_path / "copy")
    await running.close()
    poke(copy, cut, bytes(SEGMENT_BYTES))
    async with OpenStore(copy) as store:
        await store.put_bodies(b"new", b"newer", queue_id=0)
        assert store.receive().bodies == [b"new", b"newer"]


async def test_messages_behind_many_settled_ones_are_received_at_once_after_a_restart(
    tmp_path: Path,
) -> None:
    running = await filled(tmp_path / "s", [])
    await running.put_bodies(*[b"%d" % i for i in range(10)], queue_id=0)
    leased = running.receive()
    running.ack(leased, *range(1, 9))
    await running.close()
    async with OpenStore(tmp_path / "s") as store:
        assert store.receive(1).bodies == [b"0"]
        assert store.receive(1).bodies == [b"9"]


async def test_receipts_settle_across_a_restart_and_never_twice(tmp_path: Path) -> None:
    running = await filled(tmp_path / "s", BODIES[:4])
    leased = running.receive()
    running.ack(leased, 0)
    await running.close()
    async with OpenStore(tmp_path / "s") as store:
        again = store.receive(1)
        assert [(r.queue_id, r.queue_offset) for r in again.records] in ([(0, 1)], [(1, 1)])
        taken = again.records[0].queue_id
        reply = store.store.consumption.settle(
            SettleRequest(
                group="g",
                acks=[
                    LeaseRef(
                        topic="t",
                        queue_id=queue_id,
                        lease_generation=leased.generation,
                        queue_offsets=[1],
                    )
                    for queue_id in (0, 1)
                ],
            )
        )
        assert reply.acked_count == 1
        assert [failure.queue_id for failure in reply.failures] == [taken]


async def test_a_kill_at_every_file_operation_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """Puts, acks, rolls and a checkpoint, killed before each change of a file."""
    for kill_at in range(200):
        directory = tmp_path / f"{kill_at}"
        acknowledged, acked, finished = await _run_until_killed(directory, kill_at)
        async with OpenStore(directory) as store:
            if (directory / "config" / "topics.json").exists():
                assert store.pull_bodies()[: len(acknowledged)] == acknowledged
            if acknowledged:
                store.group()
                remaining = store.receive(1_000).bodies
                assert not set(remaining) & acked
                assert set(acknowledged) - acked <= set(remaining)
        shutil.rmtree(directory)
        if finished:
            break
    assert finished
    assert kill_at > 20


async def _run_until_killed(directory: Path, kill_at: int) -> tuple[list[bytes], set[bytes], bool]:
    files = FaultyFiles()
    files.kill_at = kill_at
    store = OpenStore(directory, files=files)
    acknowledged: list[bytes] = []
    acked: set[bytes] = set()
    try:
        store.open()
        store.topic(durability=Durability.ASYNC)  # the sync is not what is cut here
        store.group()
        for index in range(9):
            body = b"%d" % index + bytes(900)
            await store.put_bodies(body)
            acknowledged.append(body)
            if index % 3 == 2:
                leased = store.receive(2)
                store.ack(leased)
                acked |= set(leased.bodies)
                await store.store.checkpoint()
    except Killed:
        store.store._lock.release()
        return acknowledged, acked, False
    await_close_is_not_killed = files.kill_at
    files.kill_at = None
    await store.close()
    return acknowledged, acked, bool(await_close_is_not_killed)


async def test_a_damaged_queue_id_takes_no_other_messages_place(tmp_path: Path) -> None:
    store_dir = tmp_path / "s"
    running = await filled(store_dir, [])
    for body in (b"hurt", b"good", b"more", b"better"):
        await running.put_bodies(body, queue_id=body in (b"good", b"better"))
    await running.close()
    for path in (store_dir / "consumequeue/t").rglob("0*"):
        if path.is_file():
            path.unlink()
    with (store_dir / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(QUEUE_ID_AT)
        file.write((1).to_bytes(4))
    async with OpenStore(store_dir) as store:
        assert store.pull_bodies(0, 1) == [b"more"]
        assert store.pull_bodies(1) == [b"good", b"better"]


async def test_a_rebuild_of_queues_that_a_power_cut_interrupted_is_begun_again(
    tmp_path: Path,
) -> None:
    running = await filled(tmp_path / "s")
    await running.close()
    queue_dir = Path("consumequeue/t/0")
    old = fingerprint(tmp_path / "s" / queue_dir)
    shutil.rmtree(tmp_path / "s" / queue_dir)
    interrupted_count = 0
    for kill_at in range(100):
        copy = copy_store(tmp_path / "s", tmp_path / f"copy{kill_at}")
        files = FaultyFiles()
        files.kill_at = kill_at
        try:
            await OpenStore(copy, files=files).open().close()
        except Killed:
            first = copy / queue_dir / f"{0:020d}"
            since = (
                files.operations[files.operations.index("create") : -1] if first.exists() else []
            )
            if since and "replace" not in since:  # the first checkpoint is not written yet
                # Its name is on the disk and its content not; of the others it is the reverse.
                for name, content in old.items():
                    (copy / queue_dir / name).write_bytes(content)
                first.write_bytes(bytes(len(old[first.name])))
                interrupted_count += 1
                async with OpenStore(copy) as store:
                    assert pulled(store) == BODIES
        else:
            break
    assert interrupted_count >= 3
