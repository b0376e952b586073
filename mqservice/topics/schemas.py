"""Topics on the wire of the control plane."""

from __future__ import annotations

from ninja import Schema
from pydantic import BaseModel, ConfigDict, Field

from mqservice.lib.durations import format_duration_ms
from mqservice.lib.json_fields import Fields
from mqservice.lib.wire import moment, picked_duration_ms
from mqservice.protocol.choices import Durability
from mqservice.store import QueueStats, TopicPurgeReply
from mqservice.topics.models import (
    BODY_BYTES_MAX_MAX,
    BODY_BYTES_MAX_MIN,
    QUEUE_COUNT_MAX,
    RETENTION_AGE_MS_MAX,
    RETENTION_AGE_MS_MIN,
    MessageType,
    Topic,
)
from mqservice.topics.purging import message_count
from mqservice.topics.services import TopicChange


class TopicIn(Schema):
    """Settings of a topic; omitted fields are left unchanged, in a new topic they get their
    defaults."""

    model_config = ConfigDict(extra="forbid", strict=False)

    type: MessageType | None = None
    queues: int | None = Field(default=None, strict=True)
    durability: Durability | None = None
    retention: str | None = None
    retention_ms: int | None = Field(default=None, strict=True)
    body_bytes_max: int | None = Field(default=None, strict=True)

    def change(self) -> TopicChange:
        """Raises Problem when a duration cannot be read."""
        return TopicChange(
            message_type=self.type,
            queue_count=self.queues,
            durability=self.durability,
            retention_age_ms=picked_duration_ms("retention", self.retention, self.retention_ms),
            body_bytes_max=self.body_bytes_max,
        )


def read_settings(fields: Fields) -> TopicChange:
    """The same of an object that is read with others; its faults are in ``fields``."""
    return TopicChange(
        message_type=fields.choice("type", MessageType),
        queue_count=fields.integer("queues", 1, QUEUE_COUNT_MAX),
        durability=fields.choice("durability", Durability),
        retention_age_ms=fields.duration_ms(
            "retention", RETENTION_AGE_MS_MIN, RETENTION_AGE_MS_MAX
        ),
        body_bytes_max=fields.integer("body_bytes_max", BODY_BYTES_MAX_MIN, BODY_BYTES_MAX_MAX),
    )


class QueueOut(BaseModel):
    """Readable range [min_offset, max_offset) of one queue."""

    queue: int
    min_offset: int
    max_offset: int


class TopicOut(BaseModel):
    """`queue_offsets` is null in lists, and if the engine cannot report them."""

    name: str
    namespace: str
    type: MessageType
    queues: int
    durability: Durability
    retention: str
    retention_ms: int
    body_bytes_max: int
    created_at: str
    updated_at: str
    queue_offsets: list[QueueOut] | None = None

    @classmethod
    def of(cls, topic: Topic, offsets: list[QueueStats] | None = None) -> TopicOut:
        return cls(
            name=topic.name,
            namespace=topic.namespace.name,
            type=MessageType(topic.message_type),
            queues=topic.queue_count,
            durability=Durability(topic.durability),
            retention=format_duration_ms(topic.retention_age_ms),
            retention_ms=topic.retention_age_ms,
            body_bytes_max=topic.body_bytes_max,
            created_at=moment(topic.created_at),
            updated_at=moment(topic.updated_at),
            queue_offsets=None
            if offsets is None
            else [
                QueueOut(
                    queue=each.queue_id, min_offset=each.min_offset, max_offset=each.max_offset
                )
                for each in offsets
            ],
        )


class TopicListOut(BaseModel):
    """A page, by name; ``next`` is the ``after`` of the following page, null on the last one."""

    topics: list[TopicOut]
    next: str | None


class PurgeIn(Schema):
    """``dry_run``: only say what would go."""

    model_config = ConfigDict(extra="forbid")

    dry_run: bool = Field(default=False, strict=True)


class PurgedQueueOut(Schema):
    """Messages in [from_offset, to_offset) of one queue, which then starts at `to_offset`."""

    queue: int
    from_offset: int
    to_offset: int


class PurgeOut(Schema):
    """What a purge deleted, or would delete."""

    topic: str
    dry_run: bool
    messages: int
    inflight: int
    retries: int
    queues: list[PurgedQueueOut]

    @classmethod
    def of(cls, topic: Topic, reply: TopicPurgeReply, *, is_dry_run: bool) -> PurgeOut:
        return cls(
            topic=topic.name,
            dry_run=is_dry_run,
            messages=message_count(reply),
            inflight=reply.inflight_count,
            retries=reply.retry_count,
            queues=[
                PurgedQueueOut(
                    queue=queue.queue_id,
                    from_offset=queue.from_offset,
                    to_offset=queue.to_offset,
                )
                for queue in reply.queues
            ],
        )
