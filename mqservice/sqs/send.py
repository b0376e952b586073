"""SendMessage and SendMessageBatch: messages of SQS as those of any producer.

    Outgoing ──▶ Offer, marks ──▶ Put ──▶ store ──▶ SentMessage: digests, id, sequence number

A message of a FIFO queue carries its deduplication id as a mark that the engine stores once. The
mark's fingerprint is always the same: under an id that is known another body is a duplicate too.
"""

from __future__ import annotations

import hashlib
import re
from functools import partial
from typing import Final, NamedTuple

import msgspec

from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.bodies import SQS_PROPERTY
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.decoding import Fault
from mqservice.delivery.http import Request
from mqservice.delivery.limits import MIB
from mqservice.delivery.messages import Offer, check_offer
from mqservice.delivery.path_routes import known_topic
from mqservice.delivery.produce.produce import put_of
from mqservice.delivery.produce.produce_responses import (
    RejectedResult,
    StoredResponse,
    StoredResult,
)
from mqservice.delivery.produce.put import Put
from mqservice.lib.durations import MINUTE_MS
from mqservice.lib.problem import Problem
from mqservice.sqs.batches import check_entries, failed_entry
from mqservice.sqs.errors import SqsError, invalid_value, missing_parameter, sqs_error_of
from mqservice.sqs.message_attributes import (
    TRACE_HEADER,
    bytes_of,
    check_text,
    md5_of,
    md5_of_attributes,
    properties_of,
    shown_id,
    trace_header_of,
)
from mqservice.sqs.queues import is_fifo, require_queue
from mqservice.sqs.replies import BatchError, BatchReply, SentMessage
from mqservice.sqs.request import REQUEST_BYTES_MAX, SqsRequest
from mqservice.sqs.requests import Outgoing, SendEntry, SendMessageBatch
from mqservice.store import PROPERTY_DEDUP, Wait, dedup_value
from mqservice.topics.queue_options import DELAY_SECONDS_MAX
from mqservice.topics.routes import TopicRoute

BATCH_BYTES_MAX: Final = MIB
DEDUP_WINDOW_MS: Final = 5 * MINUTE_MS
_ID: Final = re.compile(r"[!-~]{1,128}", re.ASCII)
_MARK: Final = "q"  # so that no id of SQS is a key of REST
_FINGERPRINT: Final = b"amazon sqs dedup"
_OTHER_TYPE: Final = "The request include parameter that is not valid for this queue type."


class _Draft(NamedTuple):
    offer: Offer
    marks: dict[str, str]
    sent: SentMessage  # without its id


def begin_send(context: DeliveryContext, request: Request) -> tuple[int, TopicRoute]:
    """As of ``BodyHandler``. Raises Problem unless the key may produce to the queue; NotLoaded."""
    assert isinstance(request, SqsRequest)
    request.principal.require(Scope.PRODUCE, Kind.TOPIC, request.match.topic)
    route = known_topic(context, request)
    require_queue(request, route)
    return REQUEST_BYTES_MAX, route


def send_message(
    context: DeliveryContext, request: Request, route: TopicRoute, body: bytes
) -> None:
    """SendMessage. Raises SqsError, Problem, Fault or StoreError."""
    assert isinstance(request, SqsRequest)
    draft = _draft_of(request.wanted, route, _trace_of(request))
    put = _put_of(context, request, route, [draft], is_batch=False)
    put.put_all(partial(_answer_one, request, route, put, draft))


def _answer_one(request: SqsRequest, route: TopicRoute, put: Put, draft: _Draft) -> None:
    try:
        _, stored = put.response()
        sent = _sent(draft, route, stored)
    except Exception as exc:
        request.fail(exc)
    else:
        request.answer(sent)


