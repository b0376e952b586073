"""A store goes into a replicated log, to another machine, and back to one machine: real processes.

engine alone ──▶ with a log ──▶ an empty disk takes over ──▶ detached into an empty directory
and everything that a store can have is there each time; the segments have the same bytes
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from storage_engine.client import (
    SCHEDULE_TOPIC,
    DeadLettersReply,
    DeadLettersRequest,
    Durability,
    GroupConfig,
    GroupStats,
    GroupStatsRequest,
    LeaseRef,
    Nack,
    PullRequest,
    ReceiveRequest,
    ScheduledListRequest,
    SettleRequest,
    StoreClient,
    TopicConfig,
    TopicRef,
    TopicStats,
    Wait,
    encode_record,
)
from storage_engine.disk.layout import COMMIT_LOG_DIR, base_offsets_in
from storage_engine.reader import find_extent
from storage_engine.tools.verify.verification import Verification
from tests.engine import fork_program
from tests.sizes import sized
from tests.storage_engine.dedup.test_idempotent_puts import marked
from tests.storage_engine.doubles import message
from tests.storage_engine.engines import END_WAIT_S, READY_TRIES
from tests.storage_engine.replication.takeovers import Shard

KILLS: Final = sized(1, torture=25)  # of the first upload, and of each download
BODIES: Final = [b"%d " % number * 400 for number in range(500)]  # some twenty segments
HOUR_MS: Final = 3_600_000
RETAINING: Final = {
    "MQ_ENGINE_RETENTION_BYTES": "524288",
    "MQ_ENGINE_RETENTION_INTERVAL_MS": "50",
}


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(READY_TRIES):
        if condition():
            return
        threading.Event().wait(0.02)
    raise AssertionError("it has not come")


class Facts(NamedTuple):
    """What clients can ask of a store."""

    topics: dict[str, TopicStats]
    groups: dict[str, GroupStats]
    dead_letters: DeadLettersReply
    scheduled: list[bytes]
    bodies: list[bytes]


def facts_of(client: StoreClient) -> Facts:
    topics = sorted(each.topic for each in client.topic_list().topics)
    groups = sorted(each.group for each in client.group_list().groups)
    _, waiting = client.scheduled_list(
        ScheduledListRequest(topic="t", messages_max=100, bytes_max=1 << 20)
    )
    stats = client.topic_stats(TopicRef(topic="t")).queues[0]
    bodies: list[bytes] = []
    at = stats.min_offset
    while at < stats.max_offset:
        head, records = client.pull(
            PullRequest(
                topic="t", queue_id=0, queue_offset=at, messages_max=1_000, bytes_max=1 << 20
            )
        )
        bodies += [each.body for each in records]
        at = head.next_offset
    return Facts(
        {name: client.topic_stats(TopicRef(topic=name)) for name in topics},
        {name: client.group_stats(GroupStatsRequest(group=name)) for name in groups},
        client.dead_letters(DeadLettersRequest(groups=groups)),
        [each.body for each in waiting],
        bodies,
    )


def fill(client: StoreClient, store: Path) -> None:
    """Messages, settles, a retry, a dead letter, a schedule, a key, and a topic that is deleted."""
    for name in ("t", "other", "jobs", "gone"):
        client.topic_put(TopicConfig(topic=name, queue_count=1))
    for name in ("g", "h"):
        client.group_put(GroupConfig(group=name))
    client.put([encode_record(message(b"of a topic that goes", topic="gone"))])
    client.topic_delete(TopicRef(topic="gone"))
    for body in BODIES:
        client.put([encode_record(message(body))])
    wait_until(lambda: base_offsets_in(store / COMMIT_LOG_DIR)[0] > 0)  # retention
    # At the end of the log, where nothing expires while they are moved.
    client.put([encode_record(message(b"%d" % number, topic="jobs")) for number in range(10)])
    got = client.receive(
        ReceiveRequest(
            group="g", topic="jobs", member_id="m", messages_max=10, bytes_max=1 << 20, wait_ms=0,
            lease_ms=60_000,
        )
    )  # fmt: skip
    generation, offsets = got.head.lease_generation, [each.queue_offset for each in got.records]

    def nack(offset: int, *, is_dead: bool) -> Nack:
        return Nack(
            topic="jobs", queue_id=0, lease_generation=generation, queue_offset=offset,
            delay_ms=None if is_dead else HOUR_MS, is_dead=is_dead,
        )  # fmt: skip

    acked = LeaseRef(
        topic="jobs", queue_id=0, lease_generation=generation, queue_offsets=offsets[2:]
    )
    nacks = [nack(offsets[0], is_dead=False), nack(offsets[1], is_dead=True)]
    reply = client.settle(SettleRequest(group="g", acks=[acked], nacks=nacks))
    assert reply.failures == []
    letters = DeadLettersRequest(groups=["g"])
    wait_until(lambda: client.dead_letters(letters).counts[0].count == 1)
    schedule = TopicRef(topic=SCHEDULE_TOPIC)
    wait_until(lambda: any(each.max_offset for each in client.topic_stats(schedule).queues))
    client.put_once([marked("key", topic="other")])
    client.put_once([marked("later", b"later", wait=Wait(delay_ms=HOUR_MS))])


def segments_of(store: Path, end_offset: int) -> dict[int, str]:
    """The SHA-256 of each, up to an offset."""
    found: dict[int, str] = {}
    for base in base_offsets_in(store / COMMIT_LOG_DIR):
        content = (store / COMMIT_LOG_DIR / f"{base:020}").read_bytes()[: end_offset - base]
        if base < end_offset:
            found[base] = hashlib.sha256(content).hexdigest()
    return found


def findings_of(store: Path) -> list[str]:
    check = Verification(store, index_slots=64)
    for _ in check.run():
        pass
    return [each.kind for each in check.report.findings]


def detach(shard: Shard, store: Path, *, killed_after_s: float | None = None) -> None:
    process = fork_program(
        "storage_engine.tools.detach", str(store),
        environ=shard._environment, directory=shard.directory, log=shard.log,
    )  # fmt: skip
    try:
        code = process.wait(killed_after_s or END_WAIT_S)
    except subprocess.TimeoutExpired:
        assert killed_after_s is not None
        process.kill()
        process.wait(END_WAIT_S)
    else:
        assert code == 0


@pytest.mark.sized
def test_a_store_goes_to_another_machine_and_back_with_the_same_bytes(tmp_path: Path) -> None:
    shard = Shard(**RETAINING)
    log_url = shard._environment.pop("MQ_ENGINE_REPLICATED_LOG")
    with shard:
        with shard.client() as client:
            fill(client, shard.store_dir)
        for name in RETAINING:
            del shard._environment[name]
        assert shard.stop() == 0
        shard.start()
        with shard.client() as client:
            facts = facts_of(client)
        assert shard.stop() == 0
        assert facts.scheduled == [b"later"]
        assert "%RETRY%g" in facts.topics, sorted(facts.topics)
        assert sum(each.count for each in facts.dead_letters.counts) == 1
        assert facts.bodies[-1] == BODIES[-1]
        end_offset = find_extent(shard.store_dir).end_offset
        segments = segments_of(shard.store_dir, end_offset)
        assert min(segments) > 0
        assert findings_of(shard.store_dir) == []

        # Into the log. An engine killed during the upload continues it at its next start.
        shard._environment["MQ_ENGINE_REPLICATED_LOG"] = log_url
        for number in range(KILLS):
            starting = shard.launch()
            with contextlib.suppress(subprocess.TimeoutExpired):
                starting.wait(0.05 + 0.02 * number)
            starting.kill()
            starting.wait(END_WAIT_S)
        shard.start()
        with shard.client() as client:
            assert facts_of(client) == facts
            client.topic_put(
                TopicConfig(topic="new", queue_count=1, durability=Durability.REPLICATED)
            )
            assert client.put([encode_record(message(b"new", topic="new"))])[0].error is None
        assert shard.stop() == 0
        assert findings_of(shard.store_dir) == []
        shard.replica_dir = tmp_path / "second"
        shard.hand_to_replica()
        shard.start()
        with shard.client() as client:
            moved = facts_of(client)
        assert set(moved.topics) - set(facts.topics) == {"new"}
        assert moved._replace(topics={}) == facts._replace(topics={})
        assert shard.stop() == 0
        assert segments_of(shard.store_dir, end_offset) == segments
        assert findings_of(shard.store_dir) == []

        # And back: into an empty directory, as on a new machine.
        home = tmp_path / "home"
        for number in range(KILLS):
            detach(shard, home, killed_after_s=0.05 + 0.02 * number)
        detach(shard, home)
        assert segments_of(home, end_offset) == segments
        assert findings_of(home) == []
        code, said = shard.run_to_end()
        assert code == 4
        assert "the shard left this replicated log" in said[-1]
        shard.replica_dir = home
        shard.hand_to_replica()
        del shard._environment["MQ_ENGINE_REPLICATED_LOG"]
        shard.start()
        with shard.client() as client:
            assert facts_of(client) == moved
            assert client.put_once([marked("key", topic="other")])[0].is_duplicate
            assert client.put([encode_record(message(b"more", topic="new"))])[0].error is None
            assert {each.durability for each in client.topic_list().topics} == {Durability.SYNC}
        assert shard.stop() == 0
        assert segments_of(home, end_offset) == segments
        assert findings_of(home) == []
