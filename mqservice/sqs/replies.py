"""What each action of SQS replies, by the names that AWS gives. What is unset is left out."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType


class Reply(msgspec.Struct, frozen=True, rename="pascal", omit_defaults=True, kw_only=True):
    """Of an action that has nothing to say."""


class SentMessage(Reply, frozen=True, kw_only=True):
    id: str | UnsetType = UNSET  # in a batch
    message_id: str
    md5_of_body: str = msgspec.field(name="MD5OfMessageBody")
    md5_of_attributes: str | None = msgspec.field(default=None, name="MD5OfMessageAttributes")
    md5_of_system: str | None = msgspec.field(default=None, name="MD5OfMessageSystemAttributes")
    sequence_number: str | None = None


class BatchError(Reply, frozen=True, kw_only=True):
    id: str
    sender_fault: bool
    code: str
    message: str


class BatchEntry(Reply, frozen=True, kw_only=True):
    id: str


class BatchReply(Reply, frozen=True, kw_only=True):
    successful: list[SentMessage] | list[BatchEntry] = []
    failed: list[BatchError] = []


class AttributeReply(Reply, frozen=True, kw_only=True):
    data_type: str
    string_value: str | None = None
    binary_value: bytes | None = None


class Message(Reply, frozen=True, kw_only=True):
    message_id: str
    receipt_handle: str
    md5_of_body: str = msgspec.field(name="MD5OfBody")
    body: str
    attributes: dict[str, str] = {}
    md5_of_attributes: str | None = msgspec.field(default=None, name="MD5OfMessageAttributes")
    message_attributes: dict[str, AttributeReply] = {}


class ReceivedMessages(Reply, frozen=True, kw_only=True):
    messages: list[Message] = []


class QueueUrl(Reply, frozen=True, kw_only=True):
    queue_url: str


class QueueList(Reply, frozen=True, kw_only=True):
    queue_urls: list[str] = []
    next_token: str | None = None


class SourceQueueList(Reply, frozen=True, kw_only=True):
    queue_urls: list[str] = msgspec.field(name="queueUrls")
    next_token: str | None = None


class QueueAttributes(Reply, frozen=True, kw_only=True):
    attributes: dict[str, str] = {}


class QueueTags(Reply, frozen=True, kw_only=True):
    tags: dict[str, str] = {}


class MoveTaskStarted(Reply, frozen=True, kw_only=True):
    task_handle: str


class MoveTask(Reply, frozen=True, kw_only=True):
    task_handle: str | None = None  # of one that runs
    status: str
    source_arn: str
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None
    approximate_number_of_messages_moved: int
    approximate_number_of_messages_to_move: int | None = None
    failure_reason: str | None = None
    started_timestamp: int


class MoveTaskList(Reply, frozen=True, kw_only=True):
    results: list[MoveTask] = []


class MoveTaskCancelled(Reply, frozen=True, kw_only=True):
    approximate_number_of_messages_moved: int
