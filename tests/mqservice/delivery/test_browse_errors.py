"""What browse, search and pull refuse: where the fault is, and what would be right."""

from __future__ import annotations

import httpx
import pytest

from mqservice.accounts.scopes import Scope
from tests.mqservice.delivery.browsing import browse, put
from tests.mqservice.delivery.serving import Server
from tests.mqservice.delivery.store_double import StoreDouble

MESSAGES = "messages"
PULL = "queues/0/messages"
TIME = "2026-11-21T09:00:00.000Z"


@pytest.mark.parametrize(
    ("path", "query", "code", "pointer", "says"),
    [
        (MESSAGES, "limit=0", "BAD_REQUEST", "?limit", "1 to 256, found '0'"),
        (MESSAGES, "limit=257", "BAD_REQUEST", "?limit", "1 to 256"),
        (MESSAGES, "limit=", "BAD_REQUEST", "?limit", "found ''"),
        (MESSAGES, "limit=-1", "BAD_REQUEST", "?limit", "1 to 256"),
        (MESSAGES, "limit=%D9%A3", "BAD_REQUEST", "?limit", "1 to 256"),
        (MESSAGES, "limit=" + "9" * 5_000, "BAD_REQUEST", "?limit", "1 to 256"),
        (MESSAGES, "limit=1&limit=2", "BAD_REQUEST", "?limit", "given twice"),
        (MESSAGES, "form=" + TIME, "BAD_REQUEST", "?form", "known ones are key, tag, from, to"),
        (MESSAGES, "from=yesterday", "BAD_REQUEST", "?from", "2026-12-01T08:00:00.000Z"),
        (MESSAGES, "from=2026-02-30T00:00:00Z", "BAD_REQUEST", "?from", "RFC 3339"),
        (MESSAGES, "from=2026-11-21T09:00:00+01:00", "BAD_REQUEST", "?from", "write + as %2B"),
        (MESSAGES, f"from={TIME}&to=2026-11-21T08:59:59.999Z", "BAD_REQUEST", "?to", "1 ms before"),
        (MESSAGES, "queue=1.5", "BAD_REQUEST", "?queue", "found '1.5'"),
        (MESSAGES, "queue=-", "BAD_REQUEST", "?queue", "a whole number"),
        (MESSAGES, "offset=1", "BAD_REQUEST", "?offset", "give queue as well"),
        (MESSAGES, f"queue=0&offset=1&from={TIME}", "BAD_REQUEST", "?offset", "give only one"),
        (MESSAGES, "key=k&queue=0&offset=1", "BAD_REQUEST", "?offset", "takes no offset"),
        (MESSAGES, "offset=9223372036854775808", "BAD_REQUEST", "?offset", "9223372036854775807"),
        (MESSAGES, "key=", "ILLEGAL_KEY", "?key", "must not be blank"),
        (MESSAGES, "key=a%20b", "ILLEGAL_KEY", "?key", "white space"),
        (MESSAGES, "key=" + "k" * 256, "ILLEGAL_KEY", "?key", "255 bytes"),
        (MESSAGES, "tag=", "ILLEGAL_FILTER", "?tag", "leave it out"),
        (MESSAGES, "tag=a%7Cb", "ILLEGAL_FILTER", "?tag", "separate tags with ||"),
        (MESSAGES, "tag=a%7C%7C", "ILLEGAL_FILTER", "?tag", "an empty tag at character 4"),
        (MESSAGES, "tag=" + "a%7C%7C" * 200 + "a", "ILLEGAL_FILTER", "?tag", "at most 200"),
        (MESSAGES, "tag=%ff", "BAD_REQUEST", "", "UTF-8"),
        (MESSAGES, "x=" + "y" * 16_384, "BAD_REQUEST", "", "at most 16384"),
        (MESSAGES, "filter=", "ILLEGAL_FILTER", "?filter", "leave it out"),
        (MESSAGES, "filter=a%20%3E", "ILLEGAL_FILTER", "?filter", "write sql="),
        (MESSAGES, "filter=a%20IS%20NULL", "ILLEGAL_FILTER", "?filter", "write sql="),
        (
            MESSAGES,
            "filter=%7B%22sql%22:1%7D",
            "ILLEGAL_FILTER",
            "?filter",
            "a filter must be tags",
        ),
        (
            MESSAGES,
            "filter=%7B%22sql%22:%22a%20%3E%22%7D",
            "ILLEGAL_FILTER",
            "?filter",
            "character",
        ),
        (MESSAGES, "filter=a&tag=b", "ILLEGAL_FILTER", "?filter", "given twice"),
        (MESSAGES, "filter=a&sql=a%3D1", "ILLEGAL_FILTER", "?sql", "give either"),
        (MESSAGES, "sql=a%20%3E", "ILLEGAL_FILTER", "?sql", "character"),
        (MESSAGES, "sql=", "ILLEGAL_FILTER", "?sql", "leave it out"),
        (MESSAGES, "contains=", "BAD_REQUEST", "?contains", "1 to 255 bytes"),
        (MESSAGES, "contains=" + "x" * 256, "BAD_REQUEST", "?contains", "found 256"),
        (MESSAGES, "cursor=", "CURSOR_INVALID", "?cursor", "next_cursor"),
        (MESSAGES, "cursor=AAAA", "CURSOR_INVALID", "?cursor", "next_cursor"),
        (MESSAGES, "cursor=" + "A" * 8_200, "CURSOR_INVALID", "?cursor", "next_cursor"),
        ("messages/01AC", "key=k", "BAD_REQUEST", "?key", "unknown parameter"),
        (PULL, "", "BAD_REQUEST", "?offset", "offset is missing"),
        (PULL, "offset=-1", "BAD_REQUEST", "?offset", "0 to 9223372036854775807"),
        (PULL, "offset=1.0", "BAD_REQUEST", "?offset", "found '1.0'"),
        (PULL, "offset=0&max=0", "BAD_REQUEST", "?max", "1 to 256"),
        (PULL, "offset=0&limit=1", "BAD_REQUEST", "?limit", "known ones are offset, max, tag"),
        (PULL, "offset=0&tag=", "ILLEGAL_FILTER", "?tag", "leave it out"),
        ("queues/0/offset", "", "BAD_REQUEST", "?time", "time is missing"),
        ("queues/0/offset", "time=now", "BAD_REQUEST", "?time", "found 'now'"),
    ],
)
def test_parameters_that_are_not_right(
    api: httpx.Client, topic: str, path: str, query: str, code: str, pointer: str, says: str
) -> None:
    response = api.get(f"/v1/ns/acme/topics/{topic}/{path}?{query}")

    problem = response.json()
    assert (response.status_code, problem["code"]) == (400, code), problem
    assert [item["pointer"] for item in problem["errors"]] == [pointer]
    assert says in problem["detail"]
    assert len(problem["detail"]) < 500
    assert "stored" not in problem


