"""Receiving: leases, results, credit and leaving, over both transports and with both twins."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from mqservice_client import (
    AlreadySettled,
    BadRequest,
    Client,
    ClientClosed,
    GroupNotFound,
    Message,
    MQError,
    RequestRejected,
    SettleFailed,
    Sql,
    Subscription,
    TopicNotFound,
    UsageError,
)

from tests.clients.python.conftest import CONTRACT, Connect, Place, make_place
from tests.services import wait_until

pytestmark = [pytest.mark.acceptance, CONTRACT]
WAIT = "20s"
WAIT_S = 20


@pytest.fixture(params=["websocket", "rest"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def mq(connect: Connect, transport: str) -> Client:
    return connect(transport=transport)


def take(subscription: Subscription, count: int) -> list[Message]:
    """The next messages; fails when one does not come."""
    found: list[Message] = []
    for _ in range(count):
        message = subscription.get(WAIT)
        assert message is not None, f"{len(found)} of {count} messages came"
        found.append(message)
    return found


def send_numbers(mq: Client, topic: str, count: int, **options: Any) -> None:
    with mq.batch(topic, requests_max=1) as batch:  # in their order
        for number in range(count):
            batch.send(number, **options)


def lag(mq: Client, group: str) -> dict[str, Any]:
    found: dict[str, Any] = mq.request("GET", f"groups/{group}/lag", dict)
    return found


def numbers(messages: list[Message]) -> list[int]:
    return [message.json(int) for message in messages]


def test_what_is_acked_does_not_come_again_and_what_fails_does(
    mq: Client, place: Place, transport: str
) -> None:
    for body in ("ack", "nack", "dead", "extend"):
        mq.send(place.topic, body)

    with mq.subscribe(*place) as subscription:
        acked, nacked, dead, extended = take(subscription, 4)
        assert subscription.transport == transport
        acked.ack()
        nacked.nack(delay="10ms", reason="not now")
        dead.dead_letter("bad schema")
        extended.extend("90s")
        for message in (acked, nacked, dead):
            message.confirmed(WAIT)
        [again] = take(subscription, 1)
        assert (again.id, again.attempt) == (nacked.id, 2)
        assert not extended.is_settled
        again.ack()
        extended.ack()

    stats = subscription.stats
    assert (stats.received, stats.acked, stats.nacked, stats.dead_lettered) == (5, 3, 1, 1)
    assert (stats.lost, stats.failed, stats.repeated) == (0, 0, 0)
    letters = mq.request("GET", f"groups/{place.group}/dlq", dict)["messages"]
    assert [(letter["id"], letter["reason"]) for letter in letters] == [(dead.id, "bad schema")]
    assert lag(mq, place.group)["lag"] == 0


def test_a_subscription_without_messages_says_when_it_is_ready(mq: Client, place: Place) -> None:
    with mq.subscribe(*place) as subscription:
        wait_until(lambda: subscription.is_ready, WAIT_S / 2, "the subscription is ready")
        assert subscription.get("0s") is None


def test_a_message_has_one_result(mq: Client, place: Place) -> None:
    mq.send(place.topic, "x")
    with mq.subscribe(*place) as subscription:
        [message] = take(subscription, 1)
        with pytest.raises(UsageError, match="no result"):
            message.confirmed(WAIT)
        message.ack()
        for again in (message.ack, message.nack, message.dead_letter, message.extend):
            with pytest.raises(AlreadySettled, match=message.id):
                again()
        message.confirmed(WAIT)
        assert message.is_settled


def test_durations_of_results_are_checked_before_anything_happens(mq: Client, place: Place) -> None:
    mq.send(place.topic, "x")
    with mq.subscribe(*place) as subscription:
        [message] = take(subscription, 1)
        with pytest.raises(UsageError):
            message.nack(delay=5)  # type: ignore[arg-type]  # the mistake that is tested
        with pytest.raises(UsageError):
            message.extend("1ms")
        assert not message.is_settled
        message.ack()
        message.confirmed(WAIT)


def test_the_result_of_a_message_that_another_consumer_has_fails(mq: Client, place: Place) -> None:
    mq.send(place.topic, "slow")
    with mq.subscribe(*place, lease="1s", auto_extend=None, prefetch=1) as slow:
        [message] = take(slow, 1)
        with mq.subscribe(*place) as other:  # now: either could get the first attempt
            [again] = take(other, 1)
            assert (again.id, again.attempt) == (message.id, 2)
            message.ack()
            with pytest.raises(SettleFailed, match=message.id) as raised:
                message.confirmed(WAIT)
            again.ack()
            again.confirmed(WAIT)

    assert raised.value.code in ("LEASE_EXPIRED", "RECEIPT_INVALID", "TAG_UNKNOWN"), raised.value
    assert raised.value.what_to_do
    assert slow.stats.failed == 1


def test_a_lease_that_is_extended_by_itself_outlives_its_time(mq: Client, place: Place) -> None:
    mq.send(place.topic, "long")
    with mq.subscribe(*place, lease="2s", auto_extend="1m", prefetch=1) as holder:
        [message] = take(holder, 1)
        with mq.subscribe(*place) as other:
            assert other.get("3s") is None
        message.ack()
        message.confirmed(WAIT)

    assert not message.is_lost


def test_no_more_messages_come_than_the_credit_allows(mq: Client, place: Place) -> None:
    send_numbers(mq, place.topic, 10)
    with mq.subscribe(*place, prefetch=3) as subscription:
        held = take(subscription, 3)
        assert subscription.get("300ms") is None
        held[0].ack()
        assert numbers(take(subscription, 1)) == [3]

    assert subscription.stats.received == 4


def test_more_messages_than_the_credit_come_in_turn(mq: Client, place: Place) -> None:
    send_numbers(mq, place.topic, 500)
    seen = []
    with mq.subscribe(*place, prefetch=20, idle_timeout="3s") as subscription:
        for message in subscription:
            seen.append(message.json(int))
            message.ack()
            if len(seen) == 500:
                break

    assert seen == list(range(500)), subscription.stats
    assert subscription.stats.acked == 500
    assert lag(mq, place.group)["lag"] == 0


def test_leaving_gives_back_what_is_in_hand(mq: Client, place: Place, transport: str) -> None:
    send_numbers(mq, place.topic, 10)
    with mq.subscribe(*place, prefetch=10) as first:
        for message in first:
            if message.json(int) == 1:
                break  # seen, and not settled
            message.ack()
    assert first.stats.acked == 1

    with mq.subscribe(*place) as second:
        found = take(second, 9)
        for message in found:
            message.ack()

    assert sorted(numbers(found)) == list(range(1, 10))
    # REST has no way of giving back that counts no attempt.
    assert {message.attempt for message in found} == {1 if transport == "websocket" else 2}
    assert lag(mq, place.group)["lag"] == 0


def test_a_closed_subscription_gives_no_message_and_raises_nothing(
    mq: Client, place: Place
) -> None:
    mq.send(place.topic, "x")
    subscription = mq.subscribe(*place)
    take(subscription, 1)
    subscription.close()
    subscription.close()

    assert subscription.get("1ms") is None
    assert list(subscription) == []


def test_an_idle_timeout_ends_the_iteration(mq: Client, place: Place) -> None:
    mq.send(place.topic, "x")
    with mq.subscribe(*place, idle_timeout="300ms") as subscription:
        found = []
        for message in subscription:
            message.ack()
            found.append(message.text)
    assert found == ["x"]


def test_several_topics_come_in_one_stream(mq: Client, place: Place) -> None:
    second = make_place(mq)
    mq.send(place.topic, "one")
    mq.send(second.topic, "two")

    with mq.subscribe([place.topic, second.topic, place.topic], place.group) as subscription:
        found = take(subscription, 2)
        for message in found:
            message.ack()

    assert {(message.topic, message.text) for message in found} == {
        (place.topic, "one"), (second.topic, "two"),
    }  # fmt: skip


def test_a_filter_lets_through_the_tags_that_it_names(mq: Client, place: Place) -> None:
    for tag in ("a", "b", "c"):
        mq.send(place.topic, tag, tag=tag)

    with mq.subscribe(*place, filter="a || b") as subscription:
        assert [message.tag for message in take(subscription, 2)] == ["a", "b"]
        assert subscription.get("100ms") is None


def test_each_client_of_a_broadcast_group_gets_every_message(mq: Client) -> None:
    place = make_place(mq, group={"dispatch": "broadcast"})
    send_numbers(mq, place.topic, 3)

    for client_id in ("one", "two"):
        with mq.subscribe(*place, client_id=client_id) as subscription:
            messages = take(subscription, 3)
            for message in messages:
                message.ack()
        assert numbers(messages) == [0, 1, 2]
    with mq.subscribe(*place, client_id="one") as again:
        assert again.get("300ms") is None


def test_messages_of_a_message_group_wait_for_the_one_before(mq: Client) -> None:
    place = make_place(mq, group={"ordered": True})
    send_numbers(mq, place.topic, 3, message_group="customer")

    with mq.subscribe(*place) as subscription:
        [first] = take(subscription, 1)
        assert subscription.get("300ms") is None
        first.nack(delay="10ms")
        [again] = take(subscription, 1)
        assert (again.id, again.attempt) == (first.id, 2)
        again.ack()
        for number in (1, 2):
            [message] = take(subscription, 1)
            assert message.json(int) == number
            message.ack()


@pytest.mark.parametrize(
    ("topic", "group", "options", "error"),
    [
        ("no-such-topic", "", {}, TopicNotFound),
        ("", "no-such-group", {}, GroupNotFound),
        ("", "", {"lease": "1ms"}, RequestRejected),
        ("", "", {"filter": Sql("amount >")}, RequestRejected),
    ],
)
def test_a_subscription_that_is_refused_says_why_when_it_is_read(
    mq: Client, place: Place, topic: str, group: str, options: dict[str, Any], error: type[MQError]
) -> None:
    subscription = mq.subscribe(topic or place.topic, group or place.group, **options)
    with pytest.raises(error) as raised:
        subscription.get(WAIT)

    assert not raised.value.retryable
    assert raised.value.what_to_do
    assert subscription.get("1ms") is None
    with mq.subscribe(*place) as other:  # the client goes on
        assert other.get("10ms") is None


@pytest.mark.parametrize(
    "options", [{"prefetch": 0}, {"prefetch": 1_001}, {"prefetch_bytes": 0}, {"lease": 30}]
)
def test_options_that_make_no_sense_are_refused_at_once(
    mq: Client, place: Place, options: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        mq.subscribe(*place, **options)
    with pytest.raises(UsageError):
        mq.subscribe([], place.group)


def test_a_body_that_is_not_what_was_expected_says_so(mq: Client, place: Place) -> None:
    mq.send(place.topic, b"\xff{")
    with mq.subscribe(*place) as subscription:
        [message] = take(subscription, 1)
        with pytest.raises(msgspec.DecodeError):
            message.json()
        with pytest.raises(UnicodeDecodeError):
            _ = message.text
        message.dead_letter("no JSON")
        message.confirmed(WAIT)


def test_a_subscription_ends_when_its_topic_is_deleted(mq: Client, place: Place) -> None:
    with mq.subscribe(*place) as subscription:
        assert subscription.get("200ms") is None
        mq.request("DELETE", f"topics/{place.topic}")
        with pytest.raises(RequestRejected):
            subscription.get(WAIT)


def test_a_client_that_closes_confirms_what_was_settled(
    connect: Connect, mq: Client, place: Place, transport: str
) -> None:
    send_numbers(mq, place.topic, 20)
    own = connect(transport=transport)
    subscription = own.subscribe(*place)
    for message in take(subscription, 20):
        message.ack()
    own.close()

    assert subscription.stats.acked == 20
    assert lag(mq, place.group)["lag"] == 0
    with pytest.raises(ClientClosed):
        own.subscribe(*place)


def test_a_subscription_that_nobody_holds_any_more_gives_its_messages_back(
    connect: Connect, mq: Client, place: Place, transport: str
) -> None:
    """A loop that is left with ``break``, without ``with`` around it."""
    send_numbers(mq, place.topic, 5)
    own = connect(transport=transport)
    for message in own.subscribe(*place):
        message.ack()
        break
    del message

    wait_until(lambda: lag(mq, place.group)["inflight"] == 0, WAIT_S, "nothing is in flight")
    with mq.subscribe(*place) as second:
        assert sorted(numbers(take(second, 4))) == [1, 2, 3, 4]


def test_bad_requests_have_their_faults(mq: Client, place: Place) -> None:
    with pytest.raises(BadRequest) as raised:
        mq.request("PUT", f"groups/{place.group}", json={"max_attempts": 0, "colour": "red"})

    assert {pointer for pointer, _, _ in raised.value.errors} == {"/max_attempts", "/colour"}
