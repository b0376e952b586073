"""Changes of issues by users. One transaction each.

acknowledge, resolve, ignore, reopen ──▶ book, issue (locked) ──▶ event, audit entry
"""

from __future__ import annotations

import enum
from typing import Final

from django.db import transaction

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import record
from mqservice.accounts.models import Namespace
from mqservice.issues.changes import locked_book, open_issue, record_event
from mqservice.issues.limits import QUIET_MS_MAX, QUIET_MS_MIN
from mqservice.issues.models import ACTOR_CHARS_MAX, Issue, IssueState, StateChangeReason
from mqservice.issues.queries import issue_not_found
from mqservice.lib.clock import Clock
from mqservice.lib.durations import format_duration_ms
from mqservice.lib.wire import refused

_CHANGED: Final = ["state", "changed_ms", "changed_by", "opening_number", "event_count"]


class Verb(enum.StrEnum):
    """What somebody does to an issue."""

    ACKNOWLEDGE = "acknowledge"
    RESOLVE = "resolve"
    IGNORE = "ignore"
    REOPEN = "reopen"


STATE_AFTER: Final = {
    Verb.ACKNOWLEDGE: IssueState.ACKNOWLEDGED,
    Verb.RESOLVE: IssueState.RESOLVED,
    Verb.IGNORE: IssueState.IGNORED,
    Verb.REOPEN: IssueState.OPEN,
}


@transaction.atomic
def change_issue(
    principal: Principal, namespace: Namespace, public_id: str, verb: Verb, clock: Clock
) -> Issue:
    """Bring an issue into the state of a verb. Does nothing where it is in it already.

    Raises Problem ISSUE_NOT_FOUND.
    """
    book = locked_book(namespace)
    rows = Issue.objects.select_for_update()
    issue = rows.filter(namespace=namespace, public_id=public_id).first()
    if issue is None:
        raise issue_not_found(namespace, public_id)
    before, state = issue.state, STATE_AFTER[verb]
    if before == state:
        return issue
    actor, now_ms = principal.actor[:ACTOR_CHARS_MAX], clock.now_ms()
    if verb is Verb.REOPEN:
        event = open_issue(issue, book, StateChangeReason.BY_HAND, now_ms, actor=actor)
        book.save(update_fields=["opening_count"])
    else:
        event = record_event(issue, state, StateChangeReason.BY_HAND, now_ms, actor=actor)
    issue.save(update_fields=_CHANGED)
    event.save(force_insert=True)
    record(
        principal,
        namespace,
        f"issue.{verb.value}",
        f"issues/{public_id}",
        {"group": issue.group_name},
        before={"state": before},
        after={"state": issue.state},
    )
    return issue


@transaction.atomic
def set_quiet(principal: Principal, namespace: Namespace, quiet_ms: int | None) -> None:
    """After how long without a letter issues are resolved by themselves; None: never.

    Raises Problem ILLEGAL_SETTING.
    """
    if quiet_ms is not None and not QUIET_MS_MIN <= quiet_ms <= QUIET_MS_MAX:
        low, high = format_duration_ms(QUIET_MS_MIN), format_duration_ms(QUIET_MS_MAX)
        detail = f"must be {low} to {high}, or null for never"
        raise refused("/resolve_after", detail, "ILLEGAL_SETTING")
    book = locked_book(namespace)
    before, after = book.quiet_ms, quiet_ms or 0
    if before == after:
        return
    book.quiet_ms = after
    book.save(update_fields=["quiet_ms"])
    record(
        principal,
        namespace,
        "issues.settings",
        f"namespaces/{namespace.name}",
        before={"resolve_after_ms": before},
        after={"resolve_after_ms": after},
    )
