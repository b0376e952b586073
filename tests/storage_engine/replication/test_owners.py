"""Real processes that own, follow and take over a shard, with its log in a directory."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from storage_engine.client import (
    Durability,
    OutcomeUnknown,
    PullRequest,
    StoreClient,
    StoreError,
    StoreMessage,
    TopicConfig,
    encode_record,
    new_message_id,
)
from tests.sizes import IS_TORTURE, sized
from tests.storage_engine.engines import END_WAIT_S, pull_all
from tests.storage_engine.kills.outcomes import Outcome
from tests.storage_engine.replication.takeovers import Shard, broken_promises, run_takeovers

SEED = 20_261
ACKED_EACH = 11
EXIT_NOT_LEADER = 5


def record(body: bytes, topic: str = "t") -> bytes:
    return encode_record(
        StoreMessage(
            topic=topic, queue_id=0, body=body, message_id=new_message_id(),
            born_timestamp_ms=1_700_000_000_000, born_host=("127.0.0.1", 1),
        )
    )  # fmt: skip


def put(client: StoreClient, body: bytes, topic: str = "t") -> None:
    (result,) = client.put([record(body, topic)])
    assert result.error is None


@pytest.mark.sized
def test_no_acknowledged_message_is_lost_with_its_host() -> None:
    count = sized(2, torture=100)
    history, _ = run_takeovers(count, seed=SEED, acked_each=ACKED_EACH, is_patient=IS_TORTURE)
    assert broken_promises(history) == []
    assert history.count(Outcome.ACKED) >= ACKED_EACH * count


def test_a_replica_takes_over_and_the_same_messages_are_there() -> None:
    with Shard() as shard:
        with shard.client() as client:
            client.topic_put(
                TopicConfig(topic="t", queue_count=1, durability=Durability.REPLICATED)
            )
            for number in range(20):
                put(client, b"%d" % number)
        shard.follow()
        shard.kill()
        shard.hand_to_replica()
        shard.start()
        with shard.client() as client:
            assert pull_all(client, 0) == [b"%d" % number for number in range(20)]
            put(client, b"more")


def test_a_machine_with_an_empty_disk_begins_with_a_snapshot() -> None:
    with Shard() as shard:
        bodies: list[bytes] = []
        with shard.client() as client:
            client.topic_put(
                TopicConfig(topic="t", queue_count=1, durability=Durability.REPLICATED)
            )
            while shard.logged("snapshot_made") < 4:  # one more than are kept
                bodies.append(b"%d" % len(bodies))
                put(client, bodies[-1])
            put(client, b"behind it")
        shard.kill()
        shard.hand_to_replica()
        shard.start()
        assert shard.logged("snapshot_restored") == 1
        with shard.client() as client:
            assert pull_all(client, 0) == [*bodies, b"behind it"]


def test_a_replica_stops_in_order_and_goes_on() -> None:
    with Shard() as shard:
        with shard.client() as client:
            client.topic_put(
                TopicConfig(topic="t", queue_count=1, durability=Durability.REPLICATED)
            )
            put(client, b"one")
            shard.follow()
            put(client, b"two")
            assert shard.end_replica(signal.SIGTERM) in (0, -signal.SIGTERM)
        shard.kill()
        shard.hand_to_replica()
        shard.start()
        with shard.client() as client:
            assert pull_all(client, 0) == [b"one", b"two"]


def test_an_owner_that_stood_still_while_another_took_over_acknowledges_nothing() -> None:
    """Its puts and settles came before it knew, and it answers none of them."""
    with Shard() as shard:
        with shard.client() as client:
            client.topic_put(
                TopicConfig(topic="t", queue_count=1, durability=Durability.REPLICATED)
            )
            client.topic_put(TopicConfig(topic="s", queue_count=1))
            client.topic_put(TopicConfig(topic="a", queue_count=1, durability=Durability.ASYNC))
            put(client, b"one")
        shard.follow()
        clients = {topic: shard.client() for topic in "tsa"}
        for client in clients.values():
            client.ping()
        deposed, pid = shard._process, shard.pid
        assert deposed is not None
        os.kill(pid, signal.SIGSTOP)
        outcomes: dict[str, StoreError | None] = {}

        def put_late(topic: str) -> None:
            try:
                put(clients[topic], b"late", topic)
            except StoreError as exc:
                outcomes[topic] = exc
            else:
                outcomes[topic] = None

        late = [threading.Thread(target=put_late, args=(topic,)) for topic in clients]
        for thread in late:
            thread.start()
        threading.Event().wait(2.5)  # longer than an owner may be silent
        shard.hand_to_replica(is_wiped=False)
        shard.socket = shard._environment["MQ_ENGINE_SOCKET"] = str(shard.directory / "s2")
        shard._process = None
        shard.start()
        os.kill(pid, signal.SIGCONT)
        for thread in late:
            thread.join()
        assert deposed.wait(END_WAIT_S) == EXIT_NOT_LEADER
        assert sorted(outcomes) == ["a", "s", "t"]
        for error in outcomes.values():
            assert isinstance(error, StoreError)
            assert error.stored is not True
        assert "another engine has taken over" in shard.log.read_text()
        with shard.client() as client:
            assert pull_all(client, 0) == [b"one"]
        for client in clients.values():
            client.close()


def test_a_store_that_is_cut_off_serves_what_is_not_replicated_and_heals() -> None:
    with Shard(MQ_ENGINE_REPLICATION_TIMEOUT_MS="500") as shard, shard.client() as client:
        client.topic_put(TopicConfig(topic="t", queue_count=1, durability=Durability.REPLICATED))
        client.topic_put(TopicConfig(topic="s", queue_count=1))
        put(client, b"before")
        away = shard.log_dir.with_name("away")
        shard.log_dir.rename(away)
        with pytest.raises(OutcomeUnknown, match="replicated log"):
            put(client, b"unknown")
        (refused,) = client.put([record(b"refused")])
        assert refused.error is not None
        assert refused.error.stored is False
        put(client, b"sync", "s")
        away.rename(shard.log_dir)
        pause = threading.Event()
        for _ in range(200):
            (result,) = client.put([record(b"after")])
            if result.error is None:
                break
            pause.wait(0.05)
        bodies = pull_all(client, 0)
        assert bodies == [b"before", b"unknown", b"after"]
        head, _ = client.pull(
            PullRequest(topic="s", queue_id=0, queue_offset=0, messages_max=10, bytes_max=1 << 20)
        )
        assert head.max_offset == 1
