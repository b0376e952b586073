"""One client on a WebSocket: its commands, its subscriptions, and the limits it is held to.

    frame ──▶ [Session] ──▶ Commands.run ──▶ Subscription.ack, nack, extend, ...
                                  └── pub ──▶ store.put ──▶ [PublishConfirms] ──▶ ok
    tick (1 s) ──▶ ping, stall, leases that ended, key still valid
    end ──▶ kept in the engine for its client, or all given back

States: connected ──hello──▶ open ──drain──▶ draining ──▶ ended. A command before hello is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

import msgspec

from mqservice.accounts.access import KeyCache, Principal
from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.connections.connections import ConnectedSubscription, Connection
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.decoding import Fault, problem_of
from mqservice.delivery.http import Send
from mqservice.delivery.limits import (
    FRAME_BYTES_DEFAULT,
    RECONNECT_MS,
    SAVED_SESSION_BYTES_MAX,
)
from mqservice.delivery.produce.produce_responses import BatchResponse
from mqservice.delivery.produce.put import Put
from mqservice.delivery.socket.codec import (
    Codec,
    CommandRefused,
    TooManyCommands,
    encode_problem,
)
from mqservice.delivery.socket.saved_session import saved_session, session_leases
from mqservice.delivery.socket.sender import FrameSender
from mqservice.delivery.socket.subscription import Subscription, close_all
from mqservice.errors import problem_from_store
from mqservice.groups.routes import GroupRoute
from mqservice.lib.names import CONSUMER_PREFIX, name_fault
from mqservice.lib.problem import Problem
from mqservice.lib.request_ids import new_request_id
from mqservice.protocol.frames import AnyCommand, FrameBroken
from mqservice.protocol.limits import FRAME_BYTES_MAX
from mqservice.quotas.meter import TenantMeter
from mqservice.store import SessionSaveRequest, StoreError
from mqservice.topics.routes import TopicRoute
from mqservice.web.loop_turns import turns_of
from mqservice.web.socket_budget import BudgetLimits, SocketBudget
from mqservice.web.web_sockets import POLICY_CODE, socket_of

_COUNT_MAX: Final = 64
_MESSAGES_MAX: Final = 4_000  # of all of them, or one publish


class PublishConfirms:
    """Answers of a session's publishes, each once its put has an outcome.

        commands ── Put ──▶ [PublishConfirms] ─ ok, or err ──▶ client
                         store ── outcome ──▶ ↑

    An answer is written at once. Where that cannot be, because the client reads slowly or somebody
    else is sending, one task sends all that wait, in their order. So it is when the session's part
    of the turn is used up: the engine answers many puts at once, and each answer is some work.
    ``count`` are not answered yet, at most ``_COUNT_MAX``.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ready: deque[tuple[int | None, Put, int]] = deque()
        self._is_sending = False
        self._freed = asyncio.Event()
        self.count = 0
        self._message_count = 0

    async def wait_for_room(self, message_count: int = 1) -> None:
        """Until one more publish, of so many messages, may be under way."""
        while self.count >= _COUNT_MAX or (
            self.count and self._message_count + message_count > _MESSAGES_MAX
        ):
            self._freed.clear()
            await self._freed.wait()

    def hand_over(self, command_id: int | None, put: Put, message_count: int = 1) -> None:
        """Give the put to the store and answer the command once it has an outcome.

        Raises Problem or StoreError, with nothing stored.
        """
        put.send_to_store(partial(self._decided, command_id, put, message_count))
        self.count += 1
        self._message_count += message_count

    def _decided(self, command_id: int | None, put: Put, message_count: int) -> None:
        session = self._session
        if session.is_closed:
            self._drop(put, message_count)
            return
        budget = session.budget
        if not self._is_sending and session.sender.may_write() and not budget.is_turn_over:
            began_ns = budget.now_ns()
            self._write(command_id, put, message_count)
            budget.charge_since(began_ns)
            return
        self._ready.append((command_id, put, message_count))
        if not self._is_sending:
            self._is_sending = True
            self._session.spawn(self._send())

    def _write(self, command_id: int | None, put: Put, message_count: int) -> None:
        try:
            frame = self._frame(command_id, put)
            if frame is not None:
                self._session.sender.write(frame)
        except Exception as exc:
            self._session.failed(exc)
        finally:
            self._free(message_count)

    async def _send(self) -> None:
        budget = self._session.budget
        try:
            while self._ready:
                await budget.give_way()
                async with self._session.sender.only_sender() as send:
                    # Not for longer: others have frames to send, too.
                    for _ in range(len(self._ready)):
                        command_id, put, message_count = self._ready.popleft()
                        began_ns = budget.now_ns()
                        try:
                            frame = self._frame(command_id, put)
                            budget.charge_since(began_ns)
                            if frame is not None:
                                await send(frame)
                        finally:
                            self._free(message_count)
                        if budget.is_turn_over:
                            break
        finally:
            self._is_sending = False
            while self._ready:  # its client is gone, or the session is over
                _, put, message_count = self._ready.popleft()
                self._drop(put, message_count)

    def _drop(self, put: Put, message_count: int) -> None:
        """Answer nobody; but count what was stored."""
        self._free(message_count)
        with contextlib.suppress(Exception):  # whatever went wrong, there is nobody to answer
            put.results()

    def _free(self, message_count: int) -> None:
        self.count -= 1
        self._message_count -= message_count
        self._freed.set()

    def _frame(self, command_id: int | None, put: Put) -> bytes | None:
        codec = self._session.codec
        try:
            _, results = put.results()
        except Problem as problem:
            return encode_problem(codec, command_id, problem)
        except StoreError as exc:
            return encode_problem(codec, command_id, problem_from_store(exc))
        return (
            None
            if command_id is None
            else codec.encode(codec.Ok(command_id, BatchResponse(results)))
        )


