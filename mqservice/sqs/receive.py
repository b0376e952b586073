"""ReceiveMessage: the long poll of REST, whose reply is messages as SQS has them.

    ReceiveMessage ──▶ ReceiveRequest ──▶ ReceiveCall ──▶ Received ──▶ Message, …
                                                              └─ VisibilityTimeout 0: nacked first

A queue whose group does not exist yet, because its topic was made by another face, gets it here.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from functools import partial
from typing import Final

from mqservice.delivery.bodies import OWN_PROPERTIES, SQS_PROPERTY
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.http import Request
from mqservice.delivery.limits import LEASE_MS_MAX, LEASE_MS_MIN, RECEIVE_BYTES_MAX
from mqservice.delivery.path_routes import known_group, known_topic
from mqservice.delivery.receive.long_poll import require_consume
from mqservice.delivery.receive.receive import ReceiveCall, wait_within
from mqservice.delivery.settle.settle_plan import (
    NackItem,
    SettleCall,
    SettleItems,
)
from mqservice.groups.routes import GroupRoute
from mqservice.sqs.errors import SqsError, invalid_value
from mqservice.sqs.letters import QueuePlan, Rounds
from mqservice.sqs.message_attributes import (
    BASE64,
    BODY_MARK,
    TRACE_HEADER,
    attributes_of,
    body_text,
    md5_of,
    md5_of_attributes,
    shown_id,
    wanted_of,
)
from mqservice.sqs.queue_names import account_of, queue_arn, queue_name
from mqservice.sqs.queues import is_fifo, require_queue
from mqservice.sqs.replies import AttributeReply, Message, ReceivedMessages
from mqservice.sqs.request import REQUEST_BYTES_MAX, SqsRequest
from mqservice.sqs.requests import ReceiveMessage
from mqservice.sqs.send import deduplication_id_of, sequence_number
from mqservice.store import (
    PROPERTY_DEDUP,
    Received,
    ReceiveRequest,
    Record,
    StoreError,
    find_dead_letter,
    shown_record,
)
from mqservice.topics.queue_options import WAIT_SECONDS_MAX
from mqservice.topics.routes import TopicRoute

MESSAGES_MAX: Final = 10
# What was given back a moment ago is on its way: programs that poll without waiting expect it.
SHORT_POLL_MS: Final = 200
VISIBILITY_SECONDS_MAX: Final = LEASE_MS_MAX // 1_000
_ATTEMPT_ID: Final = re.compile(r"[!-~]{1,128}", re.ASCII)
_FIRST_DELIVERY: Final = "1ST_POP_TIME"
_MARKED: Final = AttributeReply(data_type="String", string_value=BASE64)
_SYSTEM_NAMES: Final = frozenset({
    "All", "SenderId", "SentTimestamp", "ApproximateReceiveCount",
    "ApproximateFirstReceiveTimestamp", "SequenceNumber", "MessageDeduplicationId",
    "MessageGroupId", TRACE_HEADER, "DeadLetterQueueSourceArn",
})  # fmt: skip


def begin_receive(
    context: DeliveryContext, request: Request
) -> tuple[int, tuple[TopicRoute, GroupRoute]]:
    """As of ``BodyHandler``. Raises Problem unless the key may consume the queue; NotLoaded."""
    assert isinstance(request, SqsRequest)
    require_consume(request.principal, request)
    topic = known_topic(context, request)
    require_queue(request, topic)
    return REQUEST_BYTES_MAX, (topic, known_group(context, request))


def receive_messages(
    context: DeliveryContext, request: Request, found: tuple[TopicRoute, GroupRoute], body: bytes
) -> Callable[[], None]:
    """ReceiveMessage. Raises SqsError, Problem or StoreError."""
    assert isinstance(request, SqsRequest)
    topic, group = found
    wanted: ReceiveMessage = request.wanted
    visibility_s = _visibility_of(wanted, topic, group)
    order = ReceiveRequest(
        group=group.engine_name,
        topic=topic.engine_name,
        member_id=_member_id_of(wanted, topic, request),
        messages_max=_count_of(wanted),
        bytes_max=RECEIVE_BYTES_MAX,
        wait_ms=wait_within(_wait_ms_of(wanted, topic), context, request.principal),
        lease_ms=max(visibility_s * 1_000, LEASE_MS_MIN),
        attempt_id=wanted.receive_request_attempt_id or "",
        is_unnamed=True,
        ignores_queues=True,
    )
    system_names = {*wanted.attribute_names, *wanted.message_system_attribute_names}
    if unknown := system_names - _SYSTEM_NAMES:
        raise SqsError("InvalidAttributeName", f"Unknown Attribute {min(unknown)[:100]}.")
    answer = partial(_answer, context, request, topic, group, system_names, visibility_s)
    call: ReceiveCall | Rounds
    if topic.letter_sources:
        call = Rounds(context, request, topic, order, answer)
    else:
        store = context.stores[group.shard]
        call = ReceiveCall(context, store, request, order, None, lambda got, _: answer(order, got))
    call.begin()
    request.cancel = call.cancel
    return call.cancel


def _answer(
    context: DeliveryContext,
    request: SqsRequest,
    topic: TopicRoute,
    group: GroupRoute,
    system_names: set[str],
    visibility_s: int,
    order: ReceiveRequest,
    received: Received,
) -> None:
    head = received.head
    write = context.receipts.writer(
        group=group.engine_name,
        lease_generation=head.lease_generation,
        expires_ms=head.first_until_ms or head.lease_until_ms,
    )
    leased_ms = head.lease_until_ms - order.lease_ms
    messages = []
    for stored, attempt in zip(received.records, head.attempts, strict=True):
        receipt = write(stored.topic, stored.queue_id, stored.queue_offset)
        system = {}
        if system_names:
            system = _system_attributes(request, topic, stored, attempt, leased_ms)
            if "All" not in system_names:
                system = {name: text for name, text in system.items() if name in system_names}
        messages.append(_message(request.wanted, stored, receipt, system))
    reply = ReceivedMessages(messages=messages)
    if visibility_s or not messages:
        request.answer(reply)
        return
    _Return(context, request, group, reply).begin()


class _Return:
    """Messages that are to stay visible: the reply goes out once they are given back."""

    def __init__(
        self,
        context: DeliveryContext,
        request: SqsRequest,
        group: GroupRoute,
        reply: ReceivedMessages,
    ) -> None:
        assert request.meter is not None, "it has admitted the receive"
        self._request, self._reply = request, reply
        nacks = [NackItem(each.receipt_handle, delay_ms=0) for each in reply.messages]
        plan = QueuePlan(context, group, SettleItems(nack=nacks), member_id="", heard=[])
        self._store = plan.store
        self._call = SettleCall(plan, request.meter)

    def begin(self) -> None:
        self._call.begin(self._store, self)

    def settled(self) -> None:
        self._request.answer(self._reply)

    def settle_failed(self, error: StoreError) -> None:
        self._request.fail(error)


def _message(
    wanted: ReceiveMessage, stored: Record, receipt: str, system: dict[str, str]
) -> Message:
    record = shown_record(stored)
    attributes: dict[str, AttributeReply] = {}
    if wanted.message_attribute_names and record.properties:
        attributes = wanted_of(_attributes_of(record.properties), wanted.message_attribute_names)
    content, body = record.body, body_text(record.body)
    if body is None:
        content = binascii.b2a_base64(record.body, newline=False)
        body = content.decode("ascii")
        attributes = {**attributes, BODY_MARK: _MARKED}
    return Message(
        message_id=shown_id(record.message_id),
        receipt_handle=receipt,
        md5_of_body=md5_of(content),
        body=body,
        attributes=system,
        md5_of_attributes=md5_of_attributes(attributes),
        message_attributes=attributes,
    )


def _attributes_of(properties: dict[str, str]) -> dict[str, AttributeReply]:
    hidden = OWN_PROPERTIES - {SQS_PROPERTY}
    if hidden.isdisjoint(properties):
        return attributes_of(properties)
    return attributes_of({name: v for name, v in properties.items() if name not in hidden})


def _system_attributes(
    request: SqsRequest, topic: TopicRoute, stored: Record, attempt: int, leased_ms: int
) -> dict[str, str]:
    account = account_of(request.principal)
    properties = stored.properties
    first_ms = properties.get(_FIRST_DELIVERY, "")
    found = {
        "SenderId": account,
        "SentTimestamp": str(stored.born_timestamp_ms),
        "ApproximateReceiveCount": str(attempt),
        "ApproximateFirstReceiveTimestamp": first_ms or str(leased_ms),
    }
    if stored.message_group is not None:
        found["MessageGroupId"] = stored.message_group
    if is_fifo(topic):
        found["SequenceNumber"] = sequence_number(stored.queue_id, stored.queue_offset)
    dedup_id = deduplication_id_of(properties.get(PROPERTY_DEDUP, ""))
    if dedup_id:
        found["MessageDeduplicationId"] = dedup_id
    if TRACE_HEADER in properties:
        found[TRACE_HEADER] = properties[TRACE_HEADER]
    letter = find_dead_letter(stored)
    if letter is not None:
        found["ApproximateReceiveCount"] = str(letter.attempts + attempt)
        origin = letter.origin_topic.partition("%")[2]
        name = queue_name(origin, is_fifo=is_fifo(topic))
        found["DeadLetterQueueSourceArn"] = queue_arn(request.region, account, name)
    return found


def _count_of(wanted: ReceiveMessage) -> int:
    count = wanted.max_number_of_messages
    if not 1 <= count <= MESSAGES_MAX:
        reason = f"Must be between 1 and {MESSAGES_MAX}, if provided."
        raise invalid_value("MaxNumberOfMessages", count, reason)
    return count


def _wait_ms_of(wanted: ReceiveMessage, topic: TopicRoute) -> int:
    wait_s = wanted.wait_time_seconds
    if wait_s is None:
        wait_s = topic.queue.wait_s
    elif not 0 <= wait_s <= WAIT_SECONDS_MAX:
        reason = f"Must be >= 0 and <= {WAIT_SECONDS_MAX}, if provided."
        raise invalid_value("WaitTimeSeconds", wait_s, reason)
    return max(wait_s * 1_000, SHORT_POLL_MS)


def _visibility_of(wanted: ReceiveMessage, topic: TopicRoute, group: GroupRoute) -> int:
    if wanted.visibility_timeout is not None:
        return checked_visibility(wanted.visibility_timeout)
    return 0 if topic.queue.is_never_hidden else group.lease_ms // 1_000


def checked_visibility(seconds: int) -> int:
    """Raises SqsError unless it can be a visibility timeout."""
    if not 0 <= seconds <= VISIBILITY_SECONDS_MAX:
        reason = f"VisibilityTimeout must be an integer between 0 and {VISIBILITY_SECONDS_MAX}."
        raise invalid_value("VisibilityTimeout", seconds, reason)
    return seconds


def _member_id_of(wanted: ReceiveMessage, topic: TopicRoute, request: SqsRequest) -> str:
    attempt_id = wanted.receive_request_attempt_id
    if attempt_id is None:
        return f"sqs-{request.request_id}"
    if not is_fifo(topic) or not _ATTEMPT_ID.fullmatch(attempt_id):
        reason = "It is for FIFO queues, and has 1 to 128 alphanumeric and punctuation characters."
        raise invalid_value("ReceiveRequestAttemptId", attempt_id, reason)
    return f"attempt-{attempt_id}"
