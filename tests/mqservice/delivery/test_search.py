"""Search on a real engine: order, both directions, each token, and the histogram."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from mqservice.accounts.scopes import Grant, Kind, Scope
from tests.mqservice.delivery.browsing import bodies, dead_letters, put, received, settle
from tests.mqservice.delivery.serving import Json, Server
from tests.mqservice.delivery.wait_until import wait_until

pytestmark = pytest.mark.real_engine()


def search(api: httpx.Client, q: str, **query: str | int) -> Json:
    response = api.get("/v1/-/messages", params={"q": q, **query})
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


def pages(api: httpx.Client, q: str, **query: str | int) -> Iterator[Json]:
    while True:
        answer = search(api, q, **query)
        yield answer
        if answer["next_cursor"] is None:
            return
        query["cursor"] = answer["next_cursor"]


def bury(api: httpx.Client, topic: str, group: str, reason: str, *, count: int) -> None:
    """What the topic has for the group becomes dead letters, ``count`` of them then."""
    found = received(api, topic, group, max=64, wait="20s")
    told = [{"receipt": each["receipt"], "reason": reason} for each in found]
    settle(api, group, dead_letter=told)
    wait_until(lambda: len(dead_letters(api, group)["messages"]) == count)


def test_the_newest_come_first_and_pages_lead_both_ways(api: httpx.Client, topic: str) -> None:
    put(api, topic, *({"body": str(number), "queue": number % 3} for number in range(20)))
    newest_first = [str(number) for number in reversed(range(20))]

    found = list(pages(api, f"topic:{topic}", limit=6))
    back = search(api, f"topic:{topic}", limit=6, cursor=found[2]["previous_cursor"])
    further = search(api, f"topic:{topic}", limit=6, cursor=back["previous_cursor"])
    on = search(api, f"topic:{topic}", limit=6, cursor=back["next_cursor"])

    assert bodies([page["messages"] for page in found]) == newest_first
    assert found[0]["previous_cursor"] is None
    assert bodies([back["messages"]]) == newest_first[6:12]
    assert bodies([further["messages"]]) == newest_first[:6]
    assert bodies([on["messages"]]) == newest_first[12:18]
    assert found[0]["messages"][0]["topic"] == topic


def test_what_is_stored_meanwhile_is_behind_the_previous_cursor(
    api: httpx.Client, topic: str
) -> None:
    put(api, topic, *({"body": str(number)} for number in range(4)))
    first = search(api, f"topic:{topic}", limit=2)
    second = search(api, f"topic:{topic}", limit=2, cursor=first["next_cursor"])
    put(api, topic, {"body": "late"})

    back = search(api, f"topic:{topic}", limit=2, cursor=second["previous_cursor"])
    newer = search(api, f"topic:{topic}", limit=2, cursor=back["previous_cursor"])

    assert bodies([newer["messages"], back["messages"]]) == ["late", "3", "2"]


def test_the_oldest_come_first_when_asked_for(api: httpx.Client, topic: str) -> None:
    put(api, topic, *({"body": str(number)} for number in range(5)))

    found = pages(api, f"topic:{topic}", order="oldest", limit=2)

    assert bodies([page["messages"] for page in found]) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("q", "wanted"),
    [
        ("key:k1", ["c", "a"]),
        ("key:k1 tag:late", ["c"]),
        ("key:k1 amount > 100", ["c"]),
        ("tag:paid", ["b", "a"]),
        ("tag:paid||late", ["c", "b", "a"]),
        ("amount > 100", ["c", "b"]),
        ("amount >= 100 tag:paid", ["b", "a"]),
        ("region = 'eu'", ["b"]),
        ("body:d", ["d"]),
        ("last:1h tag:late", ["c"]),
        ("to:2020-01-01", []),
        ("last:999999999999999d", ["d", "c", "b", "a"]),
        ("k1", ["c", "a"]),
    ],
)
def test_each_token_selects(api: httpx.Client, topic: str, q: str, wanted: list[str]) -> None:
    amounts = {
        "a": {"amount": "100"},
        "b": {"amount": "101", "region": "eu"},
        "c": {"amount": "200"},
    }
    put(
        api,
        topic,
        {"body": "a", "tag": "paid", "keys": ["k1"], "properties": amounts["a"]},
        {"body": "b", "tag": "paid", "keys": ["k2"], "properties": amounts["b"]},
        {"body": "c", "tag": "late", "keys": ["k1"], "properties": amounts["c"]},
        {"body": "d"},
    )

    assert bodies([search(api, f"topic:{topic} {q}")["messages"]]) == wanted


def test_fields_of_json_bodies_are_compared_and_the_messages_read_are_counted(
    api: httpx.Client, topic: str
) -> None:
    put(api, topic, *({"body_json": {"order": {"total": number}}} for number in range(10)))
    put(api, topic, {"body": "no JSON"})

    answer = search(api, f"topic:{topic} body.order.total >= 8")

    assert [each["body_json"]["order"]["total"] for each in answer["messages"]] == [9, 8]
    assert answer["scanned"] == 11


def test_ids_come_in_their_order_and_page_by_page(api: httpx.Client, topic: str) -> None:
    ids = [each["id"] for each in put(api, topic, *({"body": str(n)} for n in range(3)))]
    q = f"topic:{topic} id:{ids[2]},NONE,{ids[0]}"

    found = pages(api, q, limit=1)

    assert bodies([page["messages"] for page in found]) == ["2", "0"]


def test_a_last_hour_walks_on_while_its_start_moves(api: httpx.Client, topic: str) -> None:
    put(api, topic, *({"body": str(number)} for number in range(5)))

    found = pages(api, f"topic:{topic} last:1h", limit=2)

    assert bodies([page["messages"] for page in found]) == ["4", "3", "2", "1", "0"]


def test_dead_letters_are_those_of_the_group_with_their_reasons(
    api: httpx.Client, topic: str, group: str
) -> None:
    put(api, topic, *({"body": str(number)} for number in range(3)))
    bury(api, topic, group, "card 17 declined", count=3)
    put(api, topic, {"body": "other"})
    bury(api, topic, group, "printer on fire", count=4)
    q = f'group:{group} reason:"card 99 declined"'

    answer = search(api, f"group:{group}")
    declined = search(api, q, limit=2)
    rest = search(api, q, limit=2, cursor=declined["next_cursor"])

    first = answer["messages"][0]
    assert (first["topic"], first["group"], first["reason"]) == (topic, group, "printer on fire")
    assert len(answer["messages"]) == 4
    assert len(declined["messages"]) == 2
    assert declined["scanned"] + rest["scanned"] == 4
    assert sorted(bodies([declined["messages"], rest["messages"]])) == ["0", "1", "2"]


def test_a_group_without_dead_letters_has_an_empty_page(
    server: Server, api: httpx.Client, topic: str
) -> None:
    server.group("untouched")

    assert search(api, "group:untouched")["messages"] == []
    assert histogram(api, "group:untouched") == {"bar_ms": 0, "total": 0, "bars": []}


@pytest.mark.parametrize(
    ("query", "code", "says"),
    [
        ({}, "BAD_REQUEST", "q is missing"),
        ({"q": "tag:a"}, "BAD_REQUEST", "topic:NAME, or group:NAME"),
        ({"q": "topic:{topic} queue:9"}, "QUEUE_NOT_FOUND", "queues 0 to 3"),
        ({"q": 'topic:{topic} body:"a"b'}, "BAD_REQUEST", "a quote is not closed"),
        ({"q": 'topic:{topic} sql:"a >"'}, "ILLEGAL_FILTER", "character"),
        ({"q": "topic:{topic} reason:x"}, "BAD_REQUEST", "add group:NAME"),
        ({"q": "topic:{topic} offset:5 queue:0"}, "BAD_REQUEST", "add order=oldest"),
        ({"q": "topic:{topic} key:a", "order": "oldest"}, "BAD_REQUEST", "newest first"),
        ({"q": "topic:{topic}", "order": "down"}, "BAD_REQUEST", "newest or oldest"),
        ({"q": "topic:{topic}", "cursor": "AAAA"}, "CURSOR_INVALID", "does not belong"),
        ({"q": "topic:absent"}, "TOPIC_NOT_FOUND", "absent"),
        ({"q": "topic:a/b"}, "ILLEGAL_TOPIC", ""),
    ],
)
def test_what_cannot_be_searched_says_why(
    api: httpx.Client, topic: str, query: dict[str, str], code: str, says: str
) -> None:
    given = {name: text.format(topic=topic) for name, text in query.items()}

    response = api.get("/v1/-/messages", params=given)

    problem = response.json()
    assert problem["code"] == code, problem
    assert says in problem["detail"], problem


def test_a_cursor_is_of_its_own_query(api: httpx.Client, topic: str) -> None:
    put(api, topic, *({"body": str(number)} for number in range(3)))
    cursor = search(api, f"topic:{topic}", limit=1)["next_cursor"]

    for q in (f"topic:{topic} tag:a", f"topic:{topic} last:1h", f"topic:{topic} body.a = 1"):
        response = api.get("/v1/-/messages", params={"q": q, "cursor": cursor})
        assert response.json()["code"] == "CURSOR_INVALID"


def test_a_key_searches_only_what_it_may_consume(server: Server, topic: str) -> None:
    grant = Grant(scope=Scope.CONSUME, kind=Kind.TOPIC, pattern="other")
    with server.client(server.key(scopes=frozenset(), grants=(grant,))) as narrow:
        response = narrow.get("/v1/-/messages", params={"q": f"topic:{topic}"})

    assert response.status_code == 403


def histogram(api: httpx.Client, q: str) -> Json:
    response = api.get("/v1/-/messages:histogram", params={"q": q})
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


def test_a_histogram_counts_all_messages_of_its_time(api: httpx.Client, topic: str) -> None:
    put(api, topic, *({"body": str(number), "queue": number % 3} for number in range(9)))

    everything = histogram(api, f"topic:{topic}")
    hour = histogram(api, f"topic:{topic} last:1h tag:nobody-cares")

    assert (everything["total"], everything["bar_ms"]) == (9, 1_000)
    assert (hour["total"], hour["bar_ms"], len(hour["bars"])) == (9, 60_000, 61)
    assert sum(bar["count"] for bar in hour["bars"][-2:]) == 9
    assert histogram(api, f"topic:{topic} queue:0")["total"] == 3
    assert histogram(api, f"topic:{topic} to:2020-01-01")["total"] == 0
    assert histogram(api, f"topic:{topic} queue:0 offset:1")["total"] == 3


def test_the_histogram_of_an_empty_topic_has_no_messages(api: httpx.Client, topic: str) -> None:
    assert histogram(api, f"topic:{topic}")["total"] == 0
