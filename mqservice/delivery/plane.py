"""The data plane: every request that touches messages. No Django on this road.

    web.transport ── whole request, known key ──▶ take ──┐
    ASGI scope ──▶ task: key, meter, routes, body ───────┴──▶ admit ▶ begin ▶ serve ▶ reply or fail

A request that changes or receives messages is served by one synchronous handler once its body is
whole: ``begin`` says who may and how large the body may be, ``serve`` hands it to the engine, and
the engine's reply becomes the response without a task in between. What this process does not know
yet (``NotLoaded``) is loaded in a task, and the same handler is called again. Requests that only
read wait for the engine in a task of their own.

``take`` is called by ``web.transport`` for requests that are whole; ``DataPlane`` itself is an ASGI
application for all others: the first with a key, large bodies, requests in pieces, requests of the
console. It is called by ``mqservice.asgi`` for every path that ``find_match`` knows.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

from mqservice.accounts.access import Principal, unauthenticated
from mqservice.delivery.context import DeliveryContext, counted
from mqservice.delivery.decoding import Fault, problem_of
from mqservice.delivery.http import (
    ClientDisconnected,
    Match,
    Receive,
    Request,
    Scope,
    Send,
    check_body,
    read_body,
    respond,
    respond_problem,
    try_respond,
)
from mqservice.delivery.limits import KIB, MIB
from mqservice.delivery.operation import NAMESPACE, BodyHandler, Cancel, FoundT, ReadHandler
from mqservice.delivery.operations import OPERATIONS, PRODUCE, PRODUCE_BATCH, RECEIVE, SETTLE
from mqservice.delivery.path_routes import NotLoaded
from mqservice.delivery.reading.browse import READ_MESSAGE
from mqservice.delivery.reading.copy import COPY
from mqservice.delivery.reading.dead_letters import READ_DEAD_LETTER
from mqservice.delivery.reading.scheduled import CANCEL_SCHEDULED, RESCHEDULE, SEND_SCHEDULED
from mqservice.delivery.spans import CLIENT_GONE
from mqservice.delivery.spans import Operation as TracedOperation
from mqservice.errors import problem_from_store
from mqservice.lib.bounded_cache import BoundedCache
from mqservice.lib.problem import Problem
from mqservice.quotas.rejection_pacing import body_bytes_of
from mqservice.store import NamespaceMoved, StoreError
from mqservice.usage.counts import usage_counts
from mqservice.web.cycle import Cycle, Serve, recognised

log = logging.getLogger(__name__)

# Any: what ``begin`` of a handler finds is for its ``serve`` alone; so below.
HANDLERS: Final[dict[str, dict[str, BodyHandler[Any] | ReadHandler]]] = {}
"""What serves each method of each path."""
for _each in OPERATIONS:
    HANDLERS.setdefault(_each.path, {})[_each.method] = _each.handler


def _path_pattern() -> re.Pattern[str]:
    """Any path of the data plane. The last group that matched is named after its place in
    ``HANDLERS``; the groups within it are the parts of the path that differ.
    """
    forms = []
    for place, path in enumerate(HANDLERS):
        form = re.sub(r"\{\w+\}", "([^/:]+)", path.removeprefix(f"{NAMESPACE}/"))
        forms.append(f"(?P<path{place}>{form})")
    return re.compile(f"/v1/(?:ns/([^/]+)|-)/(?:{'|'.join(forms)})")


_PATH: Final = _path_pattern()
# By the group of ``_PATH``: its place there, the path, and the names of its parts that differ.
_PATHS: Final = {
    f"path{place}": (_PATH.groupindex[f"path{place}"], path, re.findall(r"\{(\w+)\}", path)[1:])
    for place, path in enumerate(HANDLERS)
}
# Paths of requests that showed a good key. A namespace and two names make 220 characters with what
# stands around them; four bytes each, and as many again for the parts.
_MATCH_BYTES_MAX: Final = 2 * KIB
_MATCHES_BYTES_MAX: Final = 4 * MIB

_PRODUCES: Final = frozenset({PRODUCE.path, PRODUCE_BATCH.path, COPY.path})
# Settling, cancelling and sending now free what is held: they are never refused for a rate.
_FREES: Final = frozenset({SETTLE.path, CANCEL_SCHEDULED.path, SEND_SCHEDULED.path})
_SELDOM: Final = frozenset(
    each.path
    for each in (READ_MESSAGE, READ_DEAD_LETTER, CANCEL_SCHEDULED, SEND_SCHEDULED, RESCHEDULE)
)
_TRACED: Final = {
    PRODUCE.path: TracedOperation.SEND,
    PRODUCE_BATCH.path: TracedOperation.SEND,
    RECEIVE.path: TracedOperation.RECEIVE,
    SETTLE.path: TracedOperation.SETTLE,
}

# Refusals that are made of what a tenant asks for, not of a single request.
_PACED: Final = frozenset({"RATE_LIMITED", "INFLIGHT_LIMIT", "QUOTA_EXCEEDED"})
_CLOSE: Final = [(b"connection", b"close")]

_matches: Final = BoundedCache[str, Match](
    bytes_max=_MATCHES_BYTES_MAX, entry_bytes_max=_MATCH_BYTES_MAX
)
known_match: Final = _matches.get
"""``find_match`` of a path that was kept by ``remember_match``; None of all others."""


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
    assert found.lastgroup is not None, "it is one of the paths"
    start, operation, names = _PATHS[found.lastgroup]
    parts = dict(zip(names, found.groups()[start:], strict=False))
    return Match(
        operation,
        found[1] or "-",
        parts.get("topic", ""),
        parts.get("group", ""),
        parts.get("message_id") or parts.get("recall_handle", ""),
        parts.get("queue", ""),
    )


def remember_match(path: str, match: Match) -> None:
    """Have ``match`` found again without a search, for a caller that has shown a good key."""
    if match.operation in _SELDOM:
        return  # seldom asked for twice; it would only push out the others
    _matches.put(path, match, 2 * 4 * len(path))


class DataPlane:
    """See the module's docstring. One per process. It is the ``Exchange`` of its requests."""

    def __init__(self, context: DeliveryContext) -> None:
        self._context = context
        self._tasks: set[asyncio.Task[None]] = set()  # the loop holds tasks only weakly

    # Requests that are whole ---------------------------------------------------------------------

    def take(self, cycle: Cycle, headers: dict[bytes, bytes]) -> Serve | None:
        """What serves the request of ``cycle``, which has these ``headers``, once its body is
        whole. None if it has not shown a good key, or no handler wants its body.
        """
        # Any: uvicorn's types of ASGI are narrower than ours.
        scope: Any = cycle.scope
        match = known_match(scope["path"])
        if match is None:
            return None
        handler = HANDLERS[match.operation].get(scope["method"])
        if type(handler) is not BodyHandler:
            return None
        principal = self._context.caches.keys.cached(headers.get(b"authorization", b""))
        if principal is None:
            return None
        receive: Any = cycle.receive  # Any: as above
        send: Any = cycle.send  # Any: as above
        cycle.transport.recognised()
        request = Request(scope, receive, send, match, headers, self)
        request.principal = principal
        return partial(self._serve_whole, request, handler)

    def _serve_whole(self, request: Request, handler: BodyHandler[Any], body: bytes) -> None:
        context = self._context
        try:
            if not request.is_admitted:
                if context.spans is not None and request.span is None:
                    self._begin_span(request)
                if request.meter is None:
                    request.meter = context.meters.known.get(request.principal.tenant_id)
                    if request.meter is None:
                        raise NotLoaded(partial(self._load_meter, request))
                self._admit(request)
            bytes_max, found = handler.begin(context, request)
            check_body(request, bytes_max, body)
            handler.serve(context, request, found, body)
        except NotLoaded as missing:
            self._start(self._load_and_serve(missing, request, handler, body))
        except Exception as exc:
            self.fail(request, exc)

    async def _load_and_serve(
        self, missing: NotLoaded, request: Request, handler: BodyHandler[Any], body: bytes
    ) -> None:
        try:
            await missing.load()
        except Exception as exc:
            self.fail(request, exc)
        else:
            self._serve_whole(request, handler, body)

    async def _load_meter(self, request: Request) -> None:
        meters, tenant_id = self._context.meters, request.principal.tenant_id
        request.meter = meters.known.get(tenant_id) or await meters.load(tenant_id)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:  # Any: what nobody sends or gets
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # All others ----------------------------------------------------------------------------------

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
        request = Request(scope, receive, send, match, headers, self)
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
                    remember_match(scope["path"], match)
            request.principal = principal
            self._begin_span(request)
            handlers = HANDLERS[match.operation]
            handler = handlers.get(scope["method"])
            if handler is None:
                await _refuse_method(request, sorted(handlers))
                return
            await self._load_meter(request)
            await self._serve(request, handler)
        except Exception as exc:
            await self.refuse(request, exc)

    async def _serve(self, request: Request, handler: BodyHandler[Any] | ReadHandler) -> None:
        """Returns when the response was sent; raises what ``refuse`` is to tell the client."""
        context = self._context
        ended = request.ended = asyncio.get_running_loop().create_future()
        cancel: Cancel | None = None
        try:
            try:
                self._admit(request)
                if isinstance(handler, BodyHandler):
                    bytes_max, found = await self._begin(request, handler)
                    body = await read_body(request, bytes_max)
                    cancel = handler.serve(context, request, found, body)
                else:
                    await handler(context, request)
            except Exception as exc:
                self.fail(request, exc)
            await ended
        except asyncio.CancelledError:
            if cancel is not None:
                cancel()
            self._count(request, is_answered=False)
            raise

    async def _begin(self, request: Request, handler: BodyHandler[FoundT]) -> tuple[int, FoundT]:
        while True:
            try:
                return handler.begin(self._context, request)
            except NotLoaded as missing:
                await missing.load()

    # What every request passes -------------------------------------------------------------------

    def _begin_span(self, request: Request) -> None:
        spans = self._context.spans
        if spans is not None and request.scope["method"] == "POST":
            operation = _TRACED.get(request.match.operation)
            if operation is not None:
                match = request.match
                request.span = spans.of_request(
                    operation,
                    request.scope["headers"],
                    namespace=request.principal.namespace_named(match.ns) or "",
                    topic=match.topic,
                    group=match.group,
                )

    def _admit(self, request: Request) -> None:
        """Refuse at once what the tenant has no rate left for. Raises Problem.

        What is read is charged once it is known; producers charge what they store.
        """
        meter, operation = request.meter, request.match.operation
        assert meter is not None, "it was loaded"
        if operation in _PRODUCES and request.scope["method"] == "POST":
            request.is_reading = False
            meter.check_in(self._context.clock.monotonic_ms())
        elif operation not in _FREES:
            meter.check_out(self._context.clock.monotonic_ms())
            request.is_charged = True
        request.is_admitted = True

    def reply(self, request: Request, status: int, content: bytes, media_type: bytes) -> None:
        """As ``Request.reply``. It is written at once, unless the client reads slowly."""
        try:
            is_sent = try_respond(request, status, content, media_type)
        except Exception as exc:
            self.fail(request, exc)
            return
        self._count(request, is_answered=True)
        if not is_sent:
            self._start(self._send(request, status, content, media_type))
        elif request.ended is not None and not request.ended.done():
            request.ended.set_result(None)

    async def _send(self, request: Request, status: int, content: bytes, media_type: bytes) -> None:
        ended = request.ended
        try:
            await respond(request, status, content, media_type)
        except Exception as exc:
            if ended is None:
                await self.refuse(request, exc)
            elif not ended.done():
                ended.set_exception(exc)
        else:
            if ended is not None and not ended.done():
                ended.set_result(None)

    def fail(self, request: Request, error: BaseException) -> None:
        """As ``Request.fail``."""
        self._count(request, is_answered=False)
        if isinstance(error, NamespaceMoved):  # this process has not heard of it yet
            self._context.caches.routes.clear()
        if request.ended is None:
            self._start(self.refuse(request, error))
        elif not request.ended.done():
            request.ended.set_exception(error)

    def _count(self, request: Request, *, is_answered: bool) -> None:
        """Charge what was read and count the request, once."""
        if request.is_counted:
            return
        request.is_counted = True
        if request.is_charged:
            assert request.meter is not None, "it was charged"
            request.meter.charge_out(request.message_count, request.response_bytes)
        topic = "" if request.topic is None or not is_answered else request.topic.engine_name
        usage_counts.called(request.principal.tenant_id, topic)
        if request.is_charged and topic:
            usage_counts.sent(topic, request.read_count, request.response_bytes)

    async def refuse(self, request: Request, exc: BaseException) -> None:
        """Tell the client of a request what has ended it."""
        if isinstance(exc, Problem):
            await self._refuse(request, exc)
        elif isinstance(exc, Fault):
            await self._refuse(request, problem_of(exc))
        elif isinstance(exc, StoreError):
            await self._refuse(request, problem_from_store(exc))
        elif isinstance(exc, ClientDisconnected):
            if request.span is not None:
                request.span.end(CLIENT_GONE)
        else:
            log.error(
                "A data plane request failed with an unexpected error",
                exc_info=exc,
                extra={"action": "request_failed", "request_id": request.request_id},
            )
            problem = Problem.of("INTERNAL", "the request failed; its request id is in the log")
            await respond_problem(request, problem)

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
        await respond_problem(request, problem, extra)

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


async def _refuse_method(request: Request, methods: list[str]) -> None:
    problem = Problem.of("METHOD_NOT_ALLOWED", f"this path takes only {' and '.join(methods)}")
    await respond_problem(request, problem, [(b"allow", ", ".join(methods).encode())])
