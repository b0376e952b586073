"""A produce that is whole is answered, charged and counted without a task as in one."""

from __future__ import annotations

import contextlib
import gc
import json
import re
import socket
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import Any

import pytest

from mqservice.accounts.scopes import Scope
from mqservice.delivery import plane
from mqservice.delivery.http import Request
from mqservice.delivery.plane import DataPlane
from mqservice.delivery.produce.put import Put
from mqservice.delivery.settle.settle_plan import SettleCall
from mqservice.quotas.limits import DEFAULTS, QuotaLimits
from mqservice.store import OutcomeUnknown, PutCall, StoreBusy
from mqservice.usage.counts import usage_counts
from mqservice.web.cycle import Serve
from mqservice.web.transport import HELD_BODY_BYTES_MAX
from tests.mqservice.delivery.serving import HOUR_MS, Server, serving
from tests.mqservice.delivery.store_double import StoreDouble
from tests.mqservice.delivery.wait_until import wait_until

PATH = "/v1/ns/acme/topics/orders/messages"
OTHER = "/v1/ns/acme/topics/other/messages"
# After these the server closes the connection.
ENDS = ("HTTP/1.0", "reading", "no HTTP behind it")
# Dates, ids and what is left of a rate are other in each run, and as long.
CHANGES = re.compile(
    rb"(?<=date: )[^\r]+|(?<=x-request-id: )\w+|(?<=ratelimit: )[^\r]+|(?<=\"id\":\")\w+"
    rb"|(?<=\"request_id\":\")\w+|(?<=_at\":\")[^\"]+"
    rb"|(?<=\"recall_handle\":\")[^\"]+|(?<=\"cursor\":\")[^\"]+",
)
JSON = "content-type: application/json"
TEXT = "content-type: text/plain"
LAST = "connection: close"


def post(key: str, body: str, *lines: str, path: str = PATH, version: str = "1.1") -> str:
    is_in_chunks = any("transfer-encoding" in line for line in lines)
    length = "x-none: 0" if is_in_chunks else f"content-length: {len(body)}"
    head = (
        f"POST {path} HTTP/{version}",
        "host: localhost",
        f"authorization: {key}",
        *lines,
        length,
    )
    return "\r\n".join((*head, "", body))


def last(key: str) -> str:
    return post(key, '{"body": "the last"}', JSON, LAST)


# What is sent after a first message, and whether the first of it is served without a task.
EXCHANGES: dict[str, tuple[Callable[[str], str], bool]] = {
    "JSON": (lambda key: post(key, '{"body": "a", "tag": "t", "keys": ["k"]}', JSON), True),
    "raw": (lambda key: post(key, "a", TEXT, "mq-tag: t", "mq-prop-x: y"), True),
    "JSON in JSON": (lambda key: post(key, '{"body_json": {"a": [1]}}', JSON), True),
    "one that waits": (lambda key: post(key, '{"body": "a", "delay": "1h"}', JSON), True),
    "three in one read": (lambda key: post(key, "a", TEXT) * 3, True),
    "HTTP/1.0": (lambda key: post(key, "a", TEXT, version="1.0"), True),
    "a request id": (lambda key: post(key, "a", TEXT, "x-request-id: of-the-client"), True),
    "no JSON": (lambda key: post(key, "{", JSON), True),
    "an unknown field": (lambda key: post(key, '{"body": "a", "bodi": 1}', JSON), True),
    "no body": (lambda key: post(key, "", TEXT), True),
    "a wrong tag": (lambda key: post(key, "a", TEXT, "mq-tag: a|b"), True),
    "a wrong queue": (lambda key: post(key, "a", TEXT, "mq-queue: 4"), True),
    "a header that is not known": (lambda key: post(key, "a", TEXT, "mq-what: 4"), True),
    "a body that is too large for the topic": (lambda key: post(key, "a" * 65, TEXT), True),
    "a body that comes in chunks": (
        lambda key: post(key, "1\r\na\r\n0\r\n\r\n", TEXT, "transfer-encoding: chunked"), True,
    ),
    "a key of the request": (lambda key: post(key, "a", TEXT, "idempotency-key: k"), True),
    "a key of the message": (lambda key: post(key, '{"body": "a", "dedup_id": "k"}', JSON), True),
    "an encoded body": (lambda key: post(key, "a", TEXT, "content-encoding: gzip"), True),
    "another topic": (lambda key: post(key, "a", TEXT, path=OTHER), False),
    "another key": (lambda key: post(key + "x", "a", TEXT), False),
    "no key": (lambda key: post(key, "a", TEXT).replace("authorization", "authorisation"), False),
    "reading": (lambda key: post(key, "", LAST).replace("POST", "GET"), False),
    "no HTTP behind it": (lambda key: post(key, "a", TEXT) + "what is this\r\n\r\n", True),
}  # fmt: skip


