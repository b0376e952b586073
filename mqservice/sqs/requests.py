"""What each action of SQS takes, by the names that AWS gives."""

from __future__ import annotations

from typing import Final

import msgspec


class Request(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
    """The parameters of one action; those that are unknown are ignored, as AWS does."""


class QueueRequest(Request, frozen=True, kw_only=True):
    queue_url: str


class AttributeValue(Request, frozen=True, kw_only=True):
    data_type: str
    string_value: str | None = None
    binary_value: bytes | None = None
    string_list_values: list[str] = []
    binary_list_values: list[bytes] = []


Attributes = dict[str, AttributeValue]


class Outgoing(Request, frozen=True, kw_only=True):
    """One message to send."""

    message_body: str
    delay_seconds: int | None = None
    message_attributes: Attributes = {}
    message_system_attributes: Attributes = {}
    message_deduplication_id: str | None = None
    message_group_id: str | None = None


class SendMessage(Outgoing, frozen=True, kw_only=True):
    queue_url: str


class SendEntry(Outgoing, frozen=True, kw_only=True):
    id: str


class SendMessageBatch(QueueRequest, frozen=True, kw_only=True):
    entries: list[SendEntry]


class ReceiveMessage(QueueRequest, frozen=True, kw_only=True):
    attribute_names: list[str] = []
    message_system_attribute_names: list[str] = []
    message_attribute_names: list[str] = []
    max_number_of_messages: int = 1
    visibility_timeout: int | None = None
    wait_time_seconds: int | None = None
    receive_request_attempt_id: str | None = None


class DeleteMessage(QueueRequest, frozen=True, kw_only=True):
    receipt_handle: str


class DeleteEntry(Request, frozen=True, kw_only=True):
    id: str
    receipt_handle: str


class DeleteMessageBatch(QueueRequest, frozen=True, kw_only=True):
    entries: list[DeleteEntry]


class ChangeMessageVisibility(QueueRequest, frozen=True, kw_only=True):
    receipt_handle: str
    visibility_timeout: int


class VisibilityEntry(Request, frozen=True, kw_only=True):
    id: str
    receipt_handle: str
    visibility_timeout: int | None = None


class ChangeMessageVisibilityBatch(QueueRequest, frozen=True, kw_only=True):
    entries: list[VisibilityEntry]


class CreateQueue(Request, frozen=True, kw_only=True):
    queue_name: str
    attributes: dict[str, str] = {}
    tags: dict[str, str] = msgspec.field(default={}, name="tags")


class GetQueueUrl(Request, frozen=True, kw_only=True):
    queue_name: str
    owner: str | None = msgspec.field(default=None, name="QueueOwnerAWSAccountId")


class Paged(Request, frozen=True, kw_only=True):
    next_token: str | None = None
    max_results: int | None = None


class ListQueues(Paged, frozen=True, kw_only=True):
    queue_name_prefix: str = ""


class ListDeadLetterSourceQueues(Paged, frozen=True, kw_only=True):
    queue_url: str


class GetQueueAttributes(QueueRequest, frozen=True, kw_only=True):
    attribute_names: list[str] = []


class SetQueueAttributes(QueueRequest, frozen=True, kw_only=True):
    attributes: dict[str, str]


class TagQueue(QueueRequest, frozen=True, kw_only=True):
    tags: dict[str, str]


class UntagQueue(QueueRequest, frozen=True, kw_only=True):
    tag_keys: list[str]


class AddPermission(QueueRequest, frozen=True, kw_only=True):
    label: str
    account_ids: list[str] = msgspec.field(name="AWSAccountIds")
    actions: list[str]


class RemovePermission(QueueRequest, frozen=True, kw_only=True):
    label: str


class StartMessageMoveTask(Request, frozen=True, kw_only=True):
    source_arn: str
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None


class ListMessageMoveTasks(Request, frozen=True, kw_only=True):
    source_arn: str
    max_results: int = 1


class CancelMessageMoveTask(Request, frozen=True, kw_only=True):
    task_handle: str


REQUESTS: Final[dict[str, type[Request]]] = {
    "AddPermission": AddPermission,
    "CancelMessageMoveTask": CancelMessageMoveTask,
    "ChangeMessageVisibility": ChangeMessageVisibility,
    "ChangeMessageVisibilityBatch": ChangeMessageVisibilityBatch,
    "CreateQueue": CreateQueue,
    "DeleteMessage": DeleteMessage,
    "DeleteMessageBatch": DeleteMessageBatch,
    "DeleteQueue": QueueRequest,
    "GetQueueAttributes": GetQueueAttributes,
    "GetQueueUrl": GetQueueUrl,
    "ListDeadLetterSourceQueues": ListDeadLetterSourceQueues,
    "ListMessageMoveTasks": ListMessageMoveTasks,
    "ListQueueTags": QueueRequest,
    "ListQueues": ListQueues,
    "PurgeQueue": QueueRequest,
    "ReceiveMessage": ReceiveMessage,
    "RemovePermission": RemovePermission,
    "SendMessage": SendMessage,
    "SendMessageBatch": SendMessageBatch,
    "SetQueueAttributes": SetQueueAttributes,
    "StartMessageMoveTask": StartMessageMoveTask,
    "TagQueue": TagQueue,
    "UntagQueue": UntagQueue,
}
"""Every action of the API of 2012-11-05, with what it takes."""
