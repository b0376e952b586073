"""A node whose clock is an hour off takes a shard over from one whose clock is right, and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.config import HOUR_MS, SECOND_MS
from storage_engine.records.record_run import decode_records
from storage_engine.wire.reads import PullRequest
from tests.storage_engine.dedup.test_idempotent_puts import marked, put_once
from tests.storage_engine.replicated_log.memory_log import SharedLog
from tests.storage_engine.replication.nodes import Node
from tests.storage_engine.schedule.delaying import delayed, put_delayed

LEASE_MS = 30 * SECOND_MS
DELAY_MS = 1_800 * SECOND_MS


class Cluster:
    """Three machines; the clock of the second is ``off_ms`` ahead, and each has its own uptime."""

    def __init__(self, tmp_path: Path, off_ms: int) -> None:
        self.shared = SharedLog()
        self._path = tmp_path
        self._off_ms = [0, off_ms, 0]
        self._passed_ms = 0
        self._count = 0

    def node(self) -> Node:
        """The next machine, now."""
        node = Node(self._path / str(self._count), self.shared)
        node.clock.wall_ms += self._off_ms[self._count] + self._passed_ms
        node.clock.steady_ms = 7 + HOUR_MS * self._count
        node.files.medium = f"machine-{self._count}"
        self._count += 1
        return node

    def let_pass(self, node: Node, by_ms: int) -> None:
        node.clock.advance(by_ms)
        self._passed_ms += by_ms


def store_times(node: Node) -> list[int]:
    """When the messages of the queue were stored, in its order."""
    request = PullRequest(
        topic="t", queue_id=0, queue_offset=0, messages_max=100, bytes_max=1 << 20
    )
    _, found = node.open.store.pull(request)
    return [each.store_timestamp_ms for each in decode_records(node.open.store.read_records(found))]


async def delivered(node: Node) -> list[bytes]:
    """All bodies in the topic after everything that is due now has arrived."""
    await node.open.settled()
    await node.replicated()
    return node.open.pull_bodies()


@pytest.mark.parametrize("off_ms", [-HOUR_MS, HOUR_MS])
async def test_a_takeover_loses_nothing_and_leases_and_receipts_are_good(
    tmp_path: Path, off_ms: int
) -> None:
    cluster = Cluster(tmp_path, off_ms)
    first = await cluster.node().own()
    first.topic()
    first.open.group()
    await first.open.put_bodies(b"acked", b"leased")
    leased = first.open.receive()
    await first.replicated()
    await first.kill()

    second = await cluster.node().own()
    assert second.replication.epoch > first.replication.epoch
    reply = second.open.ack(leased, 0)
    assert (reply.acked_count, reply.failures) == (1, []), "a receipt of the owner before"
    await second.open.put_bodies(b"second")
    taken = second.open.receive(lease_ms=LEASE_MS)
    assert (taken.bodies, taken.attempts) == ([b"leased", b"second"], [1, 1])
    cluster.let_pass(second, LEASE_MS - 1)
    await second.open.settled()
    assert second.open.receive().bodies == []
    assert second.open.ack(taken, 1).acked_count == 1
    await second.replicated()
    await second.kill()

    third = await cluster.node().own()
    assert third.replication.epoch > second.replication.epoch
    await third.open.put_bodies(b"third")
    assert third.open.receive(lease_ms=LEASE_MS).bodies == [b"second", b"third"]
    assert third.open.pull_bodies() == [b"acked", b"leased", b"second", b"third"]
    times = store_times(third)
    assert times == sorted(times)
    await third.stop()


@pytest.mark.parametrize("off_ms", [-HOUR_MS, HOUR_MS])
async def test_a_delay_is_no_longer_than_asked_for_from_the_takeover_on(
    tmp_path: Path, off_ms: int
) -> None:
    cluster = Cluster(tmp_path, off_ms)
    first = await cluster.node().own()
    first.topic()
    await put_delayed(first.open, delayed(b"later", delay_ms=DELAY_MS))
    await first.replicated()
    await first.kill()

    second = await cluster.node().own()
    is_ahead = off_ms > 0
    assert await delivered(second) == ([b"later"] if is_ahead else [])
    await put_delayed(second.open, delayed(b"new", 1, delay_ms=DELAY_MS))
    cluster.let_pass(second, DELAY_MS - 2)
    assert b"new" not in await delivered(second)
    cluster.let_pass(second, 2)
    assert await delivered(second) == [b"later", b"new"]
    await second.stop()


@pytest.mark.parametrize(("off_ms", "is_known"), [(-HOUR_MS, True), (HOUR_MS, False)])
async def test_a_clock_ahead_ends_windows_of_idempotency_keys_early(
    tmp_path: Path, off_ms: int, is_known: bool
) -> None:
    cluster = Cluster(tmp_path, off_ms)
    first = await cluster.node().own()
    first.topic()
    await put_once(first.open, marked("k"))
    await first.replicated()
    await first.kill()
    second = await cluster.node().own()
    assert (await put_once(second.open, marked("k")))[0].is_duplicate == is_known
    await second.stop()