@contextlib.contextmanager
def warm(
    store: StoreDouble | None = None, quotas: QuotaLimits = DEFAULTS
) -> Iterator[tuple[Server, str, socket.socket]]:
    """A server that knows the key and the topic, and a connection to it."""
    with serving(store or StoreDouble(), quotas=quotas, fresh_ms=HOUR_MS) as server:
        server.topic("orders", body_bytes_max=64)
        key = server.key()
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
            peer.sendall(post(key, "the first", TEXT).encode())
            assert b" 201 " in answer_of(peer)
            yield server, key, peer


def answer_of(peer: socket.socket) -> bytes:
    """One answer with a content-length."""
    got = b""
    while b"\r\n\r\n" not in got:
        got += peer.recv(1) or b"\r\n\r\n"
    match = re.search(rb"content-length: (\d+)", got)
    assert match is not None, got
    left = int(match[1])
    while left:
        part = peer.recv(left)
        assert part, got
        got, left = got + part, left - len(part)
    return got


def rest_of(peer: socket.socket) -> bytes:
    """All until the server closes."""
    got = b""
    while part := peer.recv(65_536):
        got += part
    return CHANGES.sub(b"#", got)


def count_of(server: Server) -> list[int]:
    """What was counted since the last time: messages and bytes in, out, calls; and other calls."""
    counted = server.call(usage_counts.drain)
    row = counted.topics.get("acme%orders", [0] * 5)
    return [*row, counted.calls.get(1, 0)]