@pytest.mark.parametrize("queue", ["4", "x", "-1", "00000000000", "9" * 30, "%D9%A3"])
@pytest.mark.parametrize("what", ["messages?offset=0", f"offset?time={TIME}"])
def test_a_queue_that_is_not_there_is_404(
    api: httpx.Client, topic: str, queue: str, what: str
) -> None:
    response = api.get(f"/v1/-/topics/{topic}/queues/{queue}/{what}")

    assert (response.status_code, response.json()["code"]) == (404, "QUEUE_NOT_FOUND")
    assert "0 to 3" in response.json()["detail"]


@pytest.mark.parametrize(
    "path", [MESSAGES, "messages/01AC", f"{PULL}?offset=0", f"queues/0/offset?time={TIME}"]
)
def test_who_may_look(server: Server, topic: str, path: str, store: StoreDouble) -> None:
    def get(topic: str, **headers: str) -> tuple[int, str | None]:
        response = httpx.get(
            f"{server.url}/v1/ns/acme/topics/{topic}/{path}", headers=headers, timeout=60
        )
        return response.status_code, response.json().get("code")

    consumer = server.key(scopes=frozenset({Scope.CONSUME}))
    others = server.key(scopes=frozenset({Scope.PRODUCE, Scope.MANAGE}))

    assert get(topic) == (401, "UNAUTHENTICATED")
    assert get(topic, authorization=others) == (403, "FORBIDDEN")
    assert get("absent", authorization=others) == (403, "FORBIDDEN")
    assert get("absent", authorization=consumer) == (404, "TOPIC_NOT_FOUND")
    assert get("a.b", authorization=consumer) == (400, "ILLEGAL_TOPIC")
    assert get(topic, authorization=consumer)[1] in (None, "MESSAGE_NOT_FOUND")
    store.is_connected = False
    try:
        assert get(topic, authorization=consumer)[0] in (404, 503)
    finally:
        store.is_connected = True


def test_cursors_fit_only_the_query_they_come_from(
    server: Server, api: httpx.Client, topic: str
) -> None:
    beside = f"{topic}-beside"
    server.topic(beside)
    for name in (topic, beside):
        put(api, name, *({"body": f"{n}", "keys": ["k"], "tag": "t", "queue": 0} for n in range(9)))
    walked = browse(api, topic, limit=2)["next_cursor"]
    found = browse(api, topic, limit=2, key="k")["next_cursor"]
    forged = walked[:5] + ("B" if walked[5] != "B" else "C") + walked[6:]

    for name, cursor, query in (
        (topic, forged, {}),
        (topic, walked[:-1], {}),
        (topic, walked + "A", {}),
        (topic, walked + "=", {}),
        (beside, walked, {}),
        (topic, walked, {"tag": "t"}),
        (topic, walked, {"queue": "0"}),
        (topic, walked, {"from": TIME}),
        (topic, walked, {"to": TIME}),
        (topic, walked, {"queue": "0", "offset": "0"}),
        (topic, walked, {"key": "k"}),
        (topic, found, {}),
        (topic, found, {"key": "kk"}),
        (beside, found, {"key": "k"}),
    ):
        response = api.get(
            f"/v1/-/topics/{name}/messages", params={"cursor": cursor, "limit": "2", **query}
        )
        assert (response.status_code, response.json()["code"]) == (400, "CURSOR_INVALID")

    assert len(browse(api, topic, limit=9, cursor=walked)["messages"]) == 7
    assert len(browse(api, topic, limit=9, cursor=found, key="k")["messages"]) == 7


def test_an_index_that_lacks_the_newest_messages_says_so(
    api: httpx.Client, topic: str, store: StoreDouble
) -> None:
    put(api, topic, {"body": "x", "keys": ["k"]})
    store.is_index_complete = False
    try:
        found = browse(api, topic, key="k")
        walked = browse(api, topic)
        absent = api.get(f"/v1/-/topics/{topic}/messages/01AC")
    finally:
        store.is_index_complete = True

    assert (len(found["messages"]), found["is_complete"]) == (1, False)
    assert walked["is_complete"] is True
    assert (absent.status_code, absent.json()["retryable"]) == (404, True)
    assert "index" in absent.json()["detail"]
