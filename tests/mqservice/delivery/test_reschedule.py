"""Scheduled messages that are made due at another time, and those of all topics, over REST."""

from __future__ import annotations

import httpx
import pytest

from mqservice.accounts.scopes import Grant, Kind, Scope
from mqservice.lib.timestamps import parse_rfc3339, rfc3339
from mqservice.store import StoreClient, TopicConfig
from tests.mqservice.delivery.engine_serving import real_topic
from tests.mqservice.delivery.serving import Json, Server
from tests.mqservice.delivery.test_delays import DAY_MS, browsed, produced, scheduled
from tests.mqservice.delivery.wait_until import wait_until

pytestmark = pytest.mark.real_engine()


def test_a_message_comes_at_another_time_and_both_handles_are_good(
    api: httpx.Client, topic: str
) -> None:
    told = produced(api, topic, delay="1d")
    path = f"/v1/ns/acme/scheduled/{told['recall_handle']}:reschedule"
    answer = api.post(path, json={"delay": "2h"})
    assert answer.status_code == 200
    moved = answer.json()
    assert (moved["id"], moved["topic"], moved["state"]) == (told["id"], topic, "rescheduled")
    (listed,) = scheduled(api, topic)
    assert listed["recall_handle"] == moved["recall_handle"] != told["recall_handle"]
    assert moved["deliver_at"] < told["deliver_at"]
    later = {"deliver_at": rfc3339(parse_rfc3339(told["deliver_at"]) + 30 * DAY_MS)}
    again = api.post(path, json=later)
    assert (again.status_code, again.json()["deliver_at"]) == (200, later["deliver_at"])
    at_once = f"/v1/ns/acme/scheduled/{moved['recall_handle']}:reschedule"
    past = {"deliver_at": "2020-01-01T08:00:00.000Z"}
    assert api.post(at_once, json=past).status_code == 200
    wait_until(lambda: browsed(api, topic) == [told["id"]])
    late = api.post(path, json={"delay": "2h"})
    assert (late.status_code, late.json()["code"]) == (409, "ALREADY_DELIVERED")
    assert scheduled(api, topic) == []


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
    api: httpx.Client, topic: str, body: str, code: str
) -> None:
    told = produced(api, topic, delay="1d")
    path = f"/v1/ns/acme/scheduled/{told['recall_handle']}:reschedule"
    answer = api.post(path, content=body)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    (listed,) = scheduled(api, topic)
    assert listed["recall_handle"] == told["recall_handle"]


def all_scheduled(client: httpx.Client, **headers: str) -> list[Json]:
    """Those of the key's namespace, on pages of two."""
    found: list[Json] = []
    cursor: dict[str, str] = {}
    while True:
        answer = client.get("/v1/-/scheduled", params={"limit": 2, **cursor}, headers=headers)
        assert answer.status_code == 200, answer.text
        found += answer.json()["messages"]
        if answer.json()["next_cursor"] is None:
            return found
        cursor = {"cursor": answer.json()["next_cursor"]}


def test_those_of_all_topics_are_listed_with_the_topic_of_each(
    api: httpx.Client, server: Server, engine_socket: str, topic: str
) -> None:
    other = real_topic(server, engine_socket)
    told = [produced(api, name, delay="1d")["id"] for name in (topic, other, topic)]
    found = [(each["id"], each["topic"]) for each in all_scheduled(api)]
    assert [each for each in found if each[0] in told] == list(
        zip(told, (topic, other, topic), strict=True)
    )


def test_a_cursor_of_one_list_is_none_of_another(
    api: httpx.Client, server: Server, engine_socket: str, topic: str
) -> None:
    other = real_topic(server, engine_socket)
    for name in (topic, topic, other, other):
        produced(api, name, delay="1d")
    lists = [
        f"/v1/-/topics/{topic}/scheduled",
        f"/v1/-/topics/{other}/scheduled",
        "/v1/-/scheduled",
    ]
    for own in lists:
        cursor = api.get(own, params={"limit": 1}).json()["next_cursor"]
        statuses = [api.get(path, params={"cursor": cursor}).status_code for path in lists]
        assert statuses == [200 if path == own else 400 for path in lists]


def test_another_tenant_sees_its_own_alone(
    api: httpx.Client, server: Server, engine_socket: str, topic: str
) -> None:
    """Whose namespace has a name that begins like ours, and a topic named like ours."""
    with StoreClient(engine_socket, client_name="setup") as client:
        client.topic_put(TopicConfig(topic=f"acme2%{topic}", queue_count=1))
    server.topic(topic, tenant_id=2, namespace="acme2")
    foreign = {"authorization": server.key(tenant_id=2, namespace="acme2")}
    answer = api.post(
        f"/v1/-/topics/{topic}/messages", json={"body": "x", "delay": "1d"}, headers=foreign
    )
    ours, theirs = produced(api, topic, delay="1d")["id"], answer.json()["id"]
    assert [each["id"] for each in all_scheduled(api, **foreign)] == [theirs]
    assert [each["id"] for each in all_scheduled(api) if each["id"] in (ours, theirs)] == [ours]
    for path in ("/v1/ns/acme/scheduled", f"/v1/ns/acme/topics/{topic}/scheduled"):
        assert api.get(path, headers=foreign).status_code == 404


@pytest.mark.parametrize("kind", [None, Kind.TOPIC])
def test_a_key_for_some_topics_lists_those_by_their_names_only(
    api: httpx.Client, server: Server, engine_socket: str, topic: str, kind: Kind | None
) -> None:
    other = real_topic(server, engine_socket)
    for name in (topic, other):
        produced(api, name, delay="1d")
    grant = Grant(scope=Scope.CONSUME, kind=kind, pattern=topic)
    narrow = {"authorization": server.key(scopes=frozenset({Scope.PRODUCE}), grants=(grant,))}
    paths = (
        "/v1/-/scheduled",
        f"/v1/-/topics/{other}/scheduled",
        f"/v1/-/topics/{topic}/scheduled",
    )
    answers = [api.get(path, headers=narrow) for path in paths]
    assert [answer.status_code for answer in answers] == [403, 403, 200]
    assert all(other not in answer.text for answer in (answers[0], answers[2]))
