"""What goes wrong between a client and the service: nothing is lost, and repeats are explained."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mqservice_client import (
    AsyncClient,
    BatchFailed,
    Client,
    ConnectionLost,
    Message,
    MQError,
    OutcomeUnknown,
    ResponseMalformed,
    SettleFailed,
    Unauthenticated,
    Unreachable,
    WrongEventLoop,
)

from tests.clients.python.conftest import Connect, Place, Target, make_place
from tests.clients.python.nonsense import accept_socket, answering
from tests.clients.python.proxy import Proxy, proxy, without_upgrade
from tests.clients.python.test_consumers import running, until
from tests.clients.python.test_receiving import lag, numbers, send_numbers, take
from tests.clients.python.test_sending import max_offset

pytestmark = pytest.mark.acceptance
WAIT = "20s"
SCRIPTS = Path(__file__).with_name("scripts")


@pytest.fixture
def way(service: Target) -> Iterator[Proxy]:
    with proxy(service.base_url) as made:
        yield made


# Proxies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["websocket", "rest"])
def test_cut_connections_lose_nothing(
    mq: Client, connect: Connect, place: Place, way: Proxy, transport: str
) -> None:
    send_numbers(mq, place.topic, 1_500)
    own = connect(way.url, transport=transport)
    seen: list[tuple[int, int]] = []
    lease = "30s" if transport == "websocket" else "2s"  # REST gets back what was cut only then
    receives = itertools.count(1)
    # A cut between two requests is none for REST: these are certain to hit one.
    way.loses_response = lambda content: b":receive " in content and next(receives) % 10 == 2
    with own.subscribe(*place, prefetch=50, lease=lease) as subscription:
        # What was acked too late comes again.
        while len({number for number, _ in seen}) < 1_500 or lag(mq, place.group)["lag"]:
            message = subscription.get("100ms")
            if message is None:
                continue
            seen.append((message.json(int), message.attempt))
            message.ack()
            if len(seen) % 300 == 150:
                way.cut()

    assert sorted({number for number, _ in seen}) == list(range(1_500))
    stats = subscription.stats
    assert stats.reconnects >= (5 if transport == "websocket" else 1)
    if transport == "websocket":  # a session is resumed: nothing comes twice
        assert len(seen) == 1_500
        assert all(attempt == 1 for _, attempt in seen)
        assert (stats.acked, stats.lost, stats.failed) == (1_500, 0, 0)


def test_a_lost_response_is_an_unknown_outcome_and_only_a_key_lets_it_be_repeated(
    mq: Client, connect: Connect, place: Place, way: Proxy
) -> None:
    may_pass = threading.Event()
    way.loses_response = lambda content: b"/messages" in content and not may_pass.is_set()
    own = connect(way.url)

    with pytest.raises(OutcomeUnknown) as raised:
        own.send(place.topic, "a")
    assert raised.value.stored is None
    with pytest.raises(OutcomeUnknown) as keyed:
        own.send(place.topic, "b", idempotency_key="b", timeout="1s")
    assert keyed.value.idempotency_key == "b"
    with pytest.raises(BatchFailed) as failed, own.batch(place.topic) as batch:
        for _ in range(3):
            batch.send("c")
    assert all(isinstance(error, OutcomeUnknown) for _, error in failed.value.failures)
    threading.Timer(0.5, may_pass.set).start()
    own.send(place.topic, "b", idempotency_key="b")
    may_pass.clear()
    threading.Timer(0.5, may_pass.set).start()
    with own.batch(place.topic, idempotent=True) as repeated:
        for _ in range(3):
            repeated.send("d")

    assert repeated.stored == 3
    with mq.subscribe(*place) as subscription:
        texts = sorted(message.text for message in take(subscription, 8))
    assert texts == ["a", "b", "c", "c", "c", "d", "d", "d"]
    assert max_offset(mq, place.topic) == 8


def test_without_upgrades_messages_come_over_rest(
    mq: Client, connect: Connect, place: Place, way: Proxy
) -> None:
    way.change = without_upgrade
    mq.send(place.topic, "x")
    own = connect(way.url)
    with own.subscribe(*place) as subscription:
        [message] = take(subscription, 1)
        assert subscription.transport == "rest"
        message.ack()
        message.confirmed(WAIT)
        with own.subscribe(*make_place(mq)) as second:
            assert second.transport == "rest"

    stubborn = connect(way.url, transport="websocket")
    with pytest.raises(Unreachable) as raised, stubborn.subscribe(*place) as refused:
        refused.get(WAIT)
    assert "WebSockets" in raised.value.what_to_do
    assert lag(mq, place.group)["lag"] == 0


def test_what_is_settled_while_the_service_is_away_is_confirmed_when_it_is_back(
    mq: Client, connect: Connect, place: Place, way: Proxy
) -> None:
    send_numbers(mq, place.topic, 10)
    own = connect(way.url)
    with own.subscribe(*place) as subscription:
        messages = take(subscription, 10)
        way.is_down = True
        way.cut()
        for message in messages[:5]:
            message.ack()
        messages[5].nack(delay="1h", reason="later")
        before = way.connection_count
        until(lambda: way.connection_count >= before + 2, "it tries again")
        assert not messages[0].is_lost
        with pytest.raises(TimeoutError):
            messages[0].confirmed("1ms")
        way.is_down = False
        for message in messages[6:]:
            message.ack()
        for message in messages:
            message.confirmed(WAIT)

    assert (subscription.stats.acked, subscription.stats.nacked) == (9, 1)
    until(lambda: lag(mq, place.group)["retry"]["scheduled"] == 1, "the nacked one is scheduled")


def test_a_subscription_can_be_closed_while_the_service_is_away(
    mq: Client, connect: Connect, place: Place, way: Proxy
) -> None:
    mq.send(place.topic, "x")
    own = connect(way.url)
    subscription = own.subscribe(*place)
    [message] = take(subscription, 1)
    way.close()
    subscription.close()
    message.ack()
    with pytest.raises(SettleFailed) as raised:
        message.confirmed(WAIT)
    assert raised.value.code == "SUBSCRIPTION_CLOSED"


def test_a_service_that_was_never_there_ends_a_subscription(
    connect: Connect, place: Place, way: Proxy
) -> None:
    way.is_down = True
    own = connect(way.url, timeout="500ms")
    with pytest.raises(MQError) as raised, own.subscribe(*place) as subscription:
        subscription.get(WAIT)

    assert raised.value.retryable


# Keys ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["websocket", "rest"])
def test_a_revoked_key_ends_what_it_was_used_for(
    mq: Client, connect: Connect, place: Place, transport: str
) -> None:
    made = mq.request(
        "POST", "/v1/keys", dict, json={"name": place.topic, "scopes": ["produce", "consume"]}
    )
    own = connect(api_key=made["key"], transport=transport)
    own.send(place.topic, "x")
    subscription = own.subscribe(*place, lease="1s", auto_extend=None)
    [message] = take(subscription, 1)
    mq.request("POST", f"/v1/keys/{made['id']}:revoke")

    with pytest.raises((Unauthenticated, ConnectionLost)) as raised:
        for _ in range(100):
            if subscription.get(WAIT) is None:
                break
    assert not raised.value.retryable
    assert raised.value.what_to_do
    message.ack()
    with pytest.raises(SettleFailed):
        message.confirmed(WAIT)
    with pytest.raises(Unauthenticated):
        own.send(place.topic, "y")
    with mq.subscribe(*place) as other:
        [again] = take(other, 1)
        assert again.id == message.id
        again.ack()


# Handlers -----------------------------------------------------------------------------------


def test_a_handler_slower_than_its_lease_lets_others_have_the_message(
    mq: Client, place: Place
) -> None:
    attempts: list[int] = []
    slow = threading.Event()

    @mq.consumer(*place, lease="1s", auto_extend=None, concurrency=2)
    def handle(message: Message) -> None:
        attempts.append(message.attempt)
        if message.attempt == 1:
            assert slow.wait(20)

    mq.send(place.topic, "x")
    with running(mq):
        until(lambda: attempts == [1, 2], "it came again")
        slow.set()
        until(lambda: lag(mq, place.group)["lag"] == 0, "it is acked")
        mq.send(place.topic, "y")
        until(lambda: len(attempts) == 3, "the run goes on")


# Leaving ------------------------------------------------------------------------------------


def test_at_whatever_moment_a_subscription_is_closed_it_keeps_no_message(
    mq: Client, connect: Connect, place: Place
) -> None:
    send_numbers(mq, place.topic, 100)
    own = connect()
    for turn in range(40):
        subscription = own.subscribe(*place, prefetch=100)
        threading.Event().wait(turn / 2_000)
        subscription.close()
        assert subscription.get("1ms") is None
    until(lambda: lag(mq, place.group)["inflight"] == 0, "no message is in flight")

    with mq.subscribe(*place, prefetch=100) as last:
        messages = take(last, 100)
        assert {message.attempt for message in messages} == {1}
        assert sorted(numbers(messages)) == list(range(100))
        for message in messages:
            message.ack()


@pytest.mark.parametrize("kind", ["sync"])
@pytest.mark.parametrize("name", ["leaves_open", "closes_all", "forks", "forks_async"])
def test_a_process_ends_by_itself_and_without_a_complaint(
    service: Target, mq: Client, place: Place, name: str
) -> None:
    done = _start(service, name, place)
    said, complaint = done.communicate(timeout=60)

    assert (done.returncode, said, complaint) == (0, "done\n", "")
    # Not one group of them has read anything: then nothing is known of it.
    until(lambda: not lag(mq, place.group)["inflight"], "no message is in flight")


@pytest.mark.parametrize("kind", ["sync"])
@pytest.mark.parametrize("name", ["runs", "runs_async"])
def test_sigterm_drains_and_gives_the_rest_back(
    service: Target, mq: Client, place: Place, name: str
) -> None:
    send_numbers(mq, place.topic, 20)
    process = _start(service, name, place)
    assert process.stdout is not None
    begun = [process.stdout.readline().strip() for _ in range(2)]
    process.send_signal(signal.SIGTERM)
    rest, complaint = process.communicate(timeout=60)

    # Two handlers were running and ended; none began after the signal.
    assert sorted(begun) == ["begun 0", "begun 1"]
    assert sorted(rest.split("\n")) == ["", "ended 0", "ended 1", "left"]
    assert (process.returncode, complaint) == (0, "")
    assert lag(mq, place.group)["inflight"] == 0
    with mq.subscribe(*place) as subscription:
        messages = take(subscription, 18)
        assert {message.attempt for message in messages} == {1}
        assert sorted(numbers(messages)) == list(range(2, 20))
        for message in messages:
            message.ack()


@pytest.mark.parametrize("kind", ["sync"])
def test_a_client_belongs_to_one_event_loop(service: Target, mq: Client, place: Place) -> None:
    own = AsyncClient(service.base_url, service.api_key)

    async def send() -> None:
        await own.send(place.topic, "x")

    async def send_and_close() -> None:
        async with AsyncClient(service.base_url, service.api_key) as other:
            await other.send(place.topic, "x")

    loop = asyncio.new_event_loop()
    loop.run_until_complete(send())
    another = asyncio.new_event_loop()
    with pytest.raises(WrongEventLoop, match="another"):
        another.run_until_complete(send())
    another.run_until_complete(send_and_close())
    loop.run_until_complete(own.close())
    loop.close()
    with pytest.raises(MQError):
        another.run_until_complete(send())
    another.close()


def _start(service: Target, name: str, place: Place) -> subprocess.Popen[str]:
    """A script with warnings as errors; what asyncio complains about it writes to stderr."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(SCRIPTS / f"{name}.py"), *place],
        env={**os.environ, "MQ_BASE_URL": service.base_url, "MQ_API_KEY": service.api_key},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# What is not of the service -----------------------------------------------------------------


