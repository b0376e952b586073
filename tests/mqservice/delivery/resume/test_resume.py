"""Sessions that go on after their connection ended: here, in another process, or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import time

import httpx
import pytest

from mqservice.store import (
    AsyncStoreClient,
    Dispatch,
    GroupConfig,
    OffsetResetRequest,
    ResetTo,
    SessionSaveRequest,
    StoreClient,
)
from storage_engine.wire.operations import Op
from tests.mqservice.delivery.browsing import put
from tests.mqservice.delivery.engine_serving import real_topic, serving_engine
from tests.mqservice.delivery.peers import JSON, Peer, closed
from tests.mqservice.delivery.resume.resuming import (
    TTL_MS,
    fill,
    nothing_more,
    resume_of,
    sever,
    subscribed,
)
from tests.mqservice.delivery.serving import Server
from tests.mqservice.delivery.wait_until import wait_until
from tests.sizes import sized

pytestmark = pytest.mark.real_engine(queue_count=2)


@pytest.mark.parametrize("end", ["sever", "close"])
@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_a_resumed_session_continues_as_it_was(
    server: Server,
    other: Server,
    api: httpx.Client,
    topic: str,
    group: str,
    key: str,
    subprotocol: str,
    where: str,
    end: str,
) -> None:
    fill(api, topic, 14)
    with Peer(server, subprotocol, key=key, resume_ttl_ms=TTL_MS) as peer:
        first = subscribed(peer, topic, group, 10)
        peer.ask("ack", sid=1, t=[first[0]["t"], first[2]["t"]])
        peer.take(2)
        if end == "sever":
            sever(peer)
    next_server = server if where == "here" else other
    with Peer(
        next_server, subprotocol, key=key, resume=resume_of(peer), resume_ttl_ms=TTL_MS
    ) as again:
        assert again.welcome["resumed"] is True
        assert again.welcome["session"] == peer.welcome["session"]
        nothing_more(again)  # no credit, and nothing was asked for again
        acked = again.ask("ack", sid=1, t=list(range(1, 13)))
        last = again.take(2)
        again.ask("ack", sid=1, t=[message["t"] for message in last])

    assert acked["r"] == {"acked": 10, "failed": []}, "two were settled before"
    assert [(m["t"], again.body(m), m["a"]) for m in last] == [(13, b"12", 1), (14, b"13", 1)]


def test_what_the_client_lacks_is_sent_again_under_the_same_tags(
    server: Server, other: Server, api: httpx.Client, topic: str, group: str, key: str,
    subprotocol: str,
) -> None:  # fmt: skip
    fill(api, topic, 8)
    with Peer(server, subprotocol, key=key, resume_ttl_ms=TTL_MS) as peer:
        first = subscribed(peer, topic, group, 8)
        peer.ask("ack", sid=1, t=[5])
        sever(peer)
    resume = resume_of(peer, [[1, 2, [4, 99]]])
    with Peer(other, subprotocol, key=key, resume=resume, resume_ttl_ms=TTL_MS) as again:
        assert again.welcome["resumed"] is True
        sent = again.take(4)
        nothing_more(again)
        acked = again.ask("ack", sid=1, upto=8)

    was = {message["t"]: message for message in first}
    assert sent == [was[tag] for tag in (3, 6, 7, 8)], "the same in all that they say"
    assert acked["r"] == {"acked": 7, "failed": []}


def test_a_client_that_has_nothing_gets_all_again_also_retries(
    server: Server, api: httpx.Client, topic: str, group: str, key: str
) -> None:
    fill(api, topic, 3)
    with Peer(server, key=key, resume_ttl_ms=TTL_MS) as peer:
        subscribed(peer, topic, group, 3)
        peer.ask("nack", sid=1, t=[[1, 0]])
        [retried] = peer.take(1)
        sever(peer)
    with Peer(server, key=key, resume=resume_of(peer, []), resume_ttl_ms=TTL_MS) as again:
        sent = again.take(3)
        acked = again.ask("ack", sid=1, t=[2, 3, 4])

    assert [(m["t"], m["b"], m["a"]) for m in sent] == [(2, "1", 1), (3, "2", 1), (4, "0", 2)]
    assert (sent[2]["id"], acked["r"]["acked"]) == (retried["id"], 3)


def test_a_session_that_is_open_elsewhere_is_taken_over(
    server: Server, other: Server, api: httpx.Client, topic: str, group: str, key: str,
    subprotocol: str,
) -> None:  # fmt: skip
    fill(api, topic, 3)
    with Peer(server, subprotocol, key=key, resume_ttl_ms=TTL_MS) as peer:
        subscribed(peer, topic, group, 3)
        for next_server in (other, server, server):
            with_it = Peer(
                next_server, subprotocol, key=key, resume=resume_of(peer), resume_ttl_ms=TTL_MS
            )
            assert with_it.welcome["resumed"] is True
            assert closed(peer) == (4409, "the session was resumed on another connection")
            assert with_it.ask("extend", sid=1, t=[1, 2], ms=60_000)["r"]["extended"] == 2
            peer = with_it
        assert peer.ask("ack", sid=1, t=[1, 2, 3])["r"] == {"acked": 3, "failed": []}
        peer.__exit__(None, None, None)


def test_of_two_who_resume_at_once_one_has_the_session(
    server: Server, other: Server, api: httpx.Client, topic: str, group: str, key: str
) -> None:
    fill(api, topic, 3)
    with Peer(server, key=key, resume_ttl_ms=TTL_MS) as peer:
        subscribed(peer, topic, group, 3)
        with contextlib.ExitStack() as stack:
            both = [
                stack.enter_context(Peer(each, key=key, hello=False)) for each in (server, other)
            ]
            for each in both:
                each.send("hello", id=1, resume=resume_of(peer), resume_ttl_ms=TTL_MS)
            ends = [each.answer(1) for each in both]
            has_it = [each for each, end in zip(both, ends, strict=True) if end["resumed"]]
            # The second comer may find the first one's session open already, and take it over.
            assert closed(peer)[0] == 4409
            acked = has_it[-1].ask("ack", sid=1, t=[1, 2, 3]) if len(has_it) == 1 else None

    assert has_it
    if acked is not None:
        assert acked["r"] == {"acked": 3, "failed": []}


@pytest.mark.parametrize("subprotocol", [JSON])
def test_what_is_not_resumed_in_time_goes_to_others_and_not_before(
    server: Server, api: httpx.Client, topic: str, group: str, key: str, subprotocol: str
) -> None:
    fill(api, topic, 5)
    with Peer(server, subprotocol, key=key, resume_ttl_ms=1_500) as peer:
        subscribed(peer, topic, group, 5, lease_ms=3_600_000)
        severed_at = time.monotonic()
        sever(peer)
    receive = f"/v1/-/topics/{topic}/groups/{group}:receive"
    again = api.post(receive, json={"wait": "20s"}).json()["messages"]
    assert time.monotonic() - severed_at >= 1.5
    with Peer(server, key=key, resume=resume_of(peer)) as late:
        assert late.welcome["resumed"] is False

    assert {message["attempt"] for message in again} == {2}


def test_a_session_that_shall_not_be_kept_has_no_token(
    server: Server, api: httpx.Client, topic: str, group: str, key: str
) -> None:
    fill(api, topic, 2)
    with Peer(server, key=key, resume_ttl_ms=0) as peer:
        assert peer.welcome["resume_token"] is None
        subscribed(peer, topic, group, 2, lease_ms=3_600_000)
    receive = f"/v1/-/topics/{topic}/groups/{group}:receive"
    assert len(api.post(receive, json={"wait": "20s"}).json()["messages"]) == 2


def test_a_restarting_server_leaves_its_sessions_to_the_others(
    server: Server,
    engine_socket: str,
    api: httpx.Client,
    topic: str,
    group: str,
    key: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(api, topic, 3)

    async def keep_slowly(client: AsyncStoreClient, request: SessionSaveRequest) -> None:
        await asyncio.sleep(0.5)  # a server that does not wait closes the socket meanwhile
        await client.call(Op.SESSION_KEEP, request)

    monkeypatch.setattr(AsyncStoreClient, "session_keep", keep_slowly)
    with serving_engine(engine_socket) as leaving:
        leaving.keys, leaving.topics, leaving.groups = server.keys, server.topics, server.groups
        with Peer(leaving, key=key, resume_ttl_ms=TTL_MS) as peer:
            subscribed(peer, topic, group, 3)
            leaving.ask_to_stop()
            assert closed(peer)[0] == 1012
    with Peer(server, key=key, resume=resume_of(peer), resume_ttl_ms=TTL_MS) as again:
        assert again.welcome["resumed"] is True
        assert again.ask("ack", sid=1, upto=3)["r"] == {"acked": 3, "failed": []}


def test_a_process_that_died_takes_its_open_sessions_with_it_and_nobody_waits(
    server: Server, other: Server, engine_socket: str, api: httpx.Client, topic: str, group: str,
    key: str,
) -> None:  # fmt: skip
    fill(api, topic, 2)
    with serving_engine(engine_socket) as dying:
        dying.keys, dying.topics, dying.groups = server.keys, server.topics, server.groups
        with Peer(dying, key=key, resume_ttl_ms=TTL_MS) as peer:
            subscribed(peer, topic, group, 2, lease_ms=1_000)
            assert isinstance(dying.store, AsyncStoreClient)
            dying.stop_store(dying.store)
            with Peer(other, key=key, resume=resume_of(peer)) as again:
                assert again.welcome["resumed"] is False
                messages = subscribed(again, topic, group, 2)

    assert all(message["a"] > 1 for message in messages), "their leases ended"


def test_leases_that_ended_meanwhile_are_reported_as_lost(
    server: Server, api: httpx.Client, topic: str, group: str, key: str, engine_socket: str
) -> None:
    fill(api, topic, 4)
    with Peer(server, key=key, resume_ttl_ms=TTL_MS) as peer:
        subscribed(peer, topic, group, 4)
        sever(peer)
    receive = f"/v1/-/topics/{topic}/groups/{group}:receive"
    seek = OffsetResetRequest(group=f"acme%{group}", topic=f"acme%{topic}", to=ResetTo.LATEST)
    with StoreClient(engine_socket, client_name="seek") as client:
        client.offset_reset(seek)
    with Peer(server, key=key, resume=resume_of(peer, []), resume_ttl_ms=TTL_MS) as again:
        lost = again.recv()
        acked = again.ask("ack", sid=1, t=[1, 2, 3, 4])

    assert lost == {"op": "lost", "sid": 1, "t": [1, 2, 3, 4], "why": "reset", "generation": None}
    assert [each["code"] for each in acked["r"]["failed"]] == ["LEASE_EXPIRED"] * 4
    assert api.post(receive, json={"wait": "0s"}).json()["messages"] == []


def test_a_deleted_topic_is_reported_at_the_return_and_the_rest_continues(
    server: Server, api: httpx.Client, topic: str, group: str, key: str, engine_socket: str
) -> None:
    second = real_topic(server, engine_socket, queue_count=2)
    fill(api, topic, 1)
    fill(api, second, 2)
    with Peer(server, key=key, resume_ttl_ms=TTL_MS) as peer:
        subscribed(peer, topic, group, 1)
        peer.ask("sub", sid=2, topic=second, group=group, credit={"msgs": 1, "bytes": 100})
        peer.take(1)
        sever(peer)
    del server.topics[1, "acme", topic]
    server.call(server.context.caches.routes.clear)
    with Peer(server, key=key, resume=resume_of(peer), resume_ttl_ms=TTL_MS) as again:
        err = again.recv()
        assert (err["op"], err["code"]) == ("err", "TOPIC_NOT_FOUND")
        assert again.ask("ack", sid=1, t=[1])["code"] == "NOT_FOUND"
        again.ask("ack", sid=2, t=[1])
        [message] = again.take(1)

    assert (message["t"], message["b"]) == (2, "1")


def test_an_exclusive_queue_waits_for_what_a_disconnected_session_holds(
    server: Server, other: Server, api: httpx.Client, topic: str, key: str, engine_socket: str
) -> None:
    group = f"x-{topic}"
    config = GroupConfig(group=f"acme%{group}", dispatch=Dispatch.EXCLUSIVE, is_ordered=True)
    with StoreClient(engine_socket, client_name="setup") as client:
        client.group_put(config)
    server.group(group, is_exclusive=True)
    fill(api, topic, 4)
    with Peer(server, key=key, resume_ttl_ms=TTL_MS) as peer:
        subscribed(peer, topic, group, 2, credit={"msgs": 2, "bytes": 1_000})
        sever(peer)
    with Peer(other, key=key) as rival:
        rival.ask("sub", sid=1, topic=topic, group=group)
        nothing_more(rival)
        with Peer(server, key=key, resume=resume_of(peer), resume_ttl_ms=TTL_MS) as again:
            assert again.welcome["resumed"] is True
            nothing_more(rival)
            assert again.ask("ack", sid=1, t=[1, 2])["r"]["acked"] == 2
            again.ask("unsub", sid=1, drain=True)
            messages = rival.take(2)

    assert [message["b"] for message in messages] == ["2", "3"]


@pytest.mark.sized
def test_sessions_of_one_process_leave_nothing_behind(
    server: Server, api: httpx.Client, topic: str, group: str, key: str
) -> None:
    count = sized(20, torture=100)
    put(api, topic, *[{"body": str(number)} for number in range(count * 2)])
    resumed = 0
    for number in range(count):
        is_resumed = number % 10 == 0
        ttl_ms = TTL_MS if is_resumed else 1_000
        with Peer(server, key=key, resume_ttl_ms=ttl_ms) as peer:
            subscribed(peer, topic, group, 2, credit={"msgs": 2, "bytes": 1_000})
            sever(peer)
        if is_resumed:
            with Peer(server, key=key, resume=resume_of(peer), resume_ttl_ms=1_000) as again:
                resumed += again.welcome["resumed"]
                sever(again)
    wait_until(lambda: server.context.sessions.socket_count == 0)
    with Peer(server, key=key) as last:
        credit = {"msgs": 1_000, "bytes": 1_000_000}
        bodies = {m["b"] for m in subscribed(last, topic, group, count * 2, credit=credit)}

    assert bodies == {str(number) for number in range(count * 2)}
    assert resumed == count // 10
