"""Issues on the wire of the control plane.

What somebody who may not read messages of the group gets: everything but the words of its failures
and the ids of its messages, which are null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ninja import Schema
from pydantic import ConfigDict

from mqservice.accounts.access import Principal
from mqservice.accounts.scopes import Kind, Scope
from mqservice.issues.models import (
    Issue,
    IssueBook,
    IssueEvent,
    IssueKind,
    IssueState,
    StateChangeReason,
)
from mqservice.lib.durations import HOUR_MS, format_duration_ms, parse_duration_ms
from mqservice.lib.timestamps import rfc3339
from mqservice.lib.wire import refused


def may_read(principal: Principal, issue: Issue) -> bool:
    """Whether the words of its failures are shown: as those of the group's dead letters."""
    return principal.allows(Scope.CONSUME, Kind.GROUP, issue.group_name)


class IssueSettingsIn(Schema):
    """`resolve_after`: how long an issue is quiet before it is resolved, 1h to 90d; null: never."""

    model_config = ConfigDict(extra="forbid")

    resolve_after: str | None

    def quiet_ms(self) -> int | None:
        """Raises Problem."""
        if self.resolve_after is None:
            return None
        try:
            return parse_duration_ms(self.resolve_after)
        except ValueError as exc:
            raise refused("/resolve_after", str(exc)) from None


class IssueOut(Schema):
    """`reason`: the cause, in which placeholders such as <n> stand for what differs; "" without a
    reason, null for keys that may not read messages of the group. `count`: dead letters, each once.
    `changed_by` is null if the service did it."""

    id: str
    namespace: str
    kind: IssueKind
    group: str
    topic: str | None
    reason: str | None
    state: IssueState
    count: int
    first_seen: str
    last_seen: str
    reopened: int
    changed_at: str
    changed_by: str | None

    @classmethod
    def of(cls, issue: Issue, namespace: str, *, is_readable: bool) -> IssueOut:
        return cls(**_fields(issue, namespace, is_readable=is_readable))


class IssueHourOut(Schema):
    """Dead letters of one hour; hours without any are omitted."""

    at: str
    count: int


class IssueMessageOut(Schema):
    """One of the newest messages, by its id among the dead letters of the group."""

    id: str
    at: str


class IssueEventOut(Schema):
    """A change of state. `why`: first or recurring dead letters, a quiet period, or a user; `by` is
    null for the service."""

    number: int
    state: IssueState
    why: StateChangeReason
    at: str
    by: str | None

    @classmethod
    def of(cls, event: IssueEvent) -> IssueEventOut:
        return cls(
            number=event.number,
            state=IssueState(event.state),
            why=StateChangeReason(event.why),
            at=rfc3339(event.at_ms),
            by=event.actor or None,
        )


class IssueDetailOut(IssueOut):
    """`sample`: the newest reason as it was written. `hours`: the newest with dead letters,
    `messages`: the newest; `history`: the newest changes first."""

    sample: str | None
    hours: list[IssueHourOut]
    messages: list[IssueMessageOut] | None
    history: list[IssueEventOut]

    @classmethod
    def of_whole(
        cls, issue: Issue, namespace: str, events: list[IssueEvent], *, is_readable: bool
    ) -> IssueDetailOut:
        return cls(
            **_fields(issue, namespace, is_readable=is_readable),
            sample=issue.sample if is_readable else None,
            hours=[
                IssueHourOut(at=rfc3339(int(hour) * HOUR_MS), count=issue.hours[hour])
                for hour in sorted(issue.hours, key=int)
            ],
            messages=_messages(issue) if is_readable else None,
            history=[IssueEventOut.of(event) for event in events],
        )


class IssueListOut(Schema):
    """The last seen first; ``next`` is the ``before`` of the following page, null on the last one.

    ``open``: how many issues of the namespace are open. ``others``: dead letters whose reasons did
    not fit among the issues; ``unseen``: those deleted before they were checked. ``resolve_after``:
    how long an issue is quiet before it is resolved, null for never.
    """

    issues: list[IssueOut]
    next: str | None
    open: int
    others: int
    unseen: int
    resolve_after: str | None


class IssueSettingsOut(Schema):
    """`resolve_after`: how long an issue is quiet before it is resolved; null: never."""

    resolve_after: str | None

    @classmethod
    def of(cls, book: IssueBook) -> IssueSettingsOut:
        return cls(resolve_after=quiet_text(book))


@dataclass(frozen=True, slots=True)
class Example:
    """A message of an issue, and when it was given up."""

    id: str
    at_ms: int


def examples_of(issue: Issue) -> list[Example]:
    """The newest first."""
    return [Example(str(each["id"]), int(each["at_ms"])) for each in issue.examples]


def quiet_text(book: IssueBook) -> str | None:
    return format_duration_ms(book.quiet_ms) if book.quiet_ms else None


def _messages(issue: Issue) -> list[IssueMessageOut]:
    return [IssueMessageOut(id=each.id, at=rfc3339(each.at_ms)) for each in examples_of(issue)]


def _fields(issue: Issue, namespace: str, *, is_readable: bool) -> dict[str, Any]:
    # Any: fields of several types, which the schema checks
    return {
        "id": issue.public_id,
        "namespace": namespace,
        "kind": IssueKind(issue.kind),
        "group": issue.group_name,
        "topic": issue.topic or None,
        "reason": issue.reason if is_readable else None,
        "state": IssueState(issue.state),
        "count": issue.count,
        "first_seen": rfc3339(issue.first_ms),
        "last_seen": rfc3339(issue.last_ms),
        "reopened": issue.reopen_count,
        "changed_at": rfc3339(issue.changed_ms),
        "changed_by": issue.changed_by or None,
    }
