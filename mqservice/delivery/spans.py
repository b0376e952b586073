"""Spans of the data plane, where tracing is on: one for each request, or frame of a socket.

    request, publish, push, settle ──▶ [DeliverySpans] ──▶ OperationSpan ──▶ mqservice.tracing
    header, or the span itself ── carry ──▶ property ``traceparent`` of each message
    messages that are received, settled ──▶ links to what they carry

Names and attributes are those of OpenTelemetry's conventions for messaging. Those are written for
clients; here is the other end of their calls, so that what is of kind CLIENT there is SERVER here.
No span has anything of a body, a property, a key of a message or an API key in it.
"""

from __future__ import annotations

import enum
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from mqservice.delivery.decoding import Fault
from mqservice.errors import problem_from_store
from mqservice.lib.names import ENGINE_SEPARATOR, name_fault
from mqservice.lib.problem import Problem
from mqservice.lib.trace_context import TRACEPARENT, carry, context_of, known_parent
from mqservice.store import (
    AckUpTo,
    Extend,
    Nack,
    PutResult,
    Received,
    SettleReply,
    SettleRequest,
    StoreError,
    error_from_code,
)
from mqservice.tracing import Kind, Link, Span, Tracing

if TYPE_CHECKING:
    from mqservice.delivery.messages import Offer

LINKS_MAX: Final = 128  # OpenTelemetry's own default for one span
# Messages that this process gave out and that carry a context, for the links of their settles.
LEASED_MAX: Final = 10_000
CLIENT_GONE: Final = "CLIENT_GONE"
_SYSTEM: Final = "mqservice"


class Operation(enum.StrEnum):
    """``messaging.operation.name``."""

    SEND = "send"
    RECEIVE = "receive"
    PUSH = "push"
    SETTLE = "settle"


_TYPES: Final = {Operation.PUSH: Operation.RECEIVE}  # where it is other than the name

Place = tuple[str, str, int, int, int]  # group, topic, queue, delivery, offset; the engine's names


class OperationSpan:
    """One operation, from its begin to its end; only the first end counts.

    A send starts its span early, for messages to carry it; all others when they end.
    """

    __slots__ = (
        "_attributes", "_began_ns", "_group", "_has_ended", "_links", "_namespace", "_operation",
        "_parent", "_span", "_spans", "_topic",
    )  # fmt: skip

    def __init__(
        self,
        spans: DeliverySpans,
        operation: Operation,
        *,
        namespace: str,
        topic: str = "",
        group: str = "",
        parent: Mapping[str, str] | None = None,
        began_ns: int = 0,
    ) -> None:
        """``began_ns``: now, unless it is given. ``parent``: as ``context_of`` has it."""
        self._began_ns = began_ns or spans.now_ns()
        self._spans, self._operation = spans, operation
        self._namespace, self._topic, self._group = namespace, topic, group
        self._parent: Mapping[str, str] = parent or {}
        self._attributes: dict[str, str | int] = {}
        self._links: dict[str, str] = {}  # ids of messages by their contexts
        self._span: Span | None = None
        self._has_ended = False

    # Send ---------------------------------------------------------------------------------------

    def carry(self, offers: Sequence[Offer]) -> None:
        """Let the messages have the context of their request, or else that of this span.

        A message's own stays. If it is the only message, the span belongs to its trace.
        """
        for offer in offers:
            self._link(offer.properties, "")
        if not self._parent and len(offers) == 1 and self._links:
            self._parent = {TRACEPARENT: self._links.popitem()[0]}
        span = self._started()
        context = self._parent
        if not context and span.traceparent is not None:
            context = {TRACEPARENT: span.traceparent}
        if context:
            for offer in offers:
                carry(offer.properties, context)

    def put_ended(
        self,
        message_ids: Sequence[str],
        results: Sequence[PutResult],
        error: BaseException | None,
        *,
        is_batch: bool,
    ) -> None:
        """The messages are stored or refused, or ``error`` says why not: the end of this."""
        if is_batch:
            self._attributes["messaging.batch.message_count"] = len(message_ids)
        if len(message_ids) == 1:
            self._attributes["messaging.message.id"] = message_ids[0]
        if error is None:
            error = next((each.error for each in results if each.error is not None), None)
        self.end("" if error is None else code_of(error))

    # Receive, push, settle ----------------------------------------------------------------------

    def received(self, received: Received, group: str) -> None:
        """The messages are on their way to the client. ``group``: the engine's name."""
        self._attributes["messaging.batch.message_count"] = received.count
        columns, generation = received.columns, received.head.lease_generation
        if columns is not None:
            parent = self._link(columns.properties, columns.message_ids[0])
            if parent is not None:
                places = zip(
                    columns.queue_ids, columns.queue_offsets, columns.message_ids, strict=True
                )
                for queue_id, offset, message_id in places:
                    place = group, columns.topic, queue_id, generation, offset
                    self._spans.leased.note(place, Link(parent, message_id))
            return
        for record in received.records:
            parent = self._link(record.properties, record.message_id)
            if parent is not None:
                place = group, record.topic, record.queue_id, generation, record.queue_offset
                self._spans.leased.note(place, Link(parent, record.message_id))

    def settled(self, replies: Sequence[tuple[SettleRequest, SettleReply]], code: str = "") -> None:
        """What the engine has said. Of a receive that settles, this is a span of its own.

        ``code``: why one of the messages failed before the engine was asked.
        """
        if self._operation is not Operation.SETTLE:
            OperationSpan(
                self._spans,
                Operation.SETTLE,
                namespace=self._namespace,
                group=self._group,
                parent=self._parent,
                began_ns=self._began_ns,
            ).settled(replies, code)
            return
        count, topics = 0, set()
        for request, reply in replies:
            count += reply.acked_count + reply.nacked_count + reply.dead_lettered_count
            count += sum(1 for until_ms in reply.extended_until_ms if until_ms)
            for place in _places(request):
                topics.add(place[1])
                link = self._spans.leased.find(place)
                if link is not None:
                    self._add_link(link)
            if reply.failures and not code:
                code = code_of(error_from_code(reply.failures[0].code, "refused by the engine"))
        self._attributes["messaging.batch.message_count"] = count
        if len(topics) == 1:
            self._topic = _local(topics.pop())
        self.end(code)

    # The end ------------------------------------------------------------------------------------

    def failed(self, error: BaseException) -> None:
        """It came to nothing, for this reason."""
        self.end(code_of(error))

    def end(self, code: str = "") -> None:
        """``code``: why it failed, or its first message that did; empty: all went well."""
        if self._has_ended:
            return
        self._has_ended = True
        self._started().end(self._attributes, code)

    def _started(self) -> Span:
        if self._span is None:
            operation, topic = self._operation, self._topic
            attributes: dict[str, str | int] = {
                "messaging.system": _SYSTEM,
                "messaging.operation.name": operation.value,
                "messaging.operation.type": _TYPES.get(operation, operation).value,
                "mqservice.namespace": self._namespace,
            }
            if topic:
                attributes["messaging.destination.name"] = topic
            if self._group:
                attributes["messaging.consumer.group.name"] = self._group
            is_cause = operation is Operation.SEND and not self._parent
            self._span = self._spans.tracing.start(
                f"{operation.value} {topic}" if topic else operation.value,
                Kind.PRODUCER if is_cause else Kind.SERVER,
                began_ns=self._began_ns,
                parent=self._parent,
                links=[Link(*each) for each in self._links.items()],
                attributes=attributes,
            )
        return self._span

    def _link(self, properties: Mapping[str, str], message_id: str) -> str | None:
        """The context of a message with these properties, which this links to."""
        text = properties.get(TRACEPARENT)
        parent = None if text is None else known_parent(text)
        if parent is not None:
            self._add_link(Link(parent, message_id))
        return parent

    def _add_link(self, link: Link) -> None:
        if len(self._links) < LINKS_MAX:
            self._links.setdefault(*link)


