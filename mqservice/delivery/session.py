"""One client on a WebSocket: its commands, its subscriptions, and the limits it is held to.

    frame ──▶ commands ──▶ [Session] ──▶ Subscription.ack, nack, extend, ...
                              │ pub ──▶ store.put ──▶ ok
    tick (1 s) ──▶ ping, stall, leases that ended, key still valid

States: connected ──hello──▶ open ──drain──▶ draining ──▶ ended. A command before hello is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from mqservice.accounts.access import Principal, Scope
from mqservice.delivery import frames
from mqservice.delivery.codec import Codec, CommandRefused, FrameBroken
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.decoding import Fault, problem_of
from mqservice.delivery.http import Send
from mqservice.delivery.limits import (
    CREDIT_BYTES_MAX,
    CREDIT_MSGS_MAX,
    FRAME_BYTES_DEFAULT,
    FRAME_BYTES_MAX,
    FRAME_BYTES_MIN,
    LEASE_MS_MAX,
    LEASE_MS_MIN,
    NACK_DELAY_MS_MAX,
    NACK_REASON_CHARS_MAX,
    RECONNECT_MS,
    SETTLE_COUNT_MAX,
    SUBSCRIPTION_COUNT_MAX,
)
from mqservice.delivery.produce import BatchAnswer, PendingPut, check_batch
from mqservice.delivery.subscription import Subscription
from mqservice.errors import problem_from_store
from mqservice.groups.routes import GroupRoute
from mqservice.lib.names import name_fault
from mqservice.lib.problem import Problem
from mqservice.lib.request_ids import new_request_id
from mqservice.store import StoreError
from mqservice.topics.routes import TopicRoute

log = logging.getLogger(__name__)

BAD_FRAME_CODE: Final = 4400
AUTH_CODE: Final = 4401
STALLED_CODE: Final = 4408
TOO_LARGE_CODE: Final = 4413
RESTART_CODE: Final = 1012
_REASON_BYTES_MAX: Final = 120  # a close frame has room for 123
_RECHECK_TICKS: Final = 5  # a revoked key ends its sockets within five ticks
_PUT_COUNT_MAX: Final = 64


class SessionEnded(Exception):
    """The server ends the session with a close code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason.encode()[:_REASON_BYTES_MAX].decode(errors="ignore")


class SessionOver(OSError):
    """A frame for a session that has ended."""


