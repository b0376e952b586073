"""What becomes of receipts of one group: the engine settles them in one call; others have failed.

    receipts ──▶ [SettlePlan] read (MAC), grouped per queue and delivery ─▶ [SettleCall] ──▶ store
                    └─ not ours ──▶ failed[] RECEIPT_INVALID      counts, failed[] ◀──┘

A receipt given twice for the same thing counts once.

``ack_upto``: each receipt stands for its message and all that came before it in the same answer of
a receive, besides those named otherwise in this call or given back before. The engine knows which
came together while one of them is leased, and so that the call can be repeated a while longer, but
not over a restart: then the receipt is in ``failed``, and each message can be acked by its own.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final, Protocol

import msgspec

from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.decoding import Fault
from mqservice.delivery.leases import lease_ms_of
from mqservice.delivery.limits import (
    ACK_UPTO_COUNT_MAX,
    NACK_DELAY_MS_MAX,
    NACK_REASON_CHARS_MAX,
    RECEIPT_LIFE_MS,
    SETTLE_COUNT_MAX,
)
from mqservice.delivery.spans import OperationSpan
from mqservice.delivery.tokens.receipt_columns import ReceiptColumns, read_columns
from mqservice.delivery.tokens.receipts import Receipt
from mqservice.errors import problem_from_store
from mqservice.groups.routes import GroupRoute
from mqservice.lib.durations import pick_duration_ms
from mqservice.lib.problem import CODES
from mqservice.lib.timestamps import rfc3339
from mqservice.quotas.meter import TenantMeter
from mqservice.store import (
    AckUpTo,
    Extend,
    LeaseRef,
    Nack,
    SettleFailure,
    SettleReply,
    SettleRequest,
    Store,
    StoreError,
    error_from_code,
)


class NackItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    receipt: str
    delay: str | None = None
    delay_ms: int | None = None
    reason: str = ""


class DeadLetterItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    receipt: str
    reason: str = ""


class ExtendItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    receipt: str
    lease: str | None = None
    lease_ms: int | None = None


class SettleItems(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Receipts, by what to do with their messages."""

    ack: list[str] = []
    ack_upto: list[str] = []
    nack: list[NackItem] = []
    extend: list[ExtendItem] = []
    dead_letter: list[DeadLetterItem] = []


class ExtendedLease(msgspec.Struct, frozen=True):
    receipt: str
    lease_until: str


class FailedReceipt(msgspec.Struct, frozen=True):
    """A receipt that had no effect."""

    receipt: str
    code: str
    message: str
    retryable: bool


class SettleResponse(msgspec.Struct, frozen=True):
    acked: int
    nacked: int
    extended: list[ExtendedLease]
    dead_lettered: int
    failed: list[FailedReceipt]


_INVALID_CODE: Final = "RECEIPT_INVALID"


