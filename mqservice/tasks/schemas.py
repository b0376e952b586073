"""Long tasks on the wire of the control plane."""

from __future__ import annotations

from typing import Annotated, Literal

from django.conf import settings
from django.utils import timezone
from ninja import Schema
from pydantic import ConfigDict, Field, StringConstraints

from mqservice.delivery.decoding import Fault
from mqservice.delivery.filters import filter_of_query, tags_in
from mqservice.delivery.messages import key_fault
from mqservice.delivery.reading.same_cause import NO_REASON, reason_fault, requested_cause
from mqservice.lib.timestamps import rfc3339
from mqservice.lib.wire import moment, moment_or_none, refused, time_ms
from mqservice.tasks.limits import ID_CHARS_MAX, IDS_MAX
from mqservice.tasks.models import FailureOutcome, Task, TaskFailure, TaskKind, TaskState
from mqservice.tasks.queries import Count
from mqservice.tasks.selection import Selection, selection_of

# An id is kept in the task's row, and PostgreSQL takes no NUL.
MessageId = Annotated[
    str, StringConstraints(min_length=1, max_length=ID_CHARS_MAX, pattern=r"^[^\x00]*$")
]


class FilterIn(Schema):
    """All conditions must match; times are those at which messages became dead letters."""

    model_config = ConfigDict(extra="forbid")

    key: str | None = None
    tag: str | None = None
    from_time: str | None = Field(default=None, alias="from")
    to: str | None = None
    reason: str | None = Field(
        default=None,
        description="A reason, or the cause of an issue: matches dead letters with the same cause. "
        f"`{NO_REASON}`: those without a reason.",
    )

    def selection(self) -> Selection:
        """Raises Problem."""
        if self.key is not None and (fault := key_fault(self.key)):
            raise refused("/filter/key", f"a key {fault}", "ILLEGAL_KEY")
        try:
            tags = tags_in(filter_of_query(self.tag, None, None))
        except Fault as exc:
            raise refused("/filter/tag", exc.detail, exc.code) from None
        from_ms = None if self.from_time is None else time_ms("/filter/from", self.from_time)
        to_ms = None if self.to is None else time_ms("/filter/to", self.to)
        if from_ms is not None and to_ms is not None and from_ms > to_ms:
            raise refused("/filter/to", f"to is {from_ms - to_ms} ms before from")
        if self.reason is not None and (fault := reason_fault(self.reason)):
            raise refused("/filter/reason", f"a reason {fault}")
        cause = None if self.reason is None else requested_cause(self.reason)
        found = Selection(key=self.key, tags=tags, from_ms=from_ms, to_ms=to_ms, cause=cause)
        if found.is_all:
            raise refused(
                "/filter", 'there is no condition; write "all": true if you mean all of them'
            )
        return found