class Session:
    """See the module's docstring. One event loop uses it."""

    def __init__(
        self,
        context: DeliveryContext,
        codec: Codec,
        *,
        authorization: bytes,
        principal: Principal,
        namespace: str,
        client: tuple[str, int],
        name: str,
        send: Send,
        interrupt: Callable[[], None],
    ) -> None:
        """``interrupt`` wakes whoever waits for frames, once ``ending`` says why."""
        self.context = context
        self.codec = codec
        self.member_id = f"ws-{name}"
        self.frame_bytes_max = FRAME_BYTES_DEFAULT
        self.ending: SessionEnded | None = None
        self._is_text = codec.name.endswith(".json")
        self._authorization = authorization
        self._principal = principal
        self._namespace = namespace
        self._client = client
        self._send = send
        self._interrupt = interrupt
        self._subscriptions: dict[int, Subscription] = {}
        self._puts: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_open = False
        self._is_over = False
        self._send_lock = asyncio.Lock()
        self._sender: asyncio.Task[Any] | None = None  # Any: whichever task sends
        self._sending_since_ms: int | None = None
        now_ms = context.clock.monotonic_ms()
        self._begun_ms = now_ms
        self._heard_ms = now_ms
        self._pinged_ms: int | None = None
        self._tick_count = 0
        self._ticker = asyncio.get_running_loop().call_later(
            context.times.tick_ms / 1_000, self._tick
        )
        self._on_drain = self._begin_drain
        context.drain.join(self._on_drain)
        self._commands: dict[type[Any], Callable[[Any], Coroutine[Any, Any, None]]] = {
            # Any: each command goes to the one method that takes its type.
            frames.JsonHello: self._hello,
            frames.PackHello: self._hello,
            frames.JsonPublish: self._publish,
            frames.PackPublish: self._publish,
            frames.JsonSubscribe: self._subscribe,
            frames.PackSubscribe: self._subscribe,
            frames.JsonAddCredit: self._add_credit,
            frames.PackAddCredit: self._add_credit,
            frames.JsonAck: self._ack,
            frames.PackAck: self._ack,
            frames.JsonNack: self._nack,
            frames.PackNack: self._nack,
            frames.JsonExtend: self._extend,
            frames.PackExtend: self._extend,
            frames.JsonUnsubscribe: self._unsubscribe,
            frames.PackUnsubscribe: self._unsubscribe,
            frames.JsonPing: self._ping,
            frames.PackPing: self._ping,
            frames.JsonPong: self._pong,
            frames.PackPong: self._pong,
        }

    # Frames in ----------------------------------------------------------------------------------

    async def take_frame(self, text: str | None, content: bytes | None) -> None:
        """Do what the client asks for. Raises SessionEnded for a frame that ends the session."""
        self._heard_ms = self.context.clock.monotonic_ms()
        if content is None:
            assert text is not None
            if not self._is_text:
                raise SessionEnded(BAD_FRAME_CODE, f"{self.codec.name} takes binary frames only")
            content = text.encode()
        if len(content) > FRAME_BYTES_MAX:
            raise SessionEnded(
                TOO_LARGE_CODE, f"the frame has {len(content)} bytes, at most {FRAME_BYTES_MAX}"
            )
        try:
            for part in self.codec.split(content):
                await self._take_command(part)
        except FrameBroken as exc:
            raise SessionEnded(BAD_FRAME_CODE, str(exc)) from exc

    async def _take_command(self, part: bytes | msgspec.Raw) -> None:
        command_id: int | None = None
        try:
            command = self.codec.decode(part)
            command_id = getattr(command, "id", None)
            if not self._is_open and not isinstance(command, frames.Hello):
                raise CommandRefused(command_id, "BAD_REQUEST", "say hello first")
            await self._commands[type(command)](command)
        except CommandRefused as exc:
            await self.send_frame(
                self.codec.encode(self.codec.Err(exc.id, exc.code, False, exc.detail))
            )
        except Problem as problem:
            await self._send_problem(command_id, problem)
        except Fault as fault:
            await self._send_problem(command_id, problem_of(fault))
        except StoreError as exc:
            await self._send_problem(command_id, problem_from_store(exc))

    async def _send_problem(self, command_id: int | None, problem: Problem) -> None:
        await self.send_frame(
            self.codec.encode(
                self.codec.Err(command_id, problem.code, problem.retryable, problem.detail)
            )
        )

    async def _ok(self, command_id: int | None, result: msgspec.Struct | None) -> None:
        if command_id is not None:
            await self.send_frame(
                self.codec.encode(self.codec.Ok(command_id, {} if result is None else result))
            )

    # Commands -----------------------------------------------------------------------------------

    async def _hello(self, command: frames.Hello) -> None:
        if self._is_open:
            raise Fault("", "BAD_REQUEST", "hello was said before")
        if command.max_frame is not None:
            if not command.max_frame >= FRAME_BYTES_MIN:
                raise Fault("/max_frame", "BAD_REQUEST", f"max_frame is at least {FRAME_BYTES_MIN}")
            self.frame_bytes_max = min(command.max_frame, FRAME_BYTES_MAX)
        self._is_open = True
        await self.send_frame(
            self.codec.encode(
                self.codec.Welcome(
                    id=command.id,
                    session=f"s_{new_request_id()}",
                    ping_ms=self.context.times.ping_ms,
                    pong_ms=self.context.times.pong_ms,
                )
            )
        )

    async def _publish(self, command: frames.JsonPublish | frames.PackPublish) -> None:
        self._principal.require(Scope.PRODUCE)
        route = await self._topic_route(command.topic)
        try:
            offers = check_batch(command.m, route)
        except Fault as fault:
            raise fault.under("/m") from None
        while len(self._puts) >= _PUT_COUNT_MAX:
            await asyncio.wait(self._puts, return_when=asyncio.FIRST_COMPLETED)
        # Handed to the store here, so that frames are stored in the order in which they came.
        pending = PendingPut(self.context, route, offers, self._client)
        task = self._spawn(self._confirm_put(command.id, pending))
        self._puts.add(task)
        task.add_done_callback(self._puts.discard)

    async def _confirm_put(self, command_id: int | None, pending: PendingPut) -> None:
        try:
            _, results = await pending.results()
        except Problem as problem:
            await self._send_problem(command_id, problem)
        except StoreError as exc:
            await self._send_problem(command_id, problem_from_store(exc))
        else:
            await self._ok(command_id, BatchAnswer(results))

    async def _subscribe(self, command: frames.Subscribe) -> None:
        self._principal.require(Scope.CONSUME)
        if command.sid in self._subscriptions:
            raise Fault("/sid", "CONFLICT", f"sid {command.sid} is in use")
        if len(self._subscriptions) >= SUBSCRIPTION_COUNT_MAX:
            raise Problem.of(
                "QUOTA_EXCEEDED", f"a session has at most {SUBSCRIPTION_COUNT_MAX} subscriptions"
            )
        if command.filter not in (None, "*"):
            raise Fault("/filter", "ILLEGAL_FILTER", "only the filter * is supported")
        if command.mode not in (None, "shared"):
            raise Fault("/mode", "BAD_REQUEST", "only the mode shared is supported")
        topic = await self._topic_route(command.topic)
        group = await self._group_route(command.group)
        lease_ms = group.lease_ms if command.lease_ms is None else command.lease_ms
        _check_lease("/lease_ms", lease_ms)
        credit = command.credit or frames.Credit()
        _check_credit(credit.msgs, credit.bytes)
        subscription = Subscription(
            self,
            sid=command.sid,
            topic=topic,
            group=group,
            lease_ms=lease_ms,
            credit=frames.Credit(
                min(credit.msgs, CREDIT_MSGS_MAX), min(credit.bytes, CREDIT_BYTES_MAX)
            ),
        )
        self._subscriptions[command.sid] = subscription
        await self._ok(command.id, frames.Subscribed(subscription.credit))
        if not self.context.drain.has_begun:
            subscription.start()

    async def _add_credit(self, command: frames.AddCredit) -> None:
        _check_credit(command.msgs, command.bytes)
        subscription = self._subscription(command.sid)
        subscription.add_credit(command.msgs, command.bytes)
        await self._ok(command.id, frames.Subscribed(subscription.credit))

    async def _ack(self, command: frames.Ack) -> None:
        subscription = self._subscription(command.sid)
        tags = command.t or []
        if len(tags) > SETTLE_COUNT_MAX:
            raise Fault("/t", "BAD_REQUEST", f"at most {SETTLE_COUNT_MAX} tags at once")
        if command.upto is not None:
            tags = [*tags, *subscription.tags_upto(command.upto)]
        await subscription.wait_ready()
        subscription.ack(tags, command.id)

    async def _nack(self, command: frames.Nack) -> None:
        subscription = self._subscription(command.sid)
        if len(command.t) > SETTLE_COUNT_MAX:
            raise Fault("/t", "BAD_REQUEST", f"at most {SETTLE_COUNT_MAX} tags at once")
        for index, item in enumerate(command.t):
            if not 0 <= item.delay_ms <= NACK_DELAY_MS_MAX:
                raise Fault(f"/t/{index}/1", "BAD_REQUEST", "the delay is out of range")
            if item.reason is not None and len(item.reason) > NACK_REASON_CHARS_MAX:
                raise Fault(f"/t/{index}/2", "BAD_REQUEST", "the reason is too long")
        await subscription.wait_ready()
        subscription.nack(command.t, command.id)

    async def _extend(self, command: frames.Extend) -> None:
        subscription = self._subscription(command.sid)
        _check_lease("/ms", command.ms)
        if len(command.t) > SETTLE_COUNT_MAX:
            raise Fault("/t", "BAD_REQUEST", f"at most {SETTLE_COUNT_MAX} tags at once")
        await subscription.wait_ready()
        subscription.extend(dict.fromkeys(command.t), command.ms, command.id)

    async def _unsubscribe(self, command: frames.Unsubscribe) -> None:
        subscription = self._subscription(command.sid)
        await subscription.stop_fetching()
        if not command.drain:
            await subscription.close("unsubscribed")
        if not subscription.outstanding_count:
            self._subscriptions.pop(command.sid, None)
        await self._ok(command.id, frames.Unsubscribed(subscription.outstanding_count))

    async def _ping(self, _: frames.Ping) -> None:
        await self.send_frame(self.codec.pong)

    async def _pong(self, _: frames.Pong) -> None:
        self._pinged_ms = None

    def _subscription(self, sid: int) -> Subscription:
        subscription = self._subscriptions.get(sid)
        if subscription is None:
            raise Fault("/sid", "NOT_FOUND", f"there is no subscription {sid}")
        return subscription

    async def _topic_route(self, name: str) -> TopicRoute:
        routes = self.context.caches.routes
        route = routes.topic(self._principal, self._namespace, name)
        if route is None:
            if fault := name_fault(name):
                raise Fault("/topic", "ILLEGAL_TOPIC", fault)
            route = await routes.load_topic(self._principal, self._namespace, name)
        return route

    async def _group_route(self, name: str) -> GroupRoute:
        routes = self.context.caches.routes
        route = routes.group(self._principal, self._namespace, name)
        if route is None:
            if fault := name_fault(name):
                raise Fault("/group", "ILLEGAL_GROUP", fault)
            route = await routes.load_group(self._principal, self._namespace, name)
        return route

    # Frames out ---------------------------------------------------------------------------------

    async def send_frame(self, frame: bytes) -> None:
        """Waits while the client does not read. Raises OSError once it is gone."""
        async with self._send_lock:
            if self._is_over:
                raise SessionOver
            self._sender = asyncio.current_task()
            self._sending_since_ms = self.context.clock.monotonic_ms()
            try:
                if self._is_text:
                    await self._send({"type": "websocket.send", "text": frame.decode()})
                else:
                    await self._send({"type": "websocket.send", "bytes": frame})
            finally:
                self._sender = None
                self._sending_since_ms = None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._run(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except OSError:
            log.debug("The client is gone", extra={"action": "session_gone"})
        except Exception:
            log.exception("A session failed", extra={"action": "session_failed"})
            self.end(1011, "the session failed")

    # Time ---------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self._is_over:
            return
        times = self.context.times
        self._ticker = asyncio.get_running_loop().call_later(times.tick_ms / 1_000, self._tick)
        now_ms = self.context.clock.monotonic_ms()
        since_ms = self._sending_since_ms
        if since_ms is not None and now_ms - since_ms >= times.stall_ms:
            self.end(STALLED_CODE, f"nothing was read for {times.stall_ms} ms")
            return
        if not self._is_open and now_ms - self._begun_ms >= times.hello_ms:
            self.end(STALLED_CODE, f"no hello within {times.hello_ms} ms")
            return
        if self._pinged_ms is not None and self._heard_ms <= self._pinged_ms:
            if now_ms - self._pinged_ms >= times.pong_ms:
                self.end(STALLED_CODE, f"no answer to a ping within {times.pong_ms} ms")
                return
        elif now_ms - self._heard_ms >= times.ping_ms:
            self._pinged_ms = now_ms
            self._spawn(self.send_frame(self.codec.ping))
        self._expire()
        self._tick_count += 1
        if self._tick_count % _RECHECK_TICKS:
            return
        if self.context.caches.keys.cached(self._authorization) is None:
            self._spawn(self._recheck_key())

    def _expire(self) -> None:
        now_ms = self.context.clock.now_ms()
        for subscription in list(self._subscriptions.values()):
            ended = subscription.expire(now_ms)
            if ended:
                lost = self.codec.Lost(subscription.sid, ended, "lease_expired")
                self._spawn(self.send_frame(self.codec.encode(lost)))
            if subscription.is_drained:
                del self._subscriptions[subscription.sid]

    async def _recheck_key(self) -> None:
        try:
            self._principal = await self.context.caches.keys.load(self._authorization)
        except Problem as problem:
            if problem.status == 401:
                self.end(AUTH_CODE, "the key is no longer valid")

    # Ending -------------------------------------------------------------------------------------

    def end(self, code: int, reason: str) -> None:
        """Close with ``code`` soon; the first reason counts."""
        if self.ending is None and not self._is_over:
            self.ending = SessionEnded(code, reason)
            self._interrupt()

    def _begin_drain(self) -> None:
        self._spawn(self._drain())

    async def _drain(self) -> None:
        """Push nothing more, wait a little for what the client still settles, and end."""
        times = self.context.times
        goaway = self.codec.Goaway("drain", times.grace_ms, RECONNECT_MS)
        await self.send_frame(self.codec.encode(goaway))
        subscriptions = list(self._subscriptions.values())
        for subscription in subscriptions:
            await subscription.stop_fetching()
        deadline_ms = self.context.clock.monotonic_ms() + times.grace_ms
        while self.context.clock.monotonic_ms() < deadline_ms:
            if not self._puts and not any(s.outstanding_count for s in subscriptions):
                break
            await asyncio.sleep(0.02)
        self.end(RESTART_CODE, "the server restarts")

    async def close(self) -> None:
        """Give all leases back and end all tasks. Idempotent."""
        if self._is_over:
            return
        self._is_over = True
        self._ticker.cancel()
        self.context.drain.leave(self._on_drain)
        if self._sender is not None and self._sender is not asyncio.current_task():
            self._sender.cancel()
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(
            *(subscription.close("session ended") for subscription in self._subscriptions.values())
        )
        if tasks:
            await asyncio.wait(tasks)


def _check_lease(pointer: str, lease_ms: int) -> None:
    if not LEASE_MS_MIN <= lease_ms <= LEASE_MS_MAX:
        raise Fault(
            pointer,
            "ILLEGAL_LEASE",
            f"a lease is {LEASE_MS_MIN} to {LEASE_MS_MAX} ms long, found {lease_ms}",
        )


def _check_credit(msgs: int, bytes_count: int) -> None:
    if msgs < 0 or bytes_count < 0:
        raise Fault("/credit", "BAD_REQUEST", "credit must not be negative")
