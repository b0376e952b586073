"""Produce over REST: one message as JSON or raw, or a batch as a JSON array or NDJSON.

    body ──▶ ProduceMessage ──▶ Offer ──▶ check, queue, record ──▶ store.put (with all of the tick)
                                                                      │ one await
                                  201 {id, queue, offset, ...} ◀──────┘

A batch with a fault in any message is refused as a whole, with a pointer to each place, and nothing
of it is stored. What the engine refuses after that shows in the message's own result (207).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.decoding import Fault, decode, problem_of
from mqservice.delivery.http import JSON_TYPE, NDJSON_TYPE, Request, answer, read_body
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
    PackedMessage,
    ProduceMessage,
    check_offer,
    encode_offer,
)
from mqservice.delivery.recall_handles import RecallHandle
from mqservice.delivery.waits import is_to_come, level_of_header, told_as_time, wait_of
from mqservice.errors import problem_from_store
from mqservice.lib.names import name_fault
from mqservice.lib.problem import Problem
from mqservice.lib.timestamps import rfc3339
from mqservice.store import PutResult, StoreError, Wait
from mqservice.topics.routes import TopicRoute

T = TypeVar("T")

_PROPERTY_HEADER: Final = b"mq-prop-"
_QUEUE_DIGITS_MAX: Final = 9


class StoredAnswer(msgspec.Struct, frozen=True, gc=False):
    """Answer to one stored message. The last two belong to capabilities that come later.

    One that is to come has no offset yet, but ``deliver_at`` and ``recall_handle``.
    """

    id: str
    topic: str
    queue: int
    offset: int | None
    stored_at: str
    durability: str
    deliver_at: str | None = None
    recall_handle: str | None = None
    transaction_id: str | None = None
    duplicate: bool = False


class StoredResult(msgspec.Struct, frozen=True, gc=False):
    """Result of one stored message of a batch; see ``StoredAnswer``."""

    index: int
    status: int
    id: str
    queue: int
    offset: int | None
    stored_at: str
    durability: str
    duplicate: bool = False
    deliver_at: str | None = None
    recall_handle: str | None = None


class RefusedResult(msgspec.Struct, frozen=True):
    """Result of one message of a batch that the engine did not store."""

    index: int
    status: int
    code: str
    detail: str
    retryable: bool
    stored: bool | None


class BatchAnswer(msgspec.Struct, frozen=True):
    """Results in the order of the request."""

    results: list[StoredResult | RefusedResult]


_encode = msgspec.json.Encoder().encode
_decode_message = msgspec.json.Decoder(ProduceMessage).decode
_decode_array = msgspec.json.Decoder(list[ProduceMessage]).decode
_decode_lines = msgspec.json.Decoder(ProduceMessage).decode_lines


async def produce_one(context: DeliveryContext, request: Request) -> None:
    """``POST .../topics/{topic}/messages``"""
    route = await topic_route(context, request)
    if request.media_type == JSON_TYPE:
        body = await read_body(request, JSON_GROWTH * route.body_bytes_max + JSON_FIELDS_BYTES)
        offer = _decoded(_decode_message, body).offer()
    else:
        body = await read_body(request, route.body_bytes_max)
        offer = raw_offer(request, body)
    check_offer(offer, route)
    queue_id = context.queues.choose(route, offer.message_group, offer.queue)
    born_ms = context.clock.now_ms()
    message_id, record = encode_offer(
        offer, route, queue_id=queue_id, born_ms=born_ms, born_host=request.client
    )
    result = (await context.store.put([record]))[0]
    if result.error is not None:
        raise result.error
    stored = StoredAnswer(
        message_id,
        route.name,
        queue_id,
        result.queue_offset,
        rfc3339(result.store_timestamp_ms),
        durability_of(route),
    )
    if offer.wait is not None and is_to_come(offer.wait, born_ms):
        stored = msgspec.structs.replace(
            stored, **waiting(context, route, message_id, offer.wait, result)
        )
    await answer(request, 201, _encode(stored))


async def produce_batch(context: DeliveryContext, request: Request) -> None:
    """``POST .../topics/{topic}/messages:batch``"""
    route = await topic_route(context, request)
    media_type = request.media_type
    if media_type not in (JSON_TYPE, NDJSON_TYPE):
        raise Problem.of(
            "UNSUPPORTED_MEDIA_TYPE", "a batch is application/json or application/x-ndjson"
        )
    body = await read_body(request, REQUEST_BYTES_MAX)
    messages = _decoded(_decode_array, body) if media_type == JSON_TYPE else decode_lines(body)
    offers = check_batch(messages, route)
    status, results = await PendingPut(context, route, offers, request.client).results()
    await answer(request, status, _encode(BatchAnswer(results)))


async def topic_route(context: DeliveryContext, request: Request) -> TopicRoute:
    """The topic of the path, if the key may produce to it."""
    principal, ns, topic = request.principal, request.match.ns, request.match.topic
    principal.require(Scope.PRODUCE, Kind.TOPIC, topic)
    if b"idempotency-key" in request.headers:
        # Ignored, it would let clients send again and trust that nothing is stored twice.
        raise Problem.of("BAD_REQUEST", "Idempotency-Key is not supported yet; leave it out")
    routes = context.caches.routes
    route = routes.topic(principal, ns, topic)
    if route is None:
        if fault := name_fault(topic):
            raise Problem.of("ILLEGAL_TOPIC", fault)
        route = await routes.load_topic(principal, ns, topic)
    return route


def durability_of(route: TopicRoute) -> str:
    """What the answer may promise: on disk, or on its way there."""
    return "synced" if route.durability == "sync" else "buffered"


def waiting(
    context: DeliveryContext, route: TopicRoute, message_id: str, wait: Wait, result: PutResult
) -> dict[str, Any]:  # Any: fields of an answer, as ``replace`` takes them
    """What the answer says of a message that is to come. The schedule is always durable."""
    place = wait.queue_id, result.queue_offset
    return {
        "offset": None,
        "durability": "synced",
        "deliver_at": rfc3339(wait.due_ms(result.store_timestamp_ms)),
        "recall_handle": context.recall_handles.write(
            RecallHandle(route.engine_name, message_id, *place)
        ),
    }


def _decoded(decoder: Callable[[bytes], T], body: bytes) -> T:
    """See ``decode``."""
    try:
        return decode(decoder, body)
    except Fault as fault:
        raise told_as_time(fault) from None


def raw_offer(request: Request, body: bytes) -> Offer:
    """The message of a raw request: the body as it is, all else in ``mq-`` headers.

    Raises:
        Fault: an ``mq-`` header that is unknown, given twice, or not UTF-8.
    """
    tag = message_group = None
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
                raise Fault("/queue", "BAD_REQUEST", "header mq-queue is not a queue number")
            queue = int(value)
        elif name == b"mq-delay":
            delay = text
        elif name == b"mq-delay-level":
            delay_level = level_of_header(text)
        elif name == b"mq-deliver-at":
            deliver_at = text
        elif name.startswith(_PROPERTY_HEADER):
            properties[shown[len(_PROPERTY_HEADER) :]] = text
        else:
            raise Fault("", "BAD_REQUEST", f"header {shown} is not known")
    wait = wait_of(delay_level, delay, None, deliver_at)
    return Offer(body, False, tag, keys, message_group, properties, queue, wait)


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
    if not messages:
        raise Fault("", "BAD_REQUEST", "a batch must not be empty", item_code="BATCH_EMPTY")
    if len(messages) > BATCH_COUNT_MAX:
        raise Fault(
            f"/{BATCH_COUNT_MAX}",
            "BAD_REQUEST",
            f"a batch has at most {BATCH_COUNT_MAX} messages, found {len(messages)}",
            item_code="BATCH_TOO_LONG",
        )
    offers: list[Offer] = []
    faults: list[Fault] = []
    total_bytes = 0
    for index, message in enumerate(messages):
        try:
            offer = message.offer()
            check_offer(offer, route)
        except Fault as fault:
            faults.append(fault.under(f"/{index}"))
            if len(faults) == FAULTS_MAX:
                break
        else:
            offers.append(offer)
            total_bytes += len(offer.body)
    if faults:
        raise problem_of(*faults, stored=False)
    if total_bytes > BATCH_BYTES_MAX:
        raise Problem.of(
            "BODY_TOO_LARGE",
            f"the bodies have {total_bytes} bytes, a batch takes at most {BATCH_BYTES_MAX}",
        )
    return offers


class PendingPut:
    """Checked offers on their way into the store; they were handed over when this was made."""

    def __init__(
        self,
        context: DeliveryContext,
        route: TopicRoute,
        offers: list[Offer],
        client: tuple[str, int],
    ) -> None:
        """Raises Problem, with nothing stored, when a message does not fit a record."""
        born_ms = context.clock.now_ms()
        choose = context.queues.choose
        self._context, self._route = context, route
        self._durability = durability_of(route)
        self._waits = {
            index: offer.wait
            for index, offer in enumerate(offers)
            if offer.wait is not None and is_to_come(offer.wait, born_ms)
        }
        self._queue_ids = [choose(route, o.message_group, o.queue) for o in offers]
        self._message_ids: list[str] = []
        records: list[bytes] = []
        for index, (offer, queue_id) in enumerate(zip(offers, self._queue_ids, strict=True)):
            try:
                message_id, record = encode_offer(
                    offer, route, queue_id=queue_id, born_ms=born_ms, born_host=client
                )
            except Fault as fault:
                raise problem_of(fault.under(f"/{index}"), stored=False) from None
            self._message_ids.append(message_id)
            records.append(record)
        self._outcomes = context.store.put(records)

    async def results(self) -> tuple[int, list[StoredResult | RefusedResult]]:
        """201 and the results in order, or 207 when some were refused.

        Raises:
            Problem: nothing was stored.
            StoreError: nothing was stored, or nothing is known.
        """
        outcomes = await self._outcomes
        refused_count = sum(outcome.error is not None for outcome in outcomes)
        if refused_count == len(outcomes):
            assert outcomes[0].error is not None
            raise problem_from_store(outcomes[0].error)
        results: list[StoredResult | RefusedResult] = []
        stored_ms, stored_at = -1, ""
        durability = self._durability
        for index, (outcome, message_id, queue_id) in enumerate(
            zip(outcomes, self._message_ids, self._queue_ids, strict=True)
        ):
            queue_offset, _, at_ms, error = outcome
            if error is not None:
                results.append(_refused_result(index, error))
                continue
            if at_ms != stored_ms:  # messages of one frame are stored at one time
                stored_ms, stored_at = at_ms, rfc3339(at_ms)
            stored = StoredResult(
                index, 201, message_id, queue_id, queue_offset, stored_at, durability
            )
            if index in self._waits:
                wait = self._waits[index]
                more = waiting(self._context, self._route, message_id, wait, outcome)
                stored = msgspec.structs.replace(stored, **more)
            results.append(stored)
        return (207 if refused_count else 201), results


def _refused_result(index: int, error: StoreError) -> RefusedResult:
    problem = problem_from_store(error)
    return RefusedResult(
        index, problem.status, problem.code, problem.detail, problem.retryable, problem.stored
    )