log = logging.getLogger(__name__)

BAD_FRAME_CODE: Final = 4400
AUTH_CODE: Final = 4401
FORBIDDEN_CODE: Final = 4403
STALLED_CODE: Final = 4408
TAKEN_OVER_CODE: Final = 4409
DISCONNECTED_CODE: Final = 4410
TOO_LARGE_CODE: Final = 4413
RESTART_CODE: Final = 1012
# Closed because somebody wants the client to leave. Any other end leaves open whether a message was
# the cause, as when the connection is lost: its attempt counts.
_ORDERLY_CODES: Final = frozenset(
    {AUTH_CODE, FORBIDDEN_CODE, TAKEN_OVER_CODE, DISCONNECTED_CODE, RESTART_CODE}
)
_REASON_BYTES_MAX: Final = 120  # a close frame has room for 123
_RECHECK_TICKS: Final = 5  # a revoked key ends its sockets within five ticks


Run = Callable[[AnyCommand], Awaitable[None]]  # ``Commands.run``


class SessionEnded(Exception):
    """The server closes with a code. ``is_resumable``: the client may take the session up again."""

    def __init__(self, code: int, reason: str, *, is_resumable: bool = False) -> None:
        super().__init__(reason)
        self.code = code
        self.is_resumable = is_resumable
        self.reason = reason.encode()[:_REASON_BYTES_MAX].decode(errors="ignore")

    @property
    def is_orderly(self) -> bool:
        """Whether what the client holds is given back without an attempt counted."""
        return self.code in _ORDERLY_CODES