class SettlePlan:
    """One settlement: what goes to the engine, and which receipt each part came from.

    Nothing is settled before its ``SettleCall`` begins. Raises Fault, with pointers below
    ``pointer``, unless the settlement can be tried as a whole. ``heard``: the clients whose
    consumer ``member_id`` is heard of, "" unless the group broadcasts.
    """

    def __init__(
        self,
        context: DeliveryContext,
        group: GroupRoute,
        wanted: SettleItems,
        *,
        member_id: str,
        heard: list[str],
        pointer: str = "",
        span: OperationSpan | None = None,
    ) -> None:
        _check_counts(pointer, wanted)
        self._context = context
        self.store = context.stores[group.shard]
        self._group = group.engine_name
        self._lease_ms = group.lease_ms
        self._member_id = member_id
        self._now_ms = context.clock.now_ms()
        self._acks: dict[tuple[str, int, int], list[int]] = {}
        self._ack_up_tos: list[AckUpTo] = []
        self._expires_ms: dict[int, int] = {}  # of the receipts of a delivery acked up to one
        self._nacks: list[Nack] = []
        self._extends: list[Extend] = []
        self._read_receipt = context.receipts.reader(group=self._group, now_ms=self._now_ms)
        self._receipts: list[tuple[Receipt, str]] = []  # with their texts
        self._ack_columns: tuple[ReceiptColumns, list[str]] | None = None  # those read together
        # Of each lease: receipts say for which client they settle, "" unless the group broadcasts.
        self._client_ids: dict[int, str] = {}
        self._client_id = heard
        self._failed: list[FailedReceipt] = []
        self._pointer = pointer
        self._span = span
        self._add_acks(wanted.ack)
        self._add_ack_up_tos(wanted.ack_upto)
        self._add_nacks(wanted.nack)
        self._add_extends(wanted.extend)
        self._add_dead_letters(wanted.dead_letter)

    def _add_acks(self, texts: list[str]) -> None:
        unique = list(dict.fromkeys(texts))
        if self._add_ack_columns(unique):
            return
        for text in unique:
            receipt = self._read(text)
            if receipt is not None:
                key = (receipt.topic, receipt.queue_id, receipt.lease_generation)
                self._acks.setdefault(key, []).append(receipt.queue_offset)

    def _add_ack_columns(self, texts: list[str]) -> bool:
        """Whether they could be read together."""
        columns = read_columns(
            self._context.receipts,
            texts,
            group=self._group,
            expires_ms_min=self._now_ms - RECEIPT_LIFE_MS,
        )
        if columns is None:
            return False
        self._acks.update(columns.by_queue())
        self._client_ids.update(dict.fromkeys(columns.lease_generations, ""))
        self._ack_columns = columns, texts
        return True

    def _add_ack_up_tos(self, texts: list[str]) -> None:
        for text in dict.fromkeys(texts):
            receipt = self._read(text)
            if receipt is not None:
                self._expires_ms[receipt.lease_generation] = receipt.expires_ms
                self._ack_up_tos.append(
                    AckUpTo(
                        topic=receipt.topic,
                        queue_id=receipt.queue_id,
                        lease_generation=receipt.lease_generation,
                        queue_offset=receipt.queue_offset,
                    )
                )

    def _add_nacks(self, items: list[NackItem]) -> None:
        for index, item in enumerate({item.receipt: item for item in items}.values()):
            delay_ms = _delay_ms_of(f"{self._pointer}/nack/{index}/delay", item)
            _check_reason(f"{self._pointer}/nack/{index}/reason", item.reason)
            self._add_nack(item.receipt, delay_ms, item.reason, is_dead=False)

    def _add_dead_letters(self, items: list[DeadLetterItem]) -> None:
        for index, item in enumerate({item.receipt: item for item in items}.values()):
            _check_reason(f"{self._pointer}/dead_letter/{index}/reason", item.reason)
            self._add_nack(item.receipt, None, item.reason, is_dead=True)

    def _add_nack(self, text: str, delay_ms: int | None, reason: str, *, is_dead: bool) -> None:
        receipt = self._read(text)
        if receipt is not None:
            self._nacks.append(
                Nack(
                    topic=receipt.topic,
                    queue_id=receipt.queue_id,
                    lease_generation=receipt.lease_generation,
                    queue_offset=receipt.queue_offset,
                    delay_ms=delay_ms,
                    reason=reason,
                    is_dead=is_dead,
                )
            )

    def _add_extends(self, items: list[ExtendItem]) -> None:
        for index, item in enumerate(items):
            lease_ms = lease_ms_of(
                f"{self._pointer}/extend/{index}/lease", item.lease, item.lease_ms, self._lease_ms
            )
            receipt = self._read(item.receipt)
            if receipt is not None:
                self._extends.append(
                    Extend(
                        topic=receipt.topic,
                        queue_id=receipt.queue_id,
                        lease_generation=receipt.lease_generation,
                        queue_offset=receipt.queue_offset,
                        lease_ms=lease_ms,
                    )
                )

    def requests(self) -> list[SettleRequest]:
        """One to the engine for each client of a broadcast group, one for any other; none if no
        receipt is valid and no consumer is named.
        """
        client_ids = dict.fromkeys((*self._client_ids.values(), *self._client_id))
        return [self._request(client_id) for client_id in client_ids]

    def result(self, replies: list[tuple[SettleRequest, SettleReply]]) -> SettleResponse:
        """What became of it all, once, by what the engine has said to each request."""
        if self._span is not None:
            self._span.settled(replies, self._failed[0].code if self._failed else "")
        answer = SettleResponse(0, 0, [], 0, self._failed)
        for request, reply in replies:
            for failure in reply.failures:
                problem = problem_from_store(
                    error_from_code(failure.code, "rejected by the storage engine")
                )
                text = self._text_of(failure, request.client_id)
                self._failed.append(
                    FailedReceipt(text, problem.code, problem.detail, problem.retryable)
                )
            extended = [
                ExtendedLease(
                    self._texts[
                        extend.topic, extend.queue_id, extend.lease_generation, extend.queue_offset
                    ],
                    rfc3339(until_ms),
                )
                for extend, until_ms in zip(request.extends, reply.extended_until_ms, strict=True)
                if until_ms
            ]
            answer = SettleResponse(
                answer.acked + reply.acked_count,
                answer.nacked + reply.nacked_count,
                answer.extended + extended,
                answer.dead_lettered + reply.dead_lettered_count,
                self._failed,
            )
        return answer

    def _request(self, client_id: str) -> SettleRequest:
        """What is asked for one client; a lease is of one alone."""
        of = self._client_ids
        return SettleRequest(
            group=self._group,
            client_id=client_id,
            acks=[
                LeaseRef(
                    topic=topic,
                    queue_id=queue_id,
                    lease_generation=generation,
                    queue_offsets=offsets,
                )
                for (topic, queue_id, generation), offsets in self._acks.items()
                if of[generation] == client_id
            ],
            nacks=[nack for nack in self._nacks if of[nack.lease_generation] == client_id],
            extends=[each for each in self._extends if of[each.lease_generation] == client_id],
            ack_up_tos=[
                each for each in self._ack_up_tos if of[each.lease_generation] == client_id
            ],
            member_id=self._member_id,
        )

    @cached_property
    def _texts(self) -> dict[tuple[str, int, int, int], str]:
        """Of what each receipt stands for; once all have been read."""
        found = {
            (read.topic, read.queue_id, read.lease_generation, read.queue_offset): text
            for read, text in self._receipts
        }
        if self._ack_columns is not None:
            columns, texts = self._ack_columns
            found.update(zip(columns.places(), texts, strict=True))
        return found

    def _text_of(self, failure: SettleFailure, client_id: str) -> str:
        """The receipt of a failure; one that an ``ack_upto`` stood for is written again."""
        topic, queue_id, queue_offset = failure.topic, failure.queue_id, failure.queue_offset
        generation = failure.lease_generation
        text = self._texts.get((topic, queue_id, generation, queue_offset))
        if text is None:
            write = self._context.receipts.writer(
                group=self._group,
                lease_generation=generation,
                expires_ms=self._expires_ms[generation],
                client_id=client_id,
            )
            text = write(topic, queue_id, queue_offset)
        return text

    def _read(self, text: str) -> Receipt | None:
        receipt = self._read_receipt(text)
        if receipt is None:
            self._failed.append(FailedReceipt(text, _INVALID_CODE, CODES[_INVALID_CODE][1], False))
            return None
        self._receipts.append((receipt, text))
        self._client_ids[receipt.lease_generation] = receipt.client_id
        return receipt


