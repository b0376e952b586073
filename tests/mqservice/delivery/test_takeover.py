"""Requests and sockets while another engine takes the shard over: they wait, and lose nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx

from mqservice.store import (
    AsyncStoreClient,
    ClientConfig,
    Durability,
    GroupConfig,
    TopicConfig,
)
from tests.mqservice.delivery.peers import Peer
from tests.mqservice.delivery.serving import PATIENT, Server, serving
from tests.mqservice.delivery.wait_until import wait_until
from tests.storage_engine.replication.takeovers import Shard

HOUR_MS = 3_600_000
# However long this machine takes to start an engine.
ANY_TIME = ClientConfig(hold_ms_max=HOUR_MS, hold_outage_ms_max=HOUR_MS)
MESSAGES = "/v1/-/topics/t/messages"
RECEIVE = "/v1/-/topics/t/groups/billing:receive"


def make_topic(server: Server, shard: Shard) -> None:
    """Topic ``t`` with a group, both of which the log has: it has a message that came later."""
    server.group("billing")
    with shard.client() as client:
        client.group_put(GroupConfig(group="acme%billing"))
        for name in "tu":
            server.topic(name, queue_count=1, durability="replicated")
            client.topic_put(
                TopicConfig(topic=f"acme%{name}", queue_count=1, durability=Durability.REPLICATED)
            )
    with server.client() as api:
        stored = api.post("/v1/-/topics/u/messages", json={"body": "later"})
        assert (stored.status_code, stored.json()["durability"]) == (201, "replicated")


def test_requests_and_sockets_wait_for_the_engine_that_takes_over() -> None:
    with Shard() as shard:
        store = AsyncStoreClient(shard.socket, client_name="test", config=ANY_TIME)
        with serving(store, PATIENT) as server:
            server.call(store.start)
            wait_until(lambda: store.is_connected)
            make_topic(server, shard)
            with server.client() as api, Peer(server) as producer, Peer(server) as consumer:
                consumer.ask("sub", sid=1, topic="t", group="billing")
                assert api.post(MESSAGES, json={"body": "before"}).status_code == 201
                _take(consumer, {"before"})
                _play_takeover(shard, store, server, api, producer)
                _take(consumer, {"rest", "socket"})


def _take(consumer: Peer, bodies: set[str]) -> None:
    """Until these have come; all that comes is acked, what was acked last may come again."""
    while bodies:
        messages = consumer.take(1)
        consumer.send("ack", sid=1, t=[message["t"] for message in messages])
        bodies -= {consumer.body(message).decode() for message in messages}


def _play_takeover(
    shard: Shard, store: AsyncStoreClient, server: Server, api: httpx.Client, producer: Peer
) -> None:
    """Kill the owner and wipe its disk; messages ``rest`` and ``socket`` are sent meanwhile."""
    shard.follow()
    shard.kill()
    wait_until(lambda: not store.is_connected)
    with ThreadPoolExecutor(1) as pool:
        posted = pool.submit(api.post, MESSAGES, json={"body": "rest"})
        producer.send("pub", id=7, topic="t", m=[{"body": "socket"}])
        wait_until(lambda: server.call(lambda: len(store._held)) >= 2)
        assert not posted.done()
        shard.hand_to_replica()
        shard.start()
        response = posted.result()
    assert (response.status_code, response.json()["durability"]) == (201, "replicated")
    told = producer.answer(7)
    assert told["op"] == "ok", told


def test_a_receive_that_waits_gets_what_comes_after_the_takeover() -> None:
    with Shard() as shard:
        store = AsyncStoreClient(shard.socket, client_name="test", config=ANY_TIME)
        with serving(store, PATIENT) as server:
            server.call(store.start)
            wait_until(lambda: store.is_connected)
            make_topic(server, shard)
            with server.client() as api, server.client() as other, ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(other.post, RECEIVE, json={"wait": "30s"})
                with shard.client() as client:
                    wait_until(lambda: client.stats().parked_count == 1)
                shard.follow()
                shard.kill()
                wait_until(lambda: server.call(lambda: len(store._held)) == 1)
                shard.hand_to_replica()
                shard.start()
                assert api.post(MESSAGES, json={"body": "after"}).status_code == 201
                received = waiting.result()
                assert received.status_code == 200, received.text
                [message] = received.json()["messages"]
                assert message["body"] == "after"
