"""Adds a batch of dead letters to the issues of its group. In the caller's transaction.

tallies ──▶ book (locked) ──▶ issues: counted, opened, reopened ──▶ events
                              └── no room: resolved ones go, else ``other_count``
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mqservice.accounts.models import Namespace
from mqservice.issues.changes import locked_book, open_issue
from mqservice.issues.limits import EXAMPLES_MAX, ISSUES_MAX
from mqservice.issues.models import (
    Issue,
    IssueBook,
    IssueEvent,
    IssueKind,
    IssueState,
    StateChangeReason,
)
from mqservice.issues.tallies import Cause, Tally, merged_hours

_COUNTED: Final = (
    "count", "first_ms", "last_ms", "sample", "hours", "examples", "state", "changed_ms",
    "changed_by", "opening_number", "reopen_count", "event_count",
)  # fmt: skip
_BOOKED: Final = ("opening_count", "other_count", "other_ms", "unseen_count", "unseen_ms")


def record_tallies(
    namespace: Namespace,
    group: str,
    tallies: Mapping[Cause, Tally],
    now_ms: int,
    *,
    unseen_count: int = 0,
) -> None:
    """Add the letters of one group. A few queries, whatever the number of causes.

    Args:
        unseen_count: letters that were gone before they could be looked at.
    """
    book = locked_book(namespace)
    if unseen_count:
        book.unseen_count += unseen_count
        book.unseen_ms = now_ms
    known = _known(namespace, group, tallies)
    events = [
        event
        for cause, issue in known.items()
        for event in _count(issue, tallies[cause], book, now_ms)
    ]
    Issue.objects.bulk_update(known.values(), _COUNTED)
    new = [cause for cause in tallies if cause not in known]
    new.sort(key=lambda cause: -tallies[cause].count)
    room = _room_for(namespace, len(new)) if new else 0
    opened = []
    for cause in new[:room]:
        issue = _new_issue(namespace, group, cause, tallies[cause])
        events.append(open_issue(issue, book, StateChangeReason.FIRST, now_ms))
        opened.append(issue)
    Issue.objects.bulk_create(opened)
    for cause in new[room:]:
        book.other_count += tallies[cause].count
        book.other_ms = max(book.other_ms, tallies[cause].last_ms)
    IssueEvent.objects.bulk_create(events)
    book.save(update_fields=_BOOKED)


def _known(namespace: Namespace, group: str, tallies: Mapping[Cause, Tally]) -> dict[Cause, Issue]:
    rows = Issue.objects.filter(
        namespace=namespace,
        kind=IssueKind.DEAD_LETTER.value,
        group_name=group,
        reason__in={cause.reason for cause in tallies},
    )
    found = {Cause(row.topic, row.reason): row for row in rows}
    return {cause: found[cause] for cause in tallies if cause in found}


def _count(issue: Issue, tally: Tally, book: IssueBook, now_ms: int) -> list[IssueEvent]:
    """Count more letters of an issue, which open it again if it was resolved before the last."""
    issue.count += tally.count
    issue.first_ms = min(issue.first_ms, tally.first_ms)
    issue.last_ms = max(issue.last_ms, tally.last_ms)
    issue.hours = merged_hours(issue.hours, tally.hours)
    issue.examples = [*_examples(tally), *issue.examples][:EXAMPLES_MAX]
    issue.sample = tally.sample
    # A letter from before it was resolved, counted late, is none that came in spite of it.
    if issue.state == IssueState.RESOLVED and tally.last_ms > issue.changed_ms:
        issue.reopen_count += 1
        return [open_issue(issue, book, StateChangeReason.AGAIN, now_ms)]
    return []


def _new_issue(namespace: Namespace, group: str, cause: Cause, tally: Tally) -> Issue:
    return Issue(
        namespace=namespace,
        kind=IssueKind.DEAD_LETTER.value,
        group_name=group,
        topic=cause.topic,
        reason=cause.reason,
        sample=tally.sample,
        count=tally.count,
        first_ms=tally.first_ms,
        last_ms=tally.last_ms,
        hours=merged_hours({}, tally.hours),
        examples=_examples(tally),
    )


def _room_for(namespace: Namespace, wanted: int) -> int:
    """How many of ``wanted`` there may be more, once the oldest resolved ones have made room."""
    rows = Issue.objects.filter(namespace=namespace)
    room = ISSUES_MAX - rows.count()
    if room < wanted:
        resolved = rows.filter(state=IssueState.RESOLVED.value).order_by("last_ms", "id")
        ids = list(resolved.values_list("id", flat=True)[: wanted - max(0, room)])
        Issue.objects.filter(pk__in=ids).delete()
        room += len(ids)
    return max(0, min(room, wanted))


def _examples(tally: Tally) -> list[dict[str, object]]:
    return [{"id": message_id, "at_ms": at_ms} for message_id, at_ms in tally.messages]