@pytest.mark.parametrize("name", EXCHANGES)
def test_it_is_answered_as_in_a_task(
    name: str, taken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, is_taken = EXCHANGES[name]
    found = []
    for is_on in (True, False):
        if not is_on:
            monkeypatch.setattr(DataPlane, "take", lambda *given: None)
        store = StoreDouble()
        with warm(store) as (server, key, peer):
            count_of(server)
            taken.clear()
            is_last = name in ENDS
            peer.sendall((sent(key) if is_last else sent(key) + last(key)).encode())
            said = rest_of(peer)
            stored = [record.body for queue in store.queues.values() for record in queue]
            found.append((said, sorted(stored), count_of(server)))
            if is_on:
                assert any(taken[:1]) == is_taken, taken
    assert found[0] == found[1]
    assert found[0][0]


def test_a_request_in_two_reads_is_served_without_a_task(
    taken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[bool] = []
    take = DataPlane.take

    def observed(served: DataPlane, *given: Any) -> Serve | None:  # Any: as the real
        serve = take(served, *given)
        waited.append(serve is not None)
        return serve

    monkeypatch.setattr(DataPlane, "take", observed)
    with warm() as (server, key, peer):
        whole = post(key, "in two parts", TEXT).encode()
        taken.clear()
        waited.clear()
        peer.sendall(whole[:-3])
        # The second part must not come along with the first.
        wait_until(lambda: bool(waited))
        peer.sendall(whole[-3:])
        assert b" 201 " in answer_of(peer)
        assert taken == [True]
        assert server.request_count() == 0, "no task was made"


def test_a_stranger_in_two_reads_is_refused(taken: list[bool]) -> None:
    """At once: nothing of the body of a stranger is waited for."""
    with warm() as (_, key, peer):
        whole = post(key + "x", "in two parts", TEXT).encode()
        taken.clear()
        peer.sendall(whole[:-3])
        assert b" 401 " in answer_of(peer)
        assert taken == [False]


def test_a_body_in_many_reads_is_taken_whole(taken: list[bool]) -> None:
    store = StoreDouble()
    with warm(store) as (_, key, peer):
        whole = post(key, "a body of some length", TEXT).encode()
        taken.clear()
        for start in range(0, len(whole), 7):
            peer.sendall(whole[start : start + 7])
        assert b" 201 " in answer_of(peer)
        assert taken == [True]


def test_a_large_body_is_read_by_a_task(taken: list[bool]) -> None:
    store = StoreDouble()
    with warm(store) as (server, key, peer):
        server.topic("large", body_bytes_max=2 * HELD_BODY_BYTES_MAX)
        path = "/v1/ns/acme/topics/large/messages"
        body = "x" * (HELD_BODY_BYTES_MAX + 1)
        for lines in ((), ("transfer-encoding: chunked",)):
            content = f"{len(body):x}\r\n{body}\r\n0\r\n\r\n" if lines else body
            for _ in range(2):
                whole = post(key, content, TEXT, *lines, path=path).encode()
                peer.sendall(whole[:-1])
                wait_until(lambda: server.request_count() == 1)
                peer.sendall(whole[-1:])
                assert b" 201 " in answer_of(peer)
                wait_until(lambda: server.request_count() == 0)
        assert [len(record.body) for record in store.records("acme%large")] == [len(body)] * 4


def test_a_client_that_leaves_within_its_body_leaves_nothing_behind(taken: list[bool]) -> None:
    store = StoreDouble()
    with warm(store) as (server, key, peer):
        taken.clear()
        peer.sendall(post(key, "half of it", TEXT).encode()[:-3])
        peer.close()
        wait_until(lambda: server.connection_count() == 0)
        assert taken == []
        assert len(store.records("acme%orders")) == 1


@pytest.mark.parametrize(
    ("error", "status"),
    [(StoreBusy("much waits"), b" 503 "), (OutcomeUnknown("gone"), b" 503 ")],
)
def test_what_the_store_refuses_is_reported(
    error: StoreBusy | OutcomeUnknown, status: bytes, taken: list[bool]
) -> None:
    store = StoreDouble()
    with warm(store) as (server, key, peer):
        store.put_error = error
        count_of(server)
        taken.clear()
        peer.sendall(post(key, "refused", TEXT).encode())
        assert status in answer_of(peer)
        assert taken == [True]
        assert count_of(server) == [0, 0, 0, 0, 0, 1]
        store.put_error = None
        store.is_connected = False
        peer.sendall(post(key, "refused", TEXT).encode())
        assert b" 503 " in answer_of(peer)
        store.is_connected = True
        peer.sendall(post(key, "stored", TEXT).encode())
        assert b" 201 " in answer_of(peer)
        assert taken == [True] * 3


def test_a_rate_that_is_used_up_is_asked_for_once_a_request(taken: list[bool]) -> None:
    quotas = QuotaLimits(messages_in_per_second=1)
    with warm(quotas=quotas) as (server, key, peer):
        meter = server.context.meters.known[1]
        server.call(meter.pop_demand)
        server.call(lambda: meter.incoming.take(1_000, 0))
        peer.sendall(post(key, "too much", TEXT).encode())
        assert b" 429 " in answer_of(peer)
        assert taken[-1]
        assert server.call(meter.pop_demand)[0] == 1


def test_a_key_without_the_scope_is_refused(taken: list[bool]) -> None:
    with warm() as (server, _, peer):
        key = server.key(scopes=frozenset({Scope.CONSUME}))
        for _ in range(2):
            peer.sendall(post(key, "not mine to send", TEXT).encode())
            assert b" 403 " in answer_of(peer)
        assert taken[-1]


def test_who_leaves_while_the_message_is_on_its_way_is_not_answered(taken: list[bool]) -> None:
    store = StoreDouble()
    with warm(store) as (server, key, peer):
        peer.sendall(post(key, "and gone", TEXT).encode())
        peer.close()
        wait_until(lambda: sum(map(len, store.queues.values())) == 2)
        wait_until(lambda: server.connection_count() == 0)
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as other:
            other.sendall(post(key, "another", TEXT).encode())
            assert b" 201 " in answer_of(other)


def test_a_record_that_the_engine_refuses_is_reported(taken: list[bool]) -> None:
    store = StoreDouble()
    store.refused_bodies[b"refused"] = StoreBusy("this one is")
    with warm(store) as (server, key, peer):
        count_of(server)
        peer.sendall(post(key, "refused", TEXT).encode())
        assert b" 503 " in answer_of(peer)
        assert taken[-1]
        assert count_of(server) == [0, 0, 0, 0, 0, 1]


def test_who_reads_slowly_is_waited_for(taken: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plane, "try_respond", lambda *given: False)
    with warm() as (server, key, peer):
        count_of(server)
        peer.sendall(post(key, "read late", TEXT).encode())
        assert b" 201 " in answer_of(peer)
        assert taken[-1]
        assert count_of(server)[4] == 1


def test_a_fault_of_ours_is_reported_and_the_engine_stays_connected(
    taken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> bool:
        raise ZeroDivisionError

    with warm() as (_, key, peer):
        with monkeypatch.context() as patch:
            patch.setattr(plane, "try_respond", fail)
            peer.sendall(post(key, "stored, but not told", TEXT).encode())
            assert b" 500 " in answer_of(peer)
        peer.sendall(post(key, "stored", TEXT).encode())
        assert b" 201 " in answer_of(peer)
        assert taken[-2:] == [True, True]


@pytest.mark.parametrize(
    ("trusted", "known"),
    [("127.0.0.1", "203.0.113.9"), ("10.9.8.7", "127.0.0.1"), (None, "127.0.0.1")],
)
def test_a_proxy_that_is_trusted_speaks_for_its_client(
    trusted: str | None, known: str, taken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    if trusted is not None:
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", trusted)
    store = StoreDouble()
    records: list[bytes] = []
    put_for = store.put_for

    def seen(call: PutCall, given: list[bytes], *, is_replicated: bool) -> None:
        records.extend(given)
        put_for(call, given, is_replicated=is_replicated)

    monkeypatch.setattr(store, "put_for", seen)
    with warm(store) as (_, key, peer):
        forwarded = "x-forwarded-for: 203.0.113.9", "x-forwarded-proto: https"
        peer.sendall(post(key, "from afar", TEXT, *forwarded).encode())
        assert b" 201 " in answer_of(peer)
    assert taken[-1]
    assert [str(ip_address(record[48:52])) for record in records] == ["127.0.0.1", known]


def test_served_requests_leave_nothing_to_the_garbage_collector(taken: list[bool]) -> None:
    receive = "/v1/ns/acme/topics/orders/groups/billing:receive"
    settle = "/v1/ns/acme/groups/billing:settle"

    def alive_count() -> int:
        served = Request, Put, SettleCall
        return sum(isinstance(each, served) for each in gc.get_objects())

    with warm() as (server, key, peer):
        server.group("billing")
        peer.sendall(post(key, '{"max": 1, "wait": "0s"}', path=receive).encode())
        [receipt] = re.findall(rb'"receipt":"([^"]+)', answer_of(peer))
        # What is not known yet is loaded in a task.
        peer.sendall(post(key, '{"ack": []}', path=settle).encode())
        assert b'"acked":0' in answer_of(peer)
        gc.collect()
        gc.disable()
        before_count = alive_count()
        try:
            peer.sendall(post(key, "a message", TEXT).encode())
            assert b" 201 " in answer_of(peer)
            peer.sendall(post(key, json.dumps({"ack": [receipt.decode()]}), path=settle).encode())
            assert b'"acked":1' in answer_of(peer)
            assert taken[-2:] == [True, True]
            wait_until(lambda: alive_count() <= before_count, seconds=10)
        finally:
            gc.enable()
