"""The client: everything that a program asks for begins here.

AsyncClient ─▶ send, batch ─▶ Caller ─▶ REST
            ─▶ subscribe ───▶ Reading ─▶ socket, or REST where it is blocked
            ─▶ consumer, run ─▶ ConsumerRunner
            ─▶ topics, groups, … ─▶ control plane
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, TypeVar, cast

import msgspec

from ..accumulator import BatchLimits
from ..batch_core import BatchCore
from ..errors import MQError, OutcomeUnknown
from ..handlers import ConsumerRunner, HandlerOptions, OrderedBy, Registration
from ..http_calls import (
    JSON_TYPE,
    Request,
    Stored,
    decode,
    namespace_root,
    outgoing,
    send_request,
    with_query,
)
from ..network import Network, RealNetwork
from ..protocol.frames import Subprotocol
from ..protocol.limits import CREDIT_MSGS_MAX
from ..runtime import Reading, Runtime, closed_error
from ..session import SubscribeOptions
from ..sides import AsyncSide
from ..tracing import send_span
from ..values import (
    Body,
    Duration,
    Filter,
    Target,
    milliseconds,
    names_of,
    optional_ms,
    optional_s,
    optional_time,
    target_of,
)
from .batch import AsyncBatch
from .control_plane import AsyncControlPlane
from .message import AsyncMessage
from .subscription import AsyncSubscription

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])  # Any: a function of a message
Transport = Literal["auto", "websocket", "rest"]
Frames = Literal["msgpack", "json"]
MIB = 1024 * 1024


class AsyncClient(AsyncControlPlane):
    """A client of one service with one API key.

    Connections are opened when they are needed; ``async with``, or ``close``, ends them.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        namespace: str | None = None,
        transport: Transport = "auto",
        timeout: Duration = "30s",
        client_name: str = "mqservice-client-python/1",
        verify: bool | str | ssl.SSLContext = True,
        frames: Frames = "msgpack",
        network: Network | None = None,
    ) -> None:
        """Nothing is sent yet.

        Args:
            base_url: the service, such as ``https://mq.example.com``; by default ``MQ_BASE_URL``,
                else ``http://127.0.0.1:8000``.
            api_key: by default ``MQ_API_KEY``.
            namespace: by default ``MQ_NAMESPACE``, else the one that the key is bound to.
            transport: how messages are received. "auto" falls back to REST where something on the
                way blocks WebSockets.
            timeout: how long a request may take with its repeats, and the first connection of a
                subscription.
            client_name: what the service shows of this client among its connections.
            verify: False, a file of certificates, or an SSL context, for https.
            frames: "json" makes frames of the socket that people can read, at twice the cost.
            network: another way to the service; ``mqservice_client.testing`` has one.

        Raises:
            UsageError: there is no key, or an argument makes no sense.
        """
        if network is not None:
            base_url, api_key = base_url or "http://127.0.0.1", api_key or "mqk_none"
        self._target: Target = target_of(base_url, api_key, namespace)
        self._transport = transport
        self._timeout_ms = milliseconds(timeout, "timeout")
        self._client_name = client_name
        self._subprotocol = Subprotocol.JSON if frames == "json" else Subprotocol.MSGPACK
        self._network = network or RealNetwork(self._target, verify, self._subprotocol)
        self._runtime: Runtime | None = None
        self._is_closed = False
        self._side = AsyncSide()
        self._runner = ConsumerRunner(AsyncMessage, self._side)

    # Send -----------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        body: Body,
        *,
        tag: str | None = None,
        keys: str | Sequence[str] = (),
        message_group: str | None = None,
        properties: Mapping[str, str] | None = None,
        queue: int | None = None,
        delay: Duration | None = None,
        delay_level: int | None = None,
        deliver_at: datetime | None = None,
        idempotency_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: Duration | None = None,
    ) -> Stored:
        """Store one message; one request.

        Returns where it is stored, once it is on disk, or as the topic's ``durability`` says. It is
        sent again until ``timeout`` while the service promises that nothing was stored; with an
        ``idempotency_key`` also after an unknown outcome, and stored once.

        Args:
            topic: must exist.
            body: bytes and str are sent as they are, anything else as JSON; 1 byte to 4 MiB.
            tag: what consumers may filter by, up to 255 bytes.
            keys: up to 16 business keys to find the message by.
            message_group: messages of one group go to one queue, in order.
            properties: names and values, texts, up to 16 KiB in all.
            queue: this queue instead of the next one in turn.
            delay, delay_level, deliver_at: when to deliver it, up to 365 days ahead; at most one.
            idempotency_key: 1 to 128 visible ASCII characters, valid for 10 minutes.
            headers: further lines for the request, such as ``x-request-id``.
            timeout: for this call, instead of the client's.

        Raises:
            OutcomeUnknown: the message may or may not be stored.
            Unreachable: nobody answered; nothing was stored.
            RequestRejected: the service refused it (TopicNotFound, RateLimited, …).
        """
        runtime = self._open()
        message = outgoing(
            body,
            tag=tag,
            keys=keys,
            message_group=message_group,
            properties=properties,
            queue=queue,
            delay_level=delay_level,
            delay_ms=optional_ms(delay, "delay"),
            deliver_at=optional_time(deliver_at, "deliver_at"),
        )
        with send_span(runtime.caller.base_url, topic, message) as span:
            request = send_request(
                runtime.root,
                topic,
                span.carried_by(message),
                idempotency_key=idempotency_key,
                headers=headers,
            )
            try:
                response = await self._side.run(
                    runtime.caller.call(
                        request,
                        is_repeatable=idempotency_key is not None,
                        timeout_ms=optional_ms(timeout, "timeout"),
                    )
                )
            except OutcomeUnknown as exc:
                exc.idempotency_key = idempotency_key
                raise
            stored = decode(response, Stored)
            span.note("messaging.message.id", stored.id)
        return stored

    def batch(
        self,
        topic: str,
        *,
        linger: Duration = "5ms",
        messages_max: int = 500,
        bytes_max: int = MIB,
        requests_max: int = 4,
        idempotent: bool = False,
        repeat_unknown: bool = False,
        timeout: Duration | None = None,
        attempts_max: int | None = None,
        on_result: Callable[[int, Stored | MQError], None] | None = None,
    ) -> AsyncBatch:
        """Send many messages in few requests; see ``AsyncBatch``.

        Args:
            topic: of all messages.
            linger: how long a message waits for others to fill its request.
            messages_max: of one request, 1 to 1,000.
            bytes_max: of one request, up to 3 MiB of encoded messages.
            requests_max: how many requests are under way at a time.
            idempotent: give each message a key of its own, so that an unknown outcome can be
                repeated. The service keeps 100,000 keys of a namespace for 10 minutes.
            repeat_unknown: send a message again though it may be stored already: rather twice
                than not at all.
            timeout: how long a message is tried for, instead of the client's.
            attempts_max: how often, the first time included; by default as the time allows.
            on_result: called with the number of a message, from 0, and what became of it, in the
                order in which the results come. It runs on the client's event loop, must not wait,
                and must not raise.
        """
        limits = BatchLimits(
            linger_ms=milliseconds(linger, "linger"),
            messages_max=messages_max,
            bytes_max=bytes_max,
            requests_max=requests_max,
            timeout_ms=optional_ms(timeout, "timeout"),
            attempts_max=attempts_max,
            repeat_unknown=repeat_unknown,
        )
        runtime = self._open()
        core = self._side.on_loop(
            lambda: BatchCore(runtime, topic, limits, is_idempotent=idempotent, on_result=on_result)
        )
        return AsyncBatch(self._side, core)

    # Receive --------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: str | Sequence[str],
        group: str,
        *,
        prefetch: int = 200,
        prefetch_bytes: int = 8 * MIB,
        filter: Filter | None = None,
        lease: Duration | None = None,
        auto_extend: Duration | None = "10m",
        client_id: str | None = None,
        consumer_id: str | None = None,
        consumer_zone: str | None = None,
        idle_timeout: Duration | None = None,
    ) -> AsyncSubscription:
        """Receive messages as a member of a group, from now on and across reconnects.

        Args:
            topics: one or several, in one stream.
            group: must exist.
            prefetch: how many messages may be here without a result, 1 to 1,000.
            prefetch_bytes: and how many bytes of bodies, up to 8 MiB.
            filter: tags (``"created || paid"``) or ``Sql("amount > 5")``; the same in each member.
            lease: how long a message is yours, 1 s to 12 h; by default the group's.
            auto_extend: leases are extended while the connection lives, for this long after the
                delivery, at most 3 h; None: they end after ``lease``.
            client_id: which client of a broadcast group this is; required there.
            consumer_id, consumer_zone: who and where the member is, for exclusive groups.
            idle_timeout: end the iteration when no message came for this long.

        Raises, while it is iterated:
            RequestRejected: the service refused it, or ended it (TopicNotFound, Forbidden, …).
            ConnectionLost, Unreachable: it cannot be reached, or does not want this client.
        """
        options = SubscribeOptions(
            prefetch=prefetch,
            prefetch_bytes=prefetch_bytes,
            filter=filter,
            lease_ms=optional_ms(lease, "lease"),
            auto_extend_ms=optional_ms(auto_extend, "auto_extend"),
            client_id=client_id,
            consumer_id=consumer_id,
            consumer_zone=consumer_zone,
        )
        runtime = self._open()
        names = names_of(topics)
        reading = self._side.on_loop(
            lambda: Reading(runtime, names, group, options, AsyncMessage, self._side)
        )
        return AsyncSubscription(self._side, reading, optional_s(idle_timeout, "idle_timeout"))

    # Handle ---------------------------------------------------------------------------------

    def consumer(
        self,
        topics: str | Sequence[str],
        group: str,
        *,
        concurrency: int = 1,
        prefetch: int | None = None,
        timeout: Duration | None = None,
        retry_delay: Duration | None = None,
        dead_letter_on: type[Exception] | tuple[type[Exception], ...] = (),
        ordered_by: OrderedBy | None = "message_group",
        filter: Filter | None = None,
        lease: Duration | None = None,
        auto_extend: Duration | None = "3h",
        client_id: str | None = None,
        consumer_id: str | None = None,
        consumer_zone: str | None = None,
    ) -> Callable[[F], F]:
        """Let ``run`` call the decorated function with each message.

        The message is acked when the function returns, and delivered again when it raises; its
        lease is extended meanwhile. ``Retry`` and ``Reject`` say more, and a function may settle
        its message itself. Coroutine functions run on the event loop, others on threads.

        Args:
            topics, group, filter, lease, auto_extend, client_id, consumer_id, consumer_zone: see
                ``subscribe``.
            concurrency: how many messages are handled at a time, 1 to 1,000.
            prefetch: how many are here without a result; by default four for each at a time.
            timeout: after which the message is delivered again. A coroutine is cancelled then; a
                thread cannot be, and keeps its place until it returns.
            retry_delay: when a message that failed is delivered again; by default the group says.
            dead_letter_on: exceptions that make a dead letter of the message at once.
            ordered_by: of messages that are alike in this, one is handled at a time, in order.
        """
        wanted = min(CREDIT_MSGS_MAX, 4 * concurrency) if prefetch is None else prefetch
        options = HandlerOptions(
            concurrency=concurrency,
            timeout_s=optional_s(timeout, "timeout"),
            retry_delay_ms=optional_ms(retry_delay, "retry_delay"),
            dead_letter_on=(
                dead_letter_on if isinstance(dead_letter_on, tuple) else (dead_letter_on,)
            ),
            ordered_by=ordered_by,
        )
        subscribe = SubscribeOptions(
            prefetch=wanted,
            filter=filter,
            lease_ms=optional_ms(lease, "lease"),
            auto_extend_ms=optional_ms(auto_extend, "auto_extend"),
            client_id=client_id,
            consumer_id=consumer_id,
            consumer_zone=consumer_zone,
        )
        names = names_of(topics)

        def register(function: F) -> F:
            self._runner.register(
                Registration(
                    function=function,
                    topics=names,
                    group=group,
                    subscribe=subscribe,
                    options=options,
                )
            )
            return function

        return register

    async def run(self, *, drain_timeout: Duration = "30s", handle_signals: bool = True) -> None:
        """Call the functions that ``consumer`` registered, until ``stop``, SIGTERM or SIGINT.

        Then no function is called any more. Those that are running have ``drain_timeout`` to end;
        after it coroutines are cancelled. All messages without a result are given back, with no
        attempt counted.

        Args:
            drain_timeout: how long to wait for functions that are running.
            handle_signals: stop at SIGTERM and SIGINT; only the main thread can.

        Raises:
            RequestRejected, ConnectionLost, Unreachable: a subscription was refused, or ended.
        """
        drain_s = milliseconds(drain_timeout, "drain_timeout") / 1000
        runner = self._runner
        run = runner.run(self._open(), drain_s)
        await self._side.serve(run, runner.stop, handles_signals=handle_signals)

    def stop(self) -> None:
        """Let ``run`` return when its functions have; from any thread or signal handler."""
        self._runner.stop()

    # The rest -------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        kind: type[T] | None = None,
        *,
        json: object = None,
        params: Mapping[str, object] | None = None,
    ) -> T:
        """Any other call of the API.

        Args:
            method: such as "GET".
            path: below the namespace (``alerts/slow``), or from the root (``/v1/quotas``).
            kind: the type of the response's document; None: whatever JSON it is, None if empty.
            json: the document to send.
            params: of the query; those that are None are left out.

        Raises:
            OutcomeUnknown: nobody knows what came of it. Only a GET is repeated by itself then.
            Unreachable: nobody answered; nothing was changed.
            RequestRejected: the service refused it.
        """
        runtime = self._open()
        whole = path if path.startswith("/") else f"{runtime.root}/{path}"
        request = Request(
            method=method,
            path=with_query(whole, params or {}),
            content=None if json is None else msgspec.json.encode(json),
            headers={} if json is None else {"content-type": JSON_TYPE},
        )
        response = await self._side.run(runtime.caller.call(request, is_repeatable=method == "GET"))
        if not response.content:
            return cast("T", None)
        return decode(response, kind or cast("type[T]", Any))

    async def close(self, timeout: Duration = "30s") -> None:
        """End everything: batches are sent, results confirmed, messages in hand given back.

        What is not done after ``timeout`` is given up, and ending the connections takes some
        seconds more at most: messages of batches that nobody confirmed are ``OutcomeUnknown``,
        handlers are cancelled after half of the time, and what was received may be delivered
        again.
        """
        timeout_s = milliseconds(timeout, "timeout") / 1000
        if self._is_closed:
            return
        runtime = self._runtime
        if runtime is not None and not runtime.is_forked:
            self._side.check(runtime)
            await self._side.run(runtime.close(timeout_s))
        self._is_closed = True
        await self._side.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _open(self) -> Runtime:
        """The runtime, made by the first call. Raises ClientStateError."""
        if self._is_closed:
            raise closed_error()
        runtime = self._runtime
        if runtime is None:
            runtime = self._runtime = self._side.on_loop(
                lambda: Runtime(
                    self._network,
                    base_url=self._target.base_url,
                    root=namespace_root(self._target.namespace),
                    timeout_ms=self._timeout_ms,
                    client_name=self._client_name,
                    transport=self._transport,
                    subprotocol=self._subprotocol,
                )
            )
        self._side.check(runtime)
        return runtime
