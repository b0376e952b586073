# Made from aio/resources.py by `python -m clients.generate`; change that instead.
"""The control plane: a class per resource, a method per operation."""

# Made from the service's OpenAPI document by `python -m tests.docs`; change that.

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal, overload

from ..api_types import (
    Assignment,
    BrowseResponse,
    CommitOut,
    DeadLetterMessage,
    DeadLettersResponse,
    DryRunOut,
    FailureListOut,
    FailureOut,
    FilterIn,
    GroupClientsOut,
    GroupLagOut,
    GroupListOut,
    GroupOut,
    IssueDetailOut,
    IssueListOut,
    IssueOut,
    IssueState,
    KeyListOut,
    KeyOut,
    LagHistoryOut,
    NamespaceScheduled,
    NamespaceScheduledResponse,
    NewKeyOut,
    OffsetResponse,
    OffsetsOut,
    PreviewOut,
    PullResponse,
    PurgeOut,
    RateHistoryOut,
    Rescheduled,
    RetryPolicy,
    ScheduledDone,
    ScheduledMessage,
    ScheduledResponse,
    ScheduleListOut,
    ScheduleOut,
    SeekOut,
    SeekTo,
    SentNowOut,
    StoredMessage,
    TaskListOut,
    TaskOut,
    TicketOut,
    TopicListOut,
    TopicOut,
    TraceOut,
)
from ..control_calls import UNSET, Unset, new_key
from ..values import Duration
from .api import Api


