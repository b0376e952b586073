"""The pages of issues: one page of them, and dead letters per hour as bars.

    filter ──▶ issues.queries ──▶ [issues_page] ── hours ──▶ bars of the last day ──▶ template

Causes are words of messages that failed: they are shown to whom dead letters are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mqservice.accounts.models import Namespace
from mqservice.issues.models import Issue, IssueBook, IssueState
from mqservice.issues.queries import IssueFilter, book_of, issues_of, state_counts
from mqservice.lib.durations import HOUR_MS

ISSUES_SHOWN: Final = 50
BARS: Final = 24
BAR_HEIGHT: Final = 100.0
ACTIVE: Final = (IssueState.OPEN, IssueState.ACKNOWLEDGED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Letters of one hour; ``top`` and ``height`` in hundredths of the highest."""

    index: int
    at_ms: int
    count: int
    height: float

    @property
    def top(self) -> float:
        return BAR_HEIGHT - self.height


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuesPage:
    """``counts``: of each state in the namespace; ``next_before`` is empty on the last page."""

    rows: list[tuple[Issue, list[Bar]]]
    counts: Mapping[IssueState, int]
    book: IssueBook
    next_before: str

    @property
    def active_count(self) -> int:
        return sum(self.counts[state] for state in ACTIVE)

    @property
    def all_count(self) -> int:
        return sum(self.counts.values())


def issues_page(
    namespace: Namespace, wanted: IssueFilter, *, before: str, now_ms: int
) -> IssuesPage:
    """Three queries or four. Raises Problem ISSUE_NOT_FOUND."""
    found = issues_of(namespace, wanted, before=before, limit=ISSUES_SHOWN + 1)
    rows = found[:ISSUES_SHOWN]
    return IssuesPage(
        rows=[(issue, bars_of(issue, now_ms)) for issue in rows],
        counts=state_counts(namespace),
        book=book_of(namespace),
        next_before=rows[-1].public_id if len(found) > ISSUES_SHOWN else "",
    )


def bars_of(issue: Issue, now_ms: int, bar_count: int = BARS) -> list[Bar]:
    """The hours up to now, the oldest first; hours without a letter have no height."""
    last = now_ms // HOUR_MS
    hours = range(last - bar_count + 1, last + 1)
    counts = [int(issue.hours.get(str(hour), 0)) for hour in hours]
    most = max(counts) or 1
    return [
        Bar(index=index, at_ms=hour * HOUR_MS, count=count, height=_height(count, most))
        for index, (hour, count) in enumerate(zip(hours, counts, strict=True))
    ]


def _height(count: int, most: int) -> float:
    """So high that one letter among thousands is seen."""
    return max(8.0, BAR_HEIGHT * count / most) if count else 0.0
