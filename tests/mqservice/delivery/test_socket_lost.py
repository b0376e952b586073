"""What a consumer is told at once, also without credit: lost messages, groups that pause."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from mqservice.delivery.sessions import SessionTimes
from mqservice.store import (
    Dispatch,
    GroupConfig,
    GroupRef,
    OffsetResetRequest,
    ResetTo,
    StoreClient,
    TopicRef,
)
from tests.mqservice.delivery.browsing import put
from tests.mqservice.delivery.engine_serving import real_topic
from tests.mqservice.delivery.peers import Peer
from tests.mqservice.delivery.serving import HOUR_MS, PATIENT, Json, Server

pytestmark = pytest.mark.real_engine(queue_count=2)


@pytest.fixture(scope="module")
def times() -> SessionTimes:
    """The clock of the sessions hardly ticks: what is told is told by the engine."""
    return replace(PATIENT, tick_ms=HOUR_MS)


@pytest.fixture
def admin(engine_socket: str) -> Iterator[StoreClient]:
    with StoreClient(engine_socket, client_name="admin") as client:
        yield client


def consume(peer: Peer, topic: str, group: str, msgs: int) -> None:
    """Subscribe and take so many messages, which is all that the credit allows."""
    credit = {"msgs": msgs, "bytes": 10_000}
    answer = peer.ask("sub", sid=1, topic=topic, group=group, credit=credit)
    assert answer["op"] == "ok", answer
    assert len(peer.take(msgs)) == msgs


def fill(api: httpx.Client, topic: str, count: int, queue: int = 0) -> None:
    put(api, topic, *[{"body": str(number), "queue": queue} for number in range(count)])


def until(peer: Peer, op: str) -> Json:
    while (frame := peer.recv())["op"] != op:
        assert frame["op"] != "msgs", frame
    return frame


def test_a_reset_is_told_its_acks_count_for_nothing_and_all_comes_again(
    peer: Peer, api: httpx.Client, admin: StoreClient, topic: str, group: str
) -> None:
    fill(api, topic, 3)
    consume(peer, topic, group, 2)
    reset = OffsetResetRequest(group=f"acme%{group}", topic=f"acme%{topic}", to=ResetTo.EARLIEST)
    admin.offset_reset(reset)
    lost = until(peer, "lost")
    again = peer.take(2)
    late = peer.ask("ack", sid=1, t=[1, 2])
    acked = peer.ask("ack", sid=1, t=[3, 4])
    [last] = peer.take(1)

    assert lost == {"op": "lost", "sid": 1, "t": [1, 2], "why": "reset", "generation": None}
    assert [(m["t"], m["o"], m["a"]) for m in again] == [(3, 0, 1), (4, 1, 1)]
    assert [failed["code"] for failed in late["r"]["failed"]] == ["LEASE_EXPIRED"] * 2
    assert (late["r"]["acked"], acked["r"]["acked"], last["o"]) == (0, 2, 2)


def test_a_reset_of_another_queue_or_topic_is_nobodys_loss(
    server: Server, peer: Peer, api: httpx.Client, admin: StoreClient, topic: str, group: str,
    engine_socket: str,
) -> None:  # fmt: skip
    other = real_topic(server, engine_socket, queue_count=2)
    fill(api, topic, 2)
    consume(peer, topic, group, 2)
    for name, queue_ids in ((topic, [1]), (other, [])):
        admin.offset_reset(
            OffsetResetRequest(
                group=f"acme%{group}", topic=f"acme%{name}", to=ResetTo.EARLIEST,
                queue_ids=tuple(queue_ids),
            )
        )  # fmt: skip
    assert peer.ask("ack", sid=1, t=[1, 2])["r"] == {"acked": 2, "failed": []}


def test_a_rebalance_is_reported_with_its_generation_and_late_acks_count(
    server: Server, peer: Peer, api: httpx.Client, admin: StoreClient, topic: str
) -> None:
    group = f"x-{topic}"
    exclusive = GroupConfig(group=f"acme%{group}", dispatch=Dispatch.EXCLUSIVE, is_ordered=True)
    admin.group_put(exclusive)
    server.group(group, is_exclusive=True)
    for queue in (0, 1):
        fill(api, topic, 2, queue)
    consume(peer, topic, group, 4)  # all of both queues
    with Peer(server) as rival:
        rival.ask("sub", sid=1, topic=topic, group=group)
        lost = until(peer, "lost")
        for queue in (0, 1):
            fill(api, topic, 1, queue)
        rival.send("ping")
        assert rival.recv()["op"] == "pong", "an ordered queue waits for its batch"
        acked = peer.ask("ack", sid=1, t=lost["t"])
        [next_one] = rival.take(1)

    assert (lost["why"], lost["generation"], len(lost["t"])) == ("revoked", 2, 2)
    assert acked["r"] == {"acked": 2, "failed": []}
    assert next_one["o"] == 2


def test_a_deleted_topic_is_reported_without_credit_too(
    peer: Peer, api: httpx.Client, admin: StoreClient, topic: str, group: str
) -> None:
    fill(api, topic, 2)
    consume(peer, topic, group, 2)
    admin.topic_delete(TopicRef(topic=f"acme%{topic}"))
    frames = [peer.recv(), peer.recv()]
    late = peer.ask("ack", sid=1, t=[1, 2])

    assert frames[0] == {"op": "lost", "sid": 1, "t": [1, 2], "why": "deleted", "generation": None}
    assert (frames[1]["op"], frames[1]["code"]) == ("err", "TOPIC_NOT_FOUND")
    assert late["r"]["acked"] == 0


def test_a_deleted_group_is_reported_once_also_when_it_is_waited_for(
    peer: Peer, api: httpx.Client, admin: StoreClient, topic: str, group: str
) -> None:
    fill(api, topic, 1)
    peer.ask("sub", sid=1, topic=topic, group=group)
    peer.take(1)
    admin.group_delete(GroupRef(group=f"acme%{group}"))
    frames = [peer.recv(), peer.recv()]
    peer.send("ping")

    assert {frame["op"] for frame in frames} == {"lost", "err"}
    assert [f["code"] for f in frames if f["op"] == "err"] == ["GROUP_NOT_FOUND"]
    assert peer.recv()["op"] == "pong", "nothing is said twice"


def test_a_pause_of_a_group_is_reported_at_once_and_at_the_subscription(
    server: Server, api: httpx.Client, admin: StoreClient, topic: str, group: str
) -> None:
    with Peer(server) as early:
        early.ask("sub", sid=1, topic=topic, group=group)
        admin.group_put(GroupConfig(group=f"acme%{group}", is_paused=True))
        assert early.recv() == {"op": "flow", "sid": 1, "state": "paused"}
        fill(api, topic, 1)
        with Peer(server) as late:
            late.ask("sub", sid=1, topic=topic, group=group)
            assert late.recv() == {"op": "flow", "sid": 1, "state": "paused"}
            admin.group_put(GroupConfig(group=f"acme%{group}"))
            assert until(late, "flow")["state"] == "open"


def test_what_one_group_hears_is_no_other_groups_business(
    server: Server, api: httpx.Client, admin: StoreClient, topic: str, group: str
) -> None:
    server.group(f"{group}2")
    admin.group_put(GroupConfig(group=f"acme%{group}2"))
    fill(api, topic, 1)
    with Peer(server) as peer:
        consume(peer, topic, f"{group}2", 1)
        admin.group_put(GroupConfig(group=f"acme%{group}", is_paused=True))
        admin.group_delete(GroupRef(group=f"acme%{group}"))
        assert peer.ask("ack", sid=1, t=[1])["r"] == {"acked": 1, "failed": []}
