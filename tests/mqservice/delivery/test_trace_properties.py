"""A request's ``traceparent`` stays with its messages, wherever they go, with tracing off."""

from __future__ import annotations

import httpx
import pytest

from mqservice.store import RedriveRequest, StoreClient
from tests.mqservice.delivery.browsing import browse, dead_letters, received, settle
from tests.mqservice.delivery.peers import BOTH, Peer
from tests.mqservice.delivery.serving import Json, Server
from tests.mqservice.delivery.wait_until import wait_until

pytestmark = [
    pytest.mark.real_engine(queue_count=1),
    pytest.mark.group_settings(max_reconsume_times=1),
]

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-4bf92f3577b34da6a3ce929d0e0e4736-b7ad6b7169203331-01"
CONTEXT = {"traceparent": PARENT, "tracestate": "vendor=1"}


def path_of(topic: str) -> str:
    return f"/v1/-/topics/{topic}/messages"


def test_from_rest_to_rest(sender: httpx.Client, topic: str, group: str) -> None:
    response = sender.post(path_of(topic), json={"body": "a"}, headers=CONTEXT)
    assert response.status_code == 201
    sender.post(path_of(topic), content=b"raw", headers={**CONTEXT, "mq-prop-x": "y"})

    messages = received(sender, topic, group, wait="20s")
    while len(messages) < 2:
        messages += received(sender, topic, group, wait="20s")

    by_body = {message["body"]: message["properties"] for message in messages}
    assert by_body == {"a": CONTEXT, "raw": {**CONTEXT, "x": "y"}}


@pytest.mark.parametrize("subprotocol", BOTH)
def test_from_rest_to_a_socket(
    server: Server, api: httpx.Client, topic: str, subprotocol: str
) -> None:
    api.post(path_of(topic), json={"body": "a"}, headers=CONTEXT)
    with Peer(server, subprotocol) as peer:
        peer.ask("sub", sid=1, topic=topic, group="billing")
        [message] = peer.take(1)

    assert message["p"] == CONTEXT


@pytest.mark.parametrize("subprotocol", BOTH)
def test_a_socket_says_it_for_each_message(
    server: Server, api: httpx.Client, topic: str, subprotocol: str
) -> None:
    with Peer(server, subprotocol) as peer:
        offers = [{"body": "a", "properties": {"traceparent": PARENT}}, {"body": "b"}]
        assert peer.ask("pub", topic=topic, m=offers)["op"] == "ok"

    messages = browse(api, topic)["messages"]
    assert {m["body"]: m["properties"] for m in messages} == {"a": {"traceparent": PARENT}, "b": {}}


def test_each_message_of_a_batch_has_it_unless_it_has_its_own(
    api: httpx.Client, topic: str
) -> None:
    batch = [{"body": "a"}, {"body": "b", "properties": {"traceparent": OTHER, "x": "y"}}]
    response = api.post(f"{path_of(topic)}:batch", json=batch, headers=CONTEXT)

    assert response.status_code == 201
    assert {m["body"]: m["properties"] for m in browse(api, topic)["messages"]} == {
        "a": CONTEXT,
        "b": {"traceparent": OTHER, "x": "y"},
    }


@pytest.mark.parametrize(
    "headers",
    [
        {"traceparent": "nonsense", "tracestate": "a=1"},
        {"traceparent": "00-" + "0" * 32 + "-00f067aa0ba902b7-01"},
        {"traceparent": PARENT.upper()},
        {"traceparent": "x" * 5_000},
        {"tracestate": "a=1"},
    ],
)
def test_a_bad_header_is_as_none(sender: httpx.Client, topic: str, headers: dict[str, str]) -> None:
    response = sender.post(path_of(topic), json={"body": "a"}, headers=headers)

    assert response.status_code == 201
    [message] = browse(sender, topic)["messages"]
    assert message["properties"] == {}


def test_a_message_that_is_full_has_room_for_it(sender: httpx.Client, topic: str) -> None:
    names = [f"p{index:03}" for index in range(128)]
    rest = 16 * 1024 - 128 * len(names[0])
    full = dict.fromkeys(names, "") | {names[0]: "x" * rest}
    state = ",".join(f"k{index}={'v' * 95}" for index in range(5))
    context = {"traceparent": PARENT, "tracestate": state}
    message = {
        "body": "a",
        "tag": "t" * 255,
        "keys": [f"{index:0255}" for index in range(16)],
        "properties": full,
    }

    response = sender.post(path_of(topic), json=message, headers=context)

    assert response.status_code == 201, response.text
    [stored] = browse(sender, topic)["messages"]
    assert stored["properties"] == full | context


def test_it_goes_through_retry_dead_letters_and_redrive(
    api: httpx.Client, engine_socket: str, topic: str, group: str
) -> None:
    api.post(path_of(topic), json={"body": "a"}, headers=CONTEXT)
    seen: list[Json] = []
    for _ in range(2):
        [message] = received(api, topic, group, wait="20s")
        seen.append(message)
        settle(api, group, nack=[{"receipt": message["receipt"], "delay": "0s"}])
    wait_until(lambda: dead_letters(api, group)["messages"])
    [dead] = dead_letters(api, group)["messages"]
    with StoreClient(engine_socket, client_name="test") as client:
        client.redrive(RedriveRequest(group=f"acme%{group}", queue_offsets=[0]))
    seen += received(api, topic, group, wait="20s")

    assert [message["attempt"] for message in seen[:2]] == [1, 2]
    assert len(seen) == 3
    assert [message["properties"] for message in (*seen, dead)] == [CONTEXT] * 4


def test_a_delayed_message_keeps_it(api: httpx.Client, topic: str, group: str) -> None:
    offer = {"body": "a", "delay_ms": 100}
    assert api.post(path_of(topic), json=offer, headers=CONTEXT).status_code == 201

    [message] = received(api, topic, group, wait="20s")

    assert message["properties"] == CONTEXT


@pytest.mark.parametrize(
    ("offer", "headers"),
    [
        ({"body": "a"}, {"idempotency-key": "again-1"}),
        ({"body": "a", "dedup_id": "again-2"}, {}),
    ],
)
def test_a_second_attempt_in_another_span_is_the_same_request(
    api: httpx.Client, topic: str, offer: Json, headers: dict[str, str]
) -> None:
    path = path_of(topic)
    first = api.post(path, json=offer, headers={**headers, "traceparent": PARENT})
    again = api.post(path, json=offer, headers={**headers, "traceparent": OTHER})
    own = {**offer, "properties": {"traceparent": OTHER}}
    with_own = api.post(path, json=own, headers=headers)
    changed = api.post(path, json={**offer, "properties": {"x": "y"}}, headers=headers)

    assert [answer.status_code for answer in (first, again, with_own)] == [201, 200, 200]
    assert changed.json()["code"] == "IDEMPOTENCY_KEY_REUSED"
    [message] = browse(api, topic)["messages"]
    assert message["properties"] == {"traceparent": PARENT}
