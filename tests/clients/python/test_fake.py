"""The fake's own: a clock that stands still, and what tests of programs look at.

That it behaves as the service does is shown by the modules that are marked ``CONTRACT``.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator

import pytest
from mqservice_client import (
    AsyncBatch,
    AsyncClient,
    AsyncMessage,
    AsyncSubscription,
    Client,
    ClientClosed,
    Message,
    NotFound,
    OutcomeUnknown,
    RequestRejected,
    Sql,
    Unreachable,
    WrongEventLoop,
)
from mqservice_client.testing import FakeService

from tests.services import wait_until

WAIT = "20s"
SOON = "50ms"


@pytest.fixture
def service() -> FakeService:
    return FakeService(topics=["orders"], groups=["billing"])


@pytest.fixture
def mq(service: FakeService) -> Iterator[Client]:
    with Client(network=service.network()) as mq:
        yield mq


def taken(message: Message | None) -> Message:
    assert message is not None
    return message


def test_a_delayed_message_comes_when_its_time_has_come(service: FakeService, mq: Client) -> None:
    mq.send("orders", "later", delay="1h")
    with mq.subscribe("orders", "billing") as subscription:
        assert subscription.get(SOON) is None
        service.advance("59m")
        assert subscription.get(SOON) is None

        service.advance("1m")

        assert taken(subscription.get(WAIT)).text == "later"


def test_a_call_under_way_when_its_client_is_closed_has_an_error_of_the_tree(
    service: FakeService, mq: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mqservice_client")
    mq.topics.list()
    failures: list[BaseException] = []

    def send() -> None:
        try:
            mq.send("orders", "x")
        except BaseException as exc:
            failures.append(exc)

    with service.down():
        thread = threading.Thread(target=send)
        thread.start()
        wait_until(lambda: "A request is tried again" in caplog.messages, 20, "it has tried")
        mq.close()
        thread.join()

    [failure] = failures
    assert isinstance(failure, ClientClosed)
    assert failure.stored is None


def test_a_loop_that_has_ended_is_named_by_whatever_needs_it(service: FakeService) -> None:
    own = AsyncClient(network=service.network())

    async def begin() -> tuple[AsyncSubscription, list[AsyncMessage | None], AsyncBatch]:
        for _ in range(2):
            await own.send("orders", "x")
        subscription = own.subscribe("orders", "billing")
        return subscription, [await subscription.get(WAIT) for _ in range(2)], own.batch("orders")

    subscription, messages, batch = asyncio.run(begin())
    first, second = messages
    assert first is not None
    assert second is not None

    async def subscribe() -> None:
        own.subscribe("orders", "billing")

    async def send() -> None:
        await batch.send("x")

    for settle in (first.ack, second.nack):
        with pytest.raises(WrongEventLoop, match="closed"):
            settle()
    for call in (subscribe, subscription.get, subscription.close, send, batch.close, own.close):
        with pytest.raises(WrongEventLoop, match="closed"):
            asyncio.run(call())


@pytest.mark.parametrize("transport", ["websocket", "rest"])
def test_a_client_that_is_closed_while_nobody_answers_gives_up(
    service: FakeService, transport: str
) -> None:
    mq = Client(network=service.network(), transport=transport)  # type: ignore[arg-type]
    mq.send("orders", "x")
    message = taken(mq.subscribe("orders", "billing").get(WAIT))
    waiting = mq.batch("orders", linger="1h").send("y", idempotency_key="y")

    with service.down():
        message.ack()
        mq.close(timeout="100ms")

    with pytest.raises(OutcomeUnknown) as raised:
        waiting.result("0s")
    assert raised.value.idempotency_key == "y"
    assert (message.is_settled, service.lag("billing")) == (True, 1)


@pytest.mark.parametrize("transport", ["websocket", "rest"])
def test_a_lease_ends_when_its_time_has_come(service: FakeService, transport: str) -> None:
    with Client(network=service.network(), transport=transport) as mq:  # type: ignore[arg-type]
        mq.send("orders", "x")
        subscription = mq.subscribe("orders", "billing", lease="30s", auto_extend=None)
        first = taken(subscription.get(WAIT))
        service.advance("20s")
        first.extend("30s")
        service.advance("0s")
        again = subscription.get(SOON)

        service.advance("31s")

        again = taken(subscription.get(WAIT))
        assert (again.id, again.attempt) == (first.id, 2)
        assert service.lag("billing") == 1
        again.ack()
        again.confirmed(WAIT)
        assert service.lag("billing") == 0


def test_a_message_is_retried_by_the_policy_and_then_dead(service: FakeService, mq: Client) -> None:
    service.create_group(
        "strict", max_attempts=3, retry={"policy": "list", "delays": ["10s", "1m"]}
    )
    mq.send("orders", {"order": 1})
    with mq.subscribe("orders", "strict") as subscription:
        for attempt, wait in ((1, "10s"), (2, "1m"), (3, "1h")):
            message = taken(subscription.get(WAIT))
            assert message.attempt == attempt
            message.nack(reason=f"failure {attempt}")
            message.confirmed(WAIT)
            assert subscription.get(SOON) is None
            service.advance(wait)
        assert subscription.get(SOON) is None

    [(letter, reason)] = service.dead_letters("strict")
    assert (letter.json(), reason) == ({"order": 1}, "failure 3")


def test_dead_letters_are_redriven(service: FakeService, mq: Client) -> None:
    mq.send("orders", "x", tag="created")
    with mq.subscribe("orders", "billing") as subscription:
        message = taken(subscription.get(WAIT))
        message.dead_letter("no stock")
        message.confirmed(WAIT)
        assert mq.dead_letters.redrive("billing", all=True, dry_run=True).count == 1

        task = mq.dead_letters.redrive("billing", all=True)

        assert mq.tasks.wait(task.id, timeout=WAIT).moved == 1
        assert taken(subscription.get(WAIT)).attempt == 1
    assert service.dead_letters("billing") == []


def test_what_was_sent_can_be_looked_at(service: FakeService, mq: Client) -> None:
    mq.send("orders", {"order": 1}, tag="created", keys=["order-1"], properties={"a": "b"})
    mq.send("orders", "text")

    first, second = service.messages("orders")

    assert (first.json(), first.tag, first.keys) == ({"order": 1}, "created", ["order-1"])
    assert first.properties == {"a": "b"}
    assert second.text == "text"
    assert [each.content for each in mq.messages.iterate("orders", limit=1)] == [
        b'{"order":1}', b"text",
    ]  # fmt: skip


def test_a_scheduled_message_is_listed_sent_and_cancelled(service: FakeService, mq: Client) -> None:
    sent, cancelled = (mq.send("orders", body, delay="1h").recall_handle for body in "ab")
    assert sent is not None
    assert cancelled is not None

    assert [each.content for each in mq.scheduled.iterate("orders")] == [b"a", b"b"]
    mq.scheduled.cancel(cancelled)
    mq.scheduled.send(sent)

    assert [each.text for each in service.messages("orders")] == ["a"]


def test_a_client_that_comes_back_has_what_it_had(service: FakeService, mq: Client) -> None:
    mq.send("orders", "x")
    with mq.subscribe("orders", "billing") as subscription:
        message = taken(subscription.get(WAIT))
        service.disconnect()
        message.ack()
        message.confirmed(WAIT)
        mq.send("orders", "y")
        taken(subscription.get(WAIT)).ack()

    assert service.lag("billing") == 0
    assert (subscription.stats.reconnects, subscription.stats.lost) == (1, 0)


def test_a_client_that_stays_away_loses_its_messages(service: FakeService, mq: Client) -> None:
    mq.send("orders", "x")
    with mq.subscribe("orders", "billing") as subscription:
        first = taken(subscription.get(WAIT))
        with service.down():
            service.advance("61s")
            with Client(network=service.network()) as other, pytest.raises(Unreachable):
                other.send("orders", "y", timeout="50ms")
        first.ack()
        again = subscription.get(SOON)
        assert again is None
        wait_until(lambda: service.lag("billing") == 0, 20, "it came again and was acked again")

    assert subscription.stats.repeated == 1


def test_a_service_that_is_down_is_unreachable(service: FakeService) -> None:
    with Client(network=service.network(), timeout="100ms") as mq:
        with service.down(), pytest.raises(Unreachable):
            mq.send("orders", "x")
        mq.send("orders", "x")

    assert len(service.messages("orders")) == 1


async def test_clients_of_both_kinds_share_one_service(service: FakeService, mq: Client) -> None:
    async with AsyncClient(network=service.network()) as other:
        subscription = other.subscribe("orders", "billing")
        async with subscription:
            await asyncio.to_thread(mq.send, "orders", "from a thread")
            message = await subscription.get(WAIT)
            assert message is not None
            assert message.text == "from a thread"
            message.ack()

    assert service.lag("billing") == 0


def test_topics_and_groups_are_managed_as_in_the_service(mq: Client) -> None:
    made = mq.topics.create("shipments", queues=2, retention="1d")
    group = mq.groups.create("post", lease="45s", max_attempts=None)

    assert (made.queues, made.retention_ms) == (2, 86_400_000)
    assert (group.lease_ms, group.max_attempts) == (45_000, None)
    assert [topic.name for topic in mq.topics.iterate(limit=1)] == ["orders", "shipments"]
    assert mq.groups.pause("post").paused
    assert not mq.groups.resume("post").paused
    assert mq.groups.get("post").lease == "45s"
    assert mq.groups.lag("post").lag is None
    mq.send("shipments", "x")
    assert mq.topics.purge("shipments", dry_run=True).messages == 1
    assert mq.topics.purge("shipments").messages == 1
    mq.topics.delete("shipments")
    mq.groups.delete("post")
    assert [each.name for each in mq.groups.list().groups] == ["billing"]


def test_what_the_fake_does_not_have_says_so(mq: Client) -> None:
    with pytest.raises(NotFound, match="the fake of the service has no GET"):
        mq.schedules.list()
    with pytest.raises(RequestRejected, match="by tag only"):
        mq.subscribe("orders", "billing", filter=Sql("amount > 5")).get(WAIT)


def test_the_page_of_the_module_is_true() -> None:
    service = FakeService(topics=["orders"], groups=["billing"])
    with Client(network=service.network()) as mq:
        mq.send("orders", {"order": 42}, delay="1h")
        service.advance("1h")
        with mq.subscribe("orders", group="billing") as subscription:
            assert taken(subscription.get("1s")).json() == {"order": 42}
