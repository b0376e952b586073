"""Reads of issues, each within one namespace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Q

from mqservice.accounts.models import Namespace
from mqservice.issues.limits import EVENTS_RETAINED_MAX, PAGE_MAX
from mqservice.issues.models import Issue, IssueBook, IssueEvent, IssueState
from mqservice.lib.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueFilter:
    """Of which all hold; what is None, or no state, leaves all."""

    states: tuple[IssueState, ...] = ()
    group: str | None = None
    topic: str | None = None


def issues_of(
    namespace: Namespace, wanted: IssueFilter, *, before: str = "", limit: int = PAGE_MAX
) -> list[Issue]:
    """Those last seen before the issue with that id, the newest first. One query, or two.

    Raises Problem ISSUE_NOT_FOUND.
    """
    rows = Issue.objects.filter(namespace=namespace)
    if wanted.states:
        rows = rows.filter(state__in=[state.value for state in wanted.states])
    if wanted.group is not None:
        rows = rows.filter(group_name=wanted.group)
    if wanted.topic is not None:
        rows = rows.filter(topic=wanted.topic)
    if before:
        last = get_issue(namespace, before)
        rows = rows.filter(Q(last_ms__lt=last.last_ms) | Q(last_ms=last.last_ms, pk__lt=last.pk))
    return list(rows.order_by("-last_ms", "-id")[: min(limit, PAGE_MAX)])


def get_issue(namespace: Namespace, public_id: str) -> Issue:
    """Raises Problem ISSUE_NOT_FOUND. One query."""
    issue = Issue.objects.filter(namespace=namespace, public_id=public_id).first()
    if issue is None:
        raise issue_not_found(namespace, public_id)
    return issue


def issue_not_found(namespace: Namespace, public_id: str) -> Problem:
    return Problem.of("ISSUE_NOT_FOUND", f"{public_id} does not exist in {namespace.name}")


def events_of(issue: Issue) -> list[IssueEvent]:
    """The newest changes first. One query."""
    return list(IssueEvent.objects.filter(issue=issue).order_by("-number")[:EVENTS_RETAINED_MAX])


def book_of(namespace: Namespace) -> IssueBook:
    """The namespace's, or one that is not saved where there is none. One query."""
    return IssueBook.objects.filter(namespace=namespace).first() or IssueBook(namespace=namespace)


def state_counts(namespace: Namespace) -> dict[IssueState, int]:
    """How many issues are in each state. One query."""
    rows = Issue.objects.filter(namespace=namespace).values_list("state").annotate(n=Count("id"))
    found = {IssueState(state): count for state, count in rows}
    return {state: found.get(state, 0) for state in IssueState}


def open_count(namespace: Namespace) -> int:
    """How many issues are open: nobody has looked at them. One query."""
    return Issue.objects.filter(namespace=namespace, state=IssueState.OPEN.value).count()


def reasons_of(namespace: Namespace, groups: Sequence[str]) -> dict[str, Counter[str]]:
    """Dead letters by group and cause, of the newest hours with letters. One query."""
    rows = Issue.objects.filter(namespace=namespace, group_name__in=groups)
    found: dict[str, Counter[str]] = {}
    for group, reason, hours in rows.values_list("group_name", "reason", "hours"):
        found.setdefault(group, Counter())[reason] += sum(hours.values())
    return found


def openings_after(
    namespace_id: int, number: int, *, group: str = "", topic: str = ""
) -> list[Issue]:
    """Issues that are open and were opened after that number, the oldest first. One query."""
    rows = Issue.objects.filter(
        namespace_id=namespace_id, state=IssueState.OPEN.value, opening_number__gt=number
    )
    if group:
        rows = rows.filter(group_name=group)
    if topic:
        rows = rows.filter(topic=topic)
    return list(rows.order_by("opening_number"))
