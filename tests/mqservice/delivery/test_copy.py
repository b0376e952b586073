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
        "dry_run": False, "topic": other, "count": 1, "bytes": 12,
        "cursor": answer["cursor"], "next_cursor": None,
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

    counts = copied_to_the_end(api, topic, q, max=2)

    assert counts == [2, 2, 1]
    found = bodies([browse(api, topic, limit=100)["messages"]])
    assert sorted(found) == sorted([*"01234", *"01234"])


def copied_to_the_end(api: httpx.Client, target: str, q: str, **more: object) -> list[int]:
    """How many messages each call copied."""
    cursor, counts = None, []
    while True:
        answer = copied(api, target, q, cursor=cursor, **more)
        counts.append(answer["count"])
        cursor = answer["next_cursor"]
        if cursor is None:
            return counts


def test_copies_have_the_order_of_the_old_ones_over_all_pages(
    api: httpx.Client, topic: str, other: str
) -> None:
    put(api, topic, *({"body": str(number), "queue": number % 3} for number in range(5)))

    assert copied_to_the_end(api, other, f"topic:{topic}", max=2) == [2, 2, 1]

    assert bodies([browse(api, other)["messages"]]) == list("01234")


@pytest.mark.parametrize("token", ["", "key:k", "tag:t", "body:x"])
def test_a_search_is_resent_once_though_its_copies_match_as_well(
    api: httpx.Client, topic: str, token: str
) -> None:
    put(api, topic, *({"body": f"x{number}", "keys": ["k"], "tag": "t"} for number in range(5)))

    counts = copied_to_the_end(api, topic, f"topic:{topic} {token}", max=2)

    assert sum(counts) == 5
    assert len(browse(api, topic, limit=100)["messages"]) == 10


def test_what_a_dry_run_counted_is_what_is_copied(
    api: httpx.Client, topic: str, other: str
) -> None:
    put(api, topic, {"body": "x"}, {"body": "y"})
    counted = copied(api, other, f"topic:{topic}", dry_run=True)
    put(api, topic, {"body": "late"})

    copied(api, other, f"topic:{topic}", cursor=counted["cursor"])

    assert bodies([browse(api, other)["messages"]]) == ["x", "y"]


def test_dead_letters_are_copied_the_oldest_first_and_none_of_an_untouched_group(
    server: Server, api: httpx.Client, topic: str, other: str, group: str
) -> None:
    server.group("untouched")
    put(api, topic, *({"body": str(number), "message_group": "g"} for number in range(3)))
    found = received(api, topic, group, max=64, wait="20s")
    settle(api, group, dead_letter=[{"receipt": each["receipt"], "reason": "r"} for each in found])
    wait_until(lambda: len(dead_letters(api, group)["messages"]) == 3)

    assert sum(copied_to_the_end(api, other, f"group:{group} reason:r", max=2)) == 3
    assert copied_to_the_end(api, other, "group:untouched") == [0]

    assert bodies([browse(api, other)["messages"]]) == bodies(
        [dead_letters(api, group)["messages"]]
    )


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
        ({"q": "topic:{topic} last:999999999999999d", "max": 0}, "BAD_REQUEST", "1 to 256"),
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


def test_a_resend_that_is_sent_twice_is_stored_once(api: httpx.Client, topic: str) -> None:
    put(api, topic, {"body": "x"}, {"body": "y"})
    path, form = f"/v1/-/topics/{topic}/messages:copy", {"q": f"topic:{topic}"}
    headers = {"Idempotency-Key": "form-1"}

    blind = api.post(path, json=form, headers=headers)
    counted = copied(api, topic, f"topic:{topic}", dry_run=True)
    answers = [
        api.post(path, json={**form, "cursor": counted["cursor"]}, headers=headers).json()
        for _ in range(2)
    ]

    assert (blind.status_code, "begin with a dry run" in blind.text) == (400, True)
    assert answers[0] == answers[1]
    assert len(browse(api, topic)["messages"]) == 4


def test_the_cursor_of_a_search_is_none_of_a_copy(
    api: httpx.Client, topic: str, other: str
) -> None:
    put(api, topic, {"body": "x"}, {"body": "y"})
    q = f"topic:{topic}"
    page = api.get("/v1/-/messages", params={"q": q, "order": "oldest", "limit": 1}).json()

    response = api.post(
        f"/v1/-/topics/{other}/messages:copy", json={"q": q, "cursor": page["next_cursor"]}
    )

    assert response.json()["code"] == "CURSOR_INVALID"


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
