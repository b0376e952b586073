"""Finding messages by key and by id on a real engine, and only those of the topic asked for."""

from __future__ import annotations

import httpx
import msgspec
import pytest

from tests.mqservice.delivery.browsing import bodies, browse, put, walk
from tests.mqservice.delivery.engine_serving import real_topic
from tests.mqservice.delivery.serving import Server

pytestmark = pytest.mark.real_engine()


def read(api: httpx.Client, topic: str, message_id: str) -> tuple[int, str | None]:
    """Status, and the code of a refusal."""
    response = api.get(f"/v1/-/topics/{topic}/messages/{message_id}")
    return response.status_code, response.json().get("code")


@pytest.mark.parametrize("limit", [1, 4, 256])
def test_messages_of_a_key_come_newest_first(api: httpx.Client, topic: str, limit: int) -> None:
    put(api, topic, *({"body": f"{n}", "keys": ["k", f"only{n}"]} for n in range(10)))
    put(api, topic, {"body": "other", "keys": ["other"]})

    assert bodies(walk(api, topic, key="k", limit=limit)) == [f"{n}" for n in range(9, -1, -1)]
    assert bodies(walk(api, topic, key="only3")) == ["3"]
    assert bodies(walk(api, topic, key="absent")) == []


def test_keys_of_one_hash_are_kept_apart(api: httpx.Client, topic: str) -> None:
    put(api, topic, *({"body": f"{n}", "keys": [("Aa", "BB")[n % 2]]} for n in range(20)))

    assert bodies(walk(api, topic, key="Aa", limit=3)) == [f"{n}" for n in range(18, -1, -2)]
    assert bodies(walk(api, topic, key="BB", limit=3)) == [f"{n}" for n in range(19, 0, -2)]


def test_a_search_by_key_takes_tag_queue_and_times(api: httpx.Client, topic: str) -> None:
    times = [
        put(api, topic, {"body": f"{n}", "keys": ["k"], "tag": f"t{n % 3}", "queue": n % 2})[0][
            "stored_at"
        ]
        for n in range(24)
    ]

    assert bodies(walk(api, topic, key="k", tag="t1", limit=2)) == [
        f"{n}" for n in range(22, 0, -3)
    ]
    assert bodies(walk(api, topic, key="k", tag="t1 || t2", queue=0, limit=5)) == [
        f"{n}" for n in range(22, 0, -2) if n % 3
    ]
    low, high = times[5], times[15]
    assert bodies(walk(api, topic, **{"key": "k", "from": low, "to": high})) == [
        f"{n}" for n in range(23, -1, -1) if low <= times[n] <= high
    ]


def test_pages_of_a_key_continue_while_more_of_it_are_put(api: httpx.Client, topic: str) -> None:
    put(api, topic, *({"body": f"{n}", "keys": ["k"]} for n in range(30)))
    seen: list[str] = []
    query: dict[str, str | int] = {"key": "k", "limit": 4}

    while True:
        answer = browse(api, topic, **query)
        seen += bodies([answer["messages"]])
        if answer["next_cursor"] is None:
            break
        query["cursor"] = answer["next_cursor"]
        put(api, topic, {"body": "late", "keys": ["k"]})

    assert seen == [f"{n}" for n in range(29, -1, -1)]


def test_a_message_is_read_by_its_id(api: httpx.Client, topic: str) -> None:
    stored = put(api, topic, *({"body": f"{n}", "keys": ["k"]} for n in range(5)))

    response = api.get(f"/v1/-/topics/{topic}/messages/{stored[3]['id']}")
    packed = api.get(
        f"/v1/-/topics/{topic}/messages/{stored[3]['id']}",
        headers={"accept": "application/msgpack"},
    )

    assert response.status_code == 200
    message = response.json()
    assert (message["id"], message["body"], message["offset"]) == (
        stored[3]["id"],
        "3",
        stored[3]["offset"],
    )
    assert msgspec.msgpack.decode(packed.content)["body"] == b"3"


def test_an_id_that_others_have_as_a_key_is_still_one_message(
    api: httpx.Client, topic: str
) -> None:
    [wanted] = put(api, topic, {"body": "wanted"})
    put(api, topic, *({"body": "x", "keys": [wanted["id"]]} for _ in range(40)))

    response = api.get(f"/v1/-/topics/{topic}/messages/{wanted['id']}")

    assert response.json()["body"] == "wanted"


def test_ids_that_are_not_of_the_topic_are_404(
    server: Server, api: httpx.Client, topic: str, engine_socket: str
) -> None:
    beside = real_topic(server, engine_socket)
    [mine] = put(api, topic, {"body": "mine", "keys": ["business-key"]})

    assert read(api, topic, mine["id"]) == (200, None)
    assert read(api, beside, mine["id"]) == (404, "MESSAGE_NOT_FOUND")
    assert read(api, topic, "business-key") == (404, "MESSAGE_NOT_FOUND")
    assert read(api, topic, mine["id"].lower()) == (404, "MESSAGE_NOT_FOUND")
    assert read(api, topic, "01") == (404, "MESSAGE_NOT_FOUND")
    assert bodies(walk(api, beside, key="business-key")) == []


def test_another_tenant_sees_nothing_though_it_knows_every_name(
    server: Server, api: httpx.Client, topic: str, engine_socket: str
) -> None:
    [mine] = put(api, topic, {"body": "mine", "keys": ["k"]})
    put(api, topic, {"body": "mine too", "keys": ["k"]})
    cursor = browse(api, topic, key="k", limit=1)["next_cursor"]
    paths = (
        "messages",
        "messages?key=k",
        f"messages?key=k&cursor={cursor}",
        f"messages/{mine['id']}",
        "queues/0/messages?offset=0",
        "queues/0/offset?time=2026-01-01T00:00:00Z",
    )
    stranger = {"authorization": server.key(tenant_id=2, namespace=None)}

    for path in paths:
        for ns in ("acme", "rival"):
            url = f"{server.url}/v1/ns/{ns}/topics/{topic}/{path}"
            foreign = httpx.get(url, headers=stranger, timeout=60)
            absent = httpx.get(url.replace(topic, "absent"), headers=stranger, timeout=60)
            assert (foreign.status_code, foreign.json()["code"]) == (404, "TOPIC_NOT_FOUND")
            assert foreign.json()["detail"].replace(topic, "absent") == absent.json()["detail"]
            assert "stored" not in foreign.json()