class Topics:
    """Topics and their settings."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def list(
        self, *, after: str | None = None, contains: str | None = None, limit: int | None = None
    ) -> TopicListOut:
        """List topics, by name."""
        return self._api.fetch(
            "GET",
            "/v1/ns/{ns}/topics",
            TopicListOut,
            query={"after": after, "contains": contains, "limit": limit},
        )

    def iterate(
        self, *, after: str | None = None, contains: str | None = None, limit: int | None = None
    ) -> Iterator[TopicOut]:
        """The same one by one; ``limit`` of them are fetched at a time."""
        page: str | None = after
        while True:
            found = self.list(after=page, contains=contains, limit=limit)
            yield from found.topics
            page = found.next
            if page is None:
                return

    def get(self, topic: str) -> TopicOut:
        """Read one topic with the offsets of its queues."""
        return self._api.fetch(
            "GET", "/v1/ns/{ns}/topics/{topic}", TopicOut, places={"topic": topic}
        )

    def create(
        self,
        topic: str,
        *,
        type: Literal["mixed", "normal", "fifo", "delay"] | Unset | None = UNSET,
        queues: int | Unset | None = UNSET,
        durability: Literal["sync", "async", "replicated"] | Unset | None = UNSET,
        retention: Duration | Unset | None = UNSET,
        body_bytes_max: int | Unset | None = UNSET,
        if_match: str | None = None,
    ) -> TopicOut:
        """Create or change a topic.

        Args:
            type: The type of its messages.
            queues: Can be increased, not decreased.
            durability: When a produce is confirmed: on disk (`sync`), before (`async`), or in
                the replicated log (`replicated`, the default of new topics where there is such
                a log).
            retention: How long messages are retained, such as `3d`.
            body_bytes_max: The largest body that the topic accepts.
            if_match: The ``etag`` that it must still have, or PreconditionFailed is raised.
        """
        return self._api.fetch(
            "PUT",
            "/v1/ns/{ns}/topics/{topic}",
            TopicOut,
            places={"topic": topic},
            body={
                "type": type,
                "queues": queues,
                "durability": durability,
                "retention": retention,
                "body_bytes_max": body_bytes_max,
            },
            if_match=if_match,
        )

    def delete(self, topic: str, *, if_match: str | None = None) -> None:
        """Delete a topic with its messages.

        Args:
            if_match: The ``etag`` that it must still have, or PreconditionFailed is raised.
        """
        self._api.execute(
            "DELETE", "/v1/ns/{ns}/topics/{topic}", places={"topic": topic}, if_match=if_match
        )

    def purge(
        self, topic: str, *, dry_run: bool = False, idempotency_key: str | None = None
    ) -> PurgeOut:
        """Purge a topic.

        Args:
            dry_run: Whether this is only a preview.
        """
        return self._api.fetch(
            "POST",
            "/v1/ns/{ns}/topics/{topic}:purge",
            PurgeOut,
            places={"topic": topic},
            body={"dry_run": dry_run},
            key=idempotency_key or new_key(),
        )

    def rate_history(
        self, topic: str, *, since: datetime | None = None, until: datetime | None = None
    ) -> RateHistoryOut:
        """Read the past rate of messages into a topic."""
        return self._api.fetch(
            "GET",
            "/v1/ns/{ns}/topics/{topic}/rate/history",
            RateHistoryOut,
            places={"topic": topic},
            query={"from": since, "to": until},
        )


class Groups:
    """Consumer groups: settings, progress and members."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def list(
        self, *, after: str | None = None, contains: str | None = None, limit: int | None = None
    ) -> GroupListOut:
        """List groups, by name."""
        return self._api.fetch(
            "GET",
            "/v1/ns/{ns}/groups",
            GroupListOut,
            query={"after": after, "contains": contains, "limit": limit},
        )

    def iterate(
        self, *, after: str | None = None, contains: str | None = None, limit: int | None = None
    ) -> Iterator[GroupOut]:
        """The same one by one; ``limit`` of them are fetched at a time."""
        page: str | None = after
        while True:
            found = self.list(after=page, contains=contains, limit=limit)
            yield from found.groups
            page = found.next
            if page is None:
                return

    def get(self, group: str) -> GroupOut:
        """Read one group with its lag per queue."""
        return self._api.fetch(
            "GET", "/v1/ns/{ns}/groups/{group}", GroupOut, places={"group": group}
        )

    def create(
        self,
        group: str,
        *,
        start_from: Literal["earliest", "latest", "timestamp"] | Unset | None = UNSET,
        start_time: datetime | Unset | None = UNSET,
        lease: Duration | Unset | None = UNSET,
        consume_timeout: Duration | Unset | None = UNSET,
        max_attempts: int | Unset | None = UNSET,
        retry: RetryPolicy | Unset | None = UNSET,
        dispatch: Literal["shared", "exclusive", "broadcast"] | Unset | None = UNSET,
        strategy: Literal[
            "AVG",
            "AVG_BY_CIRCLE",
            "CONSISTENT_HASH",
            "CONFIG",
            "MACHINE_ROOM",
            "MACHINE_ROOM_NEARBY",
        ]
        | Unset
        | None = UNSET,
        assignment: Assignment | Unset | None = UNSET,
        ordered: bool | Unset | None = UNSET,
        batch_per_group: int | Unset | None = UNSET,
        if_match: str | None = None,
    ) -> GroupOut:
        """Create or change a group.

        Args:
            start_from: Where it starts on a topic that it has never read; `earliest` by
                default.
            start_time: Where it starts with `start_from: timestamp`.
            lease: How long a delivery is leased.
            consume_timeout: The maximum duration of one delivery.
            max_attempts: Deliveries before a message becomes a dead letter; None for no limit.
            retry: When a failed message is redelivered.
            dispatch: Who reads a queue: any consumer, the assigned one, or every client.
            strategy: How queues are assigned.
            assignment: Additional settings of some strategies.
            ordered: Whether order is preserved.
            batch_per_group: Maximum messages of a message group per receive.
            if_match: The ``etag`` that it must still have, or PreconditionFailed is raised.
        """
        return self._api.fetch(
            "PUT",
            "/v1/ns/{ns}/groups/{group}",
            GroupOut,
            places={"group": group},
            body={
                "start_from": start_from,
                "start_time": start_time,
                "lease": lease,
                "consume_timeout": consume_timeout,
                "max_attempts": max_attempts,
                "retry": retry,
                "dispatch": dispatch,
                "strategy": strategy,
                "assignment": assignment,
                "ordered": ordered,
                "batch_per_group": batch_per_group,
            },
            if_match=if_match,
        )

    def delete(self, group: str, *, if_match: str | None = None) -> None:
        """Delete a group with its progress, its retries and its dead letters.

        Args:
            if_match: The ``etag`` that it must still have, or PreconditionFailed is raised.
        """
        self._api.execute(
            "DELETE", "/v1/ns/{ns}/groups/{group}", places={"group": group}, if_match=if_match
        )

    def pause(
        self, group: str, *, if_match: str | None = None, idempotency_key: str | None = None
    ) -> GroupOut:
        """Pause a group.

        Args:
            if_match: The ``etag`` that it must still have, or PreconditionFailed is raised.
        """
        return self._api.fetch(
            "POST",
            "/v1/ns/{ns}/groups/{group}:pause",
            GroupOut,
            places={"group": group},
            key=idempotency_key or new_key(),
            if_match=if_match,
        )

    def resume(
        self, group: str, *, if_match: str | None = None, idempotency_key: str | None = None
    ) -> GroupOut:
        """Resume a group.

        Args:
            if_match: The ``etag`` that it must still have, or PreconditionFailed is raised.
        """
        return self._api.fetch(
            "POST",
            "/v1/ns/{ns}/groups/{group}:resume",
            GroupOut,
            places={"group": group},
            key=idempotency_key or new_key(),
            if_match=if_match,
        )

    def seek(
        self,
        group: str,
        topic: str,
        to: SeekTo,
        *,
        queues: Sequence[int] | None = None,
        client_id: str | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> SeekOut:
        """Move a group to another position of a topic, or preview that.

        Args:
            topic: Name of the topic.
            queues: The queues to move; all by default.
            client_id: The client of a broadcast group; required there, rejected elsewhere.
            dry_run: Whether this is only a preview.
        """
        return self._api.fetch(
            "POST",
            "/v1/ns/{ns}/groups/{group}:seek",
            SeekOut,
            places={"group": group},
            body={
                "topic": topic,
                "to": to,
                "queues": queues,
                "client_id": client_id,
                "dry_run": dry_run,
            },
            key=idempotency_key or new_key(),
        )

    def lag(
        self,
        group: str,
        *,
        topic: str | None = None,
        client_id: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> GroupLagOut:
        """Read what the group still has to do."""
        return self._api.fetch(
            "GET",
            "/v1/ns/{ns}/groups/{group}/lag",
            GroupLagOut,
            places={"group": group},
            query={"topic": topic, "client_id": client_id, "after": after, "limit": limit},
        )

    def lag_history(
        self,
        group: str,
        *,
        since: datetime | None = None,
        topic: str | None = None,
        until: datetime | None = None,
    ) -> LagHistoryOut:
        """Read the past lag of a group, in all or on one topic."""
        return self._api.fetch(
            "GET",
            "/v1/ns/{ns}/groups/{group}/lag/history",
            LagHistoryOut,
            places={"group": group},
            query={"from": since, "topic": topic, "to": until},
        )

    def offsets(
        self, group: str, *, topic: str | None = None, client_id: str | None = None
    ) -> OffsetsOut:
        """Read a group's offsets, for one topic or for all it has read."""
        return self._api.fetch(
            "GET",
            "/v1/ns/{ns}/groups/{group}/offsets",
            OffsetsOut,
            places={"group": group},
            query={"topic": topic, "client_id": client_id},
        )

    def commit_offset(
        self,
        group: str,
        topic: str,
        queue: int,
        offset: int,
        *,
        client_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> CommitOut:
        """Commit an offset.

        Args:
            topic: Name of the topic.
            queue: Number of the queue, from 0.
            offset: Position in the queue, from 0.
            client_id: The client of a broadcast group; required there, rejected elsewhere.
        """
        return self._api.fetch(
            "POST",
            "/v1/ns/{ns}/groups/{group}/offsets:commit",
            CommitOut,
            places={"group": group},
            body={"topic": topic, "queue": queue, "offset": offset, "client_id": client_id},
            key=idempotency_key or new_key(),
        )

    def clients(self, group: str) -> GroupClientsOut:
        """Who reads for the group now."""
        return self._api.fetch(
            "GET", "/v1/ns/{ns}/groups/{group}/clients", GroupClientsOut, places={"group": group}
        )


class DeadLetters:
    """Messages that groups could not process."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def list(
        self,
        group: str,
        *,
        key: str | None = None,
        tag: str | None = None,
        reason: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> DeadLettersResponse:
        """Browse dead letters."""
        return self._api.fetch(
            "GET",
            "/v1/ns/{ns}/groups/{group}/dlq",
            DeadLettersResponse,
            places={"group": group},
            query={
                "key": key,
                "tag": tag,
                "reason": reason,
                "from": since,
                "to": until,
                "limit": limit,
                "cursor": cursor,
            },
        )

    def iterate(
        self,
        group: str,
        *,
        key: str | None = None,
        tag: str | None = None,
        reason: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Iterator[DeadLetterMessage]:
        """The same one by one; ``limit`` of them are fetched at a time."""
        page: str | None = cursor
        while True:
            found = self.list(
                group,
                key=key,
                tag=tag,
                reason=reason,
                since=since,
                until=until,
                limit=limit,
                cursor=page,
            )
            yield from found.messages
            page = found.next_cursor
            if page is None:
                return

    def get(self, group: str, message_id: str) -> DeadLetterMessage:
        """Read one dead letter."""
        return self._api.fetch(
            "GET",
            "/v1/ns/{ns}/groups/{group}/dlq/{message_id}",
            DeadLetterMessage,
            places={"group": group, "message_id": message_id},
        )

    @overload
    def redrive(
        self,
        group: str,
        *,
        ids: Sequence[str] | None = None,
        filter: FilterIn | None = None,
        all: Literal[True] | None = None,
        rate: int | None = None,
        dry_run: Literal[True],
        target: str | None = None,
        idempotency_key: str | None = None,
    ) -> DryRunOut: ...

    @overload
    def redrive(
        self,
        group: str,
        *,
        ids: Sequence[str] | None = None,
        filter: FilterIn | None = None,
        all: Literal[True] | None = None,
        rate: int | None = None,
        dry_run: Literal[False] = False,
        target: str | None = None,
        idempotency_key: str | None = None,
    ) -> TaskOut: ...

    @overload
    def redrive(
        self,
        group: str,
        *,
        ids: Sequence[str] | None = None,
        filter: FilterIn | None = None,
        all: Literal[True] | None = None,
        rate: int | None = None,
        dry_run: bool = False,
        target: str | None = None,
        idempotency_key: str | None = None,
    ) -> DryRunOut | TaskOut: ...

    def redrive(
        self,
        group: str,
        *,
        ids: Sequence[str] | None = None,
        filter: FilterIn | None = None,
        all: Literal[True] | None = None,
        rate: int | None = None,
        dry_run: bool = False,
        target: str | None = None,
        idempotency_key: str | None = None,
    ) -> DryRunOut | TaskOut:
        """Redrive dead letters.

        Args:
            filter: Conditions that dead letters must match.
            dry_run: Whether this is only a preview.
            target: A topic to send to instead of each message's own.
        """
        return self._api.preview_or_start(
            "POST",
            "/v1/ns/{ns}/groups/{group}/dlq:redrive",
            DryRunOut,
            TaskOut,
            places={"group": group},
            body={
                "ids": ids,
                "filter": filter,
                "all": all,
                "rate": rate,
                "dry_run": dry_run,
                "target": target,
            },
            key=idempotency_key or new_key(),
        )

    @overload
    def purge(
        self,
        group: str,
        *,
        ids: Sequence[str] | None = None,
        filter: FilterIn | None = None,
        all: Literal[True] | None = None,
        rate: int | None = None,
        dry_run: Literal[True],
        idempotency_key: str | None = None,
    ) -> DryRunOut: ...

    @overload
    def purge(
        self,
        group: str,
        *,
        ids: Sequence[str] | None = None,
        filter: FilterIn | None = None,
        all: Literal[True] | None = None,
        rate: int | None = None,
        dry_run: Literal[False] = False,
        idempotency_key: str | None = None,
    ) -> TaskOut: ...

    @overload
    def purge(
        self,
        group: str,
        *,
        ids: Sequence[str] | None = None,
        filter: FilterIn | None = None,
        all: Literal[True] | None = None,
        rate: int | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> DryRunOut | TaskOut: ...

    def purge(
        self,
        group: str,
        *,
        ids: Sequence[str] | None = None,
        filter: FilterIn | None = None,
        all: Literal[True] | None = None,
        rate: int | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> DryRunOut | TaskOut:
        """Purge dead letters.

        Args:
            filter: Conditions that dead letters must match.
            dry_run: Whether this is only a preview.
        """
        return self._api.preview_or_start(
            "POST",
            "/v1/ns/{ns}/groups/{group}/dlq:purge",
            DryRunOut,
            TaskOut,
            places={"group": group},
            body={"ids": ids, "filter": filter, "all": all, "rate": rate, "dry_run": dry_run},
            key=idempotency_key or new_key(),
        )


class Tasks:
    """Long operations, such as a redrive, and their progress."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def list(self, *, before: str | None = None, limit: int | None = None) -> TaskListOut:
        """List tasks, the newest first."""
        return self._api.fetch(
            "GET", "/v1/ns/{ns}/tasks", TaskListOut, query={"before": before, "limit": limit}
        )

    def iterate(self, *, before: str | None = None, limit: int | None = None) -> Iterator[TaskOut]:
        """The same one by one; ``limit`` of them are fetched at a time."""
        page: str | None = before
        while True:
            found = self.list(before=page, limit=limit)
            yield from found.tasks
            page = found.next
            if page is None:
                return

    def get(self, task_id: str) -> TaskOut:
        """Read the progress of a task."""
        return self._api.fetch(
            "GET", "/v1/ns/{ns}/tasks/{task_id}", TaskOut, places={"task_id": task_id}
        )

    def cancel(self, task_id: str, *, idempotency_key: str | None = None) -> TaskOut:
        """Cancel a task."""
        return self._api.fetch(
            "POST",
            "/v1/ns/{ns}/tasks/{task_id}:cancel",
            TaskOut,
            places={"task_id": task_id},
            key=idempotency_key or new_key(),
        )

    def failures(
        self, task_id: str, *, after: int | None = None, limit: int | None = None
    ) -> FailureListOut:
        """List the messages that a task did not move, and why."""
        return self._api.fetch(
            "GET",
            "/v1/ns/{ns}/tasks/{task_id}/failures",
            FailureListOut,
            places={"task_id": task_id},
            query={"after": after, "limit": limit},
        )

    def iterate_failures(
        self, task_id: str, *, after: int | None = None, limit: int | None = None
    ) -> Iterator[FailureOut]:
        """The same one by one; ``limit`` of them are fetched at a time."""
        page: int | None = after
        while True:
            found = self.failures(task_id, after=page, limit=limit)
            yield from found.failures
            page = found.next
            if page is None:
                return

    def wait(self, task_id: str, *, timeout: Duration | None = None) -> TaskOut:
        """Wait until a task has ended, and return it; look at its ``state``.

        Args:
            timeout: for ever by default.

        Raises:
            TimeoutError: it still runs; that does not cancel it.
        """
        return self._api.wait_for_task(task_id, timeout)


class Messages:
    """Stored messages, read without affecting their delivery."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def browse(
        self,
        topic: str,
        *,
        key: str | None = None,
        tag: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        queue: int | None = None,
        offset: int | None = None,
        filter: str | None = None,
        sql: str | None = None,
        contains: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> BrowseResponse:
        """Browse or search a topic."""
        return self._api.fetch(
            "GET",
            "/v1/ns/{ns}/topics/{topic}/messages",
            BrowseResponse,
            places={"topic": topic},
            query={
                "key": key,
                "tag": tag,
                "from": since,
                "to": until,
                "queue": queue,
                "offset": offset,
                "filter": filter,
                "sql": sql,
                "contains": contains,
                "limit": limit,
                "cursor": cursor,
            },
        )

    def iterate(
        self,
        topic: str,
        *,
        key: str | None = None,
        tag: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        queue: int | None = None,
        offset: int | None = None,
        filter: str | None = None,
        sql: str | None = None,
        contains: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Iterator[StoredMessage]:
        """The same one by one; ``limit`` of them are fetched at a time."""
        page: str | None = cursor
        while True:
            found = self.browse(
                topic,
                key=key,
                tag=tag,
                since=since,
                until=until,
                queue=queue,
                offset=offset,
                filter=filter,
                sql=sql,
                contains=contains,
                limit=limit,
                cursor=page,
            )
            yield from found.messages
            page = found.next_cursor
            if page is None:
                return

    def get(self, topic: str, message_id: str) -> StoredMessage:
        """Read one message."""
        return self._api.fetch(
            "GET",
            "/v1/ns/{ns}/topics/{topic}/messages/{message_id}",
            StoredMessage,
            places={"topic": topic, "message_id": message_id},
        )

    def trace(
        self, message_id: str, *, topic: str | None = None, group: str | None = None
    ) -> TraceOut:
        """Trace a message."""
        return self._api.fetch(
            "GET",
            "/v1/ns/{ns}/messages/{message_id}/trace",
            TraceOut,
            places={"message_id": message_id},
            query={"topic": topic, "group": group},
        )

    def pull(
        self, topic: str, queue: int, offset: int, *, max: int | None = None, tag: str | None = None
    ) -> PullResponse:
        """Pull from a queue at an offset."""
        return self._api.fetch(
            "GET",
            "/v1/ns/{ns}/topics/{topic}/queues/{queue}/messages",
            PullResponse,
            places={"topic": topic, "queue": queue},
            query={"offset": offset, "max": max, "tag": tag},
        )

    def offset_at_time(self, topic: str, queue: int, time: datetime) -> OffsetResponse:
        """Find the offset of a time."""
        return self._api.fetch(
            "GET",
            "/v1/ns/{ns}/topics/{topic}/queues/{queue}/offset",
            OffsetResponse,
            places={"topic": topic, "queue": queue},
            query={"time": time},
        )


class Scheduled:
    """Messages that wait for their time."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def list(
        self, topic: str, *, limit: int | None = None, cursor: str | None = None
    ) -> ScheduledResponse:
        """List scheduled messages of a topic."""
        return self._api.fetch(
            "GET",
            "/v1/ns/{ns}/topics/{topic}/scheduled",
            ScheduledResponse,
            places={"topic": topic},
            query={"limit": limit, "cursor": cursor},
        )

    def iterate(
        self, topic: str, *, limit: int | None = None, cursor: str | None = None
    ) -> Iterator[ScheduledMessage]:
        """The same one by one; ``limit`` of them are fetched at a time."""
        page: str | None = cursor
        while True:
            found = self.list(topic, limit=limit, cursor=page)
            yield from found.messages
            page = found.next_cursor
            if page is None:
                return

    def list_all(
        self, *, limit: int | None = None, cursor: str | None = None
    ) -> NamespaceScheduledResponse:
        """List scheduled messages of all topics."""
        return self._api.fetch(
            "GET",
            "/v1/ns/{ns}/scheduled",
            NamespaceScheduledResponse,
            query={"limit": limit, "cursor": cursor},
        )

    def iterate_all(
        self, *, limit: int | None = None, cursor: str | None = None
    ) -> Iterator[NamespaceScheduled]:
        """The same one by one; ``limit`` of them are fetched at a time."""
        page: str | None = cursor
        while True:
            found = self.list_all(limit=limit, cursor=page)
            yield from found.messages
            page = found.next_cursor
            if page is None:
                return

    def cancel(self, recall_handle: str) -> ScheduledDone:
        """Cancel a scheduled message."""
        return self._api.fetch(
            "DELETE",
            "/v1/ns/{ns}/scheduled/{recall_handle}",
            ScheduledDone,
            places={"recall_handle": recall_handle},
        )

    def send(self, recall_handle: str) -> ScheduledDone:
        """Send a scheduled message now."""
        return self._api.fetch(
            "POST",
            "/v1/ns/{ns}/scheduled/{recall_handle}:send",
            ScheduledDone,
            places={"recall_handle": recall_handle},
        )

    def reschedule(
        self,
        recall_handle: str,
        *,
        delay: Duration | None = None,
        deliver_at: datetime | None = None,
    ) -> Rescheduled:
        """Reschedule a message.

        Args:
            delay: A duration to wait before delivery, such as `30s`.
            deliver_at: The earliest time of delivery; None for immediately.
        """
        return self._api.fetch(
            "POST",
            "/v1/ns/{ns}/scheduled/{recall_handle}:reschedule",
            Rescheduled,
            places={"recall_handle": recall_handle},
            body={"delay": delay, "deliver_at": deliver_at},
        )


class Schedules:
    """Messages that are sent at the times of a cron expression."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def list(self, *, after: str | None = None, limit: int | None = None) -> ScheduleListOut:
        """List schedules, by name, with the results of their last runs."""
        return self._api.fetch(
            "GET", "/v1/ns/{ns}/schedules", ScheduleListOut, query={"after": after, "limit": limit}
        )

    def iterate(
        self, *, after: str | None = None, limit: int | None = None
    ) -> Iterator[ScheduleOut]:
        """The same one by one; ``limit`` of them are fetched at a time."""
        page: str | None = after
        while True:
            found = self.list(after=page, limit=limit)
            yield from found.schedules
            page = found.next
            if page is None:
                return

    def get(self, name: str) -> ScheduleOut:
        """Read one schedule with its next ten runs."""
        return self._api.fetch(
            "GET", "/v1/ns/{ns}/schedules/{name}", ScheduleOut, places={"name": name}
        )

    def create(
        self,
        name: str,
        *,
        topic: str | Unset | None = UNSET,
        cron: str | Unset | None = UNSET,
        time_zone: str | Unset | None = UNSET,
        catch_up: Literal["none", "latest"] | Unset | None = UNSET,
        enabled: bool | Unset | None = UNSET,
        description: str | Unset | None = UNSET,
        message: Mapping[str, object] | Unset | None = UNSET,
        if_match: str | None = None,
    ) -> ScheduleOut:
        """Create or change a schedule.

        Args:
            topic: The topic to send to.
            cron: Minute, hour, day, month and weekday, or @daily and the like.
            time_zone: An IANA name, such as Europe/Berlin; UTC by default.
            catch_up: Which missed runs are sent late.
            enabled: False pauses it.
            description: Shown with the schedule.
            message: As for a produce, without delay_level, delay, delay_ms, deliver_at and
                dedup_id; its body has 65,536 bytes at most.
            if_match: The ``etag`` that it must still have, or PreconditionFailed is raised.
        """
        return self._api.fetch(
            "PUT",
            "/v1/ns/{ns}/schedules/{name}",
            ScheduleOut,
            places={"name": name},
            body={
                "topic": topic,
                "cron": cron,
                "time_zone": time_zone,
                "catch_up": catch_up,
                "enabled": enabled,
                "description": description,
                "message": message,
            },
            if_match=if_match,
        )

    def delete(self, name: str, *, if_match: str | None = None) -> None:
        """Delete a schedule.

        Args:
            if_match: The ``etag`` that it must still have, or PreconditionFailed is raised.
        """
        self._api.execute(
            "DELETE", "/v1/ns/{ns}/schedules/{name}", places={"name": name}, if_match=if_match
        )

    def pause(self, name: str, *, idempotency_key: str | None = None) -> ScheduleOut:
        """Pause a schedule until `:resume`."""
        return self._api.fetch(
            "POST",
            "/v1/ns/{ns}/schedules/{name}:pause",
            ScheduleOut,
            places={"name": name},
            key=idempotency_key or new_key(),
        )

    def resume(self, name: str, *, idempotency_key: str | None = None) -> ScheduleOut:
        """Resume a schedule from now."""
        return self._api.fetch(
            "POST",
            "/v1/ns/{ns}/schedules/{name}:resume",
            ScheduleOut,
            places={"name": name},
            key=idempotency_key or new_key(),
        )

    def send(self, name: str, *, idempotency_key: str | None = None) -> SentNowOut:
        """Send its message once now, in addition to its planned runs, also while it is paused."""
        return self._api.fetch(
            "POST",
            "/v1/ns/{ns}/schedules/{name}:send",
            SentNowOut,
            places={"name": name},
            key=idempotency_key or new_key(),
        )

    def preview(
        self, cron: str, *, time_zone: str | None = None, idempotency_key: str | None = None
    ) -> PreviewOut:
        """Preview the next ten times of an expression in a time zone, without a schedule.

        Args:
            cron: Minute, hour, day, month and weekday, or @daily and the like.
            time_zone: An IANA name, such as Europe/Berlin; UTC by default.
        """
        return self._api.fetch(
            "POST",
            "/v1/ns/{ns}/schedules:preview",
            PreviewOut,
            body={"cron": cron, "time_zone": time_zone},
            key=idempotency_key or new_key(),
        )


class Issues:
    """Dead letters by their cause."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def list(
        self,
        *,
        state: IssueState | None = None,
        group: str | None = None,
        topic: str | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> IssueListOut:
        """List issues, the last seen first."""
        return self._api.fetch(
            "GET",
            "/v1/ns/{ns}/issues",
            IssueListOut,
            query={
                "state": state,
                "group": group,
                "topic": topic,
                "before": before,
                "limit": limit,
            },
        )

    def iterate(
        self,
        *,
        state: IssueState | None = None,
        group: str | None = None,
        topic: str | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> Iterator[IssueOut]:
        """The same one by one; ``limit`` of them are fetched at a time."""
        page: str | None = before
        while True:
            found = self.list(state=state, group=group, topic=topic, before=page, limit=limit)
            yield from found.issues
            page = found.next
            if page is None:
                return

    def get(self, issue_id: str) -> IssueDetailOut:
        """Read one issue with its newest messages, its hours and its history."""
        return self._api.fetch(
            "GET", "/v1/ns/{ns}/issues/{issue_id}", IssueDetailOut, places={"issue_id": issue_id}
        )

    def acknowledge(self, issue_id: str, *, idempotency_key: str | None = None) -> IssueOut:
        """Acknowledge an issue."""
        return self._api.fetch(
            "POST",
            "/v1/ns/{ns}/issues/{issue_id}:acknowledge",
            IssueOut,
            places={"issue_id": issue_id},
            key=idempotency_key or new_key(),
        )

    def resolve(self, issue_id: str, *, idempotency_key: str | None = None) -> IssueOut:
        """Resolve an issue."""
        return self._api.fetch(
            "POST",
            "/v1/ns/{ns}/issues/{issue_id}:resolve",
            IssueOut,
            places={"issue_id": issue_id},
            key=idempotency_key or new_key(),
        )

    def ignore(self, issue_id: str, *, idempotency_key: str | None = None) -> IssueOut:
        """Ignore an issue."""
        return self._api.fetch(
            "POST",
            "/v1/ns/{ns}/issues/{issue_id}:ignore",
            IssueOut,
            places={"issue_id": issue_id},
            key=idempotency_key or new_key(),
        )

    def reopen(self, issue_id: str, *, idempotency_key: str | None = None) -> IssueOut:
        """Reopen an issue."""
        return self._api.fetch(
            "POST",
            "/v1/ns/{ns}/issues/{issue_id}:reopen",
            IssueOut,
            places={"issue_id": issue_id},
            key=idempotency_key or new_key(),
        )


class Keys:
    """API keys."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def list(self, *, after: str | None = None, limit: int | None = None) -> KeyListOut:
        """List API keys, by id, including revoked ones."""
        return self._api.fetch(
            "GET", "/v1/keys", KeyListOut, query={"after": after, "limit": limit}
        )

    def iterate(self, *, after: str | None = None, limit: int | None = None) -> Iterator[KeyOut]:
        """The same one by one; ``limit`` of them are fetched at a time."""
        page: str | None = after
        while True:
            found = self.list(after=page, limit=limit)
            yield from found.keys
            page = found.next
            if page is None:
                return

    def create(
        self,
        name: str,
        scopes: Sequence[str],
        *,
        kind: Literal["api", "access"] | None = None,
        namespace: str | None = None,
        role: Literal["owner", "admin", "developer", "viewer"] | None = None,
        expires_at: datetime | None = None,
        expires_in: Duration | None = None,
    ) -> NewKeyOut:
        """Create an API key.

        Args:
            name: What the key is for, such as its program.
            scopes: What the key may do: `produce`, `consume` or `manage`, for everything or
                limited as in `produce:orders*`, `consume:group/billing`.
            kind: `api`: sent as a Bearer token, by default. `access`: an id and a secret that
                sign requests, for AWS SDKs.
            namespace: The namespace it is limited to: by default that of who asks, or all.
            role: Limits the scopes: a key may do what both its role and its scopes allow.
            expires_at: When it expires; None for never.
            expires_in: How long it is valid, such as `30d`.
        """
        return self._api.fetch(
            "POST",
            "/v1/keys",
            NewKeyOut,
            body={
                "name": name,
                "scopes": scopes,
                "kind": kind,
                "namespace": namespace,
                "role": role,
                "expires_at": expires_at,
                "expires_in": expires_in,
            },
        )

    def get(self, key_id: str) -> KeyOut:
        """Read one key, without its secret."""
        return self._api.fetch("GET", "/v1/keys/{key_id}", KeyOut, places={"key_id": key_id})

    def update(
        self,
        key_id: str,
        *,
        name: str | Unset | None = UNSET,
        scopes: Sequence[str] | Unset | None = UNSET,
        role: Literal["owner", "admin", "developer", "viewer"] | Unset | None = UNSET,
        expires_at: datetime | Unset | None = UNSET,
        expires_in: Duration | Unset | None = UNSET,
        if_match: str | None = None,
    ) -> KeyOut:
        """Change name, scopes, role or expiry of a key.

        Args:
            name: What the key is for, such as its program.
            scopes: What the key may do: `produce`, `consume` or `manage`, for everything or
                limited as in `produce:orders*`, `consume:group/billing`.
            role: Limits the scopes: a key may do what both its role and its scopes allow.
            expires_at: When it expires; None for never.
            expires_in: How long it is valid, such as `30d`.
            if_match: The ``etag`` that it must still have, or PreconditionFailed is raised.
        """
        return self._api.fetch(
            "PATCH",
            "/v1/keys/{key_id}",
            KeyOut,
            places={"key_id": key_id},
            body={
                "name": name,
                "scopes": scopes,
                "role": role,
                "expires_at": expires_at,
                "expires_in": expires_in,
            },
            if_match=if_match,
        )

    def revoke(self, key_id: str, *, if_match: str | None = None) -> KeyOut:
        """Revoke a key.

        Args:
            if_match: The ``etag`` that it must still have, or PreconditionFailed is raised.
        """
        return self._api.fetch(
            "POST", "/v1/keys/{key_id}:revoke", KeyOut, places={"key_id": key_id}, if_match=if_match
        )

    def rotate(
        self, key_id: str, *, overlap: Duration | None = None, if_match: str | None = None
    ) -> NewKeyOut:
        """Rotate a key.

        Args:
            overlap: How long the present secret stays valid: `1d` by default, `0s` revokes it.
            if_match: The ``etag`` that it must still have, or PreconditionFailed is raised.
        """
        return self._api.fetch(
            "POST",
            "/v1/keys/{key_id}:rotate",
            NewKeyOut,
            places={"key_id": key_id},
            body={"overlap": overlap},
            if_match=if_match,
        )


class Tickets:
    """Tickets that open WebSockets from web pages."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def create(
        self, *, namespace: str | None = None, scopes: Sequence[str] | None = None
    ) -> TicketOut:
        """Create a ticket that opens one socket, once and soon, for a page that cannot send a key.

        Args:
            namespace: Its namespace. By default that of the key; required for a user's session.
            scopes: Like those of a key, and at most your own: all by default.
        """
        return self._api.fetch(
            "POST", "/v1/ws-tickets", TicketOut, body={"namespace": namespace, "scopes": scopes}
        )
