"""Handlers: what becomes of a message by what its function does, and how a run ends."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from mqservice_client import Client, Message, Reject, Retry, TopicNotFound, UsageError

from tests.clients.python.conftest import CONTRACT, Place, make_place
from tests.clients.python.test_receiving import lag, send_numbers
from tests.services import wait_until

pytestmark = [pytest.mark.acceptance, CONTRACT]
WAIT_S = 30


@contextmanager
def running(mq: Client, **options: Any) -> Iterator[None]:
    """``run`` on a thread of its own, ended by ``stop``."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            mq.run(**options)
        except BaseException as exc:
            failures.append(exc)

    thread = threading.Thread(target=run, name="run", daemon=True)
    thread.start()
    try:
        yield
    finally:
        mq.stop()
        thread.join(WAIT_S)
        assert not thread.is_alive(), "run does not end"
    if failures:
        raise failures[0]


def until(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, WAIT_S, what)


def dead_letters(mq: Client, group: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = mq.request("GET", f"groups/{group}/dlq", dict)["messages"]
    return found


def test_a_message_is_acked_when_its_function_returns(mq: Client, place: Place) -> None:
    seen: list[int] = []

    @mq.consumer(*place)
    def handle(message: Message) -> None:
        seen.append(message.json(int))

    with running(mq):
        send_numbers(mq, place.topic, 50)
        until(lambda: lag(mq, place.group)["lag"] == 0, "all messages are acked")

    assert seen == list(range(50))
    assert callable(handle)


def test_coroutines_are_awaited(mq: Client, place: Place) -> None:
    seen: list[int] = []

    @mq.consumer(*place, concurrency=3)
    async def handle(message: Message) -> None:
        seen.append(message.json(int))

    with running(mq):
        send_numbers(mq, place.topic, 50)
        until(lambda: lag(mq, place.group)["lag"] == 0, "all messages are acked")

    assert sorted(seen) == list(range(50))


@pytest.mark.parametrize("is_coroutine", [False, True])
def test_each_end_of_a_function_has_its_result(
    mq: Client, place: Place, is_coroutine: bool
) -> None:
    attempts: Counter[str] = Counter()

    def handle(message: Message) -> None:
        attempts[message.text] += 1
        if attempts[message.text] > 1:
            return
        if message.text == "raises":
            raise RuntimeError("boom")
        if message.text == "retries":
            raise Retry(delay="10ms", reason="not yet")
        if message.text == "rejects":
            raise Reject("never")
        if message.text == "is hopeless":
            raise KeyError("field")
        if message.text == "settles":
            message.dead_letter("by itself")

    async def handle_async(message: Message) -> None:
        handle(message)

    mq.consumer(*place, retry_delay="10ms", dead_letter_on=LookupError)(
        handle_async if is_coroutine else handle
    )
    bodies = ("returns", "raises", "retries", "rejects", "is hopeless", "settles")
    with running(mq):
        for body in bodies:
            mq.send(place.topic, body)
        until(lambda: sum(attempts.values()) == len(bodies) + 2, "the failed ones came again")
        until(lambda: lag(mq, place.group)["inflight"] == 0, "all messages are settled")

    assert {body for body, count in attempts.items() if count == 2} == {"raises", "retries"}
    reasons = {letter["body"]: letter["reason"] for letter in dead_letters(mq, place.group)}
    assert reasons == {
        "rejects": "never", "is hopeless": "KeyError: 'field'", "settles": "by itself",
    }  # fmt: skip


def test_as_many_are_handled_at_a_time_as_was_asked_for(mq: Client) -> None:
    place = make_place(mq, topic={"queues": 4})
    together = threading.Barrier(4)

    @mq.consumer(*place, concurrency=4)
    def handle(message: Message) -> None:
        together.wait(WAIT_S)

    with running(mq):
        send_numbers(mq, place.topic, 40)
        until(lambda: lag(mq, place.group)["lag"] == 0, "all messages are acked")

    assert not together.broken


@pytest.mark.parametrize("ordered_by", ["message_group", "queue", None])
def test_order_is_kept_where_it_was_asked_for(mq: Client, place: Place, ordered_by: Any) -> None:
    at_once = {"message_group": 3, "queue": 1, None: 8}[ordered_by]
    seen: list[tuple[str | None, int]] = []
    active: Counter[str | None] = Counter()
    most: Counter[str | None] = Counter()
    lock = threading.Lock()
    are_all_busy = threading.Event()

    @mq.consumer(*place, concurrency=8, prefetch=60, ordered_by=ordered_by)
    def handle(message: Message) -> None:
        group = message.message_group
        with lock:
            active[group] += 1
            most[group] = max(most[group], active[group])
            most["all"] = max(most["all"], sum(active.values()))
            seen.append((group, message.json(int)))
            if most["all"] >= at_once:
                are_all_busy.set()
        are_all_busy.wait(WAIT_S)
        threading.Event().wait(0.005)  # for one too many to begin meanwhile
        with lock:
            active[group] -= 1

    with running(mq):
        with mq.batch(place.topic) as batch:
            for number in range(60):
                batch.send(number, message_group=f"g{number % 3}")
        until(lambda: lag(mq, place.group)["lag"] == 0, "all messages are acked")

    assert sorted(number for _, number in seen) == list(range(60))
    if ordered_by is not None:
        for group in ("g0", "g1", "g2"):
            assert most[group] == 1
            assert [number for each, number in seen if each == group] == sorted(
                number for each, number in seen if each == group
            )
    assert most["all"] == at_once


@pytest.mark.parametrize("is_coroutine", [False, True])
def test_a_function_that_takes_too_long_loses_its_message(
    mq: Client, place: Place, is_coroutine: bool
) -> None:
    attempts: list[int] = []
    release = threading.Event()

    def handle(message: Message) -> None:
        attempts.append(message.attempt)
        if message.attempt == 1:
            assert release.wait(WAIT_S)

    async def handle_async(message: Message) -> None:
        attempts.append(message.attempt)
        if message.attempt == 1:
            await asyncio.Event().wait()

    mq.consumer(*place, concurrency=2, timeout="200ms", retry_delay="10ms")(
        handle_async if is_coroutine else handle
    )
    with running(mq):
        mq.send(place.topic, "x")
        until(lambda: attempts == [1, 2], "it came again while its function still runs")
        release.set()
        until(lambda: lag(mq, place.group)["inflight"] == 0, "it is acked")

    assert lag(mq, place.group)["lag"] == 0


def test_a_message_outlives_its_lease_while_its_function_runs(mq: Client, place: Place) -> None:
    attempts: list[int] = []

    @mq.consumer(*place, lease="3s", concurrency=2)
    def handle(message: Message) -> None:
        attempts.append(message.attempt)
        threading.Event().wait(5)

    with running(mq):
        mq.send(place.topic, "x")
        until(lambda: bool(attempts), "it is being handled")
        until(lambda: lag(mq, place.group)["lag"] == 0, "it is acked")

    assert attempts == [1]


def test_a_run_that_stops_lets_functions_end_and_gives_the_rest_back(
    mq: Client, place: Place
) -> None:
    begun, release = threading.Event(), threading.Event()
    seen: list[int] = []

    @mq.consumer(*place, concurrency=1, prefetch=10)
    def handle(message: Message) -> None:
        seen.append(message.json(int))
        begun.set()
        release.wait(WAIT_S)

    send_numbers(mq, place.topic, 10)
    with running(mq):
        assert begun.wait(WAIT_S)
        mq.stop()
        release.set()

    assert seen == [0]
    assert lag(mq, place.group)["inflight"] == 0
    with mq.subscribe(*place) as subscription:
        found = [subscription.get("20s") for _ in range(9)]
        assert sorted(message.json(int) for message in found if message) == list(range(1, 10))
        assert {message.attempt for message in found if message} == {1}
        for message in filter(None, found):
            message.ack()


@pytest.mark.parametrize("is_coroutine", [False, True])
def test_a_function_that_hangs_does_not_keep_a_run_from_its_end(
    mq: Client, place: Place, is_coroutine: bool
) -> None:
    begun, release = threading.Event(), threading.Event()

    def handle(message: Message) -> None:
        begun.set()
        release.wait(WAIT_S)

    async def handle_async(message: Message) -> None:
        begun.set()
        await asyncio.Event().wait()

    mq.consumer(*place)(handle_async if is_coroutine else handle)
    mq.send(place.topic, "x")
    with running(mq, drain_timeout="100ms"):
        assert begun.wait(WAIT_S)
    with mq.subscribe(*place) as subscription:
        message = subscription.get("20s")
        assert message is not None
        assert message.attempt == 1
        message.ack()
    release.set()


def test_a_function_that_exits_ends_the_run_and_not_the_client(mq: Client, place: Place) -> None:
    @mq.consumer(*place, retry_delay="0ms")
    def handle(message: Message) -> None:
        raise SystemExit(3)

    mq.send(place.topic, "x")
    mq.run()

    assert mq.send(place.topic, "y").offset == 1


def test_a_subscription_that_is_refused_ends_the_run_with_its_error(
    mq: Client, place: Place
) -> None:
    @mq.consumer(*place)
    def handle(message: Message) -> None: ...

    mq.consumer("no-such-topic", place.group)(handle)
    with pytest.raises(TopicNotFound):
        mq.run()


def test_stop_may_come_before_run(mq: Client, place: Place) -> None:
    @mq.consumer(*place)
    def handle(message: Message) -> None:
        raise AssertionError("nothing is handled")

    mq.send(place.topic, "x")
    mq.stop()
    mq.run()


def test_what_makes_no_sense_is_refused(mq: Client, place: Place) -> None:
    def generate(message: Message) -> Iterator[int]:
        yield 1

    with pytest.raises(UsageError, match="no function"):
        mq.run()
    with pytest.raises(UsageError, match="generator"):
        mq.consumer(*place)(generate)
    for options in ({"concurrency": 0}, {"ordered_by": "key"}, {"timeout": 3}, {"prefetch": 0}):
        with pytest.raises(UsageError):
            mq.consumer(*place, **options)
    handled = threading.Event()
    mq.consumer(*place)(lambda message: handled.set())
    mq.send(place.topic, "x")
    with running(mq):
        assert handled.wait(WAIT_S)
        with pytest.raises(UsageError, match="run already"):
            mq.run()
