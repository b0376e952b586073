"""Receives that are repeated, leases that are extended and acks up to a receipt, over REST."""

from __future__ import annotations

import socket

import httpx
import pytest

from tests.mqservice.delivery.browsing import put, received, settle
from tests.mqservice.delivery.serving import Json, Server
from tests.mqservice.delivery.wait_until import wait_until

pytestmark = pytest.mark.real_engine(queue_count=2)

LEASE = "5s"  # nobody who keeps it alive is as slow as that


def offers(count: int) -> list[Json]:
    return [{"body": str(number), "queue": number % 2} for number in range(count)]


@pytest.mark.parametrize("who", [{}, {"consumer_id": "worker-1"}])
def test_a_repeated_receive_has_the_same_receipts(api: httpx.Client, topic: str, who: Json) -> None:
    put(api, topic, *offers(6))

    first = received(api, topic, max=3, attempt_id="4f1c/1", **who)
    again = received(api, topic, max=3, attempt_id="4f1c/1", lease="90s", **who)
    other = received(api, topic, max=6, **who)

    assert len(first) == 3
    assert [message.pop("lease_until") for message in again] > [
        message.pop("lease_until") for message in first
    ]
    assert again == first
    assert {m["id"] for m in other}.isdisjoint(m["id"] for m in first)
    assert settle(api, ack=[message["receipt"] for message in [*again, *other]])["acked"] == 6


def test_a_client_that_goes_away_gets_them_by_asking_again(
    api: httpx.Client, server: Server, topic: str
) -> None:
    """Whichever comes first, what the first answer's process gives back or the repeat."""
    path = f"/v1/-/topics/{topic}/groups/billing:receive"
    body = b'{"wait": "20s", "lease": "60s", "attempt_id": "a-1", "consumer_id": "w"}'
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: {server.key()}\r\n"
        peer.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        put(api, topic, {"body": "lost"})
    found: list[Json] = []

    def asked_again() -> bool:
        found.extend(received(api, topic, attempt_id="a-1", consumer_id="w"))
        return bool(found)

    wait_until(asked_again)
    assert [message["body"] for message in found] == ["lost"]
    assert settle(api, ack=[found[0]["receipt"]])["acked"] == 1


def test_ack_upto_settles_what_came_before_in_the_answer(api: httpx.Client, topic: str) -> None:
    put(api, topic, *offers(8))
    messages = received(api, topic, max=8, lease="60s")
    receipts = [message["receipt"] for message in messages]

    answer = settle(api, ack_upto=[receipts[5]], nack=[{"receipt": receipts[2], "delay": "1h"}])
    rest = settle(api, ack=receipts[6:])

    assert (answer["acked"], answer["nacked"], answer["failed"]) == (5, 1, [])
    assert rest["acked"] == 2


def test_ack_upto_lists_the_receipts_that_it_could_not_settle(
    api: httpx.Client, topic: str
) -> None:
    put(api, topic, *offers(4))
    messages = received(api, topic, lease="60s")
    receipts = [message["receipt"] for message in messages]
    settle(api, extend=[{"receipt": receipt, "lease": "1s"} for receipt in receipts[:3]])
    taken: list[Json] = []

    def others_have_them() -> bool:
        taken.extend(received(api, topic, lease="60s"))
        return len(taken) == 3

    wait_until(others_have_them)
    answer = settle(api, ack_upto=[receipts[3]])

    assert answer["acked"] == 1
    assert [each["receipt"] for each in answer["failed"]] == receipts[:3]
    assert {each["code"] for each in answer["failed"]} == {"LEASE_EXPIRED"}
    assert settle(api, ack=[message["receipt"] for message in taken])["acked"] == 3


def test_ack_upto_of_a_batch_that_nobody_knows_says_what_to_do(
    api: httpx.Client, topic: str
) -> None:
    put(api, topic, *offers(2))
    receipts = [message["receipt"] for message in received(api, topic)]
    settle(api, ack=receipts)

    [failed] = settle(api, ack_upto=[receipts[1]])["failed"]

    assert (failed["receipt"], failed["code"]) == (receipts[1], "LEASE_EXPIRED")
    assert "by its own receipt" in failed["message"]


def test_a_consumer_that_settles_keeps_its_leases(api: httpx.Client, topic: str) -> None:
    put(api, topic, *offers(2))
    messages = received(api, topic, lease=LEASE, auto_extend="5m", consumer_id="worker-2")
    kept = [message["receipt"] for message in messages]
    put(api, topic, {"body": "a clock"})
    [clock] = received(api, topic, lease=LEASE)
    lost: list[Json] = []

    def lease_of_another_has_ended() -> bool:
        assert settle(api, consumer_id="worker-2")["failed"] == []
        lost.extend(received(api, topic, lease="60s"))
        return bool(lost)

    wait_until(lease_of_another_has_ended)
    assert [message["id"] for message in lost] == [clock["id"]]
    assert settle(api, ack=[*kept, lost[0]["receipt"]])["acked"] == 3


@pytest.mark.parametrize(
    ("options", "code", "pointer"),
    [
        ({"attempt_id": ""}, "BAD_REQUEST", "/attempt_id"),
        ({"attempt_id": "a b"}, "BAD_REQUEST", "/attempt_id"),
        ({"attempt_id": "x" * 129}, "BAD_REQUEST", "/attempt_id"),
        ({"attempt_id": 5}, "BAD_REQUEST", "/attempt_id"),
        ({"consumer_zone": "a b"}, "BAD_REQUEST", "/consumer_zone"),
        ({"auto_extend": "10m"}, "BAD_REQUEST", "/consumer_id"),
        ({"auto_extend": "soon", "consumer_id": "w"}, "BAD_REQUEST", "/auto_extend"),
        ({"auto_extend": "181m", "consumer_id": "w"}, "ILLEGAL_LEASE", "/auto_extend"),
        ({"auto_extend": "30s", "consumer_id": "w"}, "ILLEGAL_LEASE", "/auto_extend"),
        ({"auto_extend": "1m", "auto_extend_ms": 5, "consumer_id": "w"}, "BAD_REQUEST",
         "/auto_extend"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_meant(
    api: httpx.Client, topic: str, options: Json, code: str, pointer: str
) -> None:
    path = f"/v1/-/topics/{topic}/groups/billing:receive"
    problem = api.post(path, json={"wait": "0s", **options}).json()

    assert problem["code"] == code
    assert [item["pointer"] for item in problem["errors"]] == [pointer]


@pytest.mark.parametrize(
    ("parts", "pointer"),
    [
        ({"consumer_id": "a b"}, "/consumer_id"),
        ({"ack_upto": ["x"] * 17}, "/ack_upto"),
        ({"ack_upto": "x"}, "/ack_upto"),
    ],
)
def test_settles_that_cannot_be_meant(
    api: httpx.Client, topic: str, parts: Json, pointer: str
) -> None:
    problem = api.post("/v1/-/groups/billing:settle", json=parts).json()

    assert problem["code"] == "BAD_REQUEST"
    assert [item["pointer"] for item in problem["errors"]] == [pointer]
