"""Browsing a topic on a real engine: order, pages, conditions, and no effect on delivery."""

from __future__ import annotations

import base64
import random
import threading

import httpx
import msgspec
import pytest

from tests.mqservice.delivery.browsing import bodies, browse, put, walk
from tests.mqservice.delivery.engine_serving import grow_topic, real_topic
from tests.mqservice.delivery.serving import Server

pytestmark = pytest.mark.real_engine()

MIB = 1024 * 1024


def test_a_browsed_message_has_everything_but_a_lease(api: httpx.Client, topic: str) -> None:
    [stored] = put(
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

    answer = browse(api, topic)

    assert (answer["next_cursor"], answer["is_complete"]) == (None, True)
    [message] = answer["messages"]
    assert message.pop("born_at") <= message["stored_at"]
    assert message == {
        "id": stored["id"],
        "tag": "created",
        "keys": ["k1", "k2"],
        "message_group": "customer-7",
        "properties": {"source": "web"},
        "queue": stored["queue"],
        "offset": stored["offset"],
        "stored_at": stored["stored_at"],
        "body_json": {"order": 42},
    }


def test_bodies_come_in_the_form_that_holds_them(api: httpx.Client, topic: str) -> None:
    put(api, topic, {"body_b64": base64.b64encode(b"\xff\x00").decode()})

    packed = api.get(f"/v1/-/topics/{topic}/messages", headers={"accept": "application/msgpack"})

    assert browse(api, topic)["messages"][0]["body_b64"] == "/wA="
    assert packed.headers["content-type"] == "application/msgpack"
    assert msgspec.msgpack.decode(packed.content)["messages"][0]["body"] == b"\xff\x00"


@pytest.mark.parametrize(
    ("accept", "is_packed"),
    [
        ("application/msgpack, */*;q=0.1", True),
        ("application/msgpack, application/json", True),
        ("application/json;q=0.9, application/msgpack", True),
        ("application/json, application/msgpack;q=0.9", False),
        ("application/msgpack;q=0", False),
        ("application/msgpack;q=0, */*", False),
        ("*/*", False),
    ],
)
def test_what_the_client_would_rather_have_decides_the_form(
    api: httpx.Client, topic: str, accept: str, *, is_packed: bool
) -> None:
    got = api.get(f"/v1/-/topics/{topic}/messages", headers={"accept": accept})

    form = "msgpack" if is_packed else "json"
    assert (got.status_code, got.headers["content-type"]) == (200, f"application/{form}")


def test_an_empty_topic_has_one_empty_page(api: httpx.Client, topic: str) -> None:
    assert browse(api, topic) == {"messages": [], "next_cursor": None, "is_complete": True}


@pytest.mark.parametrize("limit", [1, 3, 7, 256])
def test_queues_are_merged_in_the_order_in_which_messages_were_stored(
    api: httpx.Client, topic: str, limit: int
) -> None:
    queues = random.Random(limit)
    sent = [str(number) for number in range(60)]
    for body in sent:
        put(api, topic, {"body": body, "queue": queues.choice((0, 0, 0, 1, 3))})

    pages = walk(api, topic, limit=limit)

    assert bodies(pages) == sent
    assert all(len(page) == limit for page in pages[:-1])


def test_a_walk_meets_each_message_once_while_more_are_put(api: httpx.Client, topic: str) -> None:
    before = [f"before{number}" for number in range(3_000)]
    for start in range(0, len(before), 500):
        put(api, topic, *({"body": body} for body in before[start : start + 500]))
    late: list[str] = []
    seen: list[str] = []
    query: dict[str, str | int] = {"limit": 100}

    while len(late) < 2_000:
        answer = browse(api, topic, **query)
        seen += bodies([answer["messages"]])
        query["cursor"] = answer["next_cursor"]
        more = [f"late{len(late) + number}" for number in range(50)]
        put(api, topic, *({"body": body} for body in more))
        late += more
    seen += bodies(walk(api, topic, **query))

    assert seen == before + late


def test_a_walk_beside_a_busy_producer_repeats_and_loses_nothing(
    server: Server, api: httpx.Client, topic: str
) -> None:
    is_over = threading.Event()
    sent: list[str] = []

    def go_on_putting() -> None:
        with server.client() as other:
            while not is_over.is_set():
                more = [f"{len(sent) + number}" for number in range(20)]
                put(other, topic, *({"body": body} for body in more))
                sent.extend(more)

    thread = threading.Thread(target=go_on_putting)
    thread.start()
    try:
        seen: list[str] = []
        query: dict[str, str | int] = {"limit": 7}
        while len(seen) < 500:
            answer = browse(api, topic, **query)
            if answer["next_cursor"] is not None:
                seen += bodies([answer["messages"]])
                query["cursor"] = answer["next_cursor"]
    finally:
        is_over.set()
        thread.join(10)
    seen += bodies(walk(api, topic, **query))

    assert sorted(map(int, seen)) == list(range(len(sent)))


def test_browsing_takes_nothing_from_a_group(api: httpx.Client, topic: str) -> None:
    put(api, topic, *({"body": str(number), "queue": 0} for number in range(10)))

    walk(api, topic, limit=3)
    received = api.post(f"/v1/-/topics/{topic}/groups/billing:receive", json={"wait": "1s"}).json()
    again = bodies(walk(api, topic, limit=4))

    assert [(m["body"], m["attempt"]) for m in received["messages"]] == [
        (str(number), 1) for number in range(10)
    ]
    assert again == [str(number) for number in range(10)]


def test_one_queue_from_an_offset(api: httpx.Client, topic: str) -> None:
    put(api, topic, *({"body": f"{n}", "queue": n % 2} for n in range(20)))

    assert bodies(walk(api, topic, queue=1, limit=3)) == [f"{n}" for n in range(1, 20, 2)]
    assert bodies(walk(api, topic, queue=1, offset=7, limit=2)) == ["15", "17", "19"]
    assert browse(api, topic, queue=1, offset=10)["messages"] == []
    assert browse(api, topic, queue=1, offset=2**63 - 1)["next_cursor"] is None
    assert browse(api, topic, queue=3)["messages"] == []


def test_from_and_to_are_both_included(api: httpx.Client, topic: str) -> None:
    times: list[str] = []
    for number in range(30):
        [stored] = put(api, topic, {"body": str(number)})
        times.append(stored["stored_at"])
    low, high = times[10], times[20]
    expected = [str(n) for n, time in enumerate(times) if low <= time <= high]

    assert bodies(walk(api, topic, **{"from": low, "to": high, "limit": "4"})) == expected
    assert bodies(walk(api, topic, **{"from": low, "to": low})) == [
        str(n) for n, time in enumerate(times) if time == low
    ]
    assert browse(api, topic, **{"from": "2999-01-01T00:00:00Z"})["messages"] == []
    assert browse(api, topic, to="1999-01-01T00:00:00Z")["next_cursor"] is None
    assert len(bodies(walk(api, topic, to="2999-01-01T00:00:00+01:00"))) == 30


def test_only_messages_of_the_tag_and_not_of_another_with_its_hash(
    api: httpx.Client, topic: str
) -> None:
    tags = ["Aa", "BB", "C", None]
    put(api, topic, *({"body": f"{n}", "tag": tags[n % 4]} for n in range(40)))

    assert bodies(walk(api, topic, tag="Aa", limit=3)) == [f"{n}" for n in range(0, 40, 4)]
    assert bodies(walk(api, topic, tag="BB || C", limit=3)) == [
        f"{n}" for n in range(40) if n % 4 in (1, 2)
    ]
    assert len(bodies(walk(api, topic, tag="*"))) == 40
    assert bodies(walk(api, topic, tag="absent")) == []


def test_a_walk_continues_into_queues_that_the_topic_has_got_since(
    server: Server, api: httpx.Client, engine_socket: str
) -> None:
    topic = real_topic(server, engine_socket, queue_count=2)
    put(api, topic, *({"body": f"old{n}"} for n in range(6)))
    first = browse(api, topic, limit=3)

    grow_topic(server, engine_socket, topic, queue_count=4)
    with server.client() as other:
        other.get(f"/v1/-/topics/{topic}/messages")
        # What the process knows of a topic is refreshed by a notification; here it only gets old.
        while other.post(
            f"/v1/-/topics/{topic}/messages", json={"body": "new", "queue": 3}
        ).is_client_error:
            pass
    rest = bodies(walk(api, topic, limit=3, cursor=first["next_cursor"]))

    assert [m["body"] for m in first["messages"]] + rest == [f"old{n}" for n in range(6)] + ["new"]


def test_a_page_holds_four_mib_or_one_message(
    server: Server, api: httpx.Client, engine_socket: str
) -> None:
    topic = real_topic(server, engine_socket, queue_count=3)
    sent = [chr(65 + number) * (MIB + 1) for number in range(7)] + ["x" * (4 * MIB), "tail"]
    for number, body in enumerate(sent):
        api.post(
            f"/v1/-/topics/{topic}/messages",
            content=body.encode(),
            headers={"mq-queue": str(number % 3), "content-type": "text/plain"},
        ).raise_for_status()

    pages = walk(api, topic, limit=256)

    assert [body[:1] for body in bodies(pages)] == [body[:1] for body in sent]
    assert bodies(pages) == sent
    assert [len(page) for page in pages] == [3, 3, 1, 1, 1]
