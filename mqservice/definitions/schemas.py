"""Definitions on the wire: the contents of an export, and the result of an import.

A definition has every setting that ``PUT`` of the topic or group takes, in the same words, so that
it can be sent back as it is. Not in it: messages, offsets, filters, which consumers bring, and
whether a group is paused.
"""

from __future__ import annotations

import enum
from typing import Any, Final

from pydantic import BaseModel

from mqservice.definitions.limits import VERSION
from mqservice.groups.assignment import assignment_of, shown_assignment
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.retry import policy_of, shown_retry
from mqservice.lib.durations import format_duration_ms
from mqservice.lib.timestamps import rfc3339
from mqservice.protocol.choices import AssignmentStrategy, Dispatch, Durability, StartFrom
from mqservice.store import AssignmentPolicy
from mqservice.topics.models import (
    MessageType,
    Topic,
)

Settings = dict[str, Any]  # Any: JSON, as the API writes settings
_PLAIN: Final = AssignmentPolicy()


class TopicDefinition(BaseModel):
    """All settings of a topic."""

    name: str
    type: MessageType
    queues: int
    durability: Durability
    retention: str
    body_bytes_max: int

    @classmethod
    def of(cls, topic: Topic) -> TopicDefinition:
        return cls(
            name=topic.name,
            type=MessageType(topic.message_type),
            queues=topic.queue_count,
            durability=Durability(topic.durability),
            retention=format_duration_ms(topic.retention_age_ms),
            body_bytes_max=topic.body_bytes_max,
        )


class GroupDefinition(BaseModel):
    """All settings of a consumer group. ``start_time`` is of ``start_from: timestamp`` only."""

    name: str
    start_from: StartFrom
    start_time: str | None
    lease: str
    consume_timeout: str
    max_attempts: int | None
    retry: Settings
    dispatch: Dispatch
    strategy: AssignmentStrategy
    assignment: Settings
    ordered: bool
    batch_per_group: int

    @classmethod
    def of(cls, group: ConsumerGroup) -> GroupDefinition:
        assignment = assignment_of(group.assignment)
        strategy = AssignmentStrategy(group.strategy)
        # What a strategy does not use is kept, and would be lost if it were not written.
        is_shown = assignment.within_room != _PLAIN.within_room
        shown_by = AssignmentStrategy.MACHINE_ROOM_NEARBY if is_shown else strategy
        return cls(
            name=group.name,
            start_from=StartFrom(group.start_from),
            start_time=rfc3339(group.start_ms) if group.start_from == StartFrom.TIMESTAMP else None,
            lease=format_duration_ms(group.lease_ms),
            consume_timeout=format_duration_ms(group.consume_timeout_ms),
            max_attempts=group.max_reconsume_times + 1 or None,
            retry=shown_retry(policy_of(group.retry)),
            dispatch=Dispatch(group.dispatch),
            strategy=strategy,
            assignment=shown_assignment(assignment, shown_by),
            ordered=group.is_ordered,
            batch_per_group=group.batch_per_group,
        )


class DefinitionsOut(BaseModel):
    """By name; equal settings give equal documents, wherever they come from."""

    version: int = VERSION
    topics: list[TopicDefinition]
    groups: list[GroupDefinition]


class Action(enum.StrEnum):
    """What an import does, or would do, to a topic or group."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


class ImportedOut(BaseModel):
    """`before` and `after`: the settings that change; for something new `before` is null and
    `after` has all of its settings."""

    name: str
    action: Action
    before: Settings | None
    after: Settings


class ImportOut(BaseModel):
    """In the order of the document."""

    dry_run: bool
    created: int
    changed: int
    unchanged: int
    topics: list[ImportedOut]
    groups: list[ImportedOut]