def send_batch(context: DeliveryContext, request: Request, route: TopicRoute, body: bytes) -> None:
    """SendMessageBatch. Raises SqsError, Problem or StoreError for what concerns all of it."""
    assert isinstance(request, SqsRequest)
    wanted: SendMessageBatch = request.wanted
    check_entries("SendMessageBatch", wanted.entries)
    total_bytes = sum(map(_size_bytes, wanted.entries))
    if total_bytes > BATCH_BYTES_MAX:
        detail = f"Batch requests cannot be longer than {BATCH_BYTES_MAX} bytes. You have sent "
        raise SqsError("BatchRequestTooLong", f"{detail}{total_bytes} bytes.")
    if is_fifo(route):
        for entry in wanted.entries:
            try:
                _check_order(entry, route)
            except SqsError as exc:  # AWS refuses all of the batch, with this code
                raise SqsError("InvalidParameterValue", exc.message) from exc
    drafts: list[_Draft] = []
    failed: list[BatchError] = []
    for entry in wanted.entries:
        try:
            drafts.append(_draft_of(entry, route, _trace_of(request)))
        except (SqsError, Fault, Problem) as exc:
            failed.append(failed_entry(entry.id, sqs_error_of(exc, request.request_id)))
    if not drafts:
        request.answer(BatchReply(successful=[], failed=failed))
        return
    put = _put_of(context, request, route, drafts, is_batch=True)
    put.put_all(partial(_answer_batch, request, route, put, drafts, failed))


def _answer_batch(
    request: SqsRequest,
    route: TopicRoute,
    put: Put,
    drafts: list[_Draft],
    failed: list[BatchError],
) -> None:
    try:
        _, results = put.results()
        sent = []
        for draft, result in zip(drafts, results, strict=True):
            if isinstance(result, RejectedResult):
                error = sqs_error_of(Problem.of(result.code, result.detail), request.request_id)
                failed.append(failed_entry(str(draft.sent.id), error))
            else:
                sent.append(_sent(draft, route, result))
    except Exception as exc:
        request.fail(exc)
    else:
        request.answer(BatchReply(successful=sent, failed=failed))


def _sent(draft: _Draft, route: TopicRoute, stored: StoredResponse | StoredResult) -> SentMessage:
    number = None
    if is_fifo(route) and stored.offset is not None:
        number = sequence_number(stored.queue, stored.offset)
    message_id = shown_id(stored.id)
    return msgspec.structs.replace(draft.sent, message_id=message_id, sequence_number=number)


def sequence_number(queue: int, offset: int) -> str:
    """It grows within a message group, which stays in its queue, and no two are alike."""
    return f"{offset << 8 | queue:020d}"


def _put_of(
    context: DeliveryContext,
    request: SqsRequest,
    route: TopicRoute,
    drafts: list[_Draft],
    *,
    is_batch: bool,
) -> Put:
    marks = [draft.marks for draft in drafts]
    return put_of(
        context,
        request,
        route,
        [draft.offer for draft in drafts],
        is_batch=is_batch,
        marks=marks if any(marks) else None,
        window_ms=DEDUP_WINDOW_MS,
    )


def _trace_of(request: SqsRequest) -> str | None:
    """What programs that AWS X-Ray traces send along with each request."""
    header = request.headers.get(b"x-amzn-trace-id")
    return header.decode("latin-1") if header else None