def _frame(*content: int) -> bytes:
    return bytes(content)


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (_frame(0x82, 1, 0xC1), ResponseMalformed),  # not MessagePack
        (_frame(0x82, 1, 0x07), ResponseMalformed),  # no array
        (_frame(0x82, 2, 0x91, 6), ResponseMalformed),  # no welcome
        (_frame(0x82, 0x81, 0, 0, 0, 0, 0), ConnectionLost),  # masked
        (_frame(0xC2, 0), ConnectionLost),  # a reserved bit
        (_frame(0x82, 127, 0, 0, 0, 1, 0, 0, 0, 0), ConnectionLost),  # 4 GiB
        (_frame(0x88, 2, 0x11, 0x31), ConnectionLost),  # closed with 4401
    ],
)
def test_a_socket_that_speaks_nonsense_ends_a_subscription(
    connect: Connect, frame: bytes, error: Any
) -> None:
    with answering(lambda head: accept_socket(head) + frame) as url:
        own = connect(url, timeout="100ms", network=None)
        with pytest.raises(error), own.subscribe("t", "g") as subscription:
            subscription.get(WAIT)


def test_a_socket_that_is_never_closed_by_the_other_side_is_left(connect: Connect) -> None:
    frame = _frame(0x88, 2, 0x11, 0x31)
    with answering(lambda head: accept_socket(head) + frame, hangs_up=False) as url:
        own = connect(url, timeout="100ms", network=None)
        with pytest.raises(ConnectionLost), own.subscribe("t", "g") as subscription:
            subscription.get(WAIT)


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 x\r\nContent-Length: 3\r\n\r\nyes",
        b"HTTP/1.1 201 x\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 500 x\r\nContent-Length: 3\r\n\r\nno!",
        b"HTTP/1.1 301 x\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 201 x\r\nContent-Length: 900\r\n\r\n{",
    ],
)
def test_an_answer_that_is_not_of_the_service_is_an_error_of_the_tree(
    connect: Connect, answer: bytes
) -> None:
    with answering(lambda _: answer) as url:
        own = connect(url, timeout="200ms", network=None)
        with pytest.raises(MQError) as sent:
            own.send("t", "x")
        with pytest.raises(MQError), own.subscribe("t", "g") as subscription:
            subscription.get(WAIT)

    assert sent.value.stored is not True
