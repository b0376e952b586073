"""Looking through a topic by properties and by a text of the body: what is found, and how far."""

from __future__ import annotations

import httpx
import pytest

from mqservice.delivery.limits import TEXT_PULL_COUNT_MAX
from mqservice.delivery.reading import queue_merge
from mqservice.store import StoreClient, StoreMessage, encode_record, new_message_id
from tests.mqservice.delivery.browsing import bodies, browse, put, walk
from tests.mqservice.delivery.serving import Json

pytestmark = pytest.mark.real_engine()

MIB = 1024 * 1024


def fill(engine_socket: str, topic: str, count: int, body: bytes, *, queue_id: int = 0) -> None:
    """Many messages in a queue, past the data plane, which would take longer."""
    with StoreClient(engine_socket, client_name="test") as client:
        step = 1_000 if len(body) < 1_000 else 8  # a put fits a frame
        for start in range(0, count, step):
            client.put(
                [
                    encode_record(
                        StoreMessage(
                            topic=f"acme%{topic}", queue_id=queue_id, body=body, tag=None, keys=[],
                            message_group=None, properties={"n": str(number)},
                            born_timestamp_ms=1, born_host=("127.0.0.1", 1),
                            message_id=new_message_id(),
                        )
                    )
                    for number in range(start, min(start + step, count))
                ]
            )  # fmt: skip


def looked_at(api: httpx.Client, topic: str, **query: str | int) -> tuple[list[Json], list[int]]:
    """Messages of all pages, and how many were looked at for each page."""
    found: list[Json] = []
    counts: list[int] = []
    while True:
        answer = browse(api, topic, **query)
        found += answer["messages"]
        counts.append(answer["scanned"])
        if answer["next_cursor"] is None:
            return found, counts
        query["cursor"] = answer["next_cursor"]


def test_filter_text_and_tag_hold_together(api: httpx.Client, topic: str) -> None:
    put(
        api,
        topic,
        *(
            {
                "body": f"{number} größer",
                "tag": "it's" if number % 2 else "other",
                "properties": {"amount": str(number)},
                "queue": number % 4,
            }
            for number in range(40)
        ),
    )

    def found(**query: str | int) -> list[int]:
        return [int(body.split()[0]) for body in bodies(walk(api, topic, **query))]

    assert found(sql="amount >= 30") == list(range(30, 40))
    assert found(sql="amount >= 30", limit=3) == list(range(30, 40))
    assert found(sql="amount < 10 OR amount = 20", tag="it's") == [1, 3, 5, 7, 9]
    assert found(contains="7 grö", limit=2) == [7, 17, 27, 37]
    assert found(contains="7", sql="amount BETWEEN 10 AND 30", tag="it's") == [17, 27]
    assert found(contains="%") == found(sql="absent = 1") == []
    assert found(queue=1, offset=5, contains="9") == [29]


def test_page_says_how_many_messages_it_has_checked(api: httpx.Client, topic: str) -> None:
    put(api, topic, *({"body": f"b{n}", "properties": {"n": str(n)}} for n in range(30)))

    for query in ({"contains": "b"}, {"sql": "n >= 0"}):
        assert looked_at(api, topic, limit=100, **query)[1] == [30]
        found, counts = looked_at(api, topic, limit=7, **query)
        assert (len(found), sum(counts)) == (30, 30)
    assert "scanned" not in browse(api, topic)


def test_text_is_looked_for_among_the_messages_of_a_key(api: httpx.Client, topic: str) -> None:
    put(api, topic, *({"body": f"b{n}", "keys": ["k"]} for n in range(4)))

    answer = browse(api, topic, key="k", contains="b2")

    assert bodies([answer["messages"]]) == ["b2"]
    assert answer["scanned"] == 4


def test_search_ends_after_bounded_work_and_continues_from_there(
    api: httpx.Client, topic: str, engine_socket: str
) -> None:
    count = 12_000
    fill(engine_socket, topic, count, b"x")
    put(api, topic, {"body": "needle", "properties": {"n": "-1"}, "queue": 0})

    found, counts = looked_at(api, topic, contains="needle")

    assert bodies([found]) == ["needle"]
    assert sum(counts) == count + 1
    assert len(counts) > 1
    assert max(counts) <= 256 * (TEXT_PULL_COUNT_MAX + 2 * 4)
    found, counts = looked_at(api, topic, sql="n < 0")
    assert (bodies([found]), sum(counts)) == (["needle"], count + 1)


def test_first_page_shows_the_newest_match_while_other_queues_have_none(
    api: httpx.Client, topic: str, engine_socket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_merge, "SCAN_PULL_COUNT_MAX", 1)
    fill(engine_socket, topic, 12_000, b"x", queue_id=1)
    put(api, topic, {"body": "needle", "properties": {"n": "-1"}, "queue": 0})

    page = api.get("/v1/-/messages", params={"q": f'topic:{topic} sql:"n < 0"'}).json()

    assert bodies([page["messages"]]) == ["needle"]
    assert 1 < page["scanned"] < 12_001
    assert page["next_cursor"] is not None


def test_large_bodies_end_a_page_by_their_bytes(
    api: httpx.Client, topic: str, engine_socket: str
) -> None:
    fill(engine_socket, topic, 24, bytes(MIB))

    found, counts = looked_at(api, topic, contains="needle", queue=0)

    assert (found, sum(counts)) == ([], 24)
    assert 16 <= max(counts) < 16 + 4  # the last pull, of 4 MiB, is looked through whole


def test_cursor_belongs_to_its_filter_and_text(api: httpx.Client, topic: str) -> None:
    put(api, topic, *({"body": f"b{n}", "properties": {"n": str(n)}} for n in range(9)))
    cursor = browse(api, topic, sql="n > 1", limit=2)["next_cursor"]

    path = f"/v1/-/topics/{topic}/messages"
    same = api.get(path, params={"sql": "( n>1 )", "cursor": cursor})
    other = api.get(path, params={"sql": "n > 2", "cursor": cursor})

    assert same.status_code == 200
    assert other.json()["code"] == "CURSOR_INVALID"
