"""The SQS face on the data plane's road: decode, check the signature, then serve as REST does.

    body is whole ──▶ Call ──▶ signature ──▶ key ──▶ [SqsPlane] ─┬─ messages: DataPlane, no Django
                                                                 └─ queues: a thread of ControlPlane
    reply or error ──▶ protocol of the request ──▶ response

An action on messages takes the place of the REST operation of its kind: it has the same rates,
spans and counts. Only what is read of the request and what is written of the reply differ.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

import msgspec

from mqservice.control_plane import ControlPlane, asker_of
from mqservice.delivery.context import DeliveryContext, count_failure
from mqservice.delivery.http import (
    ClientDisconnected,
    Match,
    Receive,
    Request,
    Scope,
    Send,
    read_body,
    respond,
)
from mqservice.delivery.operation import BodyHandler
from mqservice.delivery.operations import PRODUCE, PRODUCE_BATCH, RECEIVE, SETTLE
from mqservice.delivery.path_routes import NotLoaded
from mqservice.delivery.plane import DataPlane
from mqservice.delivery.spans import CLIENT_GONE
from mqservice.lib.names import OWN_NAMESPACE
from mqservice.lib.problem import Problem
from mqservice.moving_changes import move_of_key
from mqservice.sqs.asked import Asked
from mqservice.sqs.errors import SqsError, sqs_error_of
from mqservice.sqs.protocol import encode_error, error_header, is_json_request, read_call
from mqservice.sqs.queue_names import PATH, account_of, queue_of_url
from mqservice.sqs.queue_services import ACTIONS, Action, ensure_group, run_action
from mqservice.sqs.receive import begin_receive, receive_messages
from mqservice.sqs.request import REQUEST_BYTES_MAX, SqsRequest
from mqservice.sqs.send import begin_send, send_batch, send_message
from mqservice.sqs.settle import (
    begin_settle,
    change_visibilities,
    change_visibility,
    delete_message,
    delete_messages,
)
from mqservice.sqs.signature import SignatureError, Signatures, SignedRequest
from mqservice.web.cycle import Cycle, Serve, recognised

_ALGORITHM: Final = b"AWS4-HMAC-SHA256"
_IN_QUERY: Final = b"X-Amz-Algorithm=" + _ALGORITHM
_QUEUE_PATH_SLASHES: Final = 3  # /sqs/account/name

# Any: as in ``HANDLERS`` of the data plane.
_MESSAGE_ACTIONS: Final[dict[str, tuple[str, BodyHandler[Any]]]] = {
    "SendMessage": (PRODUCE.path, BodyHandler(begin_send, send_message)),
    "SendMessageBatch": (PRODUCE_BATCH.path, BodyHandler(begin_send, send_batch)),
    "ReceiveMessage": (RECEIVE.path, BodyHandler(begin_receive, receive_messages)),
    "DeleteMessage": (SETTLE.path, BodyHandler(begin_settle, delete_message)),
    "DeleteMessageBatch": (SETTLE.path, BodyHandler(begin_settle, delete_messages)),
    "ChangeMessageVisibility": (SETTLE.path, BodyHandler(begin_settle, change_visibility)),
    "ChangeMessageVisibilityBatch": (SETTLE.path, BodyHandler(begin_settle, change_visibilities)),
}
_CHANGING: Final = frozenset({"CreateQueue", "DeleteQueue", "SetQueueAttributes"})
# They read what PostgreSQL has, and ask no engine: nothing of them waits for one that moves.
_OF_ROWS: Final = frozenset({
    "GetQueueUrl", "ListDeadLetterSourceQueues", "ListMessageMoveTasks", "ListQueueTags",
    "ListQueues",
})  # fmt: skip
# Of an action on queues, which has the rate of the control plane.
_CONTROL: Final = Match("sqs", "-", "", "")


def is_sqs_request(path: str, query: bytes, headers: dict[bytes, bytes]) -> bool:
    """Whether the SQS face answers it: by its path or, for clients that take no path along with
    their endpoint, as kombu, by how it is signed.
    """
    if path == "/":
        return headers.get(b"authorization", b"").startswith(_ALGORITHM) or _IN_QUERY in query
    return path.startswith(PATH) and path[len(PATH) : len(PATH) + 1] in ("", "/")


class SqsPlane(DataPlane):
    """See the module's docstring. One per process."""

    def __init__(self, context: DeliveryContext, control_plane: ControlPlane) -> None:
        super().__init__(context)
        self._control_plane = control_plane
        self._signatures = Signatures(context.caches.access_keys, clock=context.clock)

    def take(self, cycle: Cycle, headers: dict[bytes, bytes]) -> Serve | None:
        """As of ``DataPlane``: of requests that name a key which is known, for better or worse."""
        # Any: uvicorn's types of ASGI are narrower than ours.
        scope: Any = cycle.scope
        if not is_sqs_request(scope["path"], scope["query_string"], headers):
            return None
        receive: Any = cycle.receive  # Any: as above
        send: Any = cycle.send  # Any: as above
        request = self._request(scope, receive, send, headers)
        try:
            if not self._signatures.is_known(self._read_signature(request)):
                return None
        except SqsError:
            return None
        return partial(self._serve_signed, request)

    async def __call__(  # type: ignore[override] # it finds the match itself
        self, scope: Scope, receive: Receive, send: Send
    ) -> None:
        request = self._request(scope, receive, send, dict(scope["headers"]))
        request.ended = asyncio.get_running_loop().create_future()
        try:
            await self._signatures.require_key(self._read_signature(request))
            body = await read_body(request, REQUEST_BYTES_MAX)
            self._serve_signed(request, body)
            await request.ended
        except asyncio.CancelledError:
            if request.cancel is not None:
                request.cancel()
            raise
        except Exception as exc:
            await self.refuse(request, exc)

    def _request(
        self, scope: Scope, receive: Receive, send: Send, headers: dict[bytes, bytes]
    ) -> SqsRequest:
        request = SqsRequest(scope, receive, send, _CONTROL, headers, self)
        request.more_headers = [(b"x-amzn-requestid", request.request_id.encode())]
        return request

    def _serve_signed(self, request: SqsRequest, body: bytes) -> None:
        """Serve a request whose body is whole."""
        try:
            signed = self._read_signature(request)
            principal = request.principal = self._signatures.verify(signed, body)
            request.is_counted = False
            request.credential = signed.key_id
            request.key_watch = self._context.caches.access_keys.watch
            recognised(request.send)
            scope = request.scope
            path = scope["path"].rstrip("/")
            call = request.call = read_call(
                request.headers,
                scope["query_string"],
                body,
                path if path.count("/") == _QUEUE_PATH_SLASHES else "",
            )
            account_of(principal)
            on_messages = _MESSAGE_ACTIONS.get(call.action)
            if on_messages is None:
                self._start(self._serve_control(request, ACTIONS[call.action]))
                return
            operation, handler = on_messages
            queue = request.queue = queue_of_url(request.wanted.queue_url, principal)
            request.match = Match(operation, "-", queue.topic, queue.topic)
            self._serve_whole(request, handler, b"")
        except NotLoaded as missing:
            self._start(self._load_and_serve_signed(missing, request, body))
        except Exception as exc:
            self.fail(request, exc)

    def _read_signature(self, request: SqsRequest) -> SignedRequest:
        """What the head says. Raises SqsError."""
        if request.signed is None:
            scope = request.scope
            request.signed = self._signatures.read(
                scope["method"],
                scope["raw_path"],
                scope["query_string"],
                scope["headers"],
            )
        return request.signed

    async def _load_and_serve_signed(
        self, missing: NotLoaded, request: SqsRequest, body: bytes
    ) -> None:
        try:
            await missing.load()
        except Exception as exc:
            self.fail(request, exc)
        else:
            self._serve_signed(request, body)

    async def _serve_control(self, request: SqsRequest, action: Action) -> None:
        """An action on queues, on a thread that has Django's connection."""
        try:
            reply = await self._run(request, action)
            if request.call.action in _CHANGING:
                await self._context.caches.hear_own_changes()
            request.answer(reply)
        except Exception as exc:
            self.fail(request, exc)

    async def _run(self, request: SqsRequest, action: Action) -> msgspec.Struct:
        principal = request.principal
        asked = Asked(principal, request.wanted, request.base_url, request.region)
        asker = asker_of(request.scope, principal.tenant_id)
        agent = request.headers.get(b"user-agent", b"")
        work = partial(run_action, action, asked, request.request_id, request.client[0], agent)
        move = None
        if request.call.action not in _OF_ROWS:
            move = move_of_key(self._context.caches.routes, principal, OWN_NAMESPACE)
            await move.wait()
        return await self._control_plane.run(asker, work, move=move)

    async def _load_and_serve(
        self, missing: NotLoaded, request: Request, handler: BodyHandler[Any], body: bytes
    ) -> None:
        """As of ``DataPlane``; a queue that another face has made gets its group."""
        assert isinstance(request, SqsRequest)
        try:
            try:
                await missing.load()
            except Problem as problem:
                if problem.code != "GROUP_NOT_FOUND" or request.topic is None:
                    raise
                await self._run(request, ensure_group)
                routes, topic = self._context.caches.routes, request.topic
                routes.drop_group((request.principal.tenant_id, topic.namespace, topic.name))
                request.group = await routes.load_group(
                    request.principal, request.match.ns, request.match.group
                )
        except Exception as exc:
            self.fail(request, exc)
        else:
            self._serve_whole(request, handler, body)

    async def refuse(self, request: Request, exc: BaseException) -> None:
        """As of ``DataPlane``, in the words of SQS."""
        assert isinstance(request, SqsRequest)
        if isinstance(exc, ClientDisconnected):
            if request.span is not None:
                request.span.end(CLIENT_GONE)
            return
        if isinstance(exc, SignatureError):
            try:
                await count_failure(self._context, request.scope)
            except Problem as problem:
                exc = problem
        error = sqs_error_of(exc, request.request_id)
        if request.span is not None:
            request.span.end(exc.code if isinstance(exc, Problem) else error.name)
        is_paced = error.name in ("RequestThrottled", "OverLimit")
        if is_paced and not await self._paced(request):
            request.is_last = True
        await self._send_error(request, error)

    async def _send_error(self, request: SqsRequest, error: SqsError) -> None:
        is_json = is_json_request(request.headers)
        body, media_type = encode_error(error, request.request_id, is_json=is_json)
        if is_json:
            request.more_headers.append(error_header(error))
        if request.is_last:
            request.more_headers.append((b"connection", b"close"))
        await respond(request, error.status, body, media_type)
