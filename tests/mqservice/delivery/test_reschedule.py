"""Scheduled messages that are made due at another time, and those of all topics, over REST."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from mqservice.lib.timestamps import parse_rfc3339, rfc3339
from tests.mqservice.delivery.engine_serving import real_topic, serving_engine
from tests.mqservice.delivery.serving import Server
from tests.mqservice.delivery.test_delays import DAY_MS, browsed, produced, scheduled
from tests.mqservice.delivery.waiting import wait_until
from tests.storage_engine.engines import Engine


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine() as running:
        yield running


@pytest.fixture(scope="module")
def server(engine: Engine) -> Iterator[Server]:
    with serving_engine(engine.socket) as running:
        yield running


@pytest.fixture
def topic(server: Server, engine: Engine) -> str:
    return real_topic(server, engine.socket)


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    headers = {"authorization": server.key()}
    with httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=60) as made:
        yield made


def test_a_message_comes_at_another_time_and_both_handles_are_good(
    client: httpx.Client, topic: str
) -> None:
    told = produced(client, topic, delay="1d")
    path = f"/v1/ns/acme/scheduled/{told['recall_handle']}:reschedule"
    answer = client.post(path, json={"delay": "2h"})
    assert answer.status_code == 200
    moved = answer.json()
    assert (moved["id"], moved["topic"], moved["state"]) == (told["id"], topic, "rescheduled")
    (listed,) = scheduled(client, topic)
    assert listed["recall_handle"] == moved["recall_handle"] != told["recall_handle"]
    assert moved["deliver_at"] < told["deliver_at"]
    later = {"deliver_at": rfc3339(parse_rfc3339(told["deliver_at"]) + 30 * DAY_MS)}
    again = client.post(path, json=later)
    assert (again.status_code, again.json()["deliver_at"]) == (200, later["deliver_at"])
    at_once = f"/v1/ns/acme/scheduled/{moved['recall_handle']}:reschedule"
    past = {"deliver_at": "2020-01-01T08:00:00.000Z"}
    assert client.post(at_once, json=past).status_code == 200
    wait_until(lambda: browsed(client, topic) == [told["id"]])
    late = client.post(path, json={"delay": "2h"})
    assert (late.status_code, late.json()["code"]) == (409, "ALREADY_DELIVERED")
    assert scheduled(client, topic) == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("", "BAD_REQUEST"),
        ("[]", "BAD_REQUEST"),
        ("{}", "ILLEGAL_DELIVERY_TIME"),
        ('{"delay": "366d"}', "ILLEGAL_DELIVERY_TIME"),
        ('{"delay": "soon"}', "ILLEGAL_DELIVERY_TIME"),
        ('{"delay": "1h", "delay_ms": 1}', "ILLEGAL_DELIVERY_TIME"),
        ('{"delay_ms": -1}', "ILLEGAL_DELIVERY_TIME"),
        ('{"delay_ms": 1e400}', "ILLEGAL_DELIVERY_TIME"),
        ('{"delay_ms": "5"}', "ILLEGAL_DELIVERY_TIME"),
        ('{"delay_level": 3}', "ILLEGAL_DELIVERY_TIME"),
        ('{"when": "1h"}', "BAD_REQUEST"),
        ('{"deliver_at": "9999-01-01T00:00:00Z"}', "ILLEGAL_DELIVERY_TIME"),
    ],
)
def test_a_new_time_that_is_none_changes_nothing(
    client: httpx.Client, topic: str, body: str, code: str
) -> None:
    told = produced(client, topic, delay="1d")
    path = f"/v1/ns/acme/scheduled/{told['recall_handle']}:reschedule"
    answer = client.post(path, content=body)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    (listed,) = scheduled(client, topic)
    assert listed["recall_handle"] == told["recall_handle"]


def test_those_of_all_topics_are_listed_with_the_topic_of_each(
    client: httpx.Client, server: Server, engine: Engine, topic: str
) -> None:
    other = real_topic(server, engine.socket)
    told = [produced(client, name, delay="1d")["id"] for name in (topic, other, topic)]
    found: list[tuple[str, str]] = []
    cursor: dict[str, str] = {}
    while True:
        page = client.get("/v1/ns/acme/scheduled", params={"limit": 2, **cursor}).json()
        found += [(each["id"], each["topic"]) for each in page["messages"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert [each for each in found if each[0] in told] == list(
        zip(told, (topic, other, topic), strict=True)
    )
    wrong = client.get(f"/v1/ns/acme/topics/{topic}/scheduled", params={"cursor": "x", "limit": 2})
    assert wrong.json()["code"] == "CURSOR_INVALID"
    foreign = {"authorization": server.key(tenant_id=2, namespace="other")}
    assert client.get("/v1/ns/acme/scheduled", headers=foreign).status_code == 404
    mine = client.get("/v1/-/scheduled", headers=foreign).json()
    assert [each["id"] for each in mine["messages"] if each["id"] in told] == []
