"""The page of usage: each limit with what is used of it, and recent usage.

quotas.levels ──▶ a row for each limit ──▶ meters
usage.usage_page, by hour or day ──▶ points of the charts
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from mqservice.accounts.access import Principal
from mqservice.console.charts.series import Point
from mqservice.lib.durations import DAY_MS, HOUR_MS
from mqservice.lib.units import count, rate, size
from mqservice.quotas.levels import QuotaLevel, QuotaUse, quota_uses
from mqservice.usage.queries import SPAN_MS, GroupBy, Interval, UsageQuery, UsageRow, usage_page

POINTS_MAX: Final = 200
Show = Callable[[int | None], str]


def _byte_rate(per_second: int | None) -> str:
    return size(per_second) if per_second is None else f"{size(per_second)}/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit:
    """``name``: of ``QuotaLimits``; ``unknown``: why nobody may know what is used."""

    name: str
    title: Promise
    refusal: Promise
    reset: Promise
    show: Show
    unknown: Promise | str = ""


_ANEW = _("continuously, fully within 1 second")
_SETTLED = _("when a connection or request ends")
_PRODUCE = _("Messages are rejected with 429 RATE_LIMITED and not stored.")
_READ = _("Receives get 429 RATE_LIMITED; pushes wait and report flow: quota.")
_NOT_METERED = _("No messages were sent or received through this web process in the last minute.")
_NOT_COUNTED = _("The storage engine is not responding, or has not counted it yet.")
_ONE_MORE = _("Creating more is rejected with 403 QUOTA_EXCEEDED.")

_LIMITS: Final = (
    _Limit(name="messages_in_per_second",
           title=_("Messages in"), refusal=_PRODUCE, reset=_ANEW, show=rate,
           unknown=_NOT_METERED),
    _Limit(name="bytes_in_per_second",
           title=_("Bytes in"), refusal=_PRODUCE, reset=_ANEW, show=_byte_rate,
           unknown=_NOT_METERED),
    _Limit(name="messages_out_per_second",
           title=_("Messages out"), refusal=_READ, reset=_ANEW, show=rate,
           unknown=_NOT_METERED),
    _Limit(name="bytes_out_per_second",
           title=_("Bytes out"), refusal=_READ, reset=_ANEW, show=_byte_rate,
           unknown=_NOT_METERED),
    _Limit(name="storage_bytes_max",
           title=_("Storage"),
           refusal=_("Messages are rejected with 403 QUOTA_EXCEEDED; reading is not affected."),
           reset=_("when retention deletes messages or topics are deleted"), show=size,
           unknown=_NOT_COUNTED),
    _Limit(name="inflight_count_max",
           title=_("Messages in flight"),
           refusal=_("Receives get 429 INFLIGHT_LIMIT; pushes wait and report flow: inflight."),
           reset=_("when messages are settled or their leases expire"), show=count,
           unknown=_NOT_COUNTED),
    _Limit(name="connection_count_max",
           title=_("WebSockets"), refusal=_("New connections are rejected with 429."),
           reset=_SETTLED, show=count, unknown=_NOT_METERED),
    _Limit(name="parked_poll_count_max",
           title=_("Waiting receives"), refusal=_("Further receives get 429 RATE_LIMITED."),
           reset=_SETTLED, show=count, unknown=_NOT_METERED),
    _Limit(name="topic_count_max", title=_("Topics"),
           refusal=_ONE_MORE, reset=_("when one is deleted"), show=count),
    _Limit(name="group_count_max", title=_("Consumer groups"),
           refusal=_ONE_MORE, reset=_("when one is deleted"), show=count),
    _Limit(name="control_requests_per_second",
           title=_("Control plane requests"),
           refusal=_("Requests get 429 RATE_LIMITED."),
           reset=_("continuously, fully within 2 seconds"), show=rate,
           unknown=_("Each response says what is left in its RateLimit header.")),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRow:
    """A limit, what is said of it, and how much of it is used."""

    limit: _Limit
    use: QuotaUse

    @property
    def used_text(self) -> str:
        return self.limit.show(self.use.used)

    @property
    def most_text(self) -> str:
        return self.limit.show(self.use.limit)

    @property
    def why_unknown(self) -> Promise | str:
        """Empty when what is used is known."""
        return self.limit.unknown if self.use.level is QuotaLevel.UNKNOWN else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsagePageData:
    """``refusing``: of which limits what comes now is refused or waits."""

    rows: list[LimitRow]

    @property
    def refusing(self) -> list[LimitRow]:
        return [row for row in self.rows if row.use.level is QuotaLevel.FULL]


def limits_page(tenant_id: int) -> UsagePageData:
    """Three queries and a call to the engine."""
    uses = {use.name: use for use in quota_uses(tenant_id)}
    return UsagePageData(rows=[LimitRow(limit=limit, use=uses[limit.name]) for limit in _LIMITS])


def limit_title(name: str) -> Promise:
    """What a limit of ``QuotaLimits`` is called."""
    return next(limit.title for limit in _LIMITS if limit.name == name)


class HistorySpan(enum.StrEnum):
    """How far the history goes back."""

    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"


_LENGTHS_MS: Final = {
    HistorySpan.DAY: DAY_MS,
    HistorySpan.WEEK: 7 * DAY_MS,
    HistorySpan.MONTH: 30 * DAY_MS,
}
_PER: Final = {
    HistorySpan.DAY: Interval.HOUR,
    HistorySpan.WEEK: Interval.HOUR,
    HistorySpan.MONTH: Interval.DAY,
}
_LINES: Final[dict[str, list[tuple[Promise, Callable[[UsageRow], int | None]]]]] = {
    "messages": [
        (_("in"), lambda row: row.messages_in),
        (_("out"), lambda row: row.messages_out),
    ],
    "bytes": [(_("in"), lambda row: row.bytes_in), (_("out"), lambda row: row.bytes_out)],
    "calls": [(_("requests"), lambda row: row.api_calls)],
    "storage": [(_("stored"), lambda row: row.storage_bytes_max)],
}
CHARTS: Final = tuple(_LINES)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Points lie at the beginnings of hours or days, ``step_ms`` apart; a span without any usage
    has none.
    """

    from_ms: int
    to_ms: int
    step_ms: int
    lines: list[tuple[str, list[Point]]]


def history(principal: Principal, name: str, back: HistorySpan, now_ms: int) -> History:
    """The tenant's usage. One query. Raises KeyError for a name that is none of ``CHARTS``."""
    wanted = _LINES[name]
    per = _PER[back]
    from_ms = now_ms - _LENGTHS_MS[back]
    question = UsageQuery(from_ms=from_ms, to_ms=now_ms + 1, per=per, by=GroupBy.TENANT)
    rows = usage_page(principal, question, now_ms, cursor=None, limit=POINTS_MAX).rows
    by_ms = {row.at_ms: row for row in rows}
    span_ms = SPAN_MS[per]
    first_ms = from_ms - from_ms % span_ms
    moments = range(first_ms, now_ms + 1, span_ms)
    return History(
        from_ms=first_ms,
        to_ms=now_ms,
        step_ms=span_ms,
        lines=[
            (str(label), [(at, value(by_ms[at]) if at in by_ms else None) for at in moments])
            for label, value in wanted
        ],
    )


assert 30 * DAY_MS // DAY_MS + 2 <= POINTS_MAX
assert 7 * DAY_MS // HOUR_MS + 2 <= POINTS_MAX
