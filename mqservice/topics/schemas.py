"""Topics on the wire of the control plane."""

from __future__ import annotations

from typing import Any

from ninja import Schema
from pydantic import BaseModel, ConfigDict, Field, create_model

from mqservice.lib.json_fields import Fields
from mqservice.lib.settings_table import answer_fields, read_body, read_values, shown_values
from mqservice.lib.wire import moment
from mqservice.store import QueueStats, TopicPurgeReply
from mqservice.topics.models import Topic
from mqservice.topics.purging import message_count
from mqservice.topics.services import TopicChange
from mqservice.topics.settings import SETTINGS


def read_change(body: bytes) -> TopicChange:
    """Settings of a topic; what is left out stays as it is, or takes its default on a new topic.
    Raises Problem with every fault of the body.
    """
    return TopicChange(**read_body(SETTINGS, body))


def read_settings(fields: Fields) -> TopicChange:
    """The same of a definition, with what SQS keeps; its faults are in ``fields``."""
    return TopicChange(**read_values(TopicChange.settings, fields))


def shown_settings(topic: Topic) -> dict[str, Any]:
    """As the API writes them."""
    return shown_values(SETTINGS, topic)


class QueueOut(BaseModel):
    """Readable range [min_offset, max_offset) of one queue."""

    queue: int
    min_offset: int
    max_offset: int


_Settings = create_model(
    "_Settings", name=(str, ...), namespace=(str, ...), **answer_fields(SETTINGS)
)


class TopicOut(_Settings):  # type: ignore[valid-type, misc]  # reason: made of the table
    """`queue_offsets` is null in lists, and if the engine cannot report them."""

    created_at: str
    updated_at: str
    queue_offsets: list[QueueOut] | None = None

    @classmethod
    def of(cls, topic: Topic, offsets: list[QueueStats] | None = None) -> TopicOut:
        return cls(
            name=topic.name,
            namespace=topic.namespace.name,
            **shown_settings(topic),
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


class TopicPurgeIn(Schema):
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
