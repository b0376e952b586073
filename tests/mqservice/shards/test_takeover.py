"""A shard outlives its node: real nodes are killed, paused, cut off and told to hand over."""

from __future__ import annotations

import enum
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.mqservice.shards.machines import SHARD, WAIT_S, Installation, Machine, installation
from tests.services import wait_until
from tests.sizes import sized
from tests.storage_engine.kills.history_checker import anomalies
from tests.storage_engine.kills.kill_loop import await_acks, drain, working
from tests.storage_engine.kills.outcomes import History, Outcome
from tests.storage_engine.replication.takeovers import REPLICATED_QUEUES

pytestmark = [pytest.mark.timeout(1_200)]

ACKED_EACH = 20  # messages between two events
MANY = sized(3, torture=60)  # events
FOLLOWS_S = 60.0  # within which a former owner follows the next one
SHOWN_CHARS = 20_000  # of what a machine has said, after a failure


class Event(enum.StrEnum):
    KILLED = "killed"
    DISK_LOST = "disk_lost"
    PAUSED = "paused"
    STOPPED = "stopped"
    MOVED = "moved"


def cause(event: Event, shard: Installation, owner: Machine, other: Machine) -> None:
    if event is Event.MOVED:
        shard.move(other.name)
    elif event is Event.PAUSED:
        owner.send(signal.SIGSTOP)
    elif event is Event.STOPPED:
        assert owner.stop() == 0
    else:
        owner.kill()
        if event is Event.DISK_LOST:
            owner.wipe()


@pytest.fixture
def shard(test_dsn: str) -> Iterator[Installation]:
    """Two machines: ``a`` owns the shard, ``b`` follows it."""
    parts = conninfo_to_dict(test_dsn)
    url = "postgresql://{user}:{password}@{host}:{port}/{dbname}".format(**parts)
    with installation(url) as found:
        found.add("a", "MQ_SHARDS")
        found.add("b", "MQ_STANDBY")
        found.await_owner("a")
        found.await_replica("b")
        found.prepare()
        yield found


class Work:
    """Clients that work while things happen to the machines."""

    def __init__(self, shard: Installation, history: History) -> None:
        self.shard = shard
        self.history = history

    def go_on(self) -> None:
        """Until more messages were acknowledged."""
        count = self.history.count(Outcome.ACKED) + ACKED_EACH
        await_acks(self.history, count)
        assert self.history.count(Outcome.ACKED) >= count


@contextmanager
def at_work(shard: Installation) -> Iterator[Work]:
    """What was acknowledged inside is all there afterwards, at its place and in its order; a settle
    of the last moments may be lost with its machine.
    """
    history = History()
    try:
        with working(shard, history, random.Random(20_262), REPLICATED_QUEUES):
            work = Work(shard, history)
            work.go_on()
            yield work
            work.go_on()
    except BaseException:
        for machine in shard.machines.values():
            print(f"--- {machine.name}\n{machine.said[-SHOWN_CHARS:]}")
        raise
    drain(shard, history)
    assert [each for each in anomalies(history) if each[0] != "duplicate-after-ack"] == []
    acked = sorted(each.ended_ns for each in history.sends if each.outcome is Outcome.ACKED)
    gap_ns = max(later - earlier for earlier, later in pairwise(acked))
    print(f"{len(acked)} acknowledged, longest gap {gap_ns / 1e9:.2f} s")


@pytest.mark.torture
def test_each_node_tells_prometheus_whether_it_owns_the_shard(shard: Installation) -> None:
    a, b = shard.machines["a"], shard.machines["b"]
    of_owner, of_replica = a.metrics(), b.metrics()
    assert (of_owner["owns_shard"], of_owner["writable"]) == (1, 1)
    assert of_replica.keys() == {"owns_shard", "replica_behind_seconds"}
    assert of_replica["owns_shard"] == 0
    assert of_replica["replica_behind_seconds"] >= 0
    assert a.health() == (200, "ok")
    assert b.health() == (503, f"a replica of the shard {SHARD}, which takes no messages")
    assert a.stop() == 0
    shard.await_owner("b")
    assert b.metrics().keys() == of_owner.keys()
    assert (b.metrics()["owns_shard"], b.health()) == (1, (200, "ok"))


