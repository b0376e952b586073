"""Receiving and settling over REST: shapes, long polls, receipts that fit where they belong."""

from __future__ import annotations

import base64
import socket
import threading

import httpx
import msgspec
import pytest

from mqservice.delivery.drain import Drain
from tests.mqservice.delivery.serving import Json, Server, serving
from tests.mqservice.delivery.store_double import StoreDouble
from tests.mqservice.delivery.wait_until import wait_until


def put(api: httpx.Client, topic: str, *messages: Json) -> None:
    response = api.post(f"/v1/ns/acme/topics/{topic}/messages:batch", json=list(messages))
    assert response.status_code == 201, response.text


def receive(api: httpx.Client, topic: str, **options: object) -> httpx.Response:
    return api.post(
        f"/v1/ns/acme/topics/{topic}/groups/billing:receive", json={"wait": "0s", **options}
    )


def settle(api: httpx.Client, **options: object) -> httpx.Response:
    return api.post("/v1/ns/acme/groups/billing:settle", json=options)


def test_a_received_message_has_everything_it_was_sent_with(api: httpx.Client, topic: str) -> None:
    put(
        api,
        topic,
        {
            "body_json": {"order": 42},
            "tag": "created",
            "keys": ["k1", "k2"],
            "message_group": "customer-7",
            "properties": {"source": "web"},
        },
    )

    response = receive(api, topic, lease="90s")

    assert response.status_code == 200
    answer = response.json()
    [message] = answer["messages"]
    assert answer.keys() == {"messages"}
    assert message.pop("receipt")
    assert message.pop("id")
    times = [message.pop(name) for name in ("born_at", "stored_at", "lease_until")]
    assert all(time.endswith("Z") and len(time) == 24 for time in times)
    assert message == {
        "body_json": {"order": 42},
        "tag": "created",
        "keys": ["k1", "k2"],
        "message_group": "customer-7",
        "properties": {"source": "web"},
        "queue": message["queue"],
        "offset": 0,
        "attempt": 1,
        "max_attempts": 17,
    }


def test_text_and_bytes_come_back_in_the_form_that_holds_them(
    api: httpx.Client, topic: str
) -> None:
    put(
        api,
        topic,
        {"body": '{"not":"json form"}', "queue": 0},
        {"body_b64": base64.b64encode(b"\xff\x00").decode(), "queue": 1},
    )

    text, binary = receive(api, topic).json()["messages"]

    assert text["body"] == '{"not":"json form"}'
    assert binary["body_b64"] == base64.b64encode(b"\xff\x00").decode()
    assert "body" not in binary
    assert "body_json" not in text


def test_msgpack_holds_bodies_as_they_are(api: httpx.Client, topic: str) -> None:
    put(api, topic, {"body_b64": base64.b64encode(b"\xff\x00").decode()})

    response = api.post(
        f"/v1/ns/acme/topics/{topic}/groups/billing:receive",
        headers={"accept": "application/msgpack"},
    )

    assert response.headers["content-type"] == "application/msgpack"
    [message] = msgspec.msgpack.decode(response.content)["messages"]
    assert message["body"] == b"\xff\x00"


def test_nothing_there_is_200_and_empty(api: httpx.Client, topic: str) -> None:
    response = receive(api, topic)

    assert response.status_code == 200
    assert response.json()["messages"] == []


def test_a_long_poll_is_woken_by_a_message(
    api: httpx.Client, server: Server, topic: str, store: StoreDouble
) -> None:
    answers: list[httpx.Response] = []
    headers = {"authorization": server.key()}

    def poll() -> None:
        url = f"{server.url}/v1/ns/acme/topics/{topic}/groups/billing:receive"
        answers.append(httpx.post(url, json={"wait": "20s"}, headers=headers, timeout=20))

    thread = threading.Thread(target=poll)
    thread.start()
    wait_until(lambda: store.parked_count == 1)
    put(api, topic, {"body": "wake"})
    thread.join(5)

    assert [m["body"] for m in answers[0].json()["messages"]] == ["wake"]


def test_a_client_that_goes_frees_its_long_poll(
    server: Server, topic: str, store: StoreDouble
) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.sendall(
            f"POST /v1/ns/acme/topics/{topic}/groups/billing:receive HTTP/1.1\r\n"
            f"host: 127.0.0.1\r\nauthorization: {server.key()}\r\n"
            "content-length: 0\r\n\r\n".encode()
        )
        wait_until(lambda: store.parked_count == 1)

    wait_until(lambda: store.parked_count == 0)


