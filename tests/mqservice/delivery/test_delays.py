"""Delays over REST and WebSocket before a real engine: asked for, refused, listed, recalled."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from mqservice.delivery.delivery_time import LEVEL_MAX
from mqservice.lib.timestamps import parse_rfc3339, rfc3339
from tests.mqservice.delivery.engine_serving import real_topic, serving_engine
from tests.mqservice.delivery.peers import BOTH, Peer
from tests.mqservice.delivery.serving import Json, Server
from tests.mqservice.delivery.wait_until import wait_until
from tests.storage_engine.engines import Engine

DAY_MS = 86_400_000
YEAR_MS = 365 * DAY_MS
WALL_MS_OFF = 1_000  # by which the wall clock may differ from the clock for delays
CANCELLED_OR_LATE = {(200, None), (409, "ALREADY_DELIVERED")}


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
    with server.client() as made:
        yield made


def now_ms(server: Server) -> int:
    return server.context.clock.now_ms()


def produced(client: httpx.Client, topic: str, **fields: object) -> Json:
    answer = client.post(f"/v1/ns/acme/topics/{topic}/messages", json={"body": "x", **fields})
    assert answer.status_code == 201, answer.text
    found: Json = answer.json()
    return found


def browsed(client: httpx.Client, topic: str) -> list[str]:
    answer = client.get(f"/v1/ns/acme/topics/{topic}/messages").json()
    return [each["id"] for each in answer["messages"]]


def scheduled(client: httpx.Client, topic: str, **query: int) -> list[Json]:
    found: list[Json] = []
    cursor: dict[str, str | int] = {}
    while True:
        answer = client.get(
            f"/v1/ns/acme/topics/{topic}/scheduled", params={**query, **cursor}
        ).json()
        found += answer["messages"]
        if answer["next_cursor"] is None:
            return found
        cursor = {"cursor": answer["next_cursor"]}


@pytest.mark.parametrize(
    ("fields", "delay_ms"),
    [({"delay": "300ms"}, 300), ({"delay_ms": 200}, 200), ({"delay_level": 1}, 1_000)],
)
def test_a_message_waits_and_then_comes_under_its_id(
    client: httpx.Client, server: Server, topic: str, fields: Json, delay_ms: int
) -> None:
    clock = server.context.clock
    sent_ms, sent_monotonic_ms = clock.now_ms(), clock.monotonic_ms()
    answer = produced(client, topic, tag="t", keys=["k"], message_group="g", **fields)
    assert answer["offset"] is None
    assert answer["durability"] == "synced"
    due_ms = parse_rfc3339(answer["deliver_at"])
    assert sent_ms - WALL_MS_OFF <= due_ms - delay_ms <= clock.now_ms() + WALL_MS_OFF
    assert parse_rfc3339(answer["stored_at"]) <= due_ms - delay_ms + WALL_MS_OFF
    wait_until(lambda: browsed(client, topic) == [answer["id"]])
    assert clock.monotonic_ms() - sent_monotonic_ms >= delay_ms
    (message,) = client.get(f"/v1/ns/acme/topics/{topic}/messages").json()["messages"]
    assert parse_rfc3339(message["stored_at"]) >= due_ms - WALL_MS_OFF
    assert (message["body"], message["tag"], message["keys"]) == ("x", "t", ["k"])
    assert (message["message_group"], message["properties"]) == ("g", {})
    assert message["queue"] == answer["queue"]


def test_a_moment_that_is_over_is_at_once(client: httpx.Client, server: Server, topic: str) -> None:
    told = produced(client, topic, deliver_at="2020-01-01T00:00:00Z")
    assert (told["deliver_at"], told["recall_handle"]) == (None, None)
    assert told["offset"] == 0
    assert browsed(client, topic) == [told["id"]]


def test_the_answer_to_a_delay_says_what_the_list_says(
    client: httpx.Client, server: Server, topic: str
) -> None:
    path = f"/v1/ns/acme/topics/{topic}/messages"
    batch = [{"body": "b", "delay": "2h"}, {"body": "c"}, {"body": "d", "delay_level": 18}]

    def keyed() -> Json:
        body, headers = {"body": "k", "delay": "3h"}, {"Idempotency-Key": "k"}
        answer: Json = client.post(path, json=body, headers=headers).json()
        return answer

    told = [
        produced(client, topic, delay="1h"),
        *client.post(f"{path}:batch", json=batch).json()["results"],
        keyed(),
    ]
    again = keyed()
    assert (again["duplicate"], again["deliver_at"]) == (True, told[-1]["deliver_at"])
    answers = {each["id"]: each["deliver_at"] for each in told if each["deliver_at"]}
    for _ in range(3):
        listed = {each["id"]: each["deliver_at"] for each in scheduled(client, topic)}
        assert listed == answers


def test_a_delay_of_nothing_is_at_once(client: httpx.Client, server: Server, topic: str) -> None:
    path = f"/v1/ns/acme/topics/{topic}/messages"
    told = [produced(client, topic, delay="0s"), produced(client, topic, delay_ms=0)]
    told += client.post(f"{path}:batch", json=[{"body": "b", "delay": "0ms"}]).json()["results"]
    raw = client.post(path, content=b"r", headers={"mq-delay": "0s"})
    told.append(raw.json())
    assert [(each["deliver_at"], each["recall_handle"]) for each in told] == [(None, None)] * 4
    assert None not in [each["offset"] for each in told]
    assert set(browsed(client, topic)) == {each["id"] for each in told}
    assert scheduled(client, topic) == []


def test_a_moment_to_come_is_answered_as_it_was_given(
    client: httpx.Client, server: Server, topic: str
) -> None:
    at = rfc3339(now_ms(server) + YEAR_MS - 60_000)
    told = produced(client, topic, deliver_at=at)
    assert told["deliver_at"] == at
    (message,) = scheduled(client, topic)
    assert (message["id"], message["deliver_at"]) == (told["id"], at)
    assert message["recall_handle"] == told["recall_handle"]
    assert message["queue"] == told["queue"]
    assert browsed(client, topic) == []


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"delay_ms": -1}, "/delay_ms"),
        ({"delay_ms": YEAR_MS + 1}, "/delay_ms"),
        ({"delay_ms": 2**63}, "/delay_ms"),
        ({"delay_ms": 2**100}, "/delay_ms"),
        ({"delay_ms": 1.5}, "/delay_ms"),
        ({"delay_ms": "5"}, "/delay_ms"),
        ({"delay_ms": True}, "/delay_ms"),
        ({"delay": ""}, "/delay"),
        ({"delay": "5"}, "/delay"),
        ({"delay": 5}, "/delay"),
        ({"delay": "-1s"}, "/delay"),
        ({"delay": "NaN"}, "/delay"),
        ({"delay": "1.5h"}, "/delay"),
        ({"delay": "366d"}, "/delay"),
        ({"delay": "9" * 15 + "d"}, "/delay"),
        ({"delay": "1 d"}, "/delay"),
        ({"delay": "1s\n"}, "/delay"),
        ({"delay_level": 0}, "/delay_level"),
        ({"delay_level": -1}, "/delay_level"),
        ({"delay_level": 2**31}, "/delay_level"),
        ({"delay_level": 2**63}, "/delay_level"),
        ({"delay_level": "5"}, "/delay_level"),
        ({"deliver_at": ""}, "/deliver_at"),
        ({"deliver_at": "tomorrow"}, "/deliver_at"),
        ({"deliver_at": "2999-01-01T00:00:00Z"}, "/deliver_at"),
        ({"deliver_at": "2027-01-01T00:00:00"}, "/deliver_at"),
        ({"deliver_at": "2027-02-30T00:00:00Z"}, "/deliver_at"),
        ({"deliver_at": "9999-12-31T23:59:59-12:00"}, "/deliver_at"),
        ({"deliver_at": 1_900_000_000_000}, "/deliver_at"),
        ({"delay": "1s", "delay_ms": 1_000}, "/delay_ms"),
        ({"delay_level": 1, "deliver_at": "2020-01-01T00:00:00Z"}, "/deliver_at"),
    ],
)
def test_what_is_no_time_is_refused_and_never_taken_for_at_once(
    client: httpx.Client, topic: str, fields: Json, pointer: str
) -> None:
    path = f"/v1/ns/acme/topics/{topic}/messages"
    one = client.post(path, json={"body": "x", **fields})
    batch = client.post(f"{path}:batch", json=[{"body": "good"}, {"body": "x", **fields}])
    for answer, where in ((one, pointer), (batch, f"/1{pointer}")):
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (400, "ILLEGAL_DELIVERY_TIME"), problem
        assert problem["errors"][0]["pointer"] == where
        assert problem["stored"] is False
        assert len(problem["detail"]) < 400
    assert browsed(client, topic) == []
    assert scheduled(client, topic) == []


@pytest.mark.parametrize("value", ["NaN", "Infinity"])
def test_what_is_no_json_is_refused_as_such(client: httpx.Client, topic: str, value: str) -> None:
    answer = client.post(
        f"/v1/ns/acme/topics/{topic}/messages",
        content=f'{{"body":"x","delay_ms":{value}}}',
        headers={"content-type": "application/json"},
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "BAD_REQUEST")


@pytest.mark.parametrize(
    "headers",
    [
        {"mq-delay": "5"},
        {"mq-delay": ""},
        {"mq-delay": "366d"},
        {"mq-delay-level": "NaN"},
        {"mq-delay-level": "0"},
        {"mq-delay-level": str(LEVEL_MAX + 1)},
        {"mq-delay-level": "9" * 5_000},
        {"mq-deliver-at": "now"},
        {"mq-delay": "1s", "mq-delay-level": "1"},
    ],
)
def test_headers_of_a_raw_message_are_refused_likewise(
    client: httpx.Client, topic: str, headers: dict[str, str]
) -> None:
    path = f"/v1/ns/acme/topics/{topic}/messages"
    answer = client.post(path, content=b"x", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "ILLEGAL_DELIVERY_TIME")


@pytest.mark.parametrize(
    "headers", [{"mq-delay": "12h"}, {"mq-delay-level": "18"}, {"mq-deliver-at": ""}]
)
def test_a_raw_message_waits_as_its_headers_say(
    client: httpx.Client, server: Server, topic: str, headers: dict[str, str]
) -> None:
    if "mq-deliver-at" in headers:
        headers = {"mq-deliver-at": rfc3339(now_ms(server) + DAY_MS)}
    path = f"/v1/ns/acme/topics/{topic}/messages"
    answer = client.post(path, content=b"\x00raw", headers=headers)
    assert answer.status_code == 201
    (message,) = scheduled(client, topic)
    assert message["recall_handle"] == answer.json()["recall_handle"]


def test_a_batch_may_mix_and_its_results_say_which_wait(client: httpx.Client, topic: str) -> None:
    answer = client.post(
        f"/v1/ns/acme/topics/{topic}/messages:batch",
        json=[{"body": "now"}, {"body": "later", "delay": "1d"}, {"body": "now too"}],
    )
    now, later, too = answer.json()["results"]
    assert answer.status_code == 201
    assert now["recall_handle"] is too["recall_handle"] is later["offset"] is None
    assert [each["id"] for each in scheduled(client, topic)] == [later["id"]]
    assert set(browsed(client, topic)) == {now["id"], too["id"]}


@pytest.mark.parametrize("subprotocol", BOTH)
def test_a_socket_publishes_messages_that_wait(
    client: httpx.Client, server: Server, topic: str, subprotocol: str
) -> None:
    with Peer(server, subprotocol) as peer:
        told = peer.ask("pub", topic=topic, m=[{"body": "x", "delay": "1d"}])
    (waiting,) = scheduled(client, topic)
    assert waiting["body"] == "x"
    assert waiting["recall_handle"] in str(told)


@pytest.mark.parametrize(
    ("message_type", "fields", "is_taken"),
    [
        ("delay", {"delay": "1d"}, True),
        ("delay", {"deliver_at": "2020-01-01T00:00:00Z"}, True),
        ("delay", {}, False),
        ("mixed", {"delay": "1d"}, True),
        ("normal", {"delay": "1d"}, False),
        ("normal", {}, True),
        ("fifo", {"delay": "1d", "message_group": "g"}, False),
        ("fifo", {"message_group": "g"}, True),
        ("transaction", {"delay": "1d"}, False),
    ],
)
def test_a_topics_type_says_whether_its_messages_wait(
    client: httpx.Client,
    server: Server,
    topic: str,
    message_type: str,
    fields: Json,
    is_taken: bool,
) -> None:
    server.topic(topic, message_type=message_type)
    answer = client.post(f"/v1/ns/acme/topics/{topic}/messages", json={"body": "x", **fields})
    expected = (201, None) if is_taken else (409, "MESSAGE_TYPE_CONFLICT")
    assert (answer.status_code, answer.json().get("code")) == expected


# Recalled -------------------------------------------------------------------------------------


def test_pages_of_the_list_have_a_cursor_of_their_own_topic(
    client: httpx.Client, server: Server, engine: Engine, topic: str
) -> None:
    other = real_topic(server, engine.socket)
    told = [produced(client, topic, delay="1d")["id"] for _ in range(5)]
    produced(client, other, delay="1d")
    assert [each["id"] for each in scheduled(client, topic, limit=2)] == told
    path = f"/v1/ns/acme/topics/{topic}/scheduled"
    cursor = client.get(path, params={"limit": 2}).json()["next_cursor"]
    for wrong, text in ((f"/v1/ns/acme/topics/{other}/scheduled", cursor), (path, "x")):
        answer = client.get(wrong, params={"cursor": text})
        assert (answer.status_code, answer.json()["code"]) == (400, "CURSOR_INVALID")


def test_a_cancel_answers_whether_it_won(client: httpx.Client, topic: str) -> None:
    told = produced(client, topic, delay="1d")
    path = f"/v1/ns/acme/scheduled/{told['recall_handle']}"
    answer = client.delete(path)
    assert answer.status_code == 200
    assert answer.json() == {"id": told["id"], "topic": topic, "state": "cancelled"}
    again = client.delete(path)
    assert (again.status_code, again.json()["code"]) == (404, "MESSAGE_NOT_FOUND")
    assert scheduled(client, topic) == []


def test_a_message_that_is_sent_now_comes_now_and_cannot_be_cancelled_then(
    client: httpx.Client, topic: str
) -> None:
    told = produced(client, topic, delay="1d")
    path = f"/v1/-/scheduled/{told['recall_handle']}"
    answer = client.post(f"{path}:send")
    assert (answer.status_code, answer.json()["state"]) == (200, "sent")
    wait_until(lambda: browsed(client, topic) == [told["id"]])
    for late in (client.post(f"{path}:send"), client.delete(path)):
        assert (late.status_code, late.json()["code"]) == (409, "ALREADY_DELIVERED")
    assert browsed(client, topic) == [told["id"]]


def test_a_handle_is_worth_nothing_elsewhere_or_changed(
    client: httpx.Client, server: Server, topic: str
) -> None:
    told = produced(client, topic, delay="1d")
    handle = told["recall_handle"]
    foreign = server.key(tenant_id=2, namespace="other")
    elsewhere = {"authorization": foreign}
    flipped = handle[:-3] + ("A" if handle[-3] != "A" else "B") + handle[-2:]
    texts = (handle[:-1], flipped, handle[3:], "rc_", "rc_" + "A" * 600, f"{handle}=", "x")
    refusals = [client.delete(f"/v1/ns/acme/scheduled/{text}") for text in texts]
    for ns in ("acme", "other", "-"):
        path = f"/v1/ns/{ns}/scheduled/{handle}" if ns != "-" else f"/v1/-/scheduled/{handle}"
        refusals.append(client.delete(path, headers=elsewhere))
        refusals.append(client.post(f"{path}:send", headers=elsewhere))
    for answer in refusals:
        assert (answer.status_code, answer.json()["code"]) == (404, "MESSAGE_NOT_FOUND")
    assert len(scheduled(client, topic)) == 1


@pytest.mark.torture
def test_a_cancelled_message_stays_cancelled_and_the_others_come_over_kills(
    client: httpx.Client, server: Server, engine: Engine, topic: str
) -> None:
    """kill -9 right after the answers, twice, and once while they are due."""
    path = f"/v1/ns/acme/topics/{topic}/messages:batch"
    batch = [{"body": f"{n}", "delay": "10s"} for n in range(60)]
    told = client.post(path, json=batch).json()["results"]
    engine.kill()
    engine.start()
    wait_until(lambda: server.store.is_connected)
    cancelled = set()
    for each in told[::3]:
        answer = client.delete(f"/v1/-/scheduled/{each['recall_handle']}")
        # A slow machine comes too late for some.
        assert (answer.status_code, answer.json().get("code")) in CANCELLED_OR_LATE
        if answer.is_success:
            cancelled.add(each["id"])
    assert cancelled
    engine.kill()
    engine.start()
    wait_until(lambda: server.store.is_connected)
    expected = {each["id"] for each in told} - cancelled

    def arrived() -> list[str]:
        found: list[str] = []
        query: dict[str, str | int] = {"limit": 256}
        while True:
            page = client.get(f"/v1/ns/acme/topics/{topic}/messages", params=query).json()
            found += [each["id"] for each in page["messages"]]
            if page["next_cursor"] is None:
                return found
            query["cursor"] = page["next_cursor"]

    wait_until(lambda: bool(arrived()))
    engine.kill()
    engine.start()
    wait_until(lambda: server.store.is_connected)
    wait_until(lambda: len(arrived()) >= len(expected))
    assert sorted(arrived()) == sorted(expected)
