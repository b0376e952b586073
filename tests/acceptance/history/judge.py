"""Judges what clients saw: every broken promise, and why each message came more than once.

    History ── [judge] ──▶ Verdict

The promises are those of the reliability design: D1 (an accepted message is delivered), D6 and L2
(a refused or invented one never is), D9 (what was acked comes no more, except with its owner lost),
T1 (a delayed one is not early), O3 (the messages of one
producer stand in their order in each queue, and a queue's first deliveries in one batch do too), O4
(an ordered group gets each message group in its order, see ``message_groups.py``), L3 (every
further delivery has a cause). Call it after the load has stopped and all has been consumed. What
was seen while clients were cut off is judged by what it says, not by when it came.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

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
from tests.acceptance.history.message_groups import judge_message_groups

# A lease that ends is noticed within a second, and clients see deliveries a little late.
LATE_SECONDS = 0.2
# Settles reach the replicated log within 250 ms.
UNREPLICATED_SECONDS = 0.25


@dataclass(slots=True)
class Verdict:
    """Violations by name, each as text; and what explained the messages that came again."""

    lost: list[str] = field(default_factory=list)
    phantom: list[str] = field(default_factory=list)
    refused_delivered: list[str] = field(default_factory=list)
    acked_again: list[str] = field(default_factory=list)
    early: list[str] = field(default_factory=list)
    reordered: list[str] = field(default_factory=list)
    overtaken: list[str] = field(default_factory=list)
    held_twice: list[str] = field(default_factory=list)
    unexplained: list[str] = field(default_factory=list)
    explained: Counter[str] = field(default_factory=Counter)
    accepted_count: int = 0
    delivered_count: int = 0

    @property
    def violations(self) -> dict[str, list[str]]:
        named = {
            "lost": self.lost,
            "phantom": self.phantom,
            "refused_delivered": self.refused_delivered,
            "acked_again": self.acked_again,
            "early": self.early,
            "reordered": self.reordered,
            "overtaken": self.overtaken,
            "held_twice": self.held_twice,
            "unexplained": self.unexplained,
        }
        return {name: found for name, found in named.items() if found}


def judge(history: History, *, is_ordered: bool = False) -> Verdict:
    """See the module's docstring. ``is_ordered``: the group is, and shares its queues.

    Clients may have seen a delivery late by ``LATE_SECONDS``, and by as much as some of them were
    as far as the service's answers tell.
    """
    events = list(history.events)
    verdict = Verdict()
    offered = {event.body: event for event in events if isinstance(event, Offered)}
    accepted = {event.body: event for event in events if isinstance(event, Accepted)}
    refused = {event.body for event in events if isinstance(event, Refused)}
    deliveries: dict[str, list[Delivered]] = {}
    for event in events:
        if isinstance(event, Delivered):
            deliveries.setdefault(event.body, []).append(event)
    cuts = [event for event in events if isinstance(event, Cut)]
    late_s = max(
        (
            each.late_s
            for found in deliveries.values()
            for each in found
            if not _is_within(cuts, each.at)
        ),
        default=0.0,
    )
    verdict.accepted_count = len(accepted)
    verdict.delivered_count = sum(map(len, deliveries.values()))
    verdict.lost = [body for body in accepted if body not in deliveries]
    verdict.phantom = [body for body in deliveries if body not in offered]
    verdict.refused_delivered = [body for body in deliveries if body in refused]
    verdict.early = [
        f"{body}, {offered[body].delay_s} s after {offered[body].at}, at {each.at}"
        for body, found in deliveries.items()
        for each in found
        if body in offered and each.at < offered[body].at + offered[body].delay_s
    ]
    _judge_order(verdict, offered, accepted, deliveries)
    _judge_repeats(verdict, events, deliveries, LATE_SECONDS + late_s)
    if is_ordered:
        verdict.overtaken, verdict.held_twice = judge_message_groups(events, LATE_SECONDS + late_s)
    return verdict


def _judge_order(
    verdict: Verdict,
    offered: dict[str, Offered],
    accepted: dict[str, Accepted],
    deliveries: dict[str, list[Delivered]],
) -> None:
    newest: dict[tuple[str, int], Accepted] = {}
    for body, place in sorted(accepted.items(), key=lambda item: offered[item[0]].sequence):
        if offered[body].delay_s:
            continue
        key = offered[body].producer, place.queue
        before = newest.get(key)
        if before is not None and before.offset >= place.offset:
            verdict.reordered.append(f"{body} at {place.offset}, {before.body} at {before.offset}")
        newest[key] = place
    batches: dict[tuple[str, int, int], list[Delivered]] = {}
    for each in (first for found in deliveries.values() for first in found if first.attempt == 1):
        batches.setdefault((each.consumer, each.batch, each.queue), []).append(each)
    for found in batches.values():
        in_time = sorted(found, key=lambda each: each.at)
        offsets = [each.offset for each in in_time]
        if offsets != sorted(offsets):
            verdict.reordered.append(f"{in_time[0].consumer} got {offsets} in one batch")


def _judge_repeats(
    verdict: Verdict,
    events: list[Event],
    deliveries: dict[str, list[Delivered]],
    slack_s: float,
) -> None:
    acked = {event.body: event.at for event in reversed(events) if isinstance(event, Acked)}
    begun = {event.body: event.at for event in reversed(events) if isinstance(event, AckBegun)}
    given_back: dict[str, list[float]] = {}
    for event in events:
        if isinstance(event, GivenBack):
            given_back.setdefault(event.body, []).append(event.at)
    losses = [event for event in events if isinstance(event, OwnerLost)]
    kills = [event.at for event in events if isinstance(event, Killed)]
    kills += [at for loss in losses for at in (loss.at, loss.until)]
    cuts = [event for event in events if isinstance(event, Cut)]
    for body, found in deliveries.items():
        in_time = sorted(found, key=lambda each: each.at)
        for before, after in pairwise(in_time):
            came_late = _is_within(cuts, after.at)
            is_acked = body in acked and acked[body] < after.at - slack_s and not came_late
            if is_acked and _is_lost_settle(losses, acked[body]):
                verdict.explained["settled as its owner was lost"] += 1
                continue
            if is_acked:
                verdict.acked_again.append(f"{body} to {after.consumer}, acked before")
            if any(before.at <= at <= after.at for at in given_back.get(body, ())):
                cause = "given back"
            elif after.at - before.at >= before.lease_ms / 1_000 - slack_s:
                cause = "lease ended"
            elif any(before.at - slack_s <= at <= after.at for at in kills):
                cause = "killed"
            elif came_late:
                cause = "cut off"
            elif begun.get(body, after.at) < after.at and body not in acked:
                cause = "ack unconfirmed"
            else:
                verdict.unexplained.append(f"{body}: {before} {after}")
                continue
            verdict.explained[cause] += 1


def _is_lost_settle(losses: list[OwnerLost], at: float) -> bool:
    """Whether the replicated log may have been without it."""
    return any(loss.at - UNREPLICATED_SECONDS <= at <= loss.until for loss in losses)


def _is_within(cuts: list[Cut], at: float) -> bool:
    return any(cut.at <= at <= cut.until for cut in cuts)
