"""The judge on histories that are known to be good or bad: it must tell them apart."""

from __future__ import annotations

import pytest

from tests.acceptance.history.events import (
    Accepted,
    AckBegun,
    Acked,
    Cut,
    Delivered,
    Event,
    GivenBack,
    History,
    Killed,
    Offered,
    OwnerLost,
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


def test_a_machine_on_which_answers_are_late_explains_leases_that_seem_short() -> None:
    late = Delivered("a", "c", 1, 0, 0, 1, LEASE_MS, 1.5, at=2)
    again = delivered("b", 2.8, attempt=2)
    assert judge(history(*SENT, *DONE, late, again)).explained["lease ended"]
    assert judge(history(*SENT, *DONE, again)).violations.keys() == {"unexplained"}


def test_what_comes_late_out_of_a_cut_is_explained_and_what_comes_after_it_is_not() -> None:
    cut = Cut(at=4, until=8)
    late = Delivered("a", "c", 2, 0, 0, 1, LEASE_MS, 5.0, at=7)
    again = [delivered("a", 9, batch=3), delivered("a", 9.5, batch=4)]

    assert judge(history(*SENT, *DONE, cut, late)).violations == {}
    assert judge(history(*SENT, *DONE, cut, late)).explained == {"lease ended": 1}
    assert judge(history(*SENT, *DONE, cut, delivered("a", 3.5, batch=2))).violations.keys() == {
        "acked_again",
        "unexplained",
    }
    assert judge(history(*SENT, *DONE, cut, late, *again)).violations.keys() == {
        "acked_again",
        "unexplained",
    }


def test_two_that_come_at_once_out_of_a_cut_are_explained_by_it() -> None:
    cut = Cut(at=4, until=8)
    events = [delivered("b", 6, attempt=2, batch=2), delivered("b", 6.5, attempt=3, batch=3)]
    verdict = judge(history(*SENT, delivered("a", 2), delivered("b", 2.1), cut, *events))
    assert verdict.violations == {}
    assert verdict.explained == {"lease ended": 1, "cut off": 1}


def test_settles_of_an_owners_last_moments_may_be_forgotten_and_no_earlier_ones() -> None:
    again = delivered("a", 7, batch=2)

    lately = judge(history(*SENT, *DONE, OwnerLost("main", 6, at=3.2), again))
    earlier = judge(history(*SENT, *DONE, OwnerLost("main", 6, at=3.3), again))

    assert lately.violations == {}
    assert lately.explained == {"settled as its owner was lost": 1}
    assert earlier.violations.keys() == {"acked_again"}


def test_a_delayed_message_is_early_before_its_time_and_in_any_order_after_it() -> None:
    sent = [Offered(body, "later", n, None, 3.0, at=1.0) for n, body in enumerate("xy")]
    stored = [Accepted("x", 0, -1, at=1.1), Accepted("y", 0, -1, at=1.1)]

    in_time = judge(history(*sent, *stored, delivered("y", 4.1, offset=0),
                            delivered("x", 4.2, offset=1, batch=2)))  # fmt: skip
    early = judge(history(*sent, *stored, delivered("y", 3.9), delivered("x", 4.2, offset=1)))

    assert in_time.violations == {}
    assert early.violations.keys() == {"early"}


def grouped(*bodies: str) -> list[Event]:
    """Sent in this order: ``a1`` is of message group ``a``, ``-1`` of none; all of one queue."""
    sent: list[Event] = []
    for number, body in enumerate(bodies):
        sent.append(Offered(body, "p", number, body[0].strip("-") or None, at=0))
        sent.append(Accepted(body, 0, number, at=1))
    return sent


IN_ORDER: list[Event] = [
    *grouped("a1", "a2", "b1", "-1"),
    delivered("a1", 2),
    delivered("b1", 2, offset=2),
    delivered("-1", 2, offset=3),
    AckBegun("a1", "c", at=2.5),
    delivered("a2", 2.6, offset=1, consumer="d"),
]


@pytest.mark.parametrize(
    "events",
    [
        [],
        [GivenBack("a2", "d", at=2.7), delivered("a2", 2.8, offset=1, attempt=2, batch=2)],
        [delivered("a2", 4.6, offset=1, attempt=2, batch=2)],  # the lease ended
        [Killed("engine", at=2.7), delivered("a2", 2.8, offset=1, batch=2)],
        [Cut(at=2.65, until=5), delivered("a2", 2.8, offset=1, batch=2)],
        # Two of a message group in one batch.
        [*grouped("a1", "a2", "b1", "-1", "d1", "d2"), delivered("d1", 3, offset=4, batch=3),
         delivered("d2", 3, offset=5, batch=3)],
    ],
)  # fmt: skip
def test_message_groups_in_their_order_are_no_violation(events: list[Event]) -> None:
    verdict = judge(history(*IN_ORDER, *events), is_ordered=True)
    assert {"overtaken", "held_twice"}.isdisjoint(verdict.violations)


@pytest.mark.parametrize(
    ("violation", "events"),
    [
        # a2 before a1 came at all; while a1 is held; after a1 was given back; after its lease.
        ("overtaken", [*grouped("a1", "a2"), delivered("a2", 2, offset=1)]),
        ("overtaken", [*grouped("a1", "a2"), delivered("a1", 2),
                       delivered("a2", 2.1, offset=1, batch=2)]),
        ("overtaken", [*grouped("a1", "a2"), delivered("a1", 2), GivenBack("a1", "c", at=2.1),
                       delivered("a2", 2.2, offset=1, batch=2)]),
        ("overtaken", [*grouped("a1", "a2"), delivered("a1", 2),
                       delivered("a2", 9, offset=1, batch=2)]),
        # The same batch number of another consumer is another batch.
        ("overtaken", [*grouped("a1", "a2"), delivered("a1", 2),
                       delivered("a2", 2.1, offset=1, consumer="d")]),
        ("overtaken", [*grouped("a1", "a2"), Killed("engine", at=1.5),
                       delivered("a2", 2, offset=1)]),
        # It went elsewhere, and came from there.
        ("overtaken", [*grouped("a1", "a2"), delivered("a1", 2), GivenBack("a1", "c", at=2.1),
                       delivered("a2", 2.2, offset=1, batch=2),
                       Delivered("a1", "c", 3, 7, 99, 2, LEASE_MS, at=2.3)]),
        ("held_twice", [*grouped("a1", "a2"), delivered("a1", 2),
                        delivered("a2", 2.1, offset=1, batch=2)]),
        # The first of a batch comes again while the second is still held.
        ("held_twice", [*grouped("a1", "a2"), delivered("a1", 2), delivered("a2", 2, offset=1),
                        GivenBack("a1", "c", at=2.1), delivered("a1", 2.2, attempt=2, batch=2)]),
    ],
)  # fmt: skip
def test_a_message_group_out_of_order_is_caught(violation: str, events: list[Event]) -> None:
    made = history(*events)
    assert violation in judge(made, is_ordered=True).violations
    assert violation not in judge(made).violations


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
