"""A key or an id is found without saying in which topic: order, limits that are told, scopes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from mqservice.accounts.scopes import Grant, Kind, Scope
from mqservice.delivery.reading import all_topics
from mqservice.delivery.reading.all_topics import IDS_MAX, PER_TOPIC_MAX
from mqservice.delivery.reading.walk import BrowsePage
from mqservice.store import Store
from mqservice.topics.routes import TopicRoute
from tests.mqservice.delivery.browsing import bodies, put
from tests.mqservice.delivery.engine_serving import grow_topic
from tests.mqservice.delivery.serving import Json, Server

pytestmark = pytest.mark.real_engine()
_numbers = itertools.count()


@pytest.fixture
def topics(server: Server, engine_socket: str) -> list[str]:
    """Names of three topics of this test alone."""
    prefix = f"all{next(_numbers)}"
    names = [f"{prefix}-{letter}" for letter in "abc"]
    for name in names:
        grow_topic(server, engine_socket, name, queue_count=2)
    return names


@pytest.fixture
def narrow(server: Server, topics: list[str]) -> Iterator[httpx.Client]:
    """A client that may consume those topics alone."""
    pattern = topics[0].removesuffix("a") + "*"
    yield from reader(server, pattern)


def reader(server: Server, pattern: str) -> Iterator[httpx.Client]:
    grant = Grant(scope=Scope.CONSUME, kind=Kind.TOPIC, pattern=pattern)
    with server.client(server.key(scopes=frozenset(), grants=(grant,))) as client:
        yield client


def search(api: httpx.Client, q: str, **query: str | int) -> Json:
    response = api.get("/v1/-/messages", params={"q": q, **query})
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


def test_a_key_is_found_in_every_topic_that_has_it_newest_first(
    api: httpx.Client, narrow: httpx.Client, topics: list[str]
) -> None:
    for body, topic in (("1", topics[2]), ("2", topics[0]), ("other", topics[1])):
        put(api, topic, {"body": body, "keys": ["k-0" if body == "other" else "order-7"]})

    answer = search(narrow, "order-7")

    assert [(each["topic"], each["body"]) for each in answer["messages"]] == [
        (topics[0], "2"),
        (topics[2], "1"),
    ]
    assert (answer["topics_searched"], answer["topics_left"], answer["more_in"]) == (3, 0, [])
    assert answer["next_cursor"] is answer["previous_cursor"] is None
    assert answer["is_complete"] is True


def test_other_tokens_select_among_what_has_the_key(
    api: httpx.Client, narrow: httpx.Client, topics: list[str]
) -> None:
    put(api, topics[0], {"body": "a", "keys": ["k"], "tag": "paid"}, {"body": "b", "keys": ["k"]})
    put(api, topics[1], {"body": "c", "keys": ["k"], "properties": {"amount": "5"}})

    assert bodies([search(narrow, "key:k tag:paid")["messages"]]) == ["a"]
    assert bodies([search(narrow, "key:k amount > 4")["messages"]]) == ["c"]
    assert bodies([search(narrow, "key:k body:b last:1h")["messages"]]) == ["b"]
    assert bodies([search(narrow, "key:k to:2020-01-01")["messages"]]) == []


def test_pages_go_on_behind_the_topics_that_were_searched(
    monkeypatch: pytest.MonkeyPatch, api: httpx.Client, narrow: httpx.Client, topics: list[str]
) -> None:
    monkeypatch.setattr(all_topics, "TOPICS_MAX", 2)
    put(api, topics[2], {"body": "last", "keys": ["k"]})

    first = search(narrow, "key:k")
    second = search(narrow, "key:k", cursor=first["next_cursor"])

    assert first["messages"] == []
    assert (first["topics_searched"], first["topics_left"]) == (2, 1)
    assert bodies([second["messages"]]) == ["last"]
    assert (second["topics_searched"], second["topics_left"]) == (1, 0)
    assert second["next_cursor"] is None


def test_topics_are_loaded_few_at_a_time_for_one_page(
    monkeypatch: pytest.MonkeyPatch, api: httpx.Client, narrow: httpx.Client, topics: list[str]
) -> None:
    monkeypatch.setattr(all_topics, "TOPICS_AT_ONCE", 1)
    put(api, topics[2], {"body": "last", "keys": ["k"]})

    answer = search(narrow, "key:k")

    assert bodies([answer["messages"]]) == ["last"]
    assert (answer["topics_searched"], answer["topics_left"]) == (3, 0)
    assert answer["next_cursor"] is None


def test_a_topic_without_room_on_a_page_is_on_the_next_one_as_a_whole(
    api: httpx.Client, narrow: httpx.Client, topics: list[str]
) -> None:
    for topic in topics:
        put(api, topic, *({"body": f"{topic[-1]}{n}", "keys": ["k"]} for n in range(2)))

    first = search(narrow, "key:k", limit=3)
    second = search(narrow, "key:k", limit=3, cursor=first["next_cursor"])
    third = search(narrow, "key:k", limit=3, cursor=second["next_cursor"])

    pages = [page["messages"] for page in (first, second, third)]
    assert bodies(pages) == ["a1", "a0", "b1", "b0", "c1", "c0"]
    assert [len(page) for page in pages] == [2, 2, 2]
    assert [page["topics_left"] for page in (first, second, third)] == [2, 1, 0]
    assert third["next_cursor"] is None


def test_a_topic_with_many_is_named_and_hides_no_other(
    api: httpx.Client, narrow: httpx.Client, topics: list[str]
) -> None:
    put(api, topics[0], *({"body": "many", "keys": ["k"]} for _ in range(PER_TOPIC_MAX + 1)))
    put(api, topics[1], {"body": "one", "keys": ["k"]})

    answer = search(narrow, "key:k")

    assert len(answer["messages"]) == PER_TOPIC_MAX + 1
    assert answer["messages"][0]["body"] == "one"
    assert answer["more_in"] == [topics[0]]
    assert answer["next_cursor"] is None


def test_a_page_ends_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch, api: httpx.Client, narrow: httpx.Client, topics: list[str]
) -> None:
    monkeypatch.setattr(all_topics, "SEARCH_MS_MAX", 0)
    monkeypatch.setattr(all_topics, "PULLS_AT_ONCE_MAX", 1)
    for topic in topics[1:]:
        put(api, topic, {"body": topic[-1], "keys": ["k"]})

    first = search(narrow, "key:k")
    second = search(narrow, "key:k", cursor=first["next_cursor"])

    assert bodies([first["messages"]]) == ["b"]  # the topic before has none, which costs nothing
    assert (first["topics_searched"], first["topics_left"]) == (2, 1)
    assert bodies([second["messages"]]) == ["c"]


def test_topics_that_cannot_have_it_are_not_looked_into(
    monkeypatch: pytest.MonkeyPatch, api: httpx.Client, narrow: httpx.Client, topics: list[str]
) -> None:
    looked_into = []
    real = all_topics._topic_page

    async def page(store: Store, topic: TopicRoute, *question: Any) -> BrowsePage:
        looked_into.append(topic.name)
        return await real(store, topic, *question)

    monkeypatch.setattr(all_topics, "_topic_page", page)
    put(api, topics[0], {"body": "a", "keys": ["other"]})
    put(api, topics[1], {"body": "b", "keys": ["k"]})

    assert search(narrow, "key:k")["topics_searched"] == 3
    assert looked_into == [topics[1]]


def test_ids_are_found_in_their_topics(
    api: httpx.Client, narrow: httpx.Client, topics: list[str]
) -> None:
    ids = [put(api, topic, {"body": topic[-1]})[0]["id"] for topic in topics]

    assert bodies([search(narrow, ids[1])["messages"]]) == ["b"]
    assert bodies([search(narrow, f"id:{ids[0]},NONE,{ids[2]}")["messages"]]) == ["c", "a"]


def test_topics_that_a_key_may_not_consume_are_not_searched(
    server: Server, api: httpx.Client, topics: list[str]
) -> None:
    for topic in topics:
        put(api, topic, {"body": topic[-1], "keys": ["k"]})

    for only in reader(server, topics[1]):
        answer = search(only, "key:k")
        assert bodies([answer["messages"]]) == ["b"]
        assert (answer["topics_searched"], answer["topics_left"]) == (1, 0)
    foreign = server.client(server.key(tenant_id=2, namespace="other"))
    with foreign:
        assert search(foreign, "key:k")["messages"] == []
    with server.client(server.key(scopes=frozenset({Scope.PRODUCE}))) as producer:
        assert producer.get("/v1/-/messages", params={"q": "key:k"}).status_code == 403


def test_a_topic_that_the_engine_does_not_have_has_no_messages(
    server: Server, api: httpx.Client, narrow: httpx.Client, topics: list[str]
) -> None:
    server.topic(topics[0] + "-deleted")
    put(api, topics[1], {"body": "b", "keys": ["k"]})

    assert bodies([search(narrow, "key:k")["messages"]]) == ["b"]


@pytest.mark.parametrize(
    ("query", "code", "says"),
    [
        ({"q": "tag:a"}, "BAD_REQUEST", "only a key or an id can be searched for in all topics"),
        ({"q": "key:k queue:0"}, "BAD_REQUEST", "queue: is of one topic"),
        ({"q": "key:k offset:1"}, "BAD_REQUEST", "offset: is of one topic"),
        ({"q": "key:k reason:x"}, "BAD_REQUEST", "add group:NAME"),
        ({"q": "key:k", "order": "oldest"}, "BAD_REQUEST", "newest first"),
        ({"q": "key:k", "cursor": "AAAA"}, "CURSOR_INVALID", "does not belong"),
        ({"q": "id:" + ",".join(f"A{n}" for n in range(IDS_MAX + 1))}, "BAD_REQUEST", "at most 8"),
    ],
)
def test_what_cannot_be_searched_everywhere_says_why(
    api: httpx.Client, query: dict[str, str], code: str, says: str
) -> None:
    problem = api.get("/v1/-/messages", params=query).json()

    assert problem["code"] == code, problem
    assert says in problem["detail"], problem


def test_a_histogram_is_of_one_topic(api: httpx.Client) -> None:
    problem = api.get("/v1/-/messages:histogram", params={"q": "key:k"}).json()

    assert problem["detail"].endswith("or group:NAME for its dead letters at ?q")


def test_a_cursor_is_of_its_own_key(monkeypatch: pytest.MonkeyPatch, narrow: httpx.Client) -> None:
    monkeypatch.setattr(all_topics, "TOPICS_MAX", 1)
    cursor = search(narrow, "key:k")["next_cursor"]

    problem = narrow.get("/v1/-/messages", params={"q": "key:other", "cursor": cursor}).json()

    assert problem["code"] == "CURSOR_INVALID"