def test_a_shard_outlives_its_node_and_goes_back_when_told(shard: Installation) -> None:
    a, b = shard.machines["a"], shard.machines["b"]
    assert [each.metrics()["owns_shard"] for each in (a, b)] == [1, 0]
    assert [each.health()[0] for each in (a, b)] == [200, 503]
    with at_work(shard) as work:
        a.kill()
        shard.await_owner("b")
        work.go_on()
        a.start()
        shard.await_replica("a")
        assert "b owns it; this machine has a replica" in a.said
        shard.move("a")
        shard.await_owner("a")
        work.go_on()
        shard.await_replica("b")
    row = shard.row
    assert row is not None
    assert (row.epoch, row.move_to) == (3, "")
    found = shard.query(
        "SELECT actor, before, after, details FROM accounts_auditentry"
        " WHERE target = %s AND tenant_id IS NULL ORDER BY id DESC LIMIT 3",
        f"shards/{SHARD}",
    )
    assert [each[:3] for each in found] == [
        ("node:a", None, {"node": "a"}),  # b had given it up
        ("node:b", {"node": "a"}, {"node": "b"}),
        ("node:a", None, {"node": "a"}),
    ]
    reasons = [str(each[3]) for each in found]
    assert "it was moved here" in reasons[0]
    assert "nothing was heard of a" in reasons[1]


@pytest.mark.torture
@pytest.mark.sized
@pytest.mark.timeout(60 + 60 * MANY)
def test_many_events_lose_nothing(shard: Installation) -> None:
    """Kills, losses of the disk, pauses, orderly stops and planned hand-overs, as they come."""
    draw = random.Random(20_263)
    with at_work(shard) as work:
        for _ in range(MANY):
            owner = shard.machines[shard.owner()]
            (other,) = (each for each in shard.machines.values() if each is not owner)
            event = draw.choice(list(Event))
            print(f"{owner.name} is {event}")
            cause(event, shard, owner, other)
            shard.await_owner(other.name)
            work.go_on()
            if event is Event.PAUSED:
                owner.send(signal.SIGCONT)
            elif event is not Event.MOVED:
                owner.start()
            begun_s = time.monotonic()
            shard.await_replica(owner.name, WAIT_S if event is Event.DISK_LOST else FOLLOWS_S)
            print(f"{owner.name} follows after {time.monotonic() - begun_s:.1f} s")


@pytest.mark.torture
def test_an_owner_that_stood_still_is_deposed_and_becomes_a_standby(shard: Installation) -> None:
    a = shard.machines["a"]
    with at_work(shard) as work:
        a.send(signal.SIGSTOP)
        shard.await_owner("b")
        work.go_on()
        a.send(signal.SIGCONT)
        shard.await_replica("a")
        assert shard.owner() == "b"


@pytest.mark.torture
def test_while_the_database_is_away_nobody_takes_over_and_the_owner_serves_on(
    shard: Installation,
) -> None:
    a, b = shard.machines["a"], shard.machines["b"]
    with at_work(shard) as work:
        a.cut_off_from_database()
        wait_until(
            lambda: "cut off from the database, but serves it" in b.said, WAIT_S, "b has asked a"
        )
        work.go_on()
        assert shard.owner() == "a"
        engine = a.pids[-1]
        b.cut_off_from_database()
        a.send_to_engine(signal.SIGKILL)
        wait_until(lambda: engine not in a.pids, WAIT_S, "the engine is gone")
        work.go_on()  # it started again, and owns its shard without a word from the database
        for machine in (a, b):
            machine.reconnect_to_database()
        shard.await_replica("b")
        assert shard.owner() == "a"
