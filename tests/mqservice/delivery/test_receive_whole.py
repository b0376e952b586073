"""A receive that is whole is answered, charged and counted without a task as in one."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mqservice.accounts.scopes import Scope
from mqservice.delivery import plane
from mqservice.delivery.plane import DataPlane
from mqservice.quotas.limits import DEFAULTS, QuotaLimits
from mqservice.web.cycle import Serve
from mqservice.web.transport import PIPELINE_BODY_BYTES_MAX, PIPELINE_COUNT_MAX
from tests.mqservice.delivery.serving import HOUR_MS, Server, serving
from tests.mqservice.delivery.store_double import StoreDouble
from tests.mqservice.delivery.test_produce_whole import answer_of, count_of, rest_of
from tests.mqservice.delivery.wait_until import wait_until

PATH = "/v1/ns/acme/topics/orders/groups/billing:receive"
OTHER = "/v1/ns/acme/topics/orders/groups/other:receive"
# After this the server closes the connection.
ENDS = ("HTTP/1.0",)
CHANGES = re.compile(rb"(?<=\"receipt\":\")[^\"]+|(?<=_until\":\")[^\"]+")
LAST = "connection: close"


def post(key: str, body: str, *lines: str, path: str = PATH, version: str = "1.1") -> str:
    head = (f"POST {path} HTTP/{version}", "host: localhost", f"authorization: {key}", *lines)
    return "\r\n".join((*head, f"content-length: {len(body)}", "", body))


def take(key: str, *lines: str, **options: object) -> str:
    return post(key, json.dumps({"wait": "0s", **options}), *lines)


# What is sent after a first receive, and whether it is served without a task.
EXCHANGES: dict[str, tuple[Callable[[str], str], bool]] = {
    "one": (lambda key: take(key, max=1), True),
    "all": (lambda key: take(key), True),
    "no body": (lambda key: post(key, ""), True),
    "three in one read": (lambda key: take(key, max=1) * 3, True),
    "HTTP/1.0": (lambda key: post(key, '{"wait": "0s"}', version="1.0"), True),
    "MessagePack": (lambda key: take(key, "accept: application/msgpack", max=0), True),
    "a request id": (lambda key: take(key, "x-request-id: of-the-client"), True),
    "receipts that are none": (lambda key: take(key, settle={"ack": ["r1"]}), True),
    "nothing to settle": (lambda key: take(key, settle={}), True),
    "no JSON": (lambda key: post(key, "{"), True),
    "an unknown field": (lambda key: take(key, maxx=1), True),
    "too many": (lambda key: take(key, max=1_000_000), True),
    "a lease that is too short": (lambda key: take(key, lease="1ms"), True),
    "a wrong settlement": (lambda key: take(key, settle={"ack": [1]}), True),
    "an encoded body": (lambda key: take(key, "content-encoding: gzip"), True),
    "another group": (lambda key: post(key, '{"wait": "0s"}', path=OTHER), False),
    "another key": (lambda key: take(key + "x"), False),
    "no key": (lambda key: take(key).replace("authorization", "authorisation"), False),
    "another method": (lambda key: take(key).replace("POST", "PUT"), False),
}


@contextlib.contextmanager
def warm(
    store: StoreDouble | None = None, quotas: QuotaLimits = DEFAULTS
) -> Iterator[tuple[Server, str, socket.socket]]:
    """A server that knows key, topic and group, with four messages, and a connection to it."""
    with serving(store or StoreDouble(), quotas=quotas, fresh_ms=HOUR_MS) as server:
        server.topic("orders", queue_count=1)
        server.group("billing")
        key = server.key()
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
            peer.sendall(take(key).encode())
            assert b" 200 " in answer_of(peer)
            offers = json.dumps([{"body": f"m{number}"} for number in range(4)])
            path = "/v1/ns/acme/topics/orders/messages:batch"
            peer.sendall(post(key, offers, "content-type: application/json", path=path).encode())
            assert b" 201 " in answer_of(peer)
            yield server, key, peer


@pytest.mark.parametrize("name", EXCHANGES)
def test_it_is_answered_as_in_a_task(
    name: str, taken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, is_taken = EXCHANGES[name]
    found = []
    for is_on in (True, False):
        if not is_on:
            monkeypatch.setattr(DataPlane, "take", lambda *given: None)
        with warm() as (server, key, peer):
            meter = server.context.meters.known[1]
            count_of(server)
            server.call(meter.pop_demand)
            taken.clear()
            last = "" if name in ENDS else take(key, LAST)
            peer.sendall((sent(key) + last).encode())
            said = CHANGES.sub(b"#", rest_of(peer))
            wait_until(lambda m=meter: m.poll_count == 0)  # type: ignore[misc] # a loop's meter
            demand, inflight = server.call(meter.pop_demand), meter.inflight_count
            found.append((said, count_of(server), demand, inflight))
            if is_on:
                assert any(taken[:1]) == is_taken, taken
    assert found[0] == found[1]
    assert found[0][0]


def test_who_waits_is_counted_and_gets_what_comes(taken: list[bool]) -> None:
    with warm() as (server, key, peer):
        peer.sendall(take(key).encode())
        assert answer_of(peer).count(b'"receipt"') == 4
        meter = server.context.meters.known[1]
        peer.sendall(take(key, wait="30s").encode())
        wait_until(lambda: meter.poll_count == 1)
        assert taken[-1]
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as other:
            path = "/v1/ns/acme/topics/orders/messages"
            other.sendall(post(key, "late", "content-type: text/plain", path=path).encode())
            assert b" 201 " in answer_of(other)
        assert b'"late"' in answer_of(peer)
        assert meter.poll_count == 0
        assert server.context.drain.listener_count == 0


def test_as_many_as_may_wait_and_no_more(taken: list[bool]) -> None:
    with warm(quotas=QuotaLimits(parked_poll_count_max=1)) as (server, key, peer):
        peer.sendall(take(key).encode())
        answer_of(peer)
        meter = server.context.meters.known[1]
        peer.sendall(take(key, wait="30s").encode())
        wait_until(lambda: meter.poll_count == 1)
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as other:
            other.sendall(take(key, wait="30s").encode())
            assert b" 429 " in answer_of(other)
        assert taken[-2:] == [True, True]
        peer.close()
        wait_until(lambda: meter.poll_count == 0)


def test_a_rate_that_is_used_up_is_asked_for_once_a_request(taken: list[bool]) -> None:
    with warm() as (server, key, peer):
        meter = server.context.meters.known[1]
        server.call(meter.pop_demand)
        server.call(lambda: meter.outgoing.take(1 << 40, 0))
        peer.sendall(take(key).encode())
        assert b" 429 " in answer_of(peer)
        assert taken[-1]
        assert server.call(meter.pop_demand)[2] == 1


def test_what_has_no_room_in_flight_is_refused(taken: list[bool]) -> None:
    with warm(quotas=QuotaLimits(inflight_count_max=3)) as (server, key, peer):
        peer.sendall(take(key).encode())
        assert answer_of(peer).count(b'"receipt"') == 3
        peer.sendall(take(key).encode())
        assert b" 429 " in answer_of(peer)
        assert taken[-2:] == [True, True]
        assert server.context.meters.known[1].poll_count == 0
        peer.sendall(take(key, settle={"ack": ["r1"]}).encode())
        assert b" 429 " in answer_of(peer)
        assert taken[-1]


def test_a_key_without_the_scope_is_refused(taken: list[bool]) -> None:
    with warm() as (server, _, peer):
        key = server.key(scopes=frozenset({Scope.PRODUCE}))
        for _ in range(2):
            peer.sendall(take(key).encode())
            assert b" 403 " in answer_of(peer)
        assert taken[-1]


def test_who_reads_slowly_is_waited_for(taken: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plane, "try_respond", lambda *given: False)
    with warm() as (server, key, peer):
        count_of(server)
        peer.sendall(take(key).encode())
        assert answer_of(peer).count(b'"receipt"') == 4
        assert taken[-1]
        assert count_of(server)[2] == 4


def test_a_fault_of_ours_is_reported_and_the_engine_stays_connected(
    taken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> bool:
        raise ZeroDivisionError

    with warm() as (server, key, peer):
        with monkeypatch.context() as patch:
            patch.setattr(plane, "try_respond", fail)
            peer.sendall(take(key, max=1).encode())
            assert b" 500 " in answer_of(peer)
        peer.sendall(take(key, max=1).encode())
        assert b" 200 " in answer_of(peer)
        assert taken[-2:] == [True, True]
        assert server.context.meters.known[1].poll_count == 0


@pytest.mark.parametrize("is_one_read", [True, False])
def test_who_has_sent_the_next_request_already_is_heard_to_leave(
    taken: list[bool], is_one_read: bool
) -> None:
    with warm() as (server, key, peer):
        peer.sendall(take(key).encode())
        assert answer_of(peer).count(b'"receipt"') == 4
        meter = server.context.meters.known[1]
        request = take(key, wait="30s").encode()
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as other:
            other.sendall(request * 2 if is_one_read else request)
            wait_until(lambda: meter.poll_count == 1)
            assert taken[-1]
            if not is_one_read:
                other.sendall(request)
        wait_until(lambda: meter.poll_count == 0, seconds=20)  # not because it has waited so long
        assert server.context.drain.listener_count == 0


@pytest.mark.parametrize(
    ("count", "body"), [(PIPELINE_COUNT_MAX + 1, ""), (1, " " * (PIPELINE_BODY_BYTES_MAX + 1))]
)
def test_not_more_is_read_than_may_wait_for_a_request(
    monkeypatch: pytest.MonkeyPatch, count: int, body: str
) -> None:
    flows: list[Any] = []
    take_it = DataPlane.take

    def observed(served: DataPlane, cycle: Any, *given: Any) -> Serve | None:  # Any: as the real
        flows.append(cycle.flow)
        return take_it(served, cycle, *given)

    monkeypatch.setattr(DataPlane, "take", observed)
    with warm() as (server, key, peer):
        peer.sendall(take(key).encode())
        answer_of(peer)
        meter = server.context.meters.known[1]
        peer.sendall(take(key, wait="30s").encode())
        wait_until(lambda: meter.poll_count == 1)
        assert not flows[-1].read_paused
        peer.sendall((post(key, body) * count).encode())
        wait_until(lambda: flows[-1].read_paused)
        server.call(server.context.drain.start)
        for _ in range(count + 1):
            assert b"\r\n\r\n{" in answer_of(peer)
        wait_until(lambda: not flows[-1].read_paused)


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_fault_of_ours_while_it_begins_leaves_nothing_behind(
    taken: list[bool], monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    def fail(*given: object) -> None:
        raise ZeroDivisionError

    with warm() as (server, key, peer):
        with monkeypatch.context() as patch:
            patch.setattr(StoreDouble, "receive_for", fail)
            if not is_whole:
                patch.setattr(DataPlane, "take", lambda *given: None)
            peer.sendall(take(key, wait="30s").encode())
            assert b" 500 " in answer_of(peer)
        assert server.context.drain.listener_count == 0
        assert server.context.meters.known[1].poll_count == 0
        peer.sendall(take(key, max=1).encode())
        assert b" 200 " in answer_of(peer)


def test_a_receive_that_is_refused_is_charged(taken: list[bool]) -> None:
    with warm() as (server, key, peer):
        meter = server.context.meters.known[1]
        server.call(meter.pop_demand)
        peer.sendall(take(key, maxx=1).encode())
        assert b" 400 " in answer_of(peer)
        assert taken[-1]
        assert server.call(meter.pop_demand)[2] == 1