def test_the_end_of_the_process_answers_long_polls(topic: str) -> None:
    store = StoreDouble()
    answers: list[httpx.Response] = []
    with serving(store) as server:
        server.topic("orders")
        server.group("billing")
        headers = {"authorization": server.key()}

        def poll() -> None:
            url = f"{server.url}/v1/ns/acme/topics/orders/groups/billing:receive"
            answers.append(httpx.post(url, headers=headers, timeout=20))

        thread = threading.Thread(target=poll)
        thread.start()
        wait_until(lambda: store.parked_count == 1)
        server.ask_to_stop()
        thread.join(10)

    assert (answers[0].status_code, answers[0].json()["messages"]) == (200, [])
    assert store.parked_count == 0


@pytest.mark.parametrize(
    ("options", "code", "pointer"),
    [
        ({"max": 0}, "BAD_REQUEST", "/max"),
        ({"max": 257}, "BAD_REQUEST", "/max"),
        ({"max": "1"}, "BAD_REQUEST", "/max"),
        ({"wait": "31s"}, "BAD_REQUEST", "/wait"),
        ({"wait": "soon"}, "BAD_REQUEST", "/wait"),
        ({"wait": "1s", "wait_ms": 1}, "BAD_REQUEST", "/wait"),
        ({"lease": "999ms"}, "ILLEGAL_LEASE", "/lease"),
        ({"lease_ms": 43_200_001}, "ILLEGAL_LEASE", "/lease"),
        ({"lease": "-1s"}, "ILLEGAL_LEASE", "/lease"),
        ({"filter": "a | b"}, "ILLEGAL_FILTER", "/filter"),
        ({"filter": ""}, "ILLEGAL_FILTER", "/filter"),
        ({"filter": {"sql": "a >"}}, "ILLEGAL_FILTER", "/filter/sql"),
        ({"filter": {"sql": ""}}, "ILLEGAL_FILTER", "/filter/sql"),
        ({"filter": {"tag": "a"}}, "BAD_REQUEST", "/filter/tag"),
        ({"filter": 5}, "BAD_REQUEST", "/filter"),
        ({"consumer_id": "a b"}, "BAD_REQUEST", "/consumer_id"),
    ],
)
def test_receive_options_out_of_range(
    api: httpx.Client, topic: str, options: Json, code: str, pointer: str
) -> None:
    response = receive(api, topic, **options)

    problem = response.json()
    assert (response.status_code, problem["code"]) == (400, code)
    assert [item["pointer"] for item in problem["errors"]] == [pointer]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("topics/absent/groups/billing:receive", 404, "TOPIC_NOT_FOUND"),
        ("topics/{}/groups/absent:receive", 404, "GROUP_NOT_FOUND"),
        ("topics/{}/groups/a.b:receive", 400, "ILLEGAL_GROUP"),
        ("groups/absent:settle", 404, "GROUP_NOT_FOUND"),
    ],
)
def test_unknown_topics_and_groups(
    api: httpx.Client, topic: str, path: str, status: int, code: str
) -> None:
    response = api.post(f"/v1/ns/acme/{path.format(topic)}", json={})

    assert (response.status_code, response.json()["code"]) == (status, code)


def test_receive_while_the_engine_is_down_is_503(
    api: httpx.Client, topic: str, store: StoreDouble
) -> None:
    store.is_connected = False
    try:
        response = receive(api, topic)
    finally:
        store.is_connected = True

    assert (response.status_code, response.json()["code"]) == (503, "ENGINE_UNAVAILABLE")
    assert receive(api, topic).status_code == 200


def test_settle_acks_nacks_and_extends_in_one_call(
    api: httpx.Client, topic: str, store: StoreDouble
) -> None:
    put(api, topic, *({"body": f"m{n}", "queue": 0} for n in range(4)))
    receipts = [m["receipt"] for m in receive(api, topic).json()["messages"]]

    response = settle(
        api,
        ack=receipts[:2],
        nack=[{"receipt": receipts[2], "delay": "30s", "reason": "db down"}],
        extend=[{"receipt": receipts[3], "lease": "120s"}],
    )

    answer = response.json()
    assert response.status_code == 200
    [extended] = answer.pop("extended")
    assert extended["receipt"] == receipts[3]
    assert answer == {"acked": 2, "nacked": 1, "dead_lettered": 0, "failed": []}
    request = store.settles[-1]
    assert [lease.queue_offsets for lease in request.acks] == [[0, 1]]
    assert [(n.queue_offset, n.delay_ms, n.reason) for n in request.nacks] == [
        (2, 30_000, "db down")
    ]
    assert [(e.queue_offset, e.lease_ms) for e in request.extends] == [(3, 120_000)]


def test_an_extended_receipt_still_acks(api: httpx.Client, topic: str) -> None:
    put(api, topic, {"body": "x"})
    [message] = receive(api, topic).json()["messages"]
    settle(api, extend=[{"receipt": message["receipt"], "lease_ms": 5_000}])

    answer = settle(api, ack=[message["receipt"]]).json()

    assert (answer["acked"], answer["failed"]) == (1, [])


