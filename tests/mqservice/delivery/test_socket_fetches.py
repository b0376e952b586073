"""Which fetches of a subscription are under way at once, and what credit each may use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mqservice.delivery.filters import filter_of
from mqservice.delivery.limits import FRAME_BYTES_DEFAULT, FRAME_MESSAGES_MAX
from mqservice.delivery.socket.credit import Credits
from mqservice.delivery.socket.fetches import BATCH_MESSAGES_MIN, Fetches
from mqservice.delivery.socket.membership import Membership
from mqservice.delivery.socket.owner import Session
from mqservice.protocol.frames import Credit
from mqservice.store import (
    Notice,
    NoticeKind,
    Received,
    ReceiveHead,
    ReceiveRequest,
    Record,
    Store,
    StoreUnavailable,
)

FULL = FRAME_MESSAGES_MAX
LEAST = BATCH_MESSAGES_MIN  # of all credit up to four times as much
BATCH_BYTES = FRAME_BYTES_DEFAULT * 3 // 4
BODY = b"0123456789"
LARGE = bytes(BATCH_BYTES // 12)  # eleven records fit


class Asked:
    """The engine's part: what was asked, and the answers that the test gives."""

    def __init__(self) -> None:
        self.orders: list[tuple[int, int]] = []
        self.answers: list[asyncio.Future[Received]] = []

    async def receive(self, request: ReceiveRequest) -> Received:
        self.orders.append((request.messages_max, request.bytes_max))
        answer: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        return await answer


class Case:
    """Fetches of a subscription with so much credit."""

    def __init__(self, msgs: int, bytes_count: int = 8 * BATCH_BYTES) -> None:
        self.store = Asked()
        self.credits = Credits(Credit(msgs, bytes_count))
        meter = SimpleNamespace(
            out_wait_ms=lambda now_ms: 0, lease_room=1, lease=len_of, charge_out=len_of
        )
        clock = SimpleNamespace(monotonic_ms=lambda: 7)
        session = SimpleNamespace(
            context=SimpleNamespace(store=self.store, clock=clock),
            meter=meter,
            frame_bytes_max=FRAME_BYTES_DEFAULT,
        )
        membership = Membership(
            store=cast("Store", self.store),
            group="acme%billing",
            topic="acme%orders",
            member_id="s-1",
            wanted=filter_of("/filter", None),
            lease_ms=30_000,
        )
        self.fetches = Fetches(membership, self.credits, cast("Session", session))

    async def begin(self) -> int:
        """How many are under way in the engine then."""
        self.fetches.start()
        await asyncio.sleep(0)
        return sum(not answer.done() for answer in self.store.answers)

    async def next(self, at: int, count: int, body: bytes = BODY) -> Received:
        """Answer the order that came as number ``at``, and take what is done."""
        self.store.answers[at].set_result(batch(count, body))
        received = (await self.fetches.next()).result()
        self.credits.spend(len(received.records), len(body) * len(received.records))
        return received


def len_of(*counts: int) -> None:
    """What the meter is told."""


def batch(count: int, body: bytes = BODY) -> Received:
    records = [
        Record("acme%orders", 0, at, 0, 1, 1, 0, body, None, [], None, f"m-{at}", {})
        for at in range(count)
    ]
    head = ReceiveHead(lease_generation=1, lease_until_ms=2, attempts=[1] * count)
    return Received(head, records)


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())


def test_a_second_fetch_follows_while_batches_are_full() -> None:
    async def work() -> None:
        case = Case(msgs=1_000)
        assert await case.begin() == 1, "nobody knows yet that there is more than a batch"
        await case.next(0, FULL)
        assert await case.begin() == 2
        await case.next(1, FULL)
        assert await case.begin() == 2
        await case.next(2, FULL - 1)
        assert await case.begin() == 1, "what there was has come: one waits for more"
        assert case.store.orders == [(FULL, BATCH_BYTES)] * 4

    run(work)


