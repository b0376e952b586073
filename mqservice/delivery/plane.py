"""The data plane: a plain ASGI application for all that touches messages. No Django on this road.

    scope ──▶ match (dict hit) ──▶ key (dict hit) ──▶ handler of the method ──▶ answer
                                                         └─ Problem ──▶ problem+json

Called by ``mqservice.asgi`` for every path that ``find_match`` knows. Keys and routes come from the
process's caches; only a miss asks PostgreSQL.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Final

from mqservice.accounts.access import Principal, unauthenticated
from mqservice.delivery.context import DeliveryContext, counted
from mqservice.delivery.decoding import Fault, problem_of
from mqservice.delivery.http import (
    ClientGone,
    Match,
    Receive,
    Request,
    Scope,
    Send,
    answer_problem,
    request_id_of,
)
from mqservice.delivery.limits import KIB, MIB
from mqservice.delivery.produce import produce_batch, produce_one
from mqservice.delivery.reading.browse import browse_messages, read_message
from mqservice.delivery.reading.dead_letters import browse_dead_letters, read_dead_letter
from mqservice.delivery.reading.pull import pull_messages, read_offset_at_time
from mqservice.delivery.reading.scheduled import (
    cancel_scheduled,
    list_all_scheduled,
    list_scheduled,
    reschedule,
    send_scheduled,
)
from mqservice.delivery.receive import receive_messages
from mqservice.delivery.settle import settle_messages
from mqservice.delivery.spans import CLIENT_GONE, Operation
from mqservice.errors import problem_from_store
from mqservice.lib.bounded_cache import BoundedCache
from mqservice.lib.corked_transport import recognised
from mqservice.lib.problem import Problem
from mqservice.quotas.meter import TenantMeter
from mqservice.quotas.refusals import body_bytes_of
from mqservice.store import StoreError
from mqservice.usage.counts import usage_counts

log = logging.getLogger(__name__)

_PATH: Final = re.compile(
    r"/v1/(?:ns/(?P<ns>[^/]+)|-)/"
    r"(?:topics/(?P<topic>[^/:]+)/"
    r"(?:messages(?P<batch>:batch|/(?P<message_id>[^/:]+))?"
    r"|groups/(?P<reader>[^/:]+):(?P<receive>receive)"
    r"|(?P<waiting>scheduled)"
    r"|queues/(?P<queue>[^/:]+)/(?P<what>messages|offset))"
    r"|scheduled(?:/(?P<handle>[^/:]+)(?P<verb>:send|:reschedule)?)?"
    r"|groups/(?P<group>[^/:]+)(?::(?P<settle>settle)|/(?P<dlq>dlq)(?:/(?P<dead_id>[^/:]+))?))"
)
# Paths of requests that showed a good key. A namespace and two names make 220 characters with what
# stands around them; four bytes each, and as many again for the parts.
_MATCH_BYTES_MAX: Final = 2 * KIB
_MATCHES_BYTES_MAX: Final = 4 * MIB
MESSAGES: Final = "messages"
MESSAGES_BATCH: Final = "messages_batch"
MESSAGE: Final = "message"
QUEUE_MESSAGES: Final = "queue_messages"
QUEUE_OFFSET: Final = "queue_offset"
RECEIVE: Final = "receive"
SETTLE: Final = "settle"
DEAD_LETTERS: Final = "dead_letters"
DEAD_LETTER: Final = "dead_letter"
SCHEDULED: Final = "scheduled"
SCHEDULED_ONE: Final = "scheduled_one"
SCHEDULED_SEND: Final = "scheduled_send"
SCHEDULED_MOVE: Final = "scheduled_move"
SCHEDULED_ALL: Final = "scheduled_all"

Handler = Callable[[DeliveryContext, Request], Awaitable[None]]
HANDLERS: Final[dict[str, dict[str, Handler]]] = {
    MESSAGES: {"POST": produce_one, "GET": browse_messages},
    MESSAGES_BATCH: {"POST": produce_batch},
    MESSAGE: {"GET": read_message},
    QUEUE_MESSAGES: {"GET": pull_messages},
    QUEUE_OFFSET: {"GET": read_offset_at_time},
    RECEIVE: {"POST": receive_messages},
    SETTLE: {"POST": settle_messages},
    DEAD_LETTERS: {"GET": browse_dead_letters},
    DEAD_LETTER: {"GET": read_dead_letter},
    SCHEDULED: {"GET": list_scheduled},
    SCHEDULED_ONE: {"DELETE": cancel_scheduled},
    SCHEDULED_SEND: {"POST": send_scheduled},
    SCHEDULED_MOVE: {"POST": reschedule},
    SCHEDULED_ALL: {"GET": list_all_scheduled},
}
_PRODUCES: Final = frozenset({MESSAGES, MESSAGES_BATCH})
# Settling, cancelling and sending now free what is held: they are never refused for a rate.
_FREES: Final = frozenset({SETTLE, SCHEDULED_ONE, SCHEDULED_SEND})
_OF_HANDLES: Final = {None: SCHEDULED_ONE, ":send": SCHEDULED_SEND, ":reschedule": SCHEDULED_MOVE}
_SELDOM: Final = frozenset({MESSAGE, DEAD_LETTER, *_OF_HANDLES.values()})

_TRACED: Final = {
    MESSAGES: Operation.SEND,
    MESSAGES_BATCH: Operation.SEND,
    RECEIVE: Operation.RECEIVE,
    SETTLE: Operation.SETTLE,
}

# Refusals that are made of what a tenant asks for, not of a single request.
_PACED: Final = frozenset({"RATE_LIMITED", "INFLIGHT_LIMIT", "QUOTA_EXCEEDED"})
_CLOSE: Final = [(b"connection", b"close")]

_matches: Final = BoundedCache[str, Match](
    bytes_max=_MATCHES_BYTES_MAX, entry_bytes_max=_MATCH_BYTES_MAX
)
known_match: Final = _matches.get
"""``find_match`` of a path that was kept by ``keep_match``; None of all others."""


def find_match(path: str) -> Match | None:
    """What ``path`` means to the data plane; None if it is not its own. Usually one dict hit.

    Keeps nothing: whoever calls has not shown a key yet.
    """
    match = known_match(path)
    if match is not None:
        return match
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    if found["settle"]:
        operation = SETTLE
    elif found["dlq"]:
        operation = DEAD_LETTER if found["dead_id"] else DEAD_LETTERS
    elif found["receive"]:
        operation = RECEIVE
    elif found["queue"]:
        operation = QUEUE_MESSAGES if found["what"] == "messages" else QUEUE_OFFSET
    elif found["handle"]:
        operation = _OF_HANDLES[found["verb"]]
    elif found["waiting"]:
        operation = SCHEDULED
    elif found["message_id"]:
        operation = MESSAGE
    elif not found["topic"]:
        operation = SCHEDULED_ALL
    else:
        operation = MESSAGES_BATCH if found["batch"] else MESSAGES
    return Match(
        operation,
        found["ns"] or "-",
        found["topic"] or "",
        found["reader"] or found["group"] or "",
        found["message_id"] or found["dead_id"] or found["handle"] or "",
        found["queue"] or "",
    )


def keep_match(path: str, match: Match) -> None:
    """Have ``match`` found again without a search, for a caller that has shown a good key."""
    if match.operation in _SELDOM:
        return  # seldom asked for twice; it would only push out the others
    _matches.put(path, match, 2 * 4 * len(path))


class DataPlane:
    """See the module's docstring. One per process; stateless besides its context."""

    def __init__(self, context: DeliveryContext) -> None:
        self._context = context

    async def __call__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        match: Match,
        principal: Principal | None = None,
    ) -> None:
        """Answer one HTTP request that ``find_match`` has matched.

        ``principal``: who asks, where that is known without a key.
        """
        headers: dict[bytes, bytes] = dict(scope["headers"])
        request = Request(scope, receive, send, match, headers, request_id_of(headers))
        keys = self._context.caches.keys
        try:
            if principal is None:
                authorization = headers.get(b"authorization")
                if authorization is None:
                    raise unauthenticated()
                principal = keys.cached(authorization)
                if principal is None:
                    principal = await counted(self._context, scope, keys.load(authorization))
                recognised(send)
                if known_match(scope["path"]) is None:
                    keep_match(scope["path"], match)
            request.principal = principal
            if self._context.spans is not None and scope["method"] == "POST":
                operation = _TRACED.get(match.operation)
                if operation is not None:
                    self._context.spans.of_request(request, operation)
            handlers = HANDLERS[match.operation]
            handler = handlers.get(scope["method"])
            if handler is None:
                await _refuse_method(request, sorted(handlers))
                return
            await self._metered(handler, request)
        except Exception as exc:
            await self.refuse(request, exc)

    async def _metered(self, handler: Handler, request: Request) -> None:
        """What is read is charged once it is known; producers charge what they store."""
        context = self._context
        tenant_id = request.principal.tenant_id
        meter = context.meters.known.get(tenant_id) or await context.meters.load(tenant_id)
        request.meter = meter
        try:
            is_read = await self._charged(handler, request, meter)
        except BaseException:
            usage_counts.called(tenant_id)
            raise
        topic = _topic_of(request)
        usage_counts.called(tenant_id, topic)
        if is_read and topic:
            usage_counts.sent(topic, request.read_count, request.answer_bytes)

    async def _charged(self, handler: Handler, request: Request, meter: TenantMeter) -> bool:
        """Whether it was charged as what is read."""
        context = self._context
        operation = request.match.operation
        if operation in _PRODUCES and request.scope["method"] == "POST":
            request.is_reading = False
            meter.check_in(context.clock.monotonic_ms())
            await handler(context, request)
            return False
        if operation in _FREES:
            await handler(context, request)
            return False
        meter.check_out(context.clock.monotonic_ms())
        try:
            await handler(context, request)
        finally:
            meter.charge_out(request.message_count, request.answer_bytes)
        return True

    async def refuse(self, request: Request, exc: Exception) -> None:
        """Answer a request that ``exc`` has ended."""
        if isinstance(exc, Problem):
            await self._refuse(request, exc)
        elif isinstance(exc, Fault):
            await self._refuse(request, problem_of(exc))
        elif isinstance(exc, StoreError):
            await self._refuse(request, problem_from_store(exc))
        elif isinstance(exc, ClientGone):
            if request.span is not None:
                request.span.end(CLIENT_GONE)
        else:
            log.error(
                "A data plane request failed",
                exc_info=exc,
                extra={"action": "request_failed", "request_id": request.request_id},
            )
            problem = Problem.of("INTERNAL", "the request failed; its id is in the log")
            await answer_problem(request, problem)

    async def _refuse(self, request: Request, problem: Problem) -> None:
        if request.scope["method"] == "GET":
            problem.stored = None  # no message was offered
        elif (
            problem.stored is None and problem.status < 500 and request.match.operation in _PRODUCES
        ):
            problem.stored = False
        extra = None
        if problem.code in _PACED and not await self._paced(request):
            extra = _CLOSE
        await answer_problem(request, problem, extra)

    async def _paced(self, request: Request) -> bool:
        """Let a refusal wait for its turn among its tenant's; False when too many wait already.

        Who is refused without a pause would else keep the process from others: on its connection
        nothing more is read meanwhile.
        """
        meter = request.meter
        if meter is None:
            return True
        now_ms = self._context.clock.monotonic_ms()
        return await meter.refusals.turn(now_ms, asyncio.sleep, body_bytes_of(request.headers))


def _topic_of(request: Request) -> str:
    """As the engine knows it, of a request that was answered: there is such a topic. Empty where
    the path names none.
    """
    match = request.match
    if not match.topic:
        return ""
    namespace = request.principal.namespace_named(match.ns)
    return f"{namespace}%{match.topic}"


async def _refuse_method(request: Request, methods: list[str]) -> None:
    problem = Problem.of("METHOD_NOT_ALLOWED", f"this path takes {' and '.join(methods)} only")
    await answer_problem(request, problem, [(b"allow", ", ".join(methods).encode())])
