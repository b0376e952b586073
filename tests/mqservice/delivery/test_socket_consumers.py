"""Subscriptions that say who and where they are, for strategies of assignment that ask."""

from __future__ import annotations

import httpx
import pytest

from mqservice.store import AssignmentPolicy, Dispatch, GroupRef, StoreClient, Strategy
from tests.mqservice.delivery.browsing import put
from tests.mqservice.delivery.engine_serving import real_group
from tests.mqservice.delivery.peers import BOTH, Peer
from tests.mqservice.delivery.resume.resuming import TTL_MS, resume_of, sever
from tests.mqservice.delivery.serving import Server
from tests.mqservice.delivery.wait_until import wait_until

pytestmark = pytest.mark.real_engine(queue_count=4)

QUEUES = 4


def assigned(
    server: Server, engine_socket: str, topic: str, strategy: Strategy, policy: AssignmentPolicy
) -> str:
    """A group of this test alone, whose queues are dealt out in that way."""
    return real_group(
        server,
        engine_socket,
        f"a-{topic}",
        dispatch=Dispatch.EXCLUSIVE,
        strategy=strategy,
        assignment=policy,
    )


def fill(api: httpx.Client, topic: str) -> None:
    put(api, topic, *[{"body": "m", "queue": queue} for queue in range(QUEUES)])


def queues_of(peer: Peer, count: int) -> set[int]:
    """Of the next messages, which are settled."""
    messages = peer.take(count)
    peer.ask("ack", sid=1, t=[message["t"] for message in messages])
    return {message["q"] for message in messages}


def queues_of_waiting(engine_socket: str, group: str) -> set[tuple[int, ...]]:
    """Of each member that waits for messages."""
    with StoreClient(engine_socket, client_name="looker") as client:
        [topic] = client.group_members(GroupRef(group=f"acme%{group}")).topics
    return {member.queue_ids for member in topic.members if member.is_waiting}


@pytest.mark.parametrize("subprotocol", BOTH)
def test_a_named_subscription_reads_the_queues_named_for_it(
    server: Server, engine_socket: str, api: httpx.Client, topic: str, subprotocol: str
) -> None:
    policy = AssignmentPolicy(
        consumers={"consumer-left": (0, 1, 2), "consumer-right": (3,), "consumer-away": ()}
    )
    group = assigned(server, engine_socket, topic, Strategy.CONFIG, policy)
    with Peer(server, subprotocol) as left, Peer(server, subprotocol) as right:
        for peer, name in ((left, "left"), (right, "right")):
            answer = peer.ask("sub", sid=1, topic=topic, group=group, consumer_id=name)
            assert answer["op"] == "ok", answer
        fill(api, topic)
        assert queues_of(left, 3) == {0, 1, 2}
        assert queues_of(right, 1) == {3}


@pytest.mark.parametrize("subprotocol", BOTH)
def test_a_subscription_reads_the_queues_near_it_after_it_was_resumed_as_well(
    server: Server, engine_socket: str, api: httpx.Client, topic: str, subprotocol: str
) -> None:
    policy = AssignmentPolicy(rooms={"east": (0,), "west": (1, 2, 3)})
    group = assigned(server, engine_socket, topic, Strategy.MACHINE_ROOM_NEARBY, policy)
    key = server.key()
    with Peer(server, subprotocol) as west:
        west.ask("sub", sid=1, topic=topic, group=group, consumer_zone="west")
        with Peer(server, subprotocol, key=key, resume_ttl_ms=TTL_MS) as east:
            east.ask("sub", sid=1, topic=topic, group=group, consumer_zone="east", consumer_id="e")
            fill(api, topic)
            assert queues_of(east, 1) == {0}
            assert queues_of(west, 3) == {1, 2, 3}
            sever(east)
        resume = resume_of(east)
        with Peer(server, subprotocol, key=key, resume=resume, resume_ttl_ms=TTL_MS) as again:
            assert again.welcome["resumed"] is True
            # While it was away the others read its queue; it asks for it after the welcome.
            wait_until(lambda: (0,) in queues_of_waiting(engine_socket, group))
            fill(api, topic)
            assert queues_of(again, 1) == {0}
            assert queues_of(west, 3) == {1, 2, 3}


@pytest.mark.parametrize("subprotocol", BOTH)
def test_two_subscriptions_with_one_name_are_one_member(
    server: Server, engine_socket: str, api: httpx.Client, topic: str, subprotocol: str
) -> None:
    policy = AssignmentPolicy(consumers={"consumer-one": (0, 1, 2, 3)})
    group = assigned(server, engine_socket, topic, Strategy.CONFIG, policy)
    with Peer(server, subprotocol) as stays:
        with Peer(server, subprotocol) as leaves:
            for peer in (stays, leaves):
                credit = {"msgs": 100, "bytes": 100_000}
                peer.ask("sub", sid=1, topic=topic, group=group, consumer_id="one", credit=credit)
            fill(api, topic)
        fill(api, topic)
        got = [message["q"] for message in stays.take(2 * QUEUES)]
        assert sorted(got) == sorted([*range(QUEUES)] * 2)


@pytest.mark.parametrize("subprotocol", BOTH)
@pytest.mark.parametrize("field", ["consumer_id", "consumer_zone"])
def test_a_name_that_is_none_is_refused_where_it_stands(
    server: Server, topic: str, subprotocol: str, field: str
) -> None:
    with Peer(server, subprotocol) as peer:
        for wrong in ("", "a b", "x" * 65):
            answer = peer.ask("sub", sid=1, topic=topic, group="billing", **{field: wrong})
            assert (answer["op"], answer["code"]) == ("err", "BAD_REQUEST")
            assert f"/{field}" in answer["msg"]
        answer = peer.ask("sub", sid=1, topic=topic, group="billing", **{field: "x" * 64})
        assert answer["op"] == "ok", answer
