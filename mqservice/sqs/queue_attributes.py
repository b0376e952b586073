"""Attributes of a queue: settings of its topic and group, and what is kept beside them.

VisibilityTimeout "45" ──▶ lease of the group 45 s      DelaySeconds "5" ──▶ QueueOptions
MessageRetentionPeriod ──▶ retention of the topic       Policy, Kms… ──▶ kept, without effect
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from mqservice.groups.models import ConsumerGroup
from mqservice.groups.settings import RECONSUME_FOR_EVER
from mqservice.lib.durations import HOUR_MS
from mqservice.lib.timestamps import datetime_ms
from mqservice.sqs.errors import SqsError
from mqservice.sqs.queue_names import queue_arn, queue_name
from mqservice.topics.models import Topic
from mqservice.topics.queue_options import (
    DELAY_SECONDS_MAX,
    KEPT_CHARS_MAX,
    WAIT_SECONDS_MAX,
    QueueOptions,
    queue_options_of,
)
from mqservice.topics.settings import MessageType

KIB: Final = 1_024
FIFO: Final = "FifoQueue"
REDRIVE: Final = "RedrivePolicy"
_SECOND_MS: Final = 1_000
_DEFAULT_RETENTION_MS: Final = 4 * 24 * HOUR_MS
_DEFAULT_SIZE: Final = 1_024 * KIB
_TIMEOUT_MS: Final = 12 * HOUR_MS
_RECEIVES_MAX: Final = 1_000
_BATCH_PER_GROUP: Final = 10
_SCOPES: Final = ("queue", "messageGroup")
_LIMITS: Final = ("perQueue", "perMessageGroupId")
_KEPT: Final = {
    "Policy": None,
    "RedriveAllowPolicy": None,
    "KmsMasterKeyId": None,
    "KmsDataKeyReusePeriodSeconds": (60, 86_400),
    "SqsManagedSseEnabled": ("true", "false"),
    "FifoThroughputLimit": _LIMITS,
}
_OF_FIFO_ALONE: Final = ("DeduplicationScope", "FifoThroughputLimit")
_OF_FIFO: Final = frozenset({FIFO, "ContentBasedDeduplication", *_OF_FIFO_ALONE})
_BOOLEANS: Final = frozenset({FIFO, "ContentBasedDeduplication", "SqsManagedSseEnabled"})
# In the order in which AWS lists them.
COUNT_NAMES: Final = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
# In the order in which AWS lists them.
_READ_ONLY: Final = (
    *COUNT_NAMES,
    "CreatedTimestamp",
    "LastModifiedTimestamp",
    "QueueArn",
)
_SETTABLE: Final = (
    "VisibilityTimeout",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "DelaySeconds",
    "ReceiveMessageWaitTimeSeconds",
    REDRIVE,
    FIFO,
    "ContentBasedDeduplication",
    "DeduplicationScope",
    *_KEPT,
)
NAMES: Final = frozenset({"All", *_READ_ONLY, *_SETTABLE})


class RedrivePolicy(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    dead_letter_target_arn: str
    max_receive_count: int | str


class QueueChange(NamedTuple):
    """What attributes ask for: columns of the topic and of the group, and the options.

    ``redrive``: the policy that is set; None where none is given, or it is taken away.
    """

    topic: dict[str, object]
    group: dict[str, object]
    options: QueueOptions
    redrive: RedrivePolicy | None


class Counts(NamedTuple):
    visible: int
    hidden: int
    delayed: int


def defaults_of(*, is_fifo: bool) -> tuple[dict[str, object], dict[str, object]]:
    """Columns of the topic and of the group of a new queue."""
    topic: dict[str, object] = {
        "retention_age_ms": _DEFAULT_RETENTION_MS,
        "body_bytes_max": _DEFAULT_SIZE,
    }
    if is_fifo:
        topic["message_type"] = MessageType.FIFO.value
    return topic, group_defaults(is_fifo=is_fifo)


def group_defaults(*, is_fifo: bool) -> dict[str, object]:
    """Of a group that stands for a queue: as often as it takes, and for as long."""
    group: dict[str, object] = {
        "lease_ms": 30 * _SECOND_MS,
        "consume_timeout_ms": _TIMEOUT_MS,
        "max_reconsume_times": RECONSUME_FOR_EVER,
    }
    if is_fifo:
        group |= {"is_ordered": True, "batch_per_group": _BATCH_PER_GROUP}
    return group


def plain_attributes(given: Mapping[str, str]) -> dict[str, str]:
    """As they are kept: truth in lower case, however a client writes it."""
    return {name: text.lower() if name in _BOOLEANS else text for name, text in given.items()}


def read_attributes(
    given: Mapping[str, str], options: QueueOptions, *, is_fifo: bool
) -> QueueChange:
    """What ``given`` makes of a queue that has ``options``. Raises SqsError."""
    topic: dict[str, object] = {}
    group: dict[str, object] = {}
    changed: dict[str, object] = {}
    kept = dict(options.attributes)
    redrive = None
    for name, text in given.items():
        _check_attribute(name, text, is_fifo=is_fifo)
        if name == "VisibilityTimeout":
            seconds = _number(name, text, 0, 43_200)
            changed["is_never_hidden"] = not seconds
            group["lease_ms"] = max(seconds, 1) * _SECOND_MS
        elif name == "MaximumMessageSize":
            topic["body_bytes_max"] = _number(name, text, KIB, _DEFAULT_SIZE)
        elif name == "MessageRetentionPeriod":
            topic["retention_age_ms"] = _number(name, text, 60, 1_209_600) * _SECOND_MS
        elif name == "DelaySeconds":
            changed["delay_s"] = _number(name, text, 0, DELAY_SECONDS_MAX)
        elif name == "ReceiveMessageWaitTimeSeconds":
            changed["wait_s"] = _number(name, text, 0, WAIT_SECONDS_MAX)
        elif name == REDRIVE:
            redrive = _read_redrive(text) if text else None
            group["max_reconsume_times"] = (
                RECONSUME_FOR_EVER if redrive is None else _receives_of(redrive) - 1
            )
        elif name == FIFO:
            if text != "true":
                detail = f"Invalid value for the parameter {FIFO}. Reason: Modifying queue type is "
                raise SqsError("InvalidAttributeValue", f"{detail}not supported.")
        elif name == "ContentBasedDeduplication":
            changed["is_dedup_by_content"] = _one_of(name, text, ("true", "false")) == "true"
        elif name == "DeduplicationScope":
            changed["is_dedup_by_group"] = _one_of(name, text, _SCOPES) == _SCOPES[1]
        elif text:
            kept[name] = checked(name, text)
        else:
            kept.pop(name, None)
    changed["attributes"] = kept
    return QueueChange(topic, group, msgspec.structs.replace(options, **changed), redrive)


def _check_attribute(name: str, text: str, *, is_fifo: bool) -> None:
    """Raises SqsError unless a queue of this kind may be given it."""
    if "\0" in text:
        raise _wrong_value(name, text)
    if name not in NAMES or name == "All" or name in _READ_ONLY:
        raise SqsError("InvalidAttributeName", f"Unknown Attribute {name[:100]}.")
    if name in _OF_FIFO and not is_fifo:
        detail = f"Unknown Attribute {name}."
        if name in _OF_FIFO_ALONE:
            detail = f"You can specify the {name} only when FifoQueue is set to true."
        raise SqsError("InvalidAttributeName", detail)


def attributes_of(
    topic: Topic, group: ConsumerGroup | None, counts: Counts, account: str, region: str
) -> dict[str, str]:
    """All attributes of a queue. ``group`` is None until the queue is received from."""
    options = queue_options_of(topic.sqs)
    is_fifo = topic.message_type == MessageType.FIFO
    lease_ms = 30 * _SECOND_MS if group is None else group.lease_ms
    name = queue_name(topic.name, is_fifo=is_fifo)
    found = {
        "ApproximateNumberOfMessages": str(counts.visible),
        "ApproximateNumberOfMessagesNotVisible": str(counts.hidden),
        "ApproximateNumberOfMessagesDelayed": str(counts.delayed),
        "CreatedTimestamp": str(datetime_ms(topic.created_at) // _SECOND_MS),
        "LastModifiedTimestamp": str(datetime_ms(topic.updated_at) // _SECOND_MS),
        "VisibilityTimeout": "0" if options.is_never_hidden else str(lease_ms // _SECOND_MS),
        "MaximumMessageSize": str(min(topic.body_bytes_max, _DEFAULT_SIZE)),
        "MessageRetentionPeriod": str(topic.retention_age_ms // _SECOND_MS),
        "DelaySeconds": str(options.delay_s),
        "ReceiveMessageWaitTimeSeconds": str(options.wait_s),
        "QueueArn": queue_arn(region, account, name),
        "SqsManagedSseEnabled": "false",
        **options.attributes,
    }
    if is_fifo:
        found[FIFO] = "true"
        found["ContentBasedDeduplication"] = "true" if options.is_dedup_by_content else "false"
        found["DeduplicationScope"] = _SCOPES[options.is_dedup_by_group]
        found.setdefault("FifoThroughputLimit", _LIMITS[0])
    if not found.get("KmsMasterKeyId"):
        found.pop("KmsDataKeyReusePeriodSeconds", None)
    if options.dead_letter_queue and group is not None:
        target = queue_name(options.dead_letter_queue, is_fifo=is_fifo)
        policy = {
            "deadLetterTargetArn": queue_arn(region, account, target),
            "maxReceiveCount": group.max_reconsume_times + 1,
        }
        found[REDRIVE] = msgspec.json.encode(policy).decode()
    return found


def _read_redrive(text: str) -> RedrivePolicy:
    try:
        return msgspec.json.decode(text, type=RedrivePolicy)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise _wrong_value(REDRIVE, text) from exc


def _receives_of(policy: RedrivePolicy) -> int:
    return _number("maxReceiveCount", str(policy.max_receive_count), 1, _RECEIVES_MAX)


def checked(name: str, text: str) -> str:
    """The value of an attribute that is kept. Raises SqsError unless AWS would take it."""
    if len(text) > KEPT_CHARS_MAX:
        raise _wrong_value(name, text)
    allowed = _KEPT[name]
    if allowed is None:
        if name.endswith("Policy"):
            _json_object(name, text)
        return text
    low, high = allowed[0], allowed[1]
    if isinstance(low, int) and isinstance(high, int):
        return str(_number(name, text, low, high))
    return _one_of(name, text, [str(each) for each in allowed])


def _json_object(name: str, text: str) -> None:
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError) as exc:
        raise _wrong_value(name, text) from exc


def _number(name: str, text: str, low: int, high: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high):
        raise _wrong_value(name, text)
    return int(text)


def _one_of(name: str, text: str, allowed: tuple[str, ...] | list[str]) -> str:
    if text not in allowed:
        raise _wrong_value(name, text)
    return text


def _wrong_value(name: str, text: str) -> SqsError:
    detail = f"Invalid value for the parameter {name}. Reason: {text[:100]!r} is not allowed."
    kind = "InvalidAttributeValue" if name in NAMES else "InvalidParameterValue"
    return SqsError(kind, detail)


Wanted = Callable[[str], bool]


def names_wanted(names: list[str]) -> Wanted:
    """Which attributes a request asks for. Raises SqsError for one that there is not."""
    for name in names:
        if name not in NAMES:
            raise SqsError("InvalidAttributeName", f"Unknown Attribute {name[:100]}.")
    return (lambda name: True) if "All" in names else set(names).__contains__
