"""Pulling one queue at an offset: RocketMQ's statuses, on a real engine whose data also expires."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.engine import running_engine
from tests.mqservice.delivery.browsing import bodies, browse, put, walk
from tests.mqservice.delivery.engine_serving import grow_topic, real_topic, serving_engine
from tests.mqservice.delivery.serving import Json, Server
from tests.mqservice.delivery.wait_until import wait_until

QUICK_RETENTION = {"MQ_ENGINE_RETENTION_INTERVAL_MS": "20"}


@pytest.fixture(scope="module")
def quick_engine_socket() -> Iterator[str]:
    """An engine of this module's own: it looks often for what has expired."""
    with running_engine(QUICK_RETENTION) as path:
        yield path


@pytest.fixture(scope="module")
def server(quick_engine_socket: str) -> Iterator[Server]:
    with serving_engine(quick_engine_socket) as running:
        yield running


@pytest.fixture
def topic(server: Server, quick_engine_socket: str) -> str:
    return real_topic(server, quick_engine_socket)


def pull(api: httpx.Client, topic: str, offset: int, **query: str | int) -> Json:
    response = api.get(
        f"/v1/-/topics/{topic}/queues/0/messages", params={"offset": offset, **query}
    )
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


def summary(answer: Json) -> tuple[str, int, int, int, list[str]]:
    return (
        answer["status"],
        answer["min_offset"],
        answer["max_offset"],
        answer["next_offset"],
        [message["body"] for message in answer["messages"]],
    )


def offset_at(api: httpx.Client, topic: str, time: str) -> Json:
    response = api.get(f"/v1/-/topics/{topic}/queues/0/offset", params={"time": time})
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


def expire(
    server: Server, api: httpx.Client, socket_path: str, topic: str, left: tuple[str, ...]
) -> None:
    """Let all that is in queue 0 expire, then put ``left``."""
    grow_topic(server, socket_path, topic, queue_count=4, retention_ms=1)
    wait_until(lambda: pull(api, topic, 0)["status"] == "OFFSET_ILLEGAL")
    grow_topic(server, socket_path, topic, queue_count=4, retention_ms=3_600_000)
    put(api, topic, *({"body": body, "queue": 0} for body in left))


def test_each_status_with_its_offsets(api: httpx.Client, topic: str) -> None:
    assert summary(pull(api, topic, 0)) == ("NO_NEW_MSG", 0, 0, 0, [])
    put(api, topic, *({"body": f"{n}", "tag": "Aa", "queue": 0} for n in range(5)))

    assert summary(pull(api, topic, 1, max=2)) == ("FOUND", 0, 5, 3, ["1", "2"])
    assert summary(pull(api, topic, 3)) == ("FOUND", 0, 5, 5, ["3", "4"])
    assert summary(pull(api, topic, 5)) == ("NO_NEW_MSG", 0, 5, 5, [])
    assert summary(pull(api, topic, 6)) == ("OFFSET_ILLEGAL", 0, 5, 5, [])
    assert summary(pull(api, topic, 2**63 - 1)) == ("OFFSET_ILLEGAL", 0, 5, 5, [])
    assert summary(pull(api, topic, 1, tag="BB")) == ("NO_MATCHED_MSG", 0, 5, 5, [])
    assert summary(pull(api, topic, 4, tag="BB || Aa")) == ("FOUND", 0, 5, 5, ["4"])


def test_a_pulled_message_has_everything_but_a_lease(api: httpx.Client, topic: str) -> None:
    put(api, topic, {"body_json": [1], "tag": "t", "keys": ["k"], "queue": 0})

    [message] = pull(api, topic, 0)["messages"]

    assert message == browse(api, topic)["messages"][0]
    assert (message["body_json"], message["tag"], message["keys"]) == ([1], "t", ["k"])
    assert "receipt" not in message


def test_the_offset_of_a_time_is_of_the_first_message_stored_then_or_later(
    api: httpx.Client, topic: str
) -> None:
    times = [put(api, topic, {"body": "x", "queue": 0})[0]["stored_at"] for _ in range(8)]

    for time in times:
        assert offset_at(api, topic, time)["offset"] == times.index(time)
    assert offset_at(api, topic, "1999-01-01T00:00:00.000Z")["offset"] == 0
    assert offset_at(api, topic, "2999-01-01T00:00:00.000Z") == {
        "offset": 8,
        "min_offset": 0,
        "max_offset": 8,
    }


def test_expired_offsets_are_illegal_for_a_pull_and_corrected_in_a_walk(
    server: Server, api: httpx.Client, quick_engine_socket: str, topic: str
) -> None:
    old = put(api, topic, *({"body": f"old{n}", "keys": ["k"], "queue": 0} for n in range(20)))
    cursor = browse(api, topic, queue=0, limit=5)["next_cursor"]
    by_key = browse(api, topic, key="k", limit=5)["next_cursor"]

    expire(server, api, quick_engine_socket, topic, ("new0", "new1"))

    assert summary(pull(api, topic, 3)) == ("OFFSET_ILLEGAL", 20, 22, 20, [])
    assert bodies(walk(api, topic, queue=0, limit=5, cursor=cursor)) == ["new0", "new1"]
    assert bodies(walk(api, topic, queue=0, offset=0)) == ["new0", "new1"]
    assert bodies(walk(api, topic, limit=1)) == ["new0", "new1"]
    assert bodies(walk(api, topic, key="k", limit=5, cursor=by_key)) == []
    gone = api.get(f"/v1/-/topics/{topic}/messages/{old[0]['id']}")
    assert (gone.status_code, gone.json()["code"]) == (404, "MESSAGE_NOT_FOUND")


def test_a_damaged_message_is_passed_over(
    api: httpx.Client, topic: str, quick_engine_socket: str
) -> None:
    stored = put(
        api,
        topic,
        *({"body": f"damage me {n}", "keys": ["k"], "queue": 0} for n in range(9)),
    )
    damage(Path(quick_engine_socket).parent / "store", b"damage me 4")
    whole = [f"damage me {n}" for n in range(9) if n != 4]

    assert bodies(walk(api, topic, limit=2)) == whole
    assert summary(pull(api, topic, 4, max=1)) == ("NO_MATCHED_MSG", 0, 9, 5, [])
    assert summary(pull(api, topic, 0)) == ("FOUND", 0, 9, 9, whole)
    assert bodies(walk(api, topic, key="k", limit=3)) == whole[::-1]
    lost = api.get(f"/v1/-/topics/{topic}/messages/{stored[4]['id']}")
    assert (lost.status_code, lost.json()["code"]) == (404, "MESSAGE_NOT_FOUND")


def damage(store_dir: Path, body: bytes) -> None:
    """Change the last letter of a body where it lies on the disk."""
    [segment] = sorted((store_dir / "commitlog").iterdir())[:1]
    with segment.open("r+b") as file:
        content = file.read(4 * 1024 * 1024)
        at = content.index(struct.pack(">I", len(body)) + body)
        file.seek(at + 3 + len(body))
        file.write(b"!")
