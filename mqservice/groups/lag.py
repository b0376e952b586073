"""The lag of a group over the topics that it reads: the same number on every page, sample, alert
and response.

    GroupStats.topics ──▶ [lag_of] ──▶ Lag: the number, its age, its parts

``count`` is what was not delivered, what is in flight and what waits for a retry; with a filter
only what that wants. What nobody knows is None, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mqservice.store import LagIs, TopicLag


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """``count`` is ``ready`` + ``inflight`` + ``waiting_retry``; the latter is ``retry_waiting``,
    to be delivered again now, + ``retry_scheduled``, later. Of a broadcast group ``inflight`` is
    that of all clients, and ``count`` that of the client furthest behind.

    ``age_ms``: since the oldest of all these was first stored in its topic; None when there is
    none, or it is not known. ``offset_lag``: what RocketMQ calls lag. ``is_exact``: counted one by
    one, not by a sample.
    """

    count: int | None
    is_exact: bool
    age_ms: int | None
    ready: int | None
    inflight: int | None
    retry_waiting: int | None
    retry_scheduled: int | None
    offset_lag: int | None

    @property
    def waiting_retry(self) -> int | None:
        if self.retry_waiting is None or self.retry_scheduled is None:
            return None
        return self.retry_waiting + self.retry_scheduled

    @property
    def is_estimated(self) -> bool:
        return not self.is_exact

    @property
    def lag_is(self) -> LagIs | None:
        """None when the lag is not known."""
        if self.count is None:
            return None
        return LagIs.EXACT if self.is_exact else LagIs.ESTIMATED

    @property
    def known_age_ms(self) -> int | None:
        """The same as ``age_ms``, and 0 where nothing is left: None means unknown only."""
        return 0 if self.count == 0 else self.age_ms


def lag_of(topics: Sequence[TopicLag], now_ms: int) -> Lag:
    """Over these topics; unknown as a whole when there are none: the group has read nothing."""
    ages = [_age_ms(each, now_ms) for each in topics if each.lag != 0]
    known_ages = [age_ms for age_ms in ages if age_ms is not None]
    return Lag(
        count=_total(each.lag for each in topics),
        is_exact=all(each.lag_is is LagIs.EXACT for each in topics),
        age_ms=max(known_ages) if known_ages and len(known_ages) == len(ages) else None,
        ready=_total(each.ready_count for each in topics),
        inflight=_total(each.inflight_count for each in topics),
        retry_waiting=_total(each.retry_waiting_count for each in topics),
        retry_scheduled=_total(each.retry_scheduled_count for each in topics),
        offset_lag=_total(each.offset_lag for each in topics),
    )


def _age_ms(topic: TopicLag, now_ms: int) -> int | None:
    stored_ms = topic.oldest_stored_ms
    return None if stored_ms is None else max(0, now_ms - stored_ms)


def _total(counts: Iterable[int | None]) -> int | None:
    """The sum; None when a part of it is unknown, or there is none."""
    total: int | None = None
    for count in counts:
        if count is None:
            return None
        total = count if total is None else total + count
    return total