class PurgeIn(Schema):
    """Selects dead letters in one of three ways, and sets the rate."""

    model_config = ConfigDict(extra="forbid")

    ids: list[MessageId] | None = Field(default=None, min_length=1, max_length=IDS_MAX)
    filter: FilterIn | None = None
    all: Literal[True] | None = None
    rate: int | None = Field(default=None, strict=True)
    dry_run: bool = Field(default=False, strict=True)

    def selection(self) -> Selection:
        """Raises Problem."""
        given = [name for name in ("ids", "filter", "all") if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            raise refused("", f"give exactly one of ids, filter and all; found {found}")
        if self.filter is not None:
            return self.filter.selection()
        return Selection(ids=list(dict.fromkeys(self.ids or [])))

    def checked_rate(self) -> int | None:
        """Raises Problem."""
        most = settings.MQ_REDRIVE_RATE_MAX
        if self.rate is not None and not 1 <= self.rate <= most:
            raise refused("/rate", f"must be in [1, {most}] per second, found {self.rate}")
        return self.rate


class RedriveIn(PurgeIn):
    """`target`: a topic instead of each message's own."""

    target: str | None = None


class TopicCountOut(Schema):
    """`topic` is null if messages do not name one; without `exists` they would not be moved."""

    topic: str | None
    count: int
    exists: bool


class DryRunOut(Schema):
    """``is_complete`` is false when counting stopped early: there are more than ``count``."""

    dry_run: Literal[True] = True
    count: int
    is_complete: bool
    topics: list[TopicCountOut]
    not_found: list[str]

    @classmethod
    def of(cls, count: Count) -> DryRunOut:
        topics = sorted(count.topics.items())
        return cls(
            count=sum(count.topics.values()),
            is_complete=count.is_complete,
            topics=[
                TopicCountOut(topic=name or None, count=number, exists=name in count.existing)
                for name, number in topics
            ],
            not_found=count.not_found,
        )


class FilterOut(Schema):
    key: str | None
    tags: list[str]
    from_time: str | None = Field(serialization_alias="from")
    to: str | None
    reason: str | None = Field(description=f"The cause to match; `{NO_REASON}`: without a reason.")


class TaskOut(Schema):
    """`total` is null if unknown; `looked_at` of `to_look_at` are done."""

    id: str
    kind: TaskKind
    state: TaskState
    group: str
    ids: int | None
    filter: FilterOut | None
    all: bool
    target: str | None
    rate: int
    total: int | None
    moved: int
    skipped: int
    failed: int
    looked_at: int
    to_look_at: int
    eta_ms: int | None
    error: str | None
    created_by: str
    created_at: str
    started_at: str | None
    finished_at: str | None

    @classmethod
    def of(cls, task: Task) -> TaskOut:
        selection = selection_of(task.selection)
        return cls(
            id=task.public_id,
            kind=TaskKind(task.kind),
            state=TaskState(task.state),
            group=task.group_name,
            ids=len(selection.ids) or None,
            filter=None if selection.ids or selection.is_all else _filter_out(selection),
            all=selection.is_all,
            target=task.target or None,
            rate=task.rate,
            total=task.total_count,
            moved=task.moved_count,
            skipped=task.skipped_count,
            failed=task.failed_count,
            looked_at=task.looked_count,
            to_look_at=task.to_look_count,
            eta_ms=_eta_ms(task),
            error=task.error or None,
            created_by=task.created_by,
            created_at=moment(task.created_at),
            started_at=moment_or_none(task.started_at),
            finished_at=moment_or_none(task.finished_at),
        )


class TaskListOut(Schema):
    """A page, newest first; ``next`` is the ``before`` of the following page."""

    tasks: list[TaskOut]
    next: str | None


class FailureOut(Schema):
    """`id` is null for an unreadable message, `offset` if no message has the id."""

    id: str | None
    offset: int | None
    outcome: FailureOutcome

    @classmethod
    def of(cls, failure: TaskFailure) -> FailureOut:
        return cls(
            id=failure.message_id or None,
            offset=failure.queue_offset,
            outcome=FailureOutcome(failure.outcome),
        )


class FailureListOut(Schema):
    """A page; `next` is the `after` of the following page. `unlisted`: counted, not stored."""

    failures: list[FailureOut]
    next: int | None
    unlisted: int


def _filter_out(selection: Selection) -> FilterOut:
    def shown(ms: int | None) -> str | None:
        return None if ms is None else rfc3339(ms)

    return FilterOut(
        key=selection.key,
        tags=selection.tags,
        from_time=shown(selection.from_ms),
        to=shown(selection.to_ms),
        reason=NO_REASON if selection.cause == "" else selection.cause,
    )


def _eta_ms(task: Task) -> int | None:
    """As if the rest took as long as what is done, in proportion."""
    if task.state != TaskState.RUNNING or task.started_at is None or not task.looked_count:
        return None
    taken_ms = (timezone.now() - task.started_at).total_seconds() * 1_000
    left = max(0, task.to_look_count - task.looked_count)
    return int(taken_ms * left / task.looked_count)
