"""Requests that come again over REST and sockets, before a real engine that may be killed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from mqservice.store import StoreClient, TopicRef
from tests.mqservice.delivery.engine_serving import real_topic, serving_engine
from tests.mqservice.delivery.peers import BOTH, Peer
from tests.mqservice.delivery.serving import Server
from tests.mqservice.delivery.wait_until import wait_until
from tests.storage_engine.engines import Engine

pytestmark = pytest.mark.real_engine()

KEY = {"idempotency-key": "5f0c2d6a-1"}


def path_of(topic: str) -> str:
    return f"/v1/ns/acme/topics/{topic}/messages"


def put(
    api: httpx.Client, topic: str, content: Any, headers: dict[str, str] | None = None
) -> httpx.Response:  # Any: JSON
    suffix = ":batch" if isinstance(content, list) else ""
    return api.post(path_of(topic) + suffix, json=content, headers=headers or {})


def stored_count(engine_socket: str, topic: str) -> int:
    with StoreClient(engine_socket, client_name="test") as client:
        stats = client.topic_stats(TopicRef(topic=f"acme%{topic}"))
    return sum(queue.max_offset for queue in stats.queues)


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        ({"body": "x", "tag": "t", "keys": ["k"]}, KEY),
        ({"body_json": {"a": 1}, "dedup_id": "d-1"}, {}),
        ({"body": "x", "dedup_id": "d-1"}, KEY),
    ],
)
def test_again_is_200_with_the_first_answer(
    api: httpx.Client, topic: str, engine_socket: str, content: Any, headers: dict[str, str]
) -> None:
    first, again = put(api, topic, content, headers), put(api, topic, content, headers)
    assert (first.status_code, again.status_code) == (201, 200)
    assert (first.json()["duplicate"], again.json()["duplicate"]) == (False, True)
    assert {**again.json(), "duplicate": False} == first.json()
    assert stored_count(engine_socket, topic) == 1
    message = api.get(path_of(topic)).json()["messages"][0]
    assert message["properties"] == {}


def test_raw_messages_have_keys_too(api: httpx.Client, topic: str, engine_socket: str) -> None:
    for status in (201, 200):
        raw = api.post(path_of(topic), content=b"\x00\xff", headers={"mq-dedup-id": "d"})
        assert raw.status_code == status
    assert stored_count(engine_socket, topic) == 1


@pytest.mark.parametrize(
    "other", [{"body": "y"}, {"body": "x", "tag": "t"}, {"body": "x", "delay_ms": 5_000}]
)
def test_another_content_under_the_key_is_409(
    api: httpx.Client, topic: str, engine_socket: str, other: Any
) -> None:
    put(api, topic, {"body": "x"}, KEY)
    refused = put(api, topic, other, KEY)
    assert (refused.status_code, refused.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")
    assert (refused.json()["stored"], refused.json()["retryable"]) == (False, False)
    assert stored_count(engine_socket, topic) == 1


def test_a_batch_comes_again_as_a_whole(api: httpx.Client, topic: str, engine_socket: str) -> None:
    batch = [{"body": str(number)} for number in range(20)]
    first, again = put(api, topic, batch, KEY), put(api, topic, batch, KEY)
    assert (first.status_code, again.status_code) == (201, 200)
    same = [{**result, "status": 201, "duplicate": False} for result in again.json()["results"]]
    assert same == first.json()["results"]
    assert put(api, topic, batch[:10], KEY).json()["code"] == "IDEMPOTENCY_KEY_REUSED"
    assert stored_count(engine_socket, topic) == 20


def test_messages_of_a_batch_have_keys_of_their_own(
    api: httpx.Client, topic: str, engine_socket: str
) -> None:
    put(api, topic, {"body": "a", "dedup_id": "1"})
    mixed = [
        {"body": "a", "dedup_id": "1"},
        {"body": "b", "dedup_id": "1"},
        {"body": "c", "dedup_id": "2"},
        {"body": "d"},
    ]
    answer = put(api, topic, mixed)
    assert answer.status_code == 207
    assert [result["status"] for result in answer.json()["results"]] == [200, 409, 201, 201]
    assert stored_count(engine_socket, topic) == 3


def test_requests_that_come_together_are_one(
    server: Server, api: httpx.Client, topic: str, engine_socket: str
) -> None:
    def send(_: int) -> dict[str, Any]:
        answer = put(api, topic, {"body": "x"}, KEY)
        assert answer.status_code in (200, 201)
        return {name: answer.json()[name] for name in ("id", "queue", "offset", "stored_at")}

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(send, range(24)))
    assert all(answer == answers[0] for answer in answers)
    assert stored_count(engine_socket, topic) == 1


def test_a_message_that_waits_is_answered_as_the_first_time(api: httpx.Client, topic: str) -> None:
    content = {"body": "x", "delay_ms": 3_600_000}
    first, again = put(api, topic, content, KEY), put(api, topic, content, KEY)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["offset"] is None
    assert {**again.json(), "duplicate": False} == first.json()
    cancelled = api.delete(f"/v1/ns/acme/scheduled/{again.json()['recall_handle']}")
    assert cancelled.status_code == 200


def test_keys_are_the_tenants_and_the_topics_own(
    server: Server, api: httpx.Client, topic: str, engine_socket: str
) -> None:
    other = real_topic(server, engine_socket)
    assert put(api, topic, {"body": "x"}, KEY).status_code == 201
    assert put(api, other, {"body": "y"}, KEY).status_code == 201


@pytest.mark.parametrize("protocol", BOTH)
def test_a_socket_publishes_once(
    server: Server, topic: str, engine_socket: str, protocol: str
) -> None:
    with Peer(server, protocol) as peer:
        for expected in (False, True):
            answer = peer.ask("pub", topic=topic, m=[{"body": "x"}], key="k")
            assert [result["duplicate"] for result in answer["r"]["results"]] == [expected]
        refused = peer.ask("pub", topic=topic, m=[{"body": "y"}], key="k")
        assert (refused["op"], refused["code"]) == ("err", "IDEMPOTENCY_KEY_REUSED")
        bad = peer.ask("pub", topic=topic, m=[{"body": "y"}], key="two words")
        assert (bad["op"], bad["code"]) == ("err", "BAD_REQUEST")
    assert stored_count(engine_socket, topic) == 1


def test_a_key_is_known_after_the_engine_and_the_web_process_were_killed() -> None:
    """Produce, kill, produce again: one message, whoever was killed in between."""
    with Engine() as engine:
        answers = []
        for turn in range(3):
            with serving_engine(engine.socket) as server:
                if not turn:
                    name = real_topic(server, engine.socket)
                else:
                    server.topic(name)
                with server.client() as api:
                    answers.append(put(api, name, {"body": "x", "dedup_id": "once"}))
                    answers.append(put(api, name, [{"body": "y"}] * 3, KEY))
                    engine.kill()
                    lost = put(api, name, {"body": "z", "dedup_id": "later"})
                    assert lost.status_code == 503
                    engine.start()
                    wait_until(lambda: server.store.is_connected)
                    again = put(api, name, {"body": "z", "dedup_id": "later"})
                    assert again.status_code == (200 if turn else 201)
        assert [answer.status_code for answer in answers] == [201, 201, 200, 200, 200, 200]
        assert len({answer.json()["id"] for answer in answers[::2]}) == 1
        assert stored_count(engine.socket, name) == 5
