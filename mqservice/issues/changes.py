"""Shared by all changes of an issue: the lock, the event, the number of its opening.

Opened and reopened issues are numbered under the lock of the book, so that whoever has read up to
a number has missed none.
"""

from __future__ import annotations

from mqservice.accounts.models import Namespace
from mqservice.issues.models import Issue, IssueBook, IssueEvent, IssueState, StateChangeReason


def locked_book(namespace: Namespace) -> IssueBook:
    """The namespace's, made where there is none. In a transaction; two queries or three."""
    books = IssueBook.objects.select_for_update()
    book = books.filter(namespace=namespace).first()
    if book is None:
        IssueBook.objects.bulk_create([IssueBook(namespace=namespace)], ignore_conflicts=True)
        book = books.get(namespace=namespace)
    return book


def open_issue(
    issue: Issue, book: IssueBook, why: StateChangeReason, now_ms: int, *, actor: str = ""
) -> IssueEvent:
    """Neither row is saved, nor the event."""
    book.opening_count += 1
    issue.opening_number = book.opening_count
    return record_event(issue, IssueState.OPEN, why, now_ms, actor=actor)


def record_event(
    issue: Issue, state: IssueState, why: StateChangeReason, now_ms: int, *, actor: str = ""
) -> IssueEvent:
    """The issue is in ``state`` now. Neither it is saved, nor the event."""
    issue.state = state.value
    issue.changed_ms = now_ms
    issue.changed_by = actor
    issue.event_count += 1
    return IssueEvent(
        issue=issue,
        number=issue.event_count,
        state=state.value,
        why=why.value,
        at_ms=now_ms,
        actor=actor,
    )
