"""Issues over REST: ``/v1/ns/{ns}/issues``, ``issues/{id}`` and the actions on one."""

from __future__ import annotations

from typing import Annotated

from ninja import Router
from pydantic import Field

from mqservice.accounts.queries import get_namespace
from mqservice.accounts.rest import AuthedRequest
from mqservice.accounts.scopes import Kind, Scope
from mqservice.issues.limits import PAGE_MAX
from mqservice.issues.models import IssueState
from mqservice.issues.queries import (
    IssueFilter,
    book_of,
    events_of,
    get_issue,
    issues_of,
    open_count,
)
from mqservice.issues.schemas import (
    IssueDetailOut,
    IssueListOut,
    IssueOut,
    IssueSettingsIn,
    IssueSettingsOut,
    may_read,
    quiet_text,
)
from mqservice.issues.services import Verb, change_issue, set_quiet
from mqservice.lib.clock import SystemClock

router = Router(tags=["issues"])


@router.get("/ns/{ns}/issues", response=IssueListOut)
def list_issues(
    request: AuthedRequest,
    ns: str,
    state: IssueState | None = None,
    group: str | None = None,
    topic: str | None = None,
    before: str = "",
    limit: Annotated[int, Field(ge=1, le=PAGE_MAX)] = PAGE_MAX,
) -> IssueListOut:
    """List issues, the last seen first; an issue is the dead letters of a group and topic that
    failed for one reason. Four or five queries."""
    namespace = get_namespace(request.auth, ns)
    wanted = IssueFilter(states=(state,) if state else (), group=group, topic=topic)
    issues = issues_of(namespace, wanted, before=before, limit=limit)
    book = book_of(namespace)
    return IssueListOut(
        issues=[
            IssueOut.of(issue, namespace.name, is_readable=may_read(request.auth, issue))
            for issue in issues
        ],
        next=issues[-1].public_id if len(issues) == limit else None,
        open=open_count(namespace),
        others=book.other_count,
        unseen=book.unseen_count,
        resolve_after=quiet_text(book),
    )


@router.put("/ns/{ns}/issues", response=IssueSettingsOut)
def write_issue_settings(
    request: AuthedRequest, ns: str, wanted: IssueSettingsIn
) -> IssueSettingsOut:
    """Set after how long without a dead letter an issue is resolved automatically."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE)
    set_quiet(request.auth, namespace, wanted.quiet_ms())
    return IssueSettingsOut.of(book_of(namespace))


@router.post("/ns/{ns}/issues/{issue_id}:acknowledge", response=IssueOut)
def acknowledge_issue(request: AuthedRequest, ns: str, issue_id: str) -> IssueOut:
    """Acknowledge an issue: dead letters are still counted, but no more notifications are sent."""
    return _changed(request, ns, issue_id, Verb.ACKNOWLEDGE)


@router.post("/ns/{ns}/issues/{issue_id}:resolve", response=IssueOut)
def resolve_issue(request: AuthedRequest, ns: str, issue_id: str) -> IssueOut:
    """Resolve an issue. A later dead letter reopens it."""
    return _changed(request, ns, issue_id, Verb.RESOLVE)


@router.post("/ns/{ns}/issues/{issue_id}:ignore", response=IssueOut)
def ignore_issue(request: AuthedRequest, ns: str, issue_id: str) -> IssueOut:
    """Ignore an issue: dead letters are only counted until it is reopened."""
    return _changed(request, ns, issue_id, Verb.IGNORE)


@router.post("/ns/{ns}/issues/{issue_id}:reopen", response=IssueOut)
def reopen_issue(request: AuthedRequest, ns: str, issue_id: str) -> IssueOut:
    """Reopen an issue; notifications are sent as for a new one."""
    return _changed(request, ns, issue_id, Verb.REOPEN)


@router.get("/ns/{ns}/issues/{issue_id}", response=IssueDetailOut)
def read_issue(request: AuthedRequest, ns: str, issue_id: str) -> IssueDetailOut:
    """Read one issue with its newest messages, its hours and its history. Three queries."""
    namespace = get_namespace(request.auth, ns)
    issue = get_issue(namespace, issue_id)
    return IssueDetailOut.of_whole(
        issue, namespace.name, events_of(issue), is_readable=may_read(request.auth, issue)
    )


def _changed(request: AuthedRequest, ns: str, issue_id: str, verb: Verb) -> IssueOut:
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE, Kind.GROUP, get_issue(namespace, issue_id).group_name)
    issue = change_issue(request.auth, namespace, issue_id, verb, SystemClock())
    return IssueOut.of(issue, namespace.name, is_readable=may_read(request.auth, issue))
