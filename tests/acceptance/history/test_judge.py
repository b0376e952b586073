"""The judge on histories that are known to be good or bad: it must tell them apart."""

from __future__ import annotations

import pytest

from tests.acceptance.history.events import (
    Accepted,
    AckBegun,
    Acked,
    Delivered,
    Event,
    GivenBack,
    History,
    Killed,
    Offered,
    Refused,
)
from tests.acceptance.history.judge import judge

LEASE_MS = 2_000


def delivered(
    body: str, at: float, *, offset: int = 0, attempt: int = 1, consumer: str = "c", batch: int = 1
) -> Delivered:
    return Delivered(body, consumer, batch, 0, offset, attempt, LEASE_MS, at=at)


def history(*events: Event) -> History:
    made = History()
    made.events += events
    return made


SENT: list[Event] = [
    Offered("a", "p", 0, at=0),
    Offered("b", "p", 1, at=0),
    Accepted("a", 0, 0, at=1),
    Accepted("b", 0, 1, at=1),
]
DONE: list[Event] = [
    delivered("a", 2),
    delivered("b", 2, offset=1),
    AckBegun("a", "c", at=2.5),
    Acked("a", "c", at=3),
]


def test_a_good_history_has_no_violations() -> None:
    verdict = judge(history(*SENT, *DONE))
    assert verdict.violations == {}
    assert (verdict.accepted_count, verdict.delivered_count) == (2, 2)


@pytest.mark.parametrize(
    ("cause", "events"),
    [
        ("given back", [GivenBack("b", "c", at=2.5), delivered("b", 2.6, attempt=2)]),
        ("lease ended", [delivered("b", 4.1, attempt=2)]),
        ("killed", [Killed("engine", at=2.5), delivered("b", 3, attempt=1, batch=2)]),
        ("ack unconfirmed", [AckBegun("b", "c", at=2.2), delivered("b", 3, attempt=2)]),
    ],
)
def test_a_message_that_comes_again_for_a_reason_is_explained(
    cause: str, events: list[Event]
) -> None:
    verdict = judge(history(*SENT, *DONE, *events))
    assert verdict.violations == {}
    assert verdict.explained == {cause: 1}


@pytest.mark.parametrize(
    ("violation", "events"),
    [
        ("lost", [*SENT, delivered("a", 2)]),
        ("phantom", [*SENT, *DONE, delivered("x", 2)]),
        ("refused_delivered", [*SENT, *DONE, Offered("r", "p", 2), Refused("r"),
                               delivered("r", 2, offset=2)]),
        ("acked_again", [*SENT, *DONE, Killed("engine", at=3.5), delivered("a", 4)]),
        ("reordered", [Offered("a", "p", 0), Offered("b", "p", 1), Accepted("a", 0, 5),
                       Accepted("b", 0, 4), delivered("a", 2), delivered("b", 3, batch=2)]),
        ("reordered", [*SENT, delivered("b", 2, offset=1), delivered("a", 2.1)]),
        ("unexplained", [*SENT, *DONE, delivered("b", 2.5, attempt=2, batch=2)]),
    ],
)  # fmt: skip
def test_a_bad_history_is_caught(violation: str, events: list[Event]) -> None:
    assert violation in judge(history(*events)).violations
