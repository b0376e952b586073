"""Flow control: credit, the size of frames, leases that end or do not, readers that do not read."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

import pytest
from websockets.exceptions import ConnectionClosed

from mqservice.delivery.sessions import SessionTimes
from mqservice.store import Received
from tests.clock import ManualClock
from tests.mqservice.delivery.flowing import (
    TIMES,
    fill,
    flow_of,
    frames_during_pings,
    pass_time_until,
    pushed_before_pong,
    subscribe,
)
from tests.mqservice.delivery.peers import TIMEOUT_SECONDS, Peer, closed
from tests.mqservice.delivery.serving import Json, Server
from tests.mqservice.delivery.store_double import StoreDouble
from tests.mqservice.delivery.wait_until import wait_until

KIB = 1024
# The library reads ahead a few frames and stops; the kernel holds some more, but never 8 MB.
SMALL_FRAME_BYTES = 16 * KIB


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
def times() -> SessionTimes:
    return TIMES


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
            content = peer.socket.recv(TIMEOUT_SECONDS)
            sizes.append(len(content))
            count += str(content).count('"t":')

    assert max(sizes) <= 16 * KIB


def test_a_lease_that_ends_is_announced_and_its_credit_returned(
    peer: Peer, topic: str, clock: ManualClock
) -> None:
    fill(peer, topic, 2)
    subscribe(peer, topic, 1, 1_000, lease_ms=1_000)
    [first] = peer.take(1)

    clock.advance(1_000)
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


def test_an_extended_lease_does_not_end(
    peer: Peer, topic: str, store: StoreDouble, clock: ManualClock
) -> None:
    fill(peer, topic, 1)
    subscribe(peer, topic, 1, 1_000, lease_ms=1_000)
    [message] = peer.take(1)
    peer.ask("extend", sid=1, t=[message["t"]], ms=60_000)
    held_until = store.progress["acme%billing", f"acme%{topic}", 0].leases[0][1]

    frames = frames_during_pings(peer, clock, 3)

    assert frames == [], "three pings take longer than the lease"
    assert held_until - message["s"] > 50_000


@pytest.mark.parametrize(("auto_extend_ms", "is_lost"), [(0, True), (600_000, False)])
def test_a_lease_is_extended_on_its_own_when_asked(
    peer: Peer, topic: str, clock: ManualClock, auto_extend_ms: int, is_lost: bool
) -> None:
    fill(peer, topic, 1)
    subscribe(peer, topic, 1, 1_000, lease_ms=1_000, auto_extend_ms=auto_extend_ms)
    [message] = peer.take(1)

    lost = [frame for frame in frames_during_pings(peer, clock, 4) if frame["op"] == "lost"]

    assert bool(lost) == is_lost, "four pings take longer than the lease"
    if not is_lost:
        acked = peer.ask("ack", sid=1, t=[message["t"]])
        assert acked["r"] == {"acked": 1, "failed": []}


def test_a_lease_is_extended_no_longer_than_asked(
    peer: Peer, topic: str, clock: ManualClock
) -> None:
    fill(peer, topic, 1)
    subscribe(peer, topic, 1, 1_000, lease_ms=1_000, auto_extend_ms=1_500)
    [message] = peer.take(1)

    lost = [frame for frame in frames_during_pings(peer, clock, 8) if frame["op"] == "lost"]

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
    server: Server, topic: str, store: StoreDouble, clock: ManualClock
) -> None:
    with reader_that_does_not_read(server, topic, store) as peer:
        pass_time_until(lambda: store.leased_count("acme%billing") == 0, clock)

        assert closed(peer) == (4408, "the client read nothing for 600 ms")
    assert store.parked_count == 0


def test_a_reader_that_talks_and_does_not_read_is_cut_off_too(
    server: Server, topic: str, store: StoreDouble, clock: ManualClock
) -> None:
    with reader_that_does_not_read(server, topic, store) as peer:

        def is_cut_off() -> bool:
            with contextlib.suppress(ConnectionClosed):
                peer.send("ack", sid=1, t=[1])  # heard, and never answered
            return store.leased_count("acme%billing") == 0

        pass_time_until(is_cut_off, clock)

        assert closed(peer) == (4408, "the client read nothing for 600 ms")


def test_what_was_pushed_is_forgotten_while_nothing_comes(peer: Peer, topic: str) -> None:
    """Of a batch as it came, and each of its bodies once more, nothing is kept for an idle one."""
    fill(peer, topic, 3)
    subscribe(peer, topic, 5, 100_000)
    assert len(peer.take(3)) == 3

    def is_forgotten() -> bool:
        batches = [each for each in gc.get_objects() if type(each) is Received and each.count == 3]
        return not batches

    wait_until(is_forgotten, seconds=10)
