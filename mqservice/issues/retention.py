"""Resolves issues that have been quiet for long enough, and deletes those that are too old or have
no group.
"""

from __future__ import annotations

from typing import Final

from django.db import connection, transaction
from django.db.models import F

from mqservice.issues.changes import record_event
from mqservice.issues.limits import CLEANED_MAX, EVENTS_RETAINED_MAX, RETAINED_MS
from mqservice.issues.models import Issue, IssueBook, IssueEvent, IssueState, StateChangeReason

_WATCHED: Final = (IssueState.OPEN.value, IssueState.ACKNOWLEDGED.value)
_ENDED: Final = (IssueState.RESOLVED.value, IssueState.IGNORED.value)
_OF_NO_GROUP: Final = """
SELECT known.id FROM {table} AS known
WHERE NOT EXISTS (
    SELECT FROM groups_consumergroup AS real
    WHERE real.namespace_id = known.namespace_id AND real.name = known.group_name
)
LIMIT %s
"""


def resolve_quiet(now_ms: int) -> int:
    """Resolve what nobody resolved and what did not happen any more; how many. A transaction for
    each namespace that has some.
    """
    quiet = (
        Issue.objects.filter(state__in=_WATCHED, namespace__issue_book__quiet_ms__gt=0)
        .filter(last_ms__lte=now_ms - F("namespace__issue_book__quiet_ms"))
        .filter(changed_ms__lte=now_ms - F("namespace__issue_book__quiet_ms"))
    )
    namespaces = quiet.order_by("namespace_id").values_list("namespace_id", flat=True).distinct()
    return sum(_resolve_quiet_of(pk, now_ms) for pk in list(namespaces[:CLEANED_MAX]))


@transaction.atomic
def _resolve_quiet_of(namespace_id: int, now_ms: int) -> int:
    book = IssueBook.objects.select_for_update().filter(namespace_id=namespace_id).first()
    if book is None or not book.quiet_ms:
        return 0
    until_ms = now_ms - book.quiet_ms
    issues = list(
        Issue.objects.filter(
            namespace_id=namespace_id,
            state__in=_WATCHED,
            last_ms__lte=until_ms,
            changed_ms__lte=until_ms,  # somebody reopened it: then it is quiet from then on
        )
    )
    events = [
        record_event(issue, IssueState.RESOLVED, StateChangeReason.QUIET, now_ms)
        for issue in issues
    ]
    Issue.objects.bulk_update(issues, ["state", "changed_ms", "changed_by", "event_count"])
    IssueEvent.objects.bulk_create(events)
    return len(issues)


def delete_old(now_ms: int) -> int:
    """The number of rows that went; what is left waits for the next time."""
    old = Issue.objects.filter(state__in=_ENDED, last_ms__lt=now_ms - RETAINED_MS)
    ids = set(old.order_by("last_ms").values_list("id", flat=True)[:CLEANED_MAX])
    with connection.cursor() as cursor:
        cursor.execute(_OF_NO_GROUP.format(table="issues_issue"), (CLEANED_MAX,))
        ids.update(row[0] for row in cursor.fetchall())
        cursor.execute(
            "DELETE FROM issues_scanplace WHERE id IN ("
            + _OF_NO_GROUP.format(table="issues_scanplace")
            + ")",
            (CLEANED_MAX,),
        )
        place_count: int = cursor.rowcount
    deleted_count, _ = Issue.objects.filter(pk__in=ids).delete()
    many = IssueEvent.objects.filter(number__lte=F("issue__event_count") - EVENTS_RETAINED_MAX)
    event_ids = list(many.values_list("id", flat=True)[:CLEANED_MAX])
    event_count, _ = IssueEvent.objects.filter(pk__in=event_ids).delete()
    return deleted_count + place_count + event_count
