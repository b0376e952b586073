"""A replica that fills its consume queues while it follows: a takeover reads only the log's end."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from storage_engine.clock import SystemClock
from storage_engine.disk.files import Files
from storage_engine.disk.layout import CHECKPOINT_FILE, CONSUME_QUEUE_DIR
from storage_engine.log.checkpoint import read_checkpoint
from storage_engine.recovery.warm_replica import WarmReplica
from storage_engine.replication.follower import Follower
from tests.storage_engine.doubles import ManualClock, tiny_config
from tests.storage_engine.replicated_log.memory_log import MemoryLog, SharedLog
from tests.storage_engine.replication.nodes import Node
from tests.storage_engine.tools.test_backup import serious_findings

ROUNDS = 5


class Standby:
    """A replica, and what it derives."""

    def __init__(self, store_dir: Path, shared: SharedLog) -> None:
        self.store_dir = store_dir
        clock = ManualClock()
        self.derived = WarmReplica(tiny_config(store_dir), Files(), clock)
        log = MemoryLog(shared, SystemClock())
        self.follower = Follower(log, None, store_dir, Files(), self.derived)

    async def read_on(self) -> None:
        await self.follower.read_on()
        await self.follower.flush()

    @property
    def dispatched_offset(self) -> int:
        found = read_checkpoint(self.store_dir / CHECKPOINT_FILE)
        return 0 if found is None else found.dispatched_offset


async def work(owner: Node, number: int) -> None:
    """Some messages, some settled, and a checkpoint that the log has."""
    bodies = [b"%d-%d" % (number, each) * 100 for each in range(10)]
    await owner.open.put_bodies(*bodies)
    owner.open.ack(owner.open.receive(count=3))
    await owner.open.store.checkpoint()
    await owner.replicated()


async def shard(tmp_path: Path) -> tuple[SharedLog, Node]:
    shared = SharedLog()
    owner = await Node(tmp_path / "a", shared).own()
    owner.topic()
    owner.open.group()
    return shared, owner


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_who_takes_over_reads_the_log_from_the_last_checkpoint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_restarted: bool
) -> None:
    caplog.set_level(logging.INFO)
    shared, owner = await shard(tmp_path)
    standby = Standby(tmp_path / "b", shared)
    for number in range(ROUNDS):
        await work(owner, number)
        await standby.read_on()
        if is_restarted:
            standby.derived.close()
            standby = Standby(tmp_path / "b", shared)
    bodies = owner.open.pull_bodies()
    settled = owner.open.consumer_offset()
    assert standby.dispatched_offset == owner.open.store.stats(0).append_offset
    standby.derived.close()
    await owner.kill()
    heir = Node(tmp_path / "b", shared)
    await heir.own()
    opened = [each for each in caplog.records if vars(each).get("action") == "store_opened"]
    assert vars(opened[-1])["recovered_count"] == 0
    assert heir.open.pull_bodies() == bodies
    assert heir.open.consumer_offset() == settled
    await heir.stop()
    assert serious_findings(tmp_path / "b") == []


async def test_queues_that_do_not_fit_are_filled_again_from_the_log(tmp_path: Path) -> None:
    shared, owner = await shard(tmp_path)
    standby = Standby(tmp_path / "b", shared)
    await work(owner, 0)
    await standby.read_on()
    standby.derived.close()
    for path in (tmp_path / "b" / CONSUME_QUEUE_DIR / "t" / "0").iterdir():
        path.unlink()
    standby = Standby(tmp_path / "b", shared)
    await work(owner, 1)
    await standby.read_on()
    mark = read_checkpoint(tmp_path / "b" / CHECKPOINT_FILE)
    owners = read_checkpoint(tmp_path / "a" / CHECKPOINT_FILE)
    assert mark is not None
    assert owners is not None
    assert (mark.dispatched_offset, mark.unit_count) == (
        owners.dispatched_offset,
        owners.unit_count,
    )
    standby.derived.close()
    await owner.stop()