class Session:
    """See the module's docstring. One event loop uses it."""

    def __init__(
        self,
        context: DeliveryContext,
        codec: Codec,
        *,
        keys: KeyCache,
        authorization: bytes,
        principal: Principal,
        meter: TenantMeter,
        namespace: str,
        client: tuple[str, int],
        send: Send,
        interrupt: Callable[[], None],
        user_agent: str = "",
    ) -> None:
        """``keys`` finds who ``authorization`` is. ``user_agent``: of the handshake.

        ``interrupt`` wakes whoever waits for frames, once ``ending`` says why.
        """
        self.context = context
        self.meter = meter
        self.codec = codec
        self.session_id = f"s_{new_request_id()}"
        self.resume_ttl_ms = 0
        self.frame_bytes_max = FRAME_BYTES_DEFAULT
        self.ending: SessionEnded | None = None
        self._is_text = codec.name.endswith(".json")
        self._keys = keys
        self.authorization = authorization
        self.budget = _budget_of(send)
        self.budget.debt = context.debts.of(principal.actor)
        self.sender = FrameSender(send, context.clock, is_text=self._is_text)
        self._interrupt = interrupt
        self.subscriptions: dict[int, Subscription] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_open = False
        self.is_closed = False
        self.user_agent = user_agent
        self.connected_ms = context.clock.now_ms()
        now_ms = context.clock.monotonic_ms()
        self._started_ms = now_ms
        self._received_ms = now_ms
        self._pinged_ms: int | None = None
        self._tick_count = 0
        self._on_drain = self._start_drain
        context.drain.join(self._on_drain)
        self.confirms = PublishConfirms(self)
        self.principal = principal
        self.namespace = namespace
        self.client = client
        self.client_name = ""  # as its hello says
        self.published_count = 0
        self._key_id = principal.key_id
        keys.watch.join(authorization, self._key_id, self.key_rechecked)
        context.sessions.join(self)

    @property
    def member_id(self) -> str:
        return f"ws-{self.session_id}"

    @property
    def tenant_id(self) -> int:
        return self.principal.tenant_id

    def connection(self) -> Connection:
        """What is known of it now."""
        return connection_of(self)

    def add(self, subscription: Subscription) -> None:
        self.subscriptions[subscription.sid] = subscription
        self.context.sessions.follow(subscription)

    def remove(self, subscription: Subscription) -> None:
        self.subscriptions.pop(subscription.sid, None)
        self.context.sessions.unfollow(subscription)

    # Frames in ----------------------------------------------------------------------------------

    async def take_frame(self, text: str | None, content: bytes | None, run: Run) -> None:
        """Do what the client asks for. Raises SessionEnded for a frame that ends the session."""
        self._received_ms = self.context.clock.monotonic_ms()
        if content is None:
            assert text is not None
            if not self._is_text:
                raise SessionEnded(BAD_FRAME_CODE, f"{self.codec.name} takes only binary frames")
            content = text.encode()
        budget = self.budget
        budget.start_cost()
        if len(content) > FRAME_BYTES_MAX:
            budget.spend_end(len(content))
            raise SessionEnded(
                TOO_LARGE_CODE,
                f"the frame has {len(content)} bytes, at most {FRAME_BYTES_MAX} are allowed",
            )
        try:
            for part in self.codec.split(content):
                if budget.is_turn_over:
                    await budget.give_way()
                await self._take_command(part, run)
                if pause_s := budget.pause_s():
                    await self._pause(pause_s)
        except TooManyCommands as exc:
            budget.spend_end(len(content))
            raise SessionEnded(TOO_LARGE_CODE, str(exc)) from exc
        except FrameBroken as exc:
            budget.spend_end(len(content))
            raise SessionEnded(BAD_FRAME_CODE, str(exc)) from exc

    async def _pause(self, pause_s: float) -> None:
        """Take nothing for so long; with full queues, nothing is read either."""
        if self.budget.excess:
            raise SessionEnded(POLICY_CODE, self.budget.excess)
        await asyncio.sleep(pause_s)

    async def _take_command(self, part: bytes | msgspec.Raw, run: Run) -> None:
        command_id: int | None = None
        self.budget.spend_command()
        try:
            command = self.codec.decode(part)
            command_id = getattr(command, "id", None)
            await run(command)
        except CommandRefused as exc:
            self.budget.spend_refusal(memoryview(part).nbytes)
            await self.send_frame(
                self.codec.encode(self.codec.Err(exc.id, exc.code, False, exc.detail))
            )
        except Problem as problem:
            if not problem.retryable or problem.code == "SUBSCRIPTION_CONFLICT":  # a look each time
                self.budget.spend_refusal(memoryview(part).nbytes)
            await self.send_problem(command_id, problem)
        except Fault as fault:
            self.budget.spend_refusal(memoryview(part).nbytes)
            await self.send_problem(command_id, problem_of(fault))
        except StoreError as exc:
            await self.send_problem(command_id, problem_from_store(exc))

    async def send_problem(self, command_id: int | None, problem: Problem) -> None:
        await self.send_frame(encode_problem(self.codec, command_id, problem))

    async def send_ok(self, command_id: int | None, result: msgspec.Struct | None) -> None:
        if command_id is not None:
            await self.send_frame(
                self.codec.encode(self.codec.Ok(command_id, {} if result is None else result))
            )

    async def topic_route(self, name: str) -> TopicRoute:
        routes = self.context.caches.routes
        route = routes.topic(self.principal, self.namespace, name)
        if route is None:
            if fault := name_fault(name):
                raise Fault("/topic", "ILLEGAL_TOPIC", fault)
            route = await routes.load_topic(self.principal, self.namespace, name)
        return route

    async def group_route(self, name: str) -> GroupRoute:
        routes = self.context.caches.routes
        route = routes.group(self.principal, self.namespace, name)
        if route is None:
            if fault := name_fault(name):
                raise Fault("/group", "ILLEGAL_GROUP", fault)
            route = await routes.load_group(self.principal, self.namespace, name)
        return route

    # Frames out ---------------------------------------------------------------------------------

    async def send_frame(self, frame: bytes) -> None:
        """See ``FrameSender.send``."""
        await self.sender.send(frame)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._run(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # One that is cancelled before its first step has never come to its work.
        task.add_done_callback(lambda _: work.close())
        return task

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except OSError:
            log.debug("The client disconnected", extra={"action": "session_gone"})
        except Exception as exc:
            self.failed(exc)

    def failed(self, exc: Exception) -> None:
        """End the session for an exception that nobody expected, and log that."""
        log.error(
            "A socket session failed with an unexpected error",
            exc_info=exc,
            extra={"action": "session_failed"},
        )
        self.end(1011, "the session failed", is_kept=False)

    def ponged(self) -> None:
        """The client has answered a ping."""
        self._pinged_ms = None

    # Time ---------------------------------------------------------------------------------------

    def tick(self, now_ms: int, wall_ms: int) -> None:
        """Once each ``tick_ms``; ``now_ms`` is monotonic."""
        if self.is_closed:
            return
        times = self.context.times
        since_ms = self.sender.waiting_since_ms
        if since_ms is not None and now_ms - since_ms >= times.stall_ms:
            reason = f"the client read nothing for {times.stall_ms} ms"
            self.end(STALLED_CODE, reason, is_kept=False)
            return
        if not self.is_open and now_ms - self._started_ms >= times.hello_ms:
            self.end(STALLED_CODE, f"no hello within {times.hello_ms} ms", is_kept=False)
            return
        if self._pinged_ms is not None and self._received_ms <= self._pinged_ms:
            if now_ms - self._pinged_ms >= times.pong_ms:
                reason = f"no answer to a ping within {times.pong_ms} ms"
                self.end(STALLED_CODE, reason, is_kept=True)
                return
        elif now_ms - self._received_ms >= times.ping_ms:
            self._pinged_ms = now_ms
            self.spawn(self.send_frame(self.codec.ping))
        for subscription in list(self.subscriptions.values()):
            subscription.tick(now_ms, wall_ms)
            if subscription.is_drained:
                self.remove(subscription)
        self._tick_count += 1
        if self._tick_count % _RECHECK_TICKS:
            return
        if self._keys.cached(self.authorization) is None:
            self._keys.watch.refresh(self.authorization, self._key_id)

    def key_rechecked(self, principal: Principal | None) -> None:
        """What the session's key may do now; None: nothing any more.

        A subscription that the key no longer allows ends the session: what it holds is given back.
        """
        if principal is None:
            self.end(AUTH_CODE, "the key is no longer valid", is_kept=False)
            return
        self.principal = principal
        for each in self.subscriptions.values():
            if not (
                principal.allows(Scope.CONSUME, Kind.TOPIC, each.topic.name)
                and principal.allows(Scope.CONSUME, Kind.GROUP, each.group.name)
            ):
                reason = f"the key may no longer consume {each.topic.name} for {each.group.name}"
                self.end(FORBIDDEN_CODE, reason, is_kept=False)
                return

    # Ending -------------------------------------------------------------------------------------

    def end(self, code: int, reason: str, *, is_kept: bool) -> None:
        """Close with ``code`` soon; the first reason counts. ``is_resumable``: see SessionEnded."""
        if self.ending is None and not self.is_closed:
            self.ending = SessionEnded(code, reason, is_resumable=is_kept)
            self._interrupt()

    def hand_over(self) -> None:
        """Its client goes on with it on another connection, here or elsewhere."""
        self.end(TAKEN_OVER_CODE, "the session was resumed on another connection", is_kept=True)

    def disconnect(self) -> None:
        """Somebody who may has ended it. The client may come back, unless its key is revoked."""
        self.end(DISCONNECTED_CODE, "disconnected by an administrator", is_kept=False)

    def _start_drain(self) -> None:
        if not self.is_closed:
            self.spawn(self._drain())

    async def _drain(self) -> None:
        """Push nothing more, wait a little for what the client still settles, and end."""
        times = self.context.times
        goaway = self.codec.Goaway("drain", times.grace_ms, RECONNECT_MS)
        await self.send_frame(self.codec.encode(goaway))
        subscriptions = list(self.subscriptions.values())
        for subscription in subscriptions:
            await subscription.leave()
        deadline_ms = self.context.clock.monotonic_ms() + times.grace_ms
        while self.context.clock.monotonic_ms() < deadline_ms:
            if not self.confirms.count and not any(s.outstanding_count for s in subscriptions):
                break
            await asyncio.sleep(0.02)
        self.end(RESTART_CODE, "the server is restarting", is_kept=True)

    async def close(self, *, is_kept: bool, has_vanished: bool) -> None:
        """End all tasks; keep the session for its client, or give all back. Idempotent.

        ``has_vanished``: the client went without a word, so an attempt of what it holds counts.
        """
        if self.is_closed:
            return
        self.is_closed = True
        self._keys.watch.leave(self.authorization, self._key_id, self.key_rechecked)
        self.sender.end()
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        subscriptions = list(self.subscriptions.values())
        try:
            await asyncio.gather(*(subscription.leave() for subscription in subscriptions))
            await asyncio.gather(*(subscription.settled() for subscription in subscriptions))
            is_kept = is_kept and await self._save(has_vanished=has_vanished)
            if not is_kept:
                await close_all(subscriptions, "session ended", has_vanished=has_vanished)
            if tasks:
                await asyncio.wait(tasks)
        finally:
            for subscription in subscriptions:
                self.context.sessions.unfollow(subscription)
            self.context.sessions.leave(self, is_kept=is_kept)
            # Not before: the process closes its way to the engine once nobody is left.
            self.context.drain.leave(self._on_drain)

    async def _save(self, *, has_vanished: bool) -> bool:
        """Whether the engine has the session now, until its client comes back."""
        subscriptions = [each for each in self.subscriptions.values() if not each.is_drained]
        if not self.resume_ttl_ms or not subscriptions:
            return False
        held = session_leases(subscriptions, self.context.clock.now_ms())
        content = saved_session(subscriptions)
        if len(content) > SAVED_SESSION_BYTES_MAX:
            log.info(
                "A session is too large to save; it cannot be resumed",
                extra={"action": "session_save_refused", "bytes": len(content)},
            )
            return False
        request = SessionSaveRequest(
            session_id=self.session_id,
            keep_ms=self.resume_ttl_ms,
            content=content,
            held=held,
            reason="session not resumed",
            has_vanished=has_vanished,
        )
        try:
            await subscriptions[0].membership.store.session_keep(request)
        except StoreError as exc:
            log.info(
                "Could not save a session; it cannot be resumed",
                extra={"action": "session_save_failed", "error": str(exc)},
            )
            return False
        return True


def _budget_of(send: Send) -> SocketBudget:
    """The one of the connection, whose frames and commands are one work."""
    socket = socket_of(send)
    if socket is not None:
        return socket.budget
    return SocketBudget(turns_of(asyncio.get_running_loop()), BudgetLimits())


def connection_of(session: Session) -> Connection:
    """What lists of connections show of a session; what was pushed shows in the tags."""
    return Connection(
        id=session.session_id,
        namespace=session.namespace,
        actor=session.principal.actor,
        address=session.client[0],
        protocol=session.codec.name,
        user_agent=session.user_agent,
        client=session.client_name,
        connected_ms=session.connected_ms,
        published=session.published_count,
        subscriptions=[_subscription(each) for each in session.subscriptions.values()],
    )


def _subscription(subscription: Subscription) -> ConnectedSubscription:
    credits = subscription.credits
    return ConnectedSubscription(
        sid=subscription.sid,
        topic=subscription.topic.name,
        group=subscription.group.name,
        consumer=subscription.membership.member_id.removeprefix(CONSUMER_PREFIX),
        filter=subscription.wanted.text,
        delivered=subscription.leased.next_tag - 1,
        held=subscription.outstanding_count,
        credit_messages=credits.msgs,
        credit_bytes=credits.bytes,
        flow=credits.state,
    )
