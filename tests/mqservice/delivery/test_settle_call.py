"""One settlement that takes several requests to the engine: its waiter hears of it once at most."""

from __future__ import annotations

from typing import cast

import pytest

from mqservice.delivery.settle.settle_plan import SettleCall, SettlePlan
from mqservice.quotas.meter import TenantMeter
from mqservice.store import (
    OutcomeUnknown,
    SettleReply,
    SettleReplyHandler,
    SettleRequest,
    Store,
    StoreBusy,
    StoreError,
)


class Doubles:
    """A plan of two requests, a meter, a store that sends ``sent_max`` of them, and a waiter."""

    def __init__(self, sent_max: int) -> None:
        self._left = sent_max
        self.released_count = 0
        self.heard: list[str] = []

    def requests(self) -> list[SettleRequest]:
        return [SettleRequest(group="g", client_id=each, acks=[]) for each in ("a", "b")]

    def release(self, count: int) -> None:
        self.released_count += count

    def settle_for(self, told: SettleReplyHandler, request: SettleRequest) -> None:
        if not self._left:
            raise StoreBusy("too much waits")
        self._left -= 1

    def settled(self) -> None:
        self.heard.append("settled")

    def settle_failed(self, error: StoreError) -> None:
        self.heard.append("failed")


def reply() -> SettleReply:
    return SettleReply(
        acked_count=1, nacked_count=0, dead_lettered_count=0, extended_until_ms=[], failures=[]
    )


def call_of(doubles: Doubles) -> SettleCall:
    return SettleCall(cast("SettlePlan", doubles), cast("TenantMeter", doubles))


@pytest.mark.parametrize("is_reply", [True, False])
def test_a_waiter_that_was_refused_hears_nothing_of_what_was_sent(is_reply: bool) -> None:
    doubles = Doubles(sent_max=1)
    call = call_of(doubles)
    with pytest.raises(StoreBusy):
        call.begin(cast("Store", doubles), doubles)
    if is_reply:
        call.settled(reply())
    else:
        call.settle_failed(OutcomeUnknown("gone"))
    assert doubles.heard == []
    assert doubles.released_count == int(is_reply), "what was settled counts all the same"


def test_a_waiter_hears_of_two_failures_once() -> None:
    doubles = Doubles(sent_max=2)
    call = call_of(doubles)
    call.begin(cast("Store", doubles), doubles)
    for _ in range(2):
        call.settle_failed(OutcomeUnknown("gone"))
    assert doubles.heard == ["failed"]


def test_a_waiter_hears_once_that_all_is_settled() -> None:
    doubles = Doubles(sent_max=2)
    call = call_of(doubles)
    call.begin(cast("Store", doubles), doubles)
    call.settled(reply())
    assert doubles.heard == []
    call.settled(reply())
    assert (doubles.heard, doubles.released_count) == (["settled"], 2)