class LeasedContexts:
    """The links of messages by where they were given out, the ``LEASED_MAX`` newest."""

    def __init__(self) -> None:
        self._links: OrderedDict[Place, Link] = OrderedDict()

    def note(self, place: Place, link: Link) -> None:
        if len(self._links) >= LEASED_MAX:
            self._links.popitem(last=False)
        self._links[place] = link

    def __len__(self) -> int:
        return len(self._links)

    def find(self, place: Place) -> Link | None:
        """None also when another process gave it out, or when that was long ago."""
        return self._links.get(place)


class DeliverySpans:
    """Begins spans; see the module's docstring. One per process in which tracing is on."""

    def __init__(self, tracing: Tracing, now_ns: Callable[[], int] = time.time_ns) -> None:
        self.tracing, self.now_ns = tracing, now_ns
        self.leased = LeasedContexts()

    def of_request(
        self,
        operation: Operation,
        headers: Iterable[tuple[bytes, bytes]],
        *,
        namespace: str,
        topic: str,
        group: str,
    ) -> OperationSpan:
        """Of an HTTP request; the names are as its path has them."""
        return OperationSpan(
            self,
            operation,
            namespace=namespace,
            topic=_known_name(topic),
            group=_known_name(group),
            parent=context_of(headers),
        )

    def of_publish(self, namespace: str, topic: str) -> OperationSpan:
        """Of a frame that publishes."""
        return OperationSpan(self, Operation.SEND, namespace=namespace, topic=_known_name(topic))

    def of_push(self, topic: str, group: str) -> OperationSpan:
        """Of a frame of messages. Names are the engine's."""
        return self._of_group(Operation.PUSH, group, topic=_local(topic))

    def of_settle(self, group: str) -> OperationSpan:
        """Of the settles of a socket that go to the engine together. The group's name is the
        engine's.
        """
        return self._of_group(Operation.SETTLE, group)

    def _of_group(self, operation: Operation, group: str, *, topic: str = "") -> OperationSpan:
        namespace, _, name = group.partition(ENGINE_SEPARATOR)
        return OperationSpan(self, operation, namespace=namespace, topic=topic, group=name)


def code_of(error: BaseException) -> str:
    """What clients are told of ``error``, in one word."""
    if isinstance(error, Problem | Fault):
        return error.code
    if isinstance(error, StoreError):
        return problem_from_store(error).code
    return "INTERNAL"


def _known_name(name: str) -> str:
    """``name`` where it can be one; a client may have sent anything."""
    return "" if name_fault(name) else name


def _local(topic: str) -> str:
    """A topic's name as tenants know it; that of a retry topic keeps its prefix."""
    head, _, name = topic.rpartition(ENGINE_SEPARATOR)
    prefix, separator, _ = head.rpartition(ENGINE_SEPARATOR)
    return f"{prefix}{separator}{name}"


def _places(request: SettleRequest) -> Iterator[Place]:
    group = request.group
    for ref in request.acks:
        for offset in ref.queue_offsets:
            yield group, ref.topic, ref.queue_id, ref.lease_generation, offset
    singles: list[Nack | Extend | AckUpTo] = [
        *request.nacks,
        *request.extends,
        *request.ack_up_tos,
    ]
    for each in singles:
        yield group, each.topic, each.queue_id, each.lease_generation, each.queue_offset