class SettleWaiter(Protocol):
    """Who has begun a settlement; one of the two is called, once, and must not raise."""

    def settled(self) -> None:
        """All of it is answered."""

    def settle_failed(self, error: StoreError) -> None:
        """A part of it failed, or nothing is known."""


class SettleCall:
    """A plan on its way into the engine, by itself or in one write with a receive.

    What is settled is given back to the tenant's quota as soon as the engine says so, even when
    nobody waits for the answer any more. The store calls it as its ``SettleReplyHandler``.
    """

    __slots__ = ("_has_failed", "_meter", "_plan", "_replies", "_requests", "_waiter")

    def __init__(self, plan: SettlePlan, meter: TenantMeter) -> None:
        self._plan = plan
        self._meter = meter
        self._requests: list[SettleRequest] = plan.requests()
        self._replies: list[SettleReply] = []
        self._has_failed = False
        self._waiter: SettleWaiter

    def begin(self, store: Store, waiter: SettleWaiter) -> None:
        """Send it. Nobody is called where ``is_settled`` says at once that there was nothing to
        send, or after an error. Raises StoreError when nothing, or not all of it, was sent.
        """
        if self._requests:
            self._waiter = waiter
        try:
            for request in self._requests:
                store.settle_for(self, request)
        except BaseException:
            self._has_failed = True  # the caller knows; what was sent is still counted
            del self._waiter
            raise

    @property
    def is_settled(self) -> bool:
        """Whether all of it is answered; at once if no receipt was valid."""
        return len(self._replies) == len(self._requests)

    def settled(self, reply: SettleReply) -> None:
        self._meter.release(reply.acked_count + reply.nacked_count + reply.dead_lettered_count)
        self._replies.append(reply)
        if self.is_settled and not self._has_failed:
            self._take_waiter().settled()

    def settle_failed(self, error: StoreError) -> None:
        if not self._has_failed:  # of several requests to the engine more than one may fail
            self._has_failed = True
            self._take_waiter().settle_failed(error)

    def _take_waiter(self) -> SettleWaiter:
        waiter = self._waiter
        del self._waiter  # which knows this in turn: freed without the garbage collector
        return waiter

    def answer(self) -> SettleResponse:
        """What became of it, once it ``is_settled``: the engine replies in order."""
        return self._plan.result(list(zip(self._requests, self._replies, strict=True)))