def _draft_of(wanted: Outgoing, route: TopicRoute, trace: str | None) -> _Draft:
    """``trace``: of the request. Raises SqsError or Fault."""
    text = wanted.message_body
    if not text:
        raise missing_parameter("MessageBody")
    check_text(text)
    body = text.encode()
    size_bytes = len(body) + bytes_of(wanted.message_attributes)
    if size_bytes > route.body_bytes_max:
        are = "cannot be validated" if isinstance(wanted, SendEntry) else "are invalid"
        reason = f"Message must be shorter than {route.body_bytes_max} bytes."
        detail = f"One or more parameters {are}. Reason: {reason}"
        raise SqsError("InvalidParameterValue", detail)
    properties = properties_of(wanted.message_attributes)
    marks = {}
    if SQS_PROPERTY in properties:
        marks[SQS_PROPERTY] = properties.pop(SQS_PROPERTY)
    trace = trace_header_of(wanted.message_system_attributes) or trace
    if trace is not None:
        properties[TRACE_HEADER] = trace
    wait = _wait_of(wanted, route)
    _check_ids(wanted)
    if is_fifo(route):
        _check_order(wanted, route)
        marks[PROPERTY_DEDUP] = _dedup_of(wanted, route, body)
    elif wanted.message_deduplication_id is not None:
        value = wanted.message_deduplication_id
        raise invalid_value("MessageDeduplicationId", value, _OTHER_TYPE)
    offer = Offer(body, False, None, [], wanted.message_group_id, properties, None, None)
    check_offer(offer, route)
    if wait is not None:  # which a topic of type fifo takes from no one else
        offer = msgspec.structs.replace(offer, wait=wait)
    sent = SentMessage(
        id=wanted.id if isinstance(wanted, SendEntry) else msgspec.UNSET,
        message_id="",
        md5_of_body=md5_of(body),
        md5_of_attributes=md5_of_attributes(wanted.message_attributes),
        md5_of_system=md5_of_attributes(wanted.message_system_attributes),
    )
    return _Draft(offer, marks, sent)


def _size_bytes(wanted: Outgoing) -> int:
    return len(wanted.message_body.encode()) + bytes_of(wanted.message_attributes)


def _wait_of(wanted: Outgoing, route: TopicRoute) -> Wait | None:
    delay_s = wanted.delay_seconds
    if delay_s is not None and not 0 <= delay_s <= DELAY_SECONDS_MAX:
        reason = f"DelaySeconds must be >= 0 and <= {DELAY_SECONDS_MAX}."
        raise invalid_value("DelaySeconds", delay_s, reason)
    if is_fifo(route):
        if delay_s:
            raise invalid_value("DelaySeconds", delay_s, _OTHER_TYPE)
        delay_s = None  # 0 is what AWS takes for none there
    if delay_s is None:
        delay_s = route.queue.delay_s
    return Wait(delay_ms=delay_s * 1_000) if delay_s else None


def _check_ids(wanted: Outgoing) -> None:
    for name, value in (
        ("MessageDeduplicationId", wanted.message_deduplication_id),
        ("MessageGroupId", wanted.message_group_id),
    ):
        if value is not None and not _ID.fullmatch(value):
            detail = "can only include alphanumeric and punctuation characters. 1 to 128 in length."
            raise invalid_value(name, value, f"{name} {detail}")


def _check_order(wanted: Outgoing, route: TopicRoute) -> None:
    """Raises SqsError unless a message for a FIFO queue has what it needs there."""
    if wanted.message_group_id is None:
        raise missing_parameter("MessageGroupId")
    if wanted.message_deduplication_id is None and not route.queue.is_dedup_by_content:
        detail = "The queue should either have ContentBasedDeduplication enabled or "
        raise SqsError(
            "InvalidParameterValue", f"{detail}MessageDeduplicationId provided explicitly"
        )


def _dedup_of(wanted: Outgoing, route: TopicRoute, body: bytes) -> str:
    """The mark by which the engine knows the message again; see ``deduplication_id_of``."""
    dedup_id = wanted.message_deduplication_id
    if dedup_id is None:
        dedup_id = hashlib.sha256(body).hexdigest()
    scope = f" {wanted.message_group_id}" if route.queue.is_dedup_by_group else ""
    return dedup_value(_FINGERPRINT, f"{_MARK}{dedup_id}{scope}")


def deduplication_id_of(mark: str) -> str | None:
    """The id in a record's mark; None if it came by another face."""
    key = mark[2 * len(_FINGERPRINT) :]
    return key[len(_MARK) :].partition(" ")[0] if key.startswith(_MARK) else None
