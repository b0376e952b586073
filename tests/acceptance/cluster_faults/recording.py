"""What a run of faults looked like, second by second, as it is kept in ``evidence/``.

answers, deliveries, marks ──▶ [recorded] ──▶ Recording ──▶ JSON, and the drawing made of it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from tests.acceptance.cluster_faults.clients import Answer


class Second(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that were acknowledged, rejected or neither, and delivered; latency of the requests
    that were acknowledged, if there was one.
    """

    acknowledged: int
    rejected: int
    unknown: int
    delivered: int
    p50_ms: float | None
    p99_ms: float | None


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A fault, from its first moment until all was as before; seconds since the recording began.

    ``gap_ms``: the longest time without an acknowledgement meanwhile. ``text``: what became of the
    shard.
    """

    name: str
    label: str
    start_s: float
    end_s: float
    gap_ms: int
    text: str


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """``object_store``: the program that had the replicated log."""

    object_store: str
    seconds: list[Second]
    marks: list[Mark]


class Fired(msgspec.Struct, frozen=True, kw_only=True):
    """A fault as it happened, at monotonic times."""

    name: str
    label: str
    begun: float
    over: float
    text: str


def recorded(
    answers: Sequence[Answer],
    delivered_at: Iterable[float],
    faults: Iterable[Fired],
    *,
    begun: float,
    ended: float,
    object_store: str,
) -> Recording:
    """Of what happened in ``[begun, ended)``, whole seconds."""
    count = int(ended - begun)
    by_second: list[list[Answer]] = [[] for _ in range(count)]
    for answer in answers:
        if 0 <= answer.at - begun < count:
            by_second[int(answer.at - begun)].append(answer)
    delivered = Counter(int(at - begun) for at in delivered_at)
    acknowledged_at = sorted(each.at for each in answers if each.acknowledged)
    return Recording(
        object_store=object_store,
        seconds=[_second(found, delivered[at]) for at, found in enumerate(by_second)],
        marks=[
            Mark(
                name=fault.name,
                label=fault.label,
                start_s=round(fault.begun - begun, 1),
                end_s=round(fault.over - begun, 1),
                gap_ms=_gap_ms(acknowledged_at, fault),
                text=fault.text,
            )
            for fault in faults
        ],
    )


def _second(answers: list[Answer], delivered: int) -> Second:
    latencies = sorted(each.latency_s * 1_000 for each in answers if each.acknowledged)
    return Second(
        acknowledged=sum(each.acknowledged for each in answers),
        rejected=sum(each.rejected for each in answers),
        unknown=sum(each.unknown for each in answers),
        delivered=delivered,
        p50_ms=_percentile(latencies, 50),
        p99_ms=_percentile(latencies, 99),
    )


def _percentile(ordered: list[float], percent: int) -> float | None:
    if not ordered:
        return None
    return round(ordered[-(-len(ordered) * percent // 100) - 1], 1)


def _gap_ms(acknowledged_at: list[float], fault: Fired) -> int:
    """Of pauses that overlap the fault."""
    gaps = [
        later - earlier
        for earlier, later in pairwise(acknowledged_at)
        if later > fault.begun and earlier < fault.over
    ]
    return round(max(gaps, default=0.0) * 1_000)