def test_a_failure_names_the_receipt_that_failed_and_not_a_newer_one(
    api: httpx.Client, topic: str
) -> None:
    put(api, topic, {"body": "x"})
    old = receive(api, topic).json()["messages"][0]["receipt"]
    assert settle(api, nack=[{"receipt": old, "delay": "0s"}]).json()["nacked"] == 1
    new = receive(api, topic).json()["messages"][0]["receipt"]

    answer = settle(api, ack=[old, new]).json()

    assert answer["acked"] == 1
    assert [failure["receipt"] for failure in answer["failed"]] == [old]


def test_a_receipt_given_twice_counts_once(api: httpx.Client, topic: str) -> None:
    put(api, topic, {"body": "x"})
    [message] = receive(api, topic).json()["messages"]

    assert settle(api, ack=[message["receipt"]] * 2).json()["acked"] == 1


@pytest.mark.parametrize("count", [2, 12])
def test_a_stale_receipt_fails_alone(api: httpx.Client, topic: str, count: int) -> None:
    put(api, topic, *[{"body": "a", "queue": 0}] * count)
    stale, *fine = (m["receipt"] for m in receive(api, topic, max=count).json()["messages"])
    settle(api, nack=[{"receipt": stale}])
    receive(api, topic)

    answer = settle(api, ack=[stale, *fine]).json()

    assert answer["acked"] == count - 1
    [failed] = answer["failed"]
    assert (failed["receipt"], failed["code"], failed["retryable"]) == (
        stale,
        "LEASE_EXPIRED",
        False,
    )


def test_forged_and_foreign_receipts_are_invalid(
    server: Server, api: httpx.Client, topic: str, store: StoreDouble
) -> None:
    server.group("audit")
    put(api, topic, {"body": "x"})
    [message] = receive(api, topic).json()["messages"]
    good: str = message["receipt"]
    forged = ("B" if good[5] != "B" else "C").join((good[:5], good[6:]))
    settles_before = len(store.settles)

    answers = [
        settle(api, ack=[forged]).json(),
        settle(api, ack=["", "r1", "ä", "A" * 600]).json(),
        settle(api, nack=[{"receipt": forged}], extend=[{"receipt": forged}]).json(),
        api.post("/v1/ns/acme/groups/audit:settle", json={"ack": [good]}).json(),
    ]

    for answer in answers:
        assert (answer["acked"], answer["nacked"], answer["extended"]) == (0, 0, [])
        assert {failed["code"] for failed in answer["failed"]} == {"RECEIPT_INVALID"}
    assert len(store.settles) == settles_before
    assert settle(api, ack=[good]).json()["acked"] == 1


@pytest.mark.parametrize(
    ("options", "code", "pointer"),
    [
        ({"ack": ["x"] * 1_001}, "BAD_REQUEST", ""),
        ({"ack": "x"}, "BAD_REQUEST", "/ack"),
        ({"ack": ["x", 1]}, "BAD_REQUEST", "/ack/1"),
        ({"nack": [{"delay": "1s"}]}, "BAD_REQUEST", "/nack/0/receipt"),
        ({"nack": [{"receipt": "x", "delay": "later"}]}, "BAD_REQUEST", "/nack/0/delay"),
        ({"nack": [{"receipt": "x", "delay": "366d"}]}, "BAD_REQUEST", "/nack/0/delay"),
        ({"nack": [{"receipt": "x", "reason": "r" * 1_001}]}, "BAD_REQUEST", "/nack/0/reason"),
        ({"extend": [{"receipt": "x", "lease": "0s"}]}, "ILLEGAL_LEASE", "/extend/0/lease"),
        ({"dead_letter": [{"reason": "x"}]}, "BAD_REQUEST", "/dead_letter/0/receipt"),
        (
            {"dead_letter": [{"receipt": "x", "reason": "r" * 1_001}]},
            "BAD_REQUEST",
            "/dead_letter/0/reason",
        ),
        ({"drop": []}, "BAD_REQUEST", "/drop"),
    ],
)
def test_settle_options_out_of_range(
    api: httpx.Client, topic: str, options: Json, code: str, pointer: str
) -> None:
    response = settle(api, **options)

    problem = response.json()
    assert (response.status_code, problem["code"]) == (400, code)
    assert [item["pointer"] for item in problem["errors"]] == [pointer]


def test_drain_tells_those_who_join_late() -> None:
    drain = Drain()
    told: list[str] = []

    drain.start()
    drain.join(lambda: told.append("late"))
    drain.start()

    assert told == ["late"]
