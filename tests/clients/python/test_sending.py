"""Sending: what arrives, what is promised about it, and what is refused. Of both twins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from mqservice_client import (
    BadRequest,
    BatchFailed,
    Client,
    ClientClosed,
    IdempotencyKeyReused,
    MQError,
    RequestRejected,
    Stored,
    TopicNotFound,
    Unreachable,
    UsageError,
)

from tests.clients.python.conftest import CONTRACT, Connect, Place, Target, make_place
from tests.ports import held_port

pytestmark = [pytest.mark.acceptance, CONTRACT]
WAIT = "20s"


def max_offset(mq: Client, topic: str, queue: int = 0) -> int:
    """How many messages have been stored there."""
    found: dict[str, Any] = mq.request("GET", f"topics/{topic}", dict)
    offset: int = found["queue_offsets"][queue]["max_offset"]
    return offset


def test_text_json_and_bytes_arrive_exactly_as_they_were_sent(mq: Client, place: Place) -> None:
    raw = bytes(range(256))
    for body in (
        "Grüße, 世界",
        {"large": 9007199254740993, "": [1, None]},
        raw,
        17,
        bytearray(b"b"),
    ):
        mq.send(place.topic, body)

    with mq.subscribe(*place) as subscription:
        messages = [subscription.get(WAIT) for _ in range(5)]

    text, document, binary, number, array = (message for message in messages if message)
    assert text.text == "Grüße, 世界"
    assert document.json() == {"large": 9007199254740993, "": [1, None]}
    assert binary.body == raw
    assert number.json(int) == 17
    assert array.body == b"b"


def test_a_large_body_of_bytes_keeps_every_byte_and_option(mq: Client, place: Place) -> None:
    raw = bytes(range(256)) * 1024
    mq.send(place.topic, raw, tag="big", keys=["k1", "k2"], message_group="g", delay="1ms")
    mq.send(place.topic, raw, keys="a,b", properties={"ключ": "значение"})

    with mq.subscribe(*place) as subscription:
        found = {
            message.tag: message
            for message in (subscription.get(WAIT), subscription.get(WAIT))
            if message
        }

    assert found["big"].body == found[None].body == raw
    assert (found["big"].keys, found["big"].message_group) == (["k1", "k2"], "g")
    assert (found[None].keys, found[None].properties) == (["a,b"], {"ключ": "значение"})


def test_every_option_of_a_message_arrives_with_it(mq: Client) -> None:
    place = make_place(mq, topic={"queues": 4})
    properties = {"source": "web", "ключ": "значение"}
    before = datetime.now(UTC) - timedelta(seconds=5)

    stored = mq.send(
        place.topic,
        "x",
        tag="created",
        keys=["k1", "k2"],
        message_group="g",
        properties=properties,
        queue=2,
    )

    assert (stored.topic, stored.queue, stored.duplicate) == (place.topic, 2, False)
    assert stored.durability == "synced"
    with mq.subscribe(*place, filter="created || paid") as subscription:
        message = subscription.get(WAIT)
    assert message is not None
    assert (message.id, message.queue, message.offset) == (stored.id, 2, stored.offset)
    assert (message.topic, message.group, message.attempt) == (place.topic, place.group, 1)
    assert (message.tag, message.keys, message.message_group) == ("created", ["k1", "k2"], "g")
    assert message.properties == properties
    assert before < message.stored_at < datetime.now(UTC) + timedelta(seconds=5)
    assert message.stored_at == datetime.fromisoformat(stored.stored_at)
    assert message.id in repr(message)


def test_the_same_idempotency_key_stores_once(mq: Client, place: Place) -> None:
    first = mq.send(place.topic, "a", idempotency_key="once")
    again = mq.send(place.topic, "a", idempotency_key="once")

    assert (first.duplicate, again.duplicate, again.id) == (False, True, first.id)
    with pytest.raises(IdempotencyKeyReused):
        mq.send(place.topic, "b", idempotency_key="once")
    assert max_offset(mq, place.topic) == 1


def test_a_delayed_message_has_a_handle_and_no_place_yet(mq: Client, place: Place) -> None:
    moment = datetime.now(UTC) + timedelta(hours=2)

    later = mq.send(place.topic, "x", delay=timedelta(hours=1))
    then = mq.send(place.topic, "x", deliver_at=moment)

    assert later.offset is None
    assert later.recall_handle
    assert then.deliver_at is not None
    assert abs(datetime.fromisoformat(then.deliver_at) - moment) < timedelta(seconds=1)


def test_what_is_short_of_a_second_late_is_delivered(mq: Client, place: Place) -> None:
    sent = mq.send(place.topic, "soon", delay="300ms")

    with mq.subscribe(*place) as subscription:
        message = subscription.get(WAIT)

    assert message is not None
    assert message.text == "soon"
    assert sent.offset is None


@pytest.mark.parametrize(
    ("body", "options"),
    [
        ("", {}),
        (b"", {}),
        (object(), {}),
        ("x", {"delay": 30}),
        ("x", {"delay": "soon"}),
        ("x", {"delay": "-1s"}),
        ("x", {"deliver_at": datetime(2030, 1, 1)}),  # noqa: DTZ001
        ("x", {"idempotency_key": "zwölf"}),
        ("x", {"timeout": 1.5}),
        ("\ud800", {}),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_sent(
    mq: Client, place: Place, body: Any, options: dict[str, Any]
) -> None:
    with pytest.raises(UsageError) as raised:
        mq.send(place.topic, body, **options)

    assert isinstance(raised.value, ValueError)
    assert (raised.value.stored, raised.value.retryable) == (False, False)
    assert max_offset(mq, place.topic) == 0


def test_a_refusal_says_what_is_wrong_and_what_to_do(mq: Client, place: Place) -> None:
    with pytest.raises(TopicNotFound, match=r"^TOPIC_NOT_FOUND \(HTTP 404\)") as raised:
        mq.send("no-such-topic", "x")

    error = raised.value
    assert (error.code, error.status, error.stored, error.retryable) == (
        "TOPIC_NOT_FOUND",
        404,
        False,
        False,
    )
    assert error.request_id
    assert "PUT" in error.what_to_do
    with pytest.raises(RequestRejected) as faults:
        mq.send(place.topic, "x", queue=7, tag="a" * 300)
    assert faults.value.stored is False


def test_nobody_there_is_unreachable_and_nothing_was_sent(
    service: Target, connect: Connect
) -> None:
    with held_port() as held:
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        mq = connect(url, timeout="50ms", network=None)
        with pytest.raises(Unreachable, match=url) as raised:
            mq.send("t", "x")

    assert (raised.value.stored, raised.value.retryable) == (False, True)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (("ftp://x", "mqk_x"), {}),
        (("http://", "mqk_x"), {}),
        (("http://x", "mqk x"), {}),
        (("http://x", "mqk_x"), {"timeout": 30}),
    ],
)
def test_a_client_needs_an_address_and_a_key(
    connect: Connect, arguments: tuple[str, str], options: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        connect(*arguments, network=None, **options)


def test_address_and_key_come_from_the_environment(
    service: Target, connect: Connect, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MQ_BASE_URL", "MQ_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="MQ_API_KEY"):
        connect(None, None, network=None)
    monkeypatch.setenv("MQ_BASE_URL", service.base_url)
    monkeypatch.setenv("MQ_API_KEY", service.api_key)

    assert connect(None, None).send(place.topic, "x").offset == 0


def test_a_closed_client_says_so(connect: Connect, place: Place) -> None:
    mq = connect()
    mq.send(place.topic, "x")
    mq.close()
    mq.close()

    with pytest.raises(ClientClosed):
        mq.send(place.topic, "x")
    with pytest.raises(ClientClosed):
        mq.subscribe(*place)


# Batches ------------------------------------------------------------------------------------


def test_a_batch_has_a_result_for_each_message_in_order(mq: Client, place: Place) -> None:
    with mq.batch(place.topic, messages_max=20) as batch:
        pending = [batch.send({"index": index}, message_group="one") for index in range(130)]
        batch.flush()
        assert all(each.is_done for each in pending)
        assert [each.result().offset for each in pending] == list(range(130))

    assert batch.stored == 130
    assert batch.failures == []


def test_one_bad_message_does_not_keep_the_others_out(mq: Client, place: Place) -> None:
    with pytest.raises(BatchFailed, match="2 of 1500") as raised, mq.batch(place.topic) as batch:
        sent = [batch.send("x", queue=9 if index in (7, 1_200) else None) for index in range(1_500)]

    failures = raised.value.failures
    assert [index for index, _ in failures] == [7, 1_200]
    assert all(
        isinstance(error, RequestRejected) and error.code == "QUEUE_NOT_FOUND"
        for _, error in failures
    )
    assert all(error.stored is False for _, error in failures)
    assert isinstance(sent[8].result(), Stored)
    with pytest.raises(RequestRejected, match="QUEUE_NOT_FOUND"):
        sent[7].result()
    assert max_offset(mq, place.topic) == 1_498


def test_an_error_inside_the_block_is_the_one_that_is_raised(mq: Client, place: Place) -> None:
    with pytest.raises(KeyError), mq.batch(place.topic, linger="1h") as batch:
        batch.send("x", queue=9)
        batch.send("x")
        raise KeyError

    assert max_offset(mq, place.topic) == 1


def test_messages_leave_after_their_linger(mq: Client, place: Place) -> None:
    batch = mq.batch(place.topic, linger="10ms")

    assert batch.send("x").result(WAIT).offset == 0
    batch.close()
    with pytest.raises(ClientClosed):
        batch.send("x")


def test_a_result_that_is_not_there_yet_times_out(mq: Client, place: Place) -> None:
    with mq.batch(place.topic, linger="1h") as batch:
        pending = batch.send("x")
        with pytest.raises(TimeoutError):
            pending.result("1ms")
        assert not pending.is_done

    assert pending.result().offset == 0


def test_a_batch_larger_than_its_memory_waits_for_room(mq: Client, place: Place) -> None:
    body = "x" * 4_000
    with mq.batch(place.topic, bytes_max=20_000, requests_max=1, linger="1h") as batch:
        for _ in range(100):
            batch.send(body)

    assert batch.stored == 100
    assert max_offset(mq, place.topic) == 100


def test_a_batch_takes_bodies_of_any_size_and_tells_each_result(mq: Client, place: Place) -> None:
    bodies = [b"small", b"\xff\x00" * (2 * 1024 * 1024), b"last"]
    told: dict[int, Stored | MQError] = {}

    with mq.batch(place.topic, on_result=told.__setitem__) as batch:
        for body in bodies:
            batch.send(body, tag="t")

    assert [type(told[index]) for index in range(3)] == [Stored] * 3
    assert (batch.stored, batch.repeated) == (3, 0)
    with mq.subscribe(*place) as subscription:
        received = [subscription.get(WAIT) for _ in bodies]
    assert sorted(message.body for message in received if message) == sorted(bodies)
    assert {message.tag for message in received if message} == {"t"}


def test_keys_of_an_idempotent_batch_differ_and_given_ones_count(mq: Client, place: Place) -> None:
    with mq.batch(place.topic, idempotent=True) as batch:
        batch.send("a")
        batch.send("a")
        first = batch.send("b", idempotency_key="own")
        batch.flush()
        again = batch.send("b", idempotency_key="own")

    assert again.result().id == first.result().id
    assert max_offset(mq, place.topic) == 3


@pytest.mark.parametrize(
    "options",
    [
        {"messages_max": 0},
        {"messages_max": 1_001},
        {"bytes_max": 0},
        {"requests_max": 0},
        {"attempts_max": 0},
        {"linger": 5},
    ],
)
def test_limits_of_a_batch_are_checked(mq: Client, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        mq.batch("t", **options)


def test_a_client_that_closes_sends_what_lingers(
    connect: Connect, mq: Client, place: Place
) -> None:
    own = connect()
    pending = own.batch(place.topic, linger="1h").send("x")
    own.close()

    assert pending.is_done
    assert max_offset(mq, place.topic) == 1


# Any other call -----------------------------------------------------------------------------


def test_any_call_of_the_api_can_be_made(mq: Client, place: Place) -> None:
    listed = mq.request(
        "GET", "topics", dict, params={"contains": place.topic, "limit": 1, "cursor": None}
    )

    assert [topic["name"] for topic in listed["topics"]] == [place.topic]
    assert mq.request("DELETE", f"groups/{place.group}") is None
    with pytest.raises(MQError):
        mq.request("GET", f"topics/{place.topic}", list)
    with pytest.raises(BadRequest):
        mq.request("PUT", f"topics/{place.topic}", json={"queues": "many"})