def test_large_messages_fill_a_batch_by_their_bytes() -> None:
    async def work() -> None:
        case = Case(msgs=LEAST)
        await case.begin()
        await case.next(0, 11, LARGE)
        assert await case.begin() == 2
        assert case.store.orders[1:] == [(22, BATCH_BYTES)] * 2, "credit is left for both"
        await case.next(1, 11, LARGE)
        assert await case.begin() == 2
        await case.next(2, 5, LARGE)
        assert await case.begin() == 1, "what there was has come"
        await case.next(3, 11, LARGE)
        await case.begin()
        await case.next(4, 22)
        await case.next(5, 22)
        assert await case.begin() == 1
        assert case.store.orders[6][0] == LEAST - 82, "they became smaller: all the credit there is"

    run(work)


def test_what_is_under_way_never_asks_for_more_than_the_credit() -> None:
    async def work() -> None:
        case = Case(msgs=2 * LEAST + 30)
        await case.begin()
        await case.next(0, LEAST)
        assert await case.begin() == 1, "a second one is worth it for a whole batch only"
        await case.next(1, LEAST)
        assert await case.begin() == 1
        assert [msgs for msgs, _ in case.store.orders] == [LEAST, LEAST, 30]
        await case.next(2, 30)
        assert await case.begin() == 0, "the credit is used up"

    run(work)


def test_a_batch_leaves_credit_for_three_more() -> None:
    async def work() -> None:
        case = Case(msgs=600)
        await case.begin()
        await case.next(0, 150)
        assert await case.begin() == 2
        case.credits.add(300, 0, held_msgs=150, held_bytes=0)
        await case.next(1, 150)
        case.credits.restore(300, 0)
        await case.begin()
        assert [msgs for msgs, _ in case.store.orders] == [150, 150, 150, 225]

    run(work)


def test_bytes_that_a_fetch_may_bring_are_not_asked_for_twice() -> None:
    async def work() -> None:
        case = Case(msgs=1_000, bytes_count=2 * BATCH_BYTES)
        await case.begin()
        await case.next(0, FULL)
        assert await case.begin() == 1
        assert case.store.orders[1] == (FULL, BATCH_BYTES)

    run(work)


def test_the_one_that_is_done_goes_first_and_of_two_the_older() -> None:
    async def work() -> None:
        case = Case(msgs=1_000)
        await case.begin()
        await case.next(0, FULL)
        await case.begin()
        case.store.answers[1].set_result(batch(1))
        received = await case.next(2, 2)
        assert len(received.records) == 1, "both are done"
        assert len((await case.fetches.next()).result().records) == 2
        assert not case.fetches

    run(work)


def test_each_keeps_what_was_told_while_it_was_under_way() -> None:
    async def work() -> None:
        case = Case(msgs=1_000)
        reset = Notice(kind=NoticeKind.RESET, group="acme%billing", topic="acme%orders")
        await case.begin()
        await case.next(0, FULL)
        await case.begin()
        case.fetches.on_notice(reset)
        case.store.answers[2].set_result(batch(1))
        late = await case.fetches.next()
        await case.begin()
        case.store.answers[1].set_result(batch(1))
        early = await case.fetches.next()
        assert (late.missed, early.missed) == ([reset], [reset])
        assert late.received_ms == 7

    run(work)


def test_a_failed_one_leaves_the_other_alone() -> None:
    async def work() -> None:
        case = Case(msgs=1_000)
        await case.begin()
        await case.next(0, FULL)
        await case.begin()
        case.store.answers[1].set_exception(StoreUnavailable("gone"))
        with pytest.raises(StoreUnavailable):
            (await case.fetches.next()).result()
        assert await case.begin() == 1
        assert len((await case.next(2, 3)).records) == 3

    run(work)


def test_stopping_frees_the_places_and_says_what_came_all_the_same() -> None:
    async def work() -> None:
        case = Case(msgs=1_000)
        await case.begin()
        await case.next(0, FULL)
        await case.begin()
        case.store.answers[1].set_result(batch(5))
        await asyncio.sleep(0)
        [received] = await case.fetches.stop()
        assert len(received.records) == 5
        assert case.store.answers[2].cancelled()
        assert not case.fetches
        assert await case.fetches.stop() == []

    run(work)
