"""DeleteMessage and ChangeMessageVisibility, alone and in batches: receipts that are settled.

    delete ──▶ ack      visibility 0 ──▶ nack without a delay      visibility n ──▶ extend by n

A receipt that is no longer good deletes nothing, which AWS calls a success: the message has been
settled, or will be delivered again. In a FIFO queue, and for the visibility, it is an error; but a
message of a standard queue is hidden again while nobody else has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.http import Request
from mqservice.delivery.path_routes import known_group, known_topic
from mqservice.delivery.settle.settle_plan import (
    ExtendItem,
    NackItem,
    SettleCall,
    SettleItems,
)
from mqservice.groups.routes import GroupRoute
from mqservice.lib.problem import Problem
from mqservice.sqs.batches import check_entries, failed_entry
from mqservice.sqs.errors import (
    VALUE_CHARS_MAX,
    SqsError,
    invalid_value,
    missing_parameter,
    sqs_error_of,
)
from mqservice.sqs.letters import QueuePlan
from mqservice.sqs.queues import is_fifo, require_queue
from mqservice.sqs.receive import checked_visibility
from mqservice.sqs.replies import BatchEntry, BatchError, BatchReply, Reply
from mqservice.sqs.request import REQUEST_BYTES_MAX, SqsRequest
from mqservice.sqs.requests import (
    ChangeMessageVisibility,
    ChangeMessageVisibilityBatch,
    DeleteEntry,
    DeleteMessage,
    DeleteMessageBatch,
    VisibilityEntry,
)
from mqservice.store import Store, StoreError
from mqservice.topics.routes import TopicRoute

Answer = Callable[[dict[str, SqsError]], None]
"""Called with why receipts had no effect."""
_Queue = tuple[TopicRoute, GroupRoute]
"""The topic and the group that a queue is."""


def begin_settle(context: DeliveryContext, request: Request) -> tuple[int, _Queue]:
    """As of ``BodyHandler``. Raises Problem unless the key may consume the queue; NotLoaded."""
    assert isinstance(request, SqsRequest)
    request.principal.require(Scope.CONSUME, Kind.GROUP, request.match.group)
    topic = known_topic(context, request)
    require_queue(request, topic)
    return REQUEST_BYTES_MAX, (topic, known_group(context, request))


def delete_message(context: DeliveryContext, request: Request, queue: _Queue, body: bytes) -> None:
    """DeleteMessage. Raises SqsError or StoreError."""
    assert isinstance(request, SqsRequest)
    wanted: DeleteMessage = request.wanted
    items = SettleItems(ack=[wanted.receipt_handle])
    _settle(context, request, queue, items, lambda failures: _answer_one(request, failures))


def delete_messages(context: DeliveryContext, request: Request, queue: _Queue, body: bytes) -> None:
    """DeleteMessageBatch. Raises as ``delete_message``, for what concerns all of it."""
    assert isinstance(request, SqsRequest)
    wanted: DeleteMessageBatch = request.wanted
    check_entries("DeleteMessageBatch", wanted.entries)
    items = SettleItems(ack=[each.receipt_handle for each in wanted.entries])
    entries = wanted.entries
    _settle(
        context, request, queue, items, lambda failures: _answer_all(request, entries, failures, [])
    )


def change_visibility(
    context: DeliveryContext, request: Request, queue: _Queue, body: bytes
) -> None:
    """ChangeMessageVisibility. Raises SqsError or StoreError."""
    assert isinstance(request, SqsRequest)
    wanted: ChangeMessageVisibility = request.wanted
    items = _visibility_items([(wanted.receipt_handle, wanted.visibility_timeout)])
    _settle(context, request, queue, items, lambda failures: _answer_one(request, failures))


def change_visibilities(
    context: DeliveryContext, request: Request, queue: _Queue, body: bytes
) -> None:
    """ChangeMessageVisibilityBatch. Raises as ``change_visibility``, for all of it."""
    assert isinstance(request, SqsRequest)
    wanted: ChangeMessageVisibilityBatch = request.wanted
    check_entries("ChangeMessageVisibilityBatch", wanted.entries)
    failed: list[BatchError] = []
    good: list[VisibilityEntry] = []
    pairs = []
    for entry in wanted.entries:
        try:
            if entry.visibility_timeout is None:
                raise missing_parameter("VisibilityTimeout")
            pairs.append((entry.receipt_handle, checked_visibility(entry.visibility_timeout)))
            good.append(entry)
        except SqsError as exc:
            failed.append(failed_entry(entry.id, exc))
    items = _visibility_items(pairs)
    _settle(
        context,
        request,
        queue,
        items,
        lambda failures: _answer_all(request, good, failures, failed),
    )


def _visibility_items(pairs: list[tuple[str, int]]) -> SettleItems:
    nacks, extends = [], []
    for receipt, seconds in pairs:
        if checked_visibility(seconds):
            extends.append(ExtendItem(receipt, lease_ms=seconds * 1_000))
        else:
            nacks.append(NackItem(receipt, delay_ms=0))
    return SettleItems(nack=nacks, extend=extends)


def _settle(
    context: DeliveryContext,
    request: SqsRequest,
    queue: _Queue,
    items: SettleItems,
    answer: Answer,
) -> None:
    topic, group = queue
    assert request.meter is not None, "the data plane has one for each request"
    plan = QueuePlan(
        context,
        group,
        items,
        member_id="",
        heard=[],
        span=request.span,
    )
    is_lenient = bool(items.ack) and not is_fifo(topic)
    waiter = _Waiter(request, SettleCall(plan, request.meter), answer, is_lenient=is_lenient)
    waiter.begin(plan.store)


class _Waiter:
    """Answers the request once everything is settled. ``is_lenient``: receipts may be too late."""

    __slots__ = ("_answer", "_call", "_is_lenient", "_request")

    def __init__(
        self, request: SqsRequest, call: SettleCall, answer: Answer, *, is_lenient: bool
    ) -> None:
        self._request, self._call, self._answer = request, call, answer
        self._is_lenient = is_lenient

    def begin(self, store: Store) -> None:
        self._call.begin(store, self)
        if self._call.is_settled:
            self.settled()

    def settled(self) -> None:
        failures = {}
        try:
            for failed in self._call.answer().failed:
                if failed.code == "LEASE_EXPIRED" and self._is_lenient:
                    continue
                failures[failed.receipt] = self._error_of(failed.code, failed.receipt)
            self._answer(failures)
        except Exception as exc:
            self._request.fail(exc)

    def settle_failed(self, error: StoreError) -> None:
        self._request.fail(error)

    def _error_of(self, code: str, receipt: str) -> SqsError:
        if code == "LEASE_EXPIRED" and self._request.call.action.startswith("Delete"):
            return invalid_value("ReceiptHandle", receipt, "The receipt handle has expired.")
        if code == "LEASE_EXPIRED":
            reason = "Message does not exist or is not available for visibility timeout change."
            return invalid_value("ReceiptHandle", receipt, reason)
        if code == "RECEIPT_INVALID":
            given = receipt[:VALUE_CHARS_MAX]
            detail = f'The input receipt handle "{given}" is not a valid receipt handle.'
            return SqsError("ReceiptHandleIsInvalid", detail)
        return sqs_error_of(Problem.of(code, "The message could not be settled."), "")


def _answer_one(request: SqsRequest, failures: dict[str, SqsError]) -> None:
    for error in failures.values():
        raise error
    request.answer(Reply())


def _answer_all(
    request: SqsRequest,
    entries: Sequence[DeleteEntry | VisibilityEntry],
    failures: dict[str, SqsError],
    failed: list[BatchError],
) -> None:
    good = []
    for entry in entries:
        error = failures.get(entry.receipt_handle)
        if error is None:
            good.append(BatchEntry(id=entry.id))
        else:
            failed.append(failed_entry(entry.id, error))
    request.answer(BatchReply(successful=good, failed=failed))