def _check_counts(pointer: str, wanted: SettleItems) -> None:
    if len(wanted.ack_upto) > ACK_UPTO_COUNT_MAX:
        found = len(wanted.ack_upto)
        raise Fault(
            f"{pointer}/ack_upto",
            "BAD_REQUEST",
            f"one request acks at most {ACK_UPTO_COUNT_MAX} receipts in ack_upto, found {found}",
        )
    count = len(wanted.ack) + len(wanted.nack) + len(wanted.extend) + len(wanted.dead_letter)
    if count > SETTLE_COUNT_MAX:
        raise Fault(
            pointer,
            "BAD_REQUEST",
            f"one request settles at most {SETTLE_COUNT_MAX} receipts, found {count}",
        )


def _check_reason(pointer: str, reason: str) -> None:
    if len(reason) > NACK_REASON_CHARS_MAX:
        text = f"a reason must have at most {NACK_REASON_CHARS_MAX} characters"
        raise Fault(pointer, "BAD_REQUEST", text)


def _delay_ms_of(pointer: str, item: NackItem) -> int | None:
    """None: the group's retry policy decides."""
    if item.delay is None and item.delay_ms is None:
        return None
    try:
        delay_ms = pick_duration_ms("delay", item.delay, item.delay_ms, default_ms=0)
    except ValueError as exc:
        raise Fault(pointer, "BAD_REQUEST", str(exc)) from exc
    if delay_ms > NACK_DELAY_MS_MAX:
        raise Fault(
            pointer,
            "BAD_REQUEST",
            f"a delay must be at most {NACK_DELAY_MS_MAX} ms, found {delay_ms}",
        )
    return delay_ms
