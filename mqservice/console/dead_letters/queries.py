"""Pages of dead letters: the list of groups, and the dead letters of one group.

    names ──▶ counts of all (one call) ──▶ most first ──▶ one page ──▶ ages, reasons of issues

A page costs the same with a thousand groups as with fifty, but for the one call: a microsecond or
two a group. Reasons are causes as issues have them: of a list those of the issues themselves, of
one group those of its newest letters, of which so many are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from mqservice.accounts.models import Namespace
from mqservice.console.shared.listing import NAMES_MAX, PAGE_ROWS, Listing
from mqservice.groups.models import ConsumerGroup
from mqservice.issues.queries import reasons_of
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
READ_MAX: Final = 256  # that the page of one group is about
READ_BYTES_MAX: Final = 1024 * 1024
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
    """``read_count``: letters that were looked at for it, the newest ones; ``top``: the most first,
    "" for those without a reason.
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
    """Three queries, a call to the engine for each 1,000 groups, and one for each row with letters.

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
        rows = list(_rows(client, namespace, shown, counts))
    if with_reasons:
        reasons = reasons_of(namespace, shown)
        rows = [replace(row, reasons=_told(reasons.get(row.group, Counter()))) for row in rows]
    return DeadLettersPage(
        rows=rows,
        group_count=group_count,
        found_count=len(names),
        first=skip + 1,
        total=None if counts is None else sum(each.count for each in counts.values()),
    )


def letters_of(namespace: Namespace, group: str) -> Letters:
    """Four calls to the engine."""
    with blocking_client(namespace.shard) as client:
        counts = counts_of(client, namespace, [group])
        [letters] = _rows(client, namespace, [group], counts)
        if letters.ages is None:
            return letters
        try:
            return replace(letters, reasons=_newest_reasons(client, _engine_name(namespace, group)))
        except StoreError:
            return Letters(group=group, count=None)


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


def _rows(
    client: StoreClient,
    namespace: Namespace,
    names: list[str],
    counts: dict[str, DeadLetterCount] | None,
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
        except StoreError:
            yield Letters(group=name, count=None)
            continue
        yield Letters(
            group=name,
            count=count.count,
            ages=Ages.of(count),
            oldest_ms=max(0, now_ms - count.oldest_ms) if count.oldest_ms else None,
        )


def _newest_reasons(client: StoreClient, group: str) -> Reasons:
    """Of the newest letters. Two calls; raises ``StoreError``."""
    try:
        [count] = client.dead_letters(DeadLettersRequest(groups=[group])).counts
        _, records = client.pull(
            PullRequest(
                topic=dlq_topic_of(group),
                queue_id=0,
                queue_offset=max(count.min_offset, count.max_offset - READ_MAX),
                messages_max=READ_MAX,
                bytes_max=READ_BYTES_MAX,
            )
        )
    except TopicNotFound:  # deleted meanwhile
        records = []
    found = map(find_dead_letter, records)
    return _told(Counter(cause_of(letter.reason) if letter else "" for letter in found))


def _told(counts: Counter[str]) -> Reasons:
    return Reasons(read_count=counts.total(), top=counts.most_common(REASONS_SHOWN))


def _engine_name(namespace: Namespace, group: str) -> str:
    return engine_name(namespace=namespace.name, name=group)
