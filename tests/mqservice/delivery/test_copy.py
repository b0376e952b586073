"""Copies on a real engine: what a search finds is stored again as it was, and a dry run is none."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from django.db import OperationalError

from mqservice.accounts.scopes import Grant, Kind, Scope
from mqservice.delivery.reading import copy
from tests.mqservice.delivery.browsing import bodies, browse, dead_letters, put, received, settle
from tests.mqservice.delivery.engine_serving import real_topic
from tests.mqservice.delivery.serving import Json, Server
from tests.mqservice.delivery.wait_until import wait_until

pytestmark = pytest.mark.real_engine()


@pytest.fixture(autouse=True)
def audited(monkeypatch: pytest.MonkeyPatch) -> list[Json]:
    """What the audit would be told."""
    rows: list[Json] = []

    def kept(_principal: object, namespace: str, target: str, **told: Any) -> None:  # Any: JSON
        rows.append({"namespace": namespace, "target": target, **told})

    monkeypatch.setattr(copy, "record_copied", kept)
    return rows


@pytest.fixture
def other(server: Server, engine_socket: str) -> str:
    return real_topic(server, engine_socket)


def copied(api: httpx.Client, target: str, q: str, **more: object) -> Json:
    response = api.post(f"/v1/-/topics/{target}/messages:copy", json={"q": q, **more})
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


def test_a_copy_is_a_new_message_that_has_all_of_the_old_one(
    api: httpx.Client, topic: str, other: str, audited: list[Json]
) -> None:
    [old] = put(
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

    answer = copied(api, other, f"topic:{topic} key:k1")

    [message] = browse(api, other)["messages"]
    assert answer == {
        "dry_run": False, "topic": other, "count": 1, "bytes": 12, "next_cursor": None,
        "messages": [{"id": old["id"], "copy_id": message["id"], "detail": None}],
    }  # fmt: skip
    assert message["id"] != old["id"]
    assert (message["body_json"], message["tag"], message["keys"]) == (
        {"order": 42},
        "created",
        ["k1", "k2"],
    )
    assert (message["message_group"], message["properties"]) == ("customer-7", {"source": "web"})
    assert audited == [
        {"namespace": "acme", "target": f"topics/{other}", "q": f"topic:{topic} key:k1", "count": 1}
    ]


def test_a_dry_run_counts_and_stores_nothing(
    api: httpx.Client, topic: str, other: str, audited: list[Json]
) -> None:
    put(api, topic, *({"body": str(number)} for number in range(3)))

    answer = copied(api, other, f"topic:{topic}", dry_run=True)

    assert (answer["dry_run"], answer["count"], answer["bytes"]) == (True, 3, 3)
    assert [each["copy_id"] for each in answer["messages"]] == [None] * 3
    assert browse(api, other)["messages"] == []
    assert audited == []


def test_copies_go_on_page_by_page_to_their_own_topic(api: httpx.Client, topic: str) -> None:
    stored = put(api, topic, *({"body": str(number), "tag": "old"} for number in range(5)))
    q = f"topic:{topic} id:{','.join(each['id'] for each in stored)}"
    cursor, counts = None, []
    while True:
        answer = copied(api, topic, q, max=2, cursor=cursor)
        counts.append(answer["count"])
        cursor = answer["next_cursor"]
        if cursor is None:
            break

    assert counts == [2, 2, 1]
    found = bodies([browse(api, topic, limit=100)["messages"]])
    assert sorted(found) == sorted([*"01234", *"01234"])


def test_a_dead_letter_is_copied_as_it_was_in_its_topic(
    api: httpx.Client, topic: str, other: str, group: str
) -> None:
    put(api, topic, {"body": "x", "properties": {"a": "b"}})
    [message] = received(api, topic, group, wait="20s")
    settle(api, group, dead_letter=[{"receipt": message["receipt"], "reason": "r"}])
    wait_until(lambda: dead_letters(api, group)["messages"])

    assert copied(api, other, f"group:{group} reason:r")["count"] == 1

    [copy_of_it] = browse(api, other)["messages"]
    assert (copy_of_it["body"], copy_of_it["properties"]) == ("x", {"a": "b"})


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        ({"q": "tga:a"}, "BAD_REQUEST", "did you mean tag:a"),
        ({"q": "key:a"}, "BAD_REQUEST", "say where to look"),
        ({"q": "topic:{topic}", "max": 257}, "BAD_REQUEST", "1 to 256"),
        ({"q": "topic:{topic}", "cursor": "AAAA"}, "CURSOR_INVALID", "does not belong"),
        ({"q": "topic:{topic}", "rate": 1}, "BAD_REQUEST", "rate"),
        ({}, "BAD_REQUEST", "q"),
    ],
)
def test_what_cannot_be_copied_says_why(
    api: httpx.Client, topic: str, other: str, body: dict[str, object], code: str, says: str
) -> None:
    given = {
        name: value.format(topic=topic) if isinstance(value, str) else value
        for name, value in body.items()
    }

    response = api.post(f"/v1/-/topics/{other}/messages:copy", json=given)

    assert (response.status_code, response.json()["code"]) == (400, code), response.text
    assert says in response.text


def test_what_the_target_does_not_take_is_refused_as_a_whole(
    server: Server, api: httpx.Client, topic: str, engine_socket: str, audited: list[Json]
) -> None:
    small = real_topic(server, engine_socket, body_bytes_max=10)
    put(api, topic, {"body": "short"}, {"body": "longer than ten bytes"})

    response = api.post(f"/v1/-/topics/{small}/messages:copy", json={"q": f"topic:{topic}"})

    assert response.json()["code"] == "BODY_TOO_LARGE", response.text
    assert browse(api, small)["messages"] == []
    assert audited == []


def test_a_copy_that_is_sent_twice_is_stored_once(
    api: httpx.Client, topic: str, other: str
) -> None:
    put(api, topic, {"body": "x"}, {"body": "y"})
    headers = {"Idempotency-Key": "form-1"}
    path, form = f"/v1/-/topics/{other}/messages:copy", {"q": f"topic:{topic}"}

    first = api.post(path, json=form, headers=headers)
    again = api.post(path, json=form, headers=headers)

    assert (first.status_code, again.json()) == (200, first.json())
    assert sorted(each["body"] for each in browse(api, other)["messages"]) == ["x", "y"]


def test_what_cannot_be_audited_is_not_copied(
    api: httpx.Client, topic: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(api, topic, {"body": "x"})

    def away(*_: object, **__: object) -> None:
        raise OperationalError("the database is away")

    monkeypatch.setattr(copy, "record_copied", away)
    response = api.post(f"/v1/-/topics/{other}/messages:copy", json={"q": f"topic:{topic}"})

    assert response.status_code == 503, response.text
    assert browse(api, other)["messages"] == []


@pytest.mark.parametrize("scope", [Scope.PRODUCE, Scope.CONSUME])
def test_a_copy_needs_to_consume_the_one_and_produce_to_the_other(
    server: Server, api: httpx.Client, topic: str, other: str, scope: Scope
) -> None:
    put(api, topic, {"body": "x"})
    grant = Grant(scope=scope, kind=Kind.TOPIC, pattern="*")
    with server.client(server.key(scopes=frozenset(), grants=(grant,))) as narrow:
        response = narrow.post(f"/v1/-/topics/{other}/messages:copy", json={"q": f"topic:{topic}"})

    assert response.status_code == 403
    assert browse(api, other)["messages"] == []
