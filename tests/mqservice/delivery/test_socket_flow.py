"""Flow control and the ends of a session: credit, leases, readers that do not read, shutdown."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from mqservice.delivery.context import SessionTimes
from mqservice.store import TopicNotFound
from tests.mqservice.delivery.peers import BOTH, Peer
from tests.mqservice.delivery.serving import Json, Server, serving
from tests.mqservice.delivery.store_double import StoreDouble
from tests.mqservice.delivery.waiting import wait_until

TIMES = SessionTimes(ping_ms=400, pong_ms=400, hello_ms=400, stall_ms=600, grace_ms=600, tick_ms=50)
KIB = 1024
# The library reads ahead a few frames and stops; the kernel holds some more, but never 8 MB.
SMALL_FRAME_BYTES = 16 * KIB


@pytest.fixture(scope="module")
def server(store: StoreDouble) -> Iterator[Server]:
    with serving(store, TIMES) as running:
        yield running


@pytest.fixture(params=BOTH)
def peer(server: Server, request: pytest.FixtureRequest) -> Iterator[Peer]:
    with Peer(server, request.param) as connected:
        yield connected


def fill(peer: Peer, topic: str, count: int, body_bytes: int = 10) -> None:
    for start in range(0, count, 100):
        offers: list[Json] = [
            {"body": "x" * body_bytes, "queue": 0} for _ in range(min(100, count - start))
        ]
        assert peer.ask("pub", topic=topic, m=offers)["op"] == "ok"


def subscribe(peer: Peer, topic: str, msgs: int, bytes_count: int, **fields: object) -> None:
    credit = {"msgs": msgs, "bytes": bytes_count}
    answer = peer.ask("sub", sid=1, topic=topic, group="billing", credit=credit, **fields)
    assert answer["op"] == "ok", answer
    assert answer["r"]["credit"] == credit


def pushed_before_pong(peer: Peer) -> int:
    """How many messages are pushed until the answer to a ping; what is not sent by then is held."""
    count = 0
    for _ in range(3):
        peer.send("ping")
        while (frame := peer.recv())["op"] != "pong":
            count += len(frame.get("m", ()))
    return count


def frames_during_pings(peer: Peer, count: int) -> list[Json]:
    """All else that comes until the server has pinged ``count`` times; but what flows is told."""
    frames: list[Json] = []
    while count:
        frame = peer.recv()
        if frame["op"] == "ping":
            count -= 1
        elif frame["op"] != "flow":
            frames.append(frame)
    return frames


def flow_of(peer: Peer) -> Json:
    """The next of the frames that say why messages come or not."""
    while (frame := peer.recv())["op"] != "flow":
        pass
    return frame


def close_code(peer: Peer, timeout: float = 5.0) -> int:
    with pytest.raises(ConnectionClosed) as caught:
        peer.read_on(timeout)
    assert caught.value.rcvd is not None
    return caught.value.rcvd.code


def test_nothing_is_sent_beyond_the_credit_in_messages(peer: Peer, topic: str) -> None:
    fill(peer, topic, 20)
    subscribe(peer, topic, 5, 100_000)
    tags = [m["t"] for m in peer.take(5)]

    assert pushed_before_pong(peer) == 0
    peer.ask("ack", sid=1, t=tags[:2])
    returned = len(peer.take(2))
    peer.send("credit", sid=1, msgs=3, bytes=0)
    added = len(peer.take(3))

    assert (returned, added) == (2, 3)
    assert pushed_before_pong(peer) == 0


def test_nothing_is_sent_beyond_the_credit_in_bytes(peer: Peer, topic: str) -> None:
    fill(peer, topic, 10, body_bytes=1_000)
    subscribe(peer, topic, 100, 2_500)

    messages = peer.take(2)
    held = pushed_before_pong(peer)
    peer.ask("ack", sid=1, t=[m["t"] for m in messages])

    assert held <= 1, "a message that begins within the credit may go beyond it"
    assert len(peer.take(2)) >= 2


def test_one_message_larger_than_all_credit_is_delivered(peer: Peer, topic: str) -> None:
    fill(peer, topic, 2, body_bytes=50_000)
    subscribe(peer, topic, 10, 100)

    [message] = peer.take(1)

    assert len(peer.body(message)) == 50_000
    assert pushed_before_pong(peer) == 0
    peer.ask("ack", sid=1, t=[message["t"]])
    assert len(peer.take(1)) == 1


def test_credit_is_capped_together_with_what_is_outstanding(peer: Peer, topic: str) -> None:
    fill(peer, topic, 10)
    subscribe(peer, topic, 10, 100_000)
    peer.take(10)

    peer.send("credit", sid=1, msgs=5_000, bytes=2**40, id=77)
    credit = peer.answer(77)["r"]["credit"]

    assert credit == {"msgs": 990, "bytes": 8 * 1024 * KIB - 100}


def test_a_frame_stays_within_what_the_client_takes(server: Server, topic: str) -> None:
    with Peer(server, max_frame=16 * KIB) as peer:
        # Each of these characters takes six bytes in JSON.
        offers: list[Json] = [{"body": "\x01" * 1_000, "queue": 0} for _ in range(20)]
        peer.ask("pub", topic=topic, m=offers)
        subscribe(peer, topic, 100, 1024 * KIB)
        sizes = []
        count = 0
        while count < 20:
            content = peer.socket.recv(5)
            sizes.append(len(content))
            count += str(content).count('"t":')

    assert max(sizes) <= 16 * KIB


def test_a_lease_that_ends_is_announced_and_its_credit_returned(peer: Peer, topic: str) -> None:
    fill(peer, topic, 2)
    subscribe(peer, topic, 1, 1_000, lease_ms=1_000)
    [first] = peer.take(1)

    frames = [peer.recv()]
    while frames[-1]["op"] != "lost":
        frames.append(peer.recv())
    [second] = peer.take(1)

    assert (frames[-1]["t"], frames[-1]["why"]) == ([first["t"]], "lease_expired")
    assert second["t"] == first["t"] + 1


def test_a_late_ack_still_counts_while_nobody_leased_it_again(
    peer: Peer, topic: str, store: StoreDouble
) -> None:
    fill(peer, topic, 1)
    subscribe(peer, topic, 1, 1_000, lease_ms=1_000)
    [first] = peer.take(1)
    peer.ask("unsub", sid=1, drain=True)
    store.progress["acme%billing", f"acme%{topic}", 0].leases.clear()

    answer = peer.ask("ack", sid=1, t=[first["t"]])

    assert answer["r"] == {"acked": 1, "failed": []}


def test_an_extended_lease_does_not_end(peer: Peer, topic: str, store: StoreDouble) -> None:
    fill(peer, topic, 1)
    subscribe(peer, topic, 1, 1_000, lease_ms=1_000)
    [message] = peer.take(1)
    peer.ask("extend", sid=1, t=[message["t"]], ms=60_000)
    held_until = store.progress["acme%billing", f"acme%{topic}", 0].leases[0][1]

    frames = frames_during_pings(peer, 3)

    assert frames == [], "three pings take longer than the lease"
    assert held_until - message["s"] > 50_000


@pytest.mark.parametrize(("auto_extend_ms", "is_lost"), [(0, True), (600_000, False)])
def test_a_lease_is_extended_by_itself_when_asked(
    peer: Peer, topic: str, auto_extend_ms: int, is_lost: bool
) -> None:
    fill(peer, topic, 1)
    subscribe(peer, topic, 1, 1_000, lease_ms=1_000, auto_extend_ms=auto_extend_ms)
    [message] = peer.take(1)

    lost = [frame for frame in frames_during_pings(peer, 4) if frame["op"] == "lost"]

    assert bool(lost) == is_lost, "four pings take longer than the lease"
    if not is_lost:
        acked = peer.ask("ack", sid=1, t=[message["t"]])
        assert acked["r"] == {"acked": 1, "failed": []}


def test_a_lease_is_extended_no_longer_than_asked(peer: Peer, topic: str) -> None:
    fill(peer, topic, 1)
    subscribe(peer, topic, 1, 1_000, lease_ms=1_000, auto_extend_ms=1_500)
    [message] = peer.take(1)

    lost = [frame for frame in frames_during_pings(peer, 8) if frame["op"] == "lost"]

    assert lost[0]["t"] == [message["t"]]


def test_a_subscription_says_when_it_has_no_credit_and_when_it_has_again(
    peer: Peer, topic: str
) -> None:
    fill(peer, topic, 2)
    subscribe(peer, topic, 1, 1_000, lease_ms=60_000)
    [message] = peer.take(1)
    assert flow_of(peer) == {"op": "flow", "sid": 1, "state": "credit"}
    peer.ask("credit", sid=1, msgs=10, bytes=10_000)
    assert flow_of(peer) == {"op": "flow", "sid": 1, "state": "open"}
    assert message["t"] == 1


def test_a_closed_socket_gives_its_leases_back_at_once(
    server: Server, topic: str, store: StoreDouble
) -> None:
    with Peer(server) as peer:
        fill(peer, topic, 10)
        subscribe(peer, topic, 10, 10_000)
        peer.take(10)
    wait_until(lambda: store.leased_count("acme%billing") == 0)  # long before their leases end
    assert store.parked_count == 0

    with Peer(server) as other:
        subscribe(other, topic, 10, 10_000)
        messages = other.take(10)

    assert {m["a"] for m in messages} == {2}


def test_a_vanished_client_gives_its_leases_back(
    server: Server, topic: str, store: StoreDouble
) -> None:
    with Peer(server) as peer:
        fill(peer, topic, 3)
        subscribe(peer, topic, 3, 10_000)
        peer.take(3)
        peer.socket.socket.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: store.leased_count("acme%billing") == 0)


@contextlib.contextmanager
def reader_that_does_not_read(server: Server, topic: str, store: StoreDouble) -> Iterator[Peer]:
    """It has asked for more than fits on the way to it, and has got leases of some."""
    with Peer(server) as producer:
        fill(producer, topic, 1_000, body_bytes=8 * KIB)
    with Peer(server, max_frame=SMALL_FRAME_BYTES) as peer:
        subscribe(peer, topic, 1_000, 8 * 1024 * KIB)
        wait_until(lambda: store.leased_count("acme%billing") > 0)
        yield peer


def test_a_reader_that_does_not_read_is_bounded_and_cut_off(
    server: Server, topic: str, store: StoreDouble
) -> None:
    with reader_that_does_not_read(server, topic, store) as peer:
        wait_until(lambda: store.leased_count("acme%billing") == 0, seconds=10)

        assert close_code(peer) == 4408
    assert store.parked_count == 0


def test_a_reader_that_talks_and_does_not_read_is_cut_off_too(
    server: Server, topic: str, store: StoreDouble
) -> None:
    with reader_that_does_not_read(server, topic, store) as peer:

        def is_cut_off() -> bool:
            with contextlib.suppress(ConnectionClosed):
                peer.send("ack", sid=1, t=[1])  # heard, and never answered
            return store.leased_count("acme%billing") == 0

        wait_until(is_cut_off, seconds=10)

        assert close_code(peer) == 4408


def test_pings_are_sent_and_must_be_answered(peer: Peer) -> None:
    for _ in range(3):
        assert peer.recv()["op"] == "ping"
    peer.answers_pings = False

    assert close_code(peer) == 4408


def test_an_empty_object_is_a_pong(server: Server) -> None:
    with Peer(server) as peer:
        peer.answers_pings = False
        for _ in range(3):
            assert peer.recv()["op"] == "ping"
            peer.socket.send("{}")


def test_an_empty_array_is_a_pong(server: Server) -> None:
    with Peer(server, BOTH[1]) as peer:
        peer.answers_pings = False
        for _ in range(3):
            assert peer.recv()["op"] == "ping"
            peer.socket.send(b"\x90")


def test_hello_must_come_soon(server: Server) -> None:
    with Peer(server, hello=False) as peer:
        assert close_code(peer) == 4408


def test_a_revoked_key_ends_its_sockets(server: Server) -> None:
    key = server.key()
    with Peer(server, key=key) as peer, Peer(server, key=key) as other, Peer(server) as stranger:
        del server.keys[key.encode()]
        server.call(server.context.caches.keys.clear)

        assert (close_code(peer), close_code(other)) == (4401, 4401)
        assert stranger.ask("pub", topic="absent", m=[{"body": "x"}])["code"] == "TOPIC_NOT_FOUND"


def test_a_deleted_topic_is_told_to_its_subscribers(
    peer: Peer, topic: str, store: StoreDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(request: object) -> None:
        raise TopicNotFound("gone")

    monkeypatch.setattr(store, "receive", gone)
    subscribe(peer, topic, 1, 100)

    err = peer.recv()

    assert (err["op"], err["id"], err["code"]) == ("err", None, "TOPIC_NOT_FOUND")


@pytest.mark.parametrize("subprotocol", BOTH)
def test_shutdown_says_goaway_waits_for_acks_and_closes_with_1012(subprotocol: str) -> None:
    store = StoreDouble()
    with serving(store, TIMES) as server:
        server.topic("orders")
        server.group("billing")
        with Peer(server, subprotocol) as acker, Peer(server, subprotocol) as idler:
            fill(acker, "orders", 4)
            for peer in (acker, idler):
                subscribe(peer, "orders", 2, 1_000)
            acked = [m["t"] for m in acker.take(2)]
            idler.take(2)

            server.ask_to_stop()
            while (goaway := acker.recv())["op"] != "goaway":
                continue
            answer = acker.ask("ack", sid=1, t=acked)
            codes = [close_code(acker), close_code(idler)]

    assert goaway == {"op": "goaway", "why": "drain", "grace_ms": 600, "retry_ms": 500}
    assert answer["r"] == {"acked": 2, "failed": []}
    assert codes == [1012, 1012]
    assert store.settled_count("acme%billing") == 2
    assert store.leased_count("acme%billing") == 0


def test_a_new_socket_during_the_end_is_refused(topic: str) -> None:
    with serving(StoreDouble(), TIMES) as server:
        server.call(server.context.drain.begin)

        with pytest.raises(InvalidStatus) as caught:
            Peer(server)

    assert caught.value.response.status_code == 503
    assert caught.value.response.headers["retry-after"] == "1"
