"""Usage of a tenant over time: a page of sums, by hour or day, by tenant, namespace or topic.

    question, cursor ──▶ [usage_page] ──▶ rows, cursor of the following page

A cursor is the place of the last row with a MAC over it, the tenant and the question.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

import msgspec
from django.conf import settings
from django.db import connection

from mqservice.accounts.access import Principal
from mqservice.lib.durations import DAY_MS, HOUR_MS
from mqservice.lib.signed_text import read_cursor, signed_text
from mqservice.lib.signing import Signer
from mqservice.lib.wire import refused
from mqservice.usage.limits import SPAN_DAYS_MAX

_CURSOR_CHARS_MAX: Final = 512
_NUMBERS: Final = ("messages_in", "bytes_in", "messages_out", "bytes_out", "api_calls")
# Of a row: beginning of its span, namespace, topic; and the range that its page is of.
Place = tuple[int, str, str, int, int]


class Interval(enum.StrEnum):
    """How long a row's span is; days are those of UTC."""

    HOUR = "hour"
    DAY = "day"


class GroupBy(enum.StrEnum):
    """What a row is of."""

    TENANT = "tenant"
    NAMESPACE = "namespace"
    TOPIC = "topic"


SPAN_MS: Final = {Interval.HOUR: HOUR_MS, Interval.DAY: DAY_MS}


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuery:
    """Hours that begin in [from_ms, to_ms); None: the day up to now. None of a name: any."""

    from_ms: int | None = None
    to_ms: int | None = None
    per: Interval
    by: GroupBy
    namespace: str | None = None
    topic: str | None = None


class UsageRow(msgspec.Struct, frozen=True, array_like=True):
    """``storage_bytes_max``: the most that the row's topics held together in one of its hours;
    None where nothing was measured.
    """

    at_ms: int
    namespace: str
    topic: str
    messages_in: int
    bytes_in: int
    messages_out: int
    bytes_out: int
    api_calls: int
    storage_bytes_max: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsagePage:
    rows: list[UsageRow]
    next_cursor: str | None


def usage_page(
    principal: Principal,
    question: UsageQuery,
    now_ms: int,
    *,
    cursor: str | None,
    limit: int,
) -> UsagePage:
    """Usage of the tenant, or of the namespace that ``principal`` is bound to. One query.

    Raises Problem CURSOR_INVALID for one that is not of this question, BAD_REQUEST for a range
    that ends before it begins or is too long.
    """
    claim = _claim(principal, question)
    after: Place | None = None
    if cursor is not None:
        content = read_cursor(_signer(), cursor, claim, chars_max=_CURSOR_CHARS_MAX)
        after = msgspec.msgpack.decode(content, type=Place)
    from_ms, to_ms = _range(question, now_ms) if after is None else after[3:]
    namespace = "namespace" if question.by is not GroupBy.TENANT else "''::text"
    topic = "topic" if question.by is GroupBy.TOPIC else "''::text"
    where = "tenant_id = %(tenant)s AND hour_ms >= %(from)s AND hour_ms < %(to)s"
    bound = principal.namespace if principal.namespace is not None else question.namespace
    if principal.namespace is not None and question.namespace not in (None, principal.namespace):
        return UsagePage(rows=[], next_cursor=None)
    if bound is not None:
        where += " AND namespace = %(namespace)s"
    if question.topic is not None:
        where += " AND topic = %(topic)s"
    sums = ", ".join(f"sum({name}) AS {name}" for name in _NUMBERS)
    later = ""
    if after is not None:
        where += " AND hour_ms >= %(after_ms)s"
        later = " WHERE (at_ms, ns, tp) > (%(after_ms)s, %(after_ns)s, %(after_tp)s)"
    with connection.cursor() as database:
        database.execute(
            f"SELECT at_ms, ns, tp, {', '.join(f'{name}::bigint' for name in _NUMBERS)},"
            f" storage::bigint FROM ("
            f"SELECT hour_ms - hour_ms %% %(span)s AS at_ms, ns, tp, {sums},"
            " max(storage) AS storage"
            f' FROM (SELECT hour_ms, {namespace} COLLATE "C" AS ns, {topic} COLLATE "C" AS tp,'
            f" {sums}, sum(storage_bytes_max) AS storage FROM usage_usagehour WHERE {where}"
            " GROUP BY 1, 2, 3) AS hours GROUP BY 1, 2, 3) AS spans"
            f"{later} ORDER BY at_ms, ns, tp LIMIT %(limit)s",
            {
                "tenant": principal.tenant_id,
                "from": from_ms,
                "to": to_ms,
                "namespace": bound,
                "topic": question.topic,
                "span": SPAN_MS[question.per],
                "limit": limit + 1,
                "after_ms": after and after[0],
                "after_ns": after and after[1],
                "after_tp": after and after[2],
            },
        )
        rows = [msgspec.convert(row, UsageRow, strict=False) for row in database.fetchall()]
    if len(rows) <= limit:
        return UsagePage(rows=rows, next_cursor=None)
    rows.pop()
    last = rows[-1]
    place = last.at_ms, last.namespace, last.topic, from_ms, to_ms
    cursor = signed_text(_signer(), msgspec.msgpack.encode(place), claim)
    return UsagePage(rows=rows, next_cursor=cursor)


def _range(question: UsageQuery, now_ms: int) -> tuple[int, int]:
    """From the beginning of a span on, so that the first is whole."""
    to_ms = now_ms + 1 if question.to_ms is None else question.to_ms
    from_ms = to_ms - DAY_MS if question.from_ms is None else question.from_ms
    if not from_ms < to_ms <= from_ms + SPAN_DAYS_MAX * DAY_MS:
        raise refused("?from", f"must be before `to`, and at most {SPAN_DAYS_MAX} days")
    return from_ms - from_ms % SPAN_MS[question.per], to_ms


def _signer() -> Signer:
    return Signer(settings.SECRET_KEY, "usage cursor", settings.SECRET_KEY_FALLBACKS)


def _claim(principal: Principal, question: UsageQuery) -> bytes:
    return msgspec.msgpack.encode((
        principal.tenant_id, principal.namespace, question.from_ms, question.to_ms,
        question.per.value, question.by.value, question.namespace, question.topic,
    ))  # fmt: skip
