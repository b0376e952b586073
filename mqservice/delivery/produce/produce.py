"""Produce over REST: one message as JSON or raw, or a batch as a JSON array or NDJSON.

    whole body ──▶ ProduceMessage ──▶ Offer ──▶ check, queue, record ──▶ store (with all of a tick)
                           201 {id, queue, offset, ...} ◀── done ────────────┘

A batch with a fault in any message is refused as a whole, with a pointer to each place, and nothing
of it is stored. What the engine refuses after that shows in the message's own result (207).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec

from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.decoding import Fault, decode, problem_of
from mqservice.delivery.delivery_time import as_time_fault, read_level_header, read_wait
from mqservice.delivery.http import JSON_TYPE, NDJSON_TYPE, Request
from mqservice.delivery.limits import (
    BATCH_BYTES_MAX,
    BATCH_COUNT_MAX,
    FAULTS_MAX,
    JSON_FIELDS_BYTES,
    JSON_GROWTH,
    REQUEST_BYTES_MAX,
)
from mqservice.delivery.messages import (
    Offer,
    check_offer,
    to_offer,
)
from mqservice.delivery.path_routes import known_topic
from mqservice.delivery.produce.idempotency import IDEMPOTENCY_KEY, request_key
from mqservice.delivery.produce.produce_responses import BatchResponse
from mqservice.delivery.produce.put import Put
from mqservice.lib.problem import Problem
from mqservice.lib.trace_context import TRACEPARENT_HEADER, carry, context_of
from mqservice.protocol.messages import PackedMessage, ProduceMessage
from mqservice.topics.routes import TopicRoute

T = TypeVar("T")

_PROPERTY_HEADER: Final = b"mq-prop-"
_QUEUE_DIGITS_MAX: Final = 9


_encode = msgspec.json.Encoder().encode
_decode_message = msgspec.json.Decoder(ProduceMessage).decode
_decode_array = msgspec.json.Decoder(list[ProduceMessage]).decode
_decode_lines = msgspec.json.Decoder(ProduceMessage).decode_lines


def begin_produce(
    context: DeliveryContext, request: Request
) -> tuple[int, tuple[TopicRoute, bool]]:
    """How many bytes the body of ``POST .../topics/{topic}/messages`` may have; the topic, and
    whether the message is JSON.

    Raises Problem unless the key may produce to the topic; NotLoaded.
    """
    request.principal.require(Scope.PRODUCE, Kind.TOPIC, request.match.topic)
    route = known_topic(context, request)
    if request.media_type == JSON_TYPE:
        return JSON_GROWTH * route.body_bytes_max + JSON_FIELDS_BYTES, (route, True)
    return route.body_bytes_max, (route, False)


def produce_one(
    context: DeliveryContext, request: Request, found: tuple[TopicRoute, bool], body: bytes
) -> None:
    """``POST .../topics/{topic}/messages``. Raises Fault, Problem or StoreError."""
    route, is_json = found
    offer = to_offer(_decoded(_decode_message, body)) if is_json else raw_offer(request, body)
    check_offer(offer, route)
    put = put_of(context, request, route, [offer], is_batch=False)
    put.put_all(partial(_answer_one, request, put))


def _answer_one(request: Request, put: Put) -> None:
    try:
        status, stored = put.response()
        content = _encode(stored)
    except Exception as exc:
        request.fail(exc)
    else:
        request.reply(status, content)


def begin_batch(context: DeliveryContext, request: Request) -> tuple[int, tuple[TopicRoute, bool]]:
    """As ``begin_produce``, of ``POST .../topics/{topic}/messages:batch``."""
    request.principal.require(Scope.PRODUCE, Kind.TOPIC, request.match.topic)
    route, media_type = known_topic(context, request), request.media_type
    if media_type not in (JSON_TYPE, NDJSON_TYPE):
        raise Problem.of(
            "UNSUPPORTED_MEDIA_TYPE", "a batch must be application/json or application/x-ndjson"
        )
    return REQUEST_BYTES_MAX, (route, media_type == JSON_TYPE)


def produce_batch(
    context: DeliveryContext, request: Request, found: tuple[TopicRoute, bool], body: bytes
) -> None:
    """``POST .../topics/{topic}/messages:batch``. Raises Fault, Problem or StoreError."""
    route, is_json = found
    messages = _decoded(_decode_array, body) if is_json else decode_lines(body)
    offers = check_batch(messages, route)
    put = put_of(context, request, route, offers, is_batch=True)
    put.put_all(partial(_answer_batch, request, put))


def _answer_batch(request: Request, put: Put) -> None:
    try:
        status, results = put.results()
        content = _encode(BatchResponse(results))
    except Exception as exc:
        request.fail(exc)
    else:
        request.reply(status, content)


def put_of(
    context: DeliveryContext,
    request: Request,
    route: TopicRoute,
    offers: list[Offer],
    *,
    is_batch: bool,
    marks: list[dict[str, str]] | None = None,
    window_ms: int = 0,
) -> Put:
    """The messages have the trace of their request as properties, if it is part of one. ``marks``,
    ``window_ms``: as of ``Put``.
    """
    assert request.meter is not None, "the data plane has one for each request"
    if request.span is not None:
        request.span.carry(offers)
    elif TRACEPARENT_HEADER in request.headers:
        trace = context_of(request.scope["headers"])
        for offer in offers:
            carry(offer.properties, trace)
    return Put(
        context,
        request.meter,
        route,
        offers,
        request.client,
        key=request_key(request) if IDEMPOTENCY_KEY in request.headers else None,
        is_batch=is_batch,
        marks=marks,
        window_ms=window_ms,
        span=request.span,
    )


def _decoded(decoder: Callable[[bytes], T], body: bytes) -> T:
    """See ``decode``."""
    try:
        return decode(decoder, body)
    except Fault as fault:
        raise as_time_fault(fault) from None


def raw_offer(request: Request, body: bytes) -> Offer:
    """The message of a raw request: the body as it is, all else in ``mq-`` headers.

    Raises:
        Fault: an ``mq-`` header that is unknown, given twice, or not UTF-8.
    """
    tag = message_group = dedup_id = None
    delay = deliver_at = None
    queue: int | None = None
    delay_level: int | None = None
    keys: list[str] = []
    properties: dict[str, str] = {}
    seen: set[bytes] = set()
    for name, value in request.scope["headers"]:
        if not name.startswith(b"mq-"):
            continue
        shown = name.decode("latin-1")
        if name in seen:
            raise Fault("", "BAD_REQUEST", f"header {shown} is given twice")
        seen.add(name)
        try:
            text = value.decode()
        except UnicodeDecodeError as exc:
            raise Fault("", "BAD_REQUEST", f"header {shown} is not valid UTF-8") from exc
        if name == b"mq-tag":
            tag = text
        elif name == b"mq-keys":
            keys = [key.strip() for key in text.split(",")]
        elif name == b"mq-message-group":
            message_group = text
        elif name == b"mq-queue":
            if not value.isdigit() or len(value) > _QUEUE_DIGITS_MAX:
                raise Fault("/queue", "BAD_REQUEST", "the header mq-queue must be a queue number")
            queue = int(value)
        elif name == b"mq-delay":
            delay = text
        elif name == b"mq-delay-level":
            delay_level = read_level_header(text)
        elif name == b"mq-deliver-at":
            deliver_at = text
        elif name == b"mq-dedup-id":
            dedup_id = text
        elif name.startswith(_PROPERTY_HEADER):
            properties[shown[len(_PROPERTY_HEADER) :]] = text
        else:
            raise Fault("", "BAD_REQUEST", f"the header {shown} is unknown")
    wait = read_wait(delay_level, delay, None, deliver_at)
    return Offer(body, False, tag, keys, message_group, properties, queue, wait, dedup_id)


def decode_lines(body: bytes) -> list[ProduceMessage]:
    """The messages of an NDJSON body; a fault's pointer begins with the message's index."""
    try:
        return _decoded(_decode_lines, body)
    except Fault as fault:
        if fault.pointer:
            raise
    # Only a syntax error is left, whose line the decoder does not tell: find it.
    lines = [line for line in body.split(b"\n") if line.strip()]
    messages = []
    for index, line in enumerate(lines):
        try:
            messages.append(_decoded(_decode_message, line))
        except Fault as fault:
            raise fault.under(f"/{index}") from None
    return messages


def check_batch(
    messages: Sequence[ProduceMessage | PackedMessage], route: TopicRoute
) -> list[Offer]:
    """Offers of all ``messages``, or a Problem that lists up to ``FAULTS_MAX`` faults."""
    check = BatchCheck(messages, route)
    check.take(len(messages))
    return check.offers()


class BatchCheck:
    """``check_batch`` in steps: ``take`` until it says that all were looked at, then ``offers``.

    ``pointer``: where the messages are in the request.

    Raises Fault for a batch that is empty or too long.
    """

    def __init__(
        self,
        messages: Sequence[ProduceMessage | PackedMessage],
        route: TopicRoute,
        *,
        pointer: str = "",
    ) -> None:
        if not messages:
            raise Fault(
                pointer, "BAD_REQUEST", "a batch must not be empty", item_code="BATCH_EMPTY"
            )
        if len(messages) > BATCH_COUNT_MAX:
            raise Fault(
                f"{pointer}/{BATCH_COUNT_MAX}",
                "BAD_REQUEST",
                f"a batch has at most {BATCH_COUNT_MAX} messages, found {len(messages)}",
                item_code="BATCH_TOO_LONG",
            )
        self._messages = messages
        self._route = route
        self._pointer = pointer
        self._taken_count = 0
        self._offers: list[Offer] = []
        self._faults: list[Fault] = []

    def take(self, count: int) -> bool:
        """Check the next ``count`` messages; whether those were the last ones."""
        start = self._taken_count
        end = self._taken_count = min(start + count, len(self._messages))
        route, offers = self._route, self._offers
        for index in range(start, end):
            try:
                offer = to_offer(self._messages[index])
                check_offer(offer, route)
            except Fault as fault:
                self._faults.append(fault.under(f"{self._pointer}/{index}"))
                if len(self._faults) == FAULTS_MAX:
                    return True
            else:
                offers.append(offer)
        return end == len(self._messages)

    def offers(self) -> list[Offer]:
        """What was checked. Raises Problem for the faults that were found."""
        if self._faults:
            raise problem_of(*self._faults, stored=False)
        total_bytes = sum([len(offer.body) for offer in self._offers])
        if total_bytes > BATCH_BYTES_MAX:
            raise Problem.of(
                "BODY_TOO_LARGE",
                f"the bodies have {total_bytes} bytes, a batch takes at most {BATCH_BYTES_MAX}",
            )
        return self._offers
