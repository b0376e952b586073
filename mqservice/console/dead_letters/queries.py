"""Pages of dead letters: the list of groups, and the dead letters of one group.

    names ──▶ counts of all (one call) ──▶ most first ──▶ one page ──▶ ages, newest letters' reasons

A page costs the same with a thousand groups as with fifty, but for the one call: a microsecond or
two a group. Reasons are those of the newest letters, of which so many are read; the page of one
group shows them by cause, as its issues are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from mqservice.accounts.models import Namespace
from mqservice.console.shared.listing import NAMES_MAX, PAGE_ROWS, Listing
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import DAY_MS, HOUR_MS
from mqservice.lib.names import engine_name
from mqservice.store import (
    DeadLetterCount,
    DeadLettersRequest,
    PullRequest,
    StoreClient,
    StoreError,
    TopicNotFound,
    blocking_client,
    cause_of,
    dlq_topic_of,
    find_dead_letter,
)

COUNTED_AT_ONCE: Final = 1_000
# Given up before these, seen from now: the borders between the ages that are shown.
AGES_MS: Final = (HOUR_MS, DAY_MS, 7 * DAY_MS)
LISTED_READ: Final = 32  # letters that a row of the list is about
READ_MAX: Final = 256  # that the page of one group is about
READ_BYTES_MAX: Final = 1024 * 1024
REASON_CHARS: Final = 120
REASONS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """How many letters were given up in the last hour, the day before that, the week, earlier."""

    hour: int
    day: int
    week: int
    older: int

    @classmethod
    def of(cls, count: DeadLetterCount) -> Ages:
        """Of a count with times as ``AGES_MS`` says."""
        hour, day, week = count.before_counts
        return cls(hour=count.count - hour, day=hour - day, week=day - week, older=week)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    """``read_count``: letters that were read for it, the newest ones; ``top``: the most first, ""
    for those without a reason.
    """

    read_count: int
    top: list[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Letters:
    """One group's. ``count``, ``ages`` and ``oldest_ms`` are None when nobody knows; ``oldest_ms``
    is an age, and None too where there is no letter.
    """

    group: str
    count: int | None
    ages: Ages | None = None
    oldest_ms: int | None = None
    reasons: Reasons | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it is known that there are none."""
        return self.count == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettersPage(Listing):
    """``total`` is None when nobody knows."""

    rows: list[Letters]
    group_count: int
    total: int | None


def dead_letters_page(
    namespace: Namespace, text: str, *, skip: int, with_reasons: bool
) -> DeadLettersPage:
    """Two queries, a call to the engine for each 1,000 groups, and two for each row with letters.

    Args:
        skip: how many groups were shown before.
        with_reasons: not for those who may not read messages.
    """
    groups = ConsumerGroup.objects.filter(namespace=namespace)
    group_count = groups.count()
    if text:
        groups = groups.filter(name__icontains=text)
    names = list(groups.order_by("name").values_list("name", flat=True)[:NAMES_MAX])
    with blocking_client(namespace.shard) as client:
        counts = counts_of(client, namespace, names)
        if counts is not None:
            names.sort(key=lambda name: (-counts[name].count, name))
        shown = names[skip : skip + PAGE_ROWS]
        rows = list(_rows(client, namespace, shown, counts, with_reasons=with_reasons))
    return DeadLettersPage(
        rows=rows,
        group_count=group_count,
        found_count=len(names),
        first=skip + 1,
        total=None if counts is None else sum(each.count for each in counts.values()),
    )


def letters_of(namespace: Namespace, group: str) -> Letters:
    """Two calls to the engine."""
    with blocking_client(namespace.shard) as client:
        counts = counts_of(client, namespace, [group])
        rows = _rows(client, namespace, [group], counts, read_max=READ_MAX, named=cause_of)
        return next(rows)


def counts_of(
    client: StoreClient, namespace: Namespace, names: list[str]
) -> dict[str, DeadLetterCount] | None:
    """By name of the group; None when the engine cannot tell. A call for each 1,000 groups."""
    found: dict[str, DeadLetterCount] = {}
    try:
        for start in range(0, len(names), COUNTED_AT_ONCE):
            some = names[start : start + COUNTED_AT_ONCE]
            request = DeadLettersRequest(groups=[_engine_name(namespace, name) for name in some])
            found.update(zip(some, client.dead_letters(request).counts, strict=True))
    except StoreError:
        return None
    return found


def _shortened(reason: str) -> str:
    return reason.strip()[:REASON_CHARS]


def _rows(
    client: StoreClient,
    namespace: Namespace,
    names: list[str],
    counts: dict[str, DeadLetterCount] | None,
    *,
    with_reasons: bool = True,
    read_max: int = LISTED_READ,
    named: Callable[[str], str] = _shortened,
) -> Iterator[Letters]:
    now_ms = SystemClock().now_ms()
    before_ms = [now_ms - age_ms for age_ms in AGES_MS]
    for name in names:
        if counts is None:
            yield Letters(group=name, count=None)
            continue
        if not counts[name].count:
            yield Letters(group=name, count=0)
            continue
        group = _engine_name(namespace, name)
        try:
            request = DeadLettersRequest(groups=[group], before_ms=before_ms)
            [count] = client.dead_letters(request).counts
            reasons = _reasons(client, group, count, read_max, named) if with_reasons else None
        except StoreError:
            yield Letters(group=name, count=None)
            continue
        yield Letters(
            group=name,
            count=count.count,
            ages=Ages.of(count),
            oldest_ms=max(0, now_ms - count.oldest_ms) if count.oldest_ms else None,
            reasons=reasons,
        )


def _reasons(
    client: StoreClient,
    group: str,
    count: DeadLetterCount,
    read_max: int,
    named: Callable[[str], str],
) -> Reasons:
    """Of the newest letters. One call; raises ``StoreError``."""
    first = max(count.min_offset, count.max_offset - read_max)
    request = PullRequest(
        topic=dlq_topic_of(group),
        queue_id=0,
        queue_offset=first,
        messages_max=read_max,
        bytes_max=READ_BYTES_MAX,
    )
    try:
        _, records = client.pull(request)
    except TopicNotFound:  # deleted meanwhile
        records = []
    told = Counter(named(found.reason) if found else "" for found in map(find_dead_letter, records))
    return Reasons(read_count=len(records), top=told.most_common(REASONS_SHOWN))


def _engine_name(namespace: Namespace, group: str) -> str:
    return engine_name(namespace=namespace.name, name=group)
