"""What a client may ask for on its socket: one method for each command.

    decoded command ──▶ Commands.run ──▶ method ──▶ Subscription, store.put, answer
                                            └▶ Fault, Problem, StoreError: the session answers err

Everything but hello is refused before hello.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.connections.connections import AGENT_CHARS_MAX
from mqservice.delivery.consumers import Consumer, client_id_of, consumer_member, zone_of
from mqservice.delivery.decoding import Fault
from mqservice.delivery.filters import filter_of
from mqservice.delivery.leases import check_lease
from mqservice.delivery.limits import (
    AUTO_EXTEND_MS_MAX,
    FRAME_BYTES_MIN,
    NACK_DELAY_MS_MAX,
    NACK_REASON_CHARS_MAX,
    RESUME_TTL_MS_DEFAULT,
    RESUME_TTL_MS_MAX,
    SETTLE_COUNT_MAX,
    SUBSCRIPTION_COUNT_MAX,
)
from mqservice.delivery.produce.produce import BatchCheck
from mqservice.delivery.produce.put import Put
from mqservice.delivery.request_keys import check_key
from mqservice.delivery.socket.resumption import Resumption
from mqservice.delivery.socket.session import Session
from mqservice.delivery.socket.subscription import Subscription
from mqservice.delivery.spans import OperationSpan
from mqservice.groups.routes import GroupRoute
from mqservice.lib.problem import Problem
from mqservice.protocol import frames
from mqservice.protocol.limits import CREDIT_BYTES_MAX, CREDIT_MSGS_MAX, FRAME_BYTES_MAX
from mqservice.store import StoreError

_STEP_COUNT: Final = 32  # messages of a batch between two looks at the budget
_SUBSCRIBE_WEIGHT: Final = 500  # in commands: it makes tasks, and asks the engine several times


class Commands:
    """The commands of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def run(self, command: frames.AnyCommand) -> None:
        """Raises Fault, Problem or StoreError for a command that cannot be done."""
        if not self._session.is_open and not isinstance(command, frames.Hello):
            raise Fault("", "BAD_REQUEST", "send hello first")
        await _METHODS[type(command)](self, command)

    async def _hello(self, command: frames.Hello) -> None:
        if self._session.is_open:
            raise Fault("", "BAD_REQUEST", "hello was already sent")
        if command.max_frame is not None:
            if not command.max_frame >= FRAME_BYTES_MIN:
                raise Fault(
                    "/max_frame", "BAD_REQUEST", f"max_frame must be at least {FRAME_BYTES_MIN}"
                )
            self._session.frame_bytes_max = min(command.max_frame, FRAME_BYTES_MAX)
        ttl_ms = RESUME_TTL_MS_DEFAULT if command.resume_ttl_ms is None else command.resume_ttl_ms
        if not 0 <= ttl_ms <= RESUME_TTL_MS_MAX:
            detail = f"resume_ttl_ms must be 0 to {RESUME_TTL_MS_MAX}, found {ttl_ms}"
            raise Fault("/resume_ttl_ms", "BAD_REQUEST", detail)
        resumption = None
        if command.resume is not None:
            resumption = Resumption(self._session, command.resume)
        self._session.client_name = (command.client or "")[:AGENT_CHARS_MAX]
        self._session.is_open = True
        self._session.resume_ttl_ms = ttl_ms
        async with self._session.sender.only_sender() as send:
            is_resumed = resumption is not None and await resumption.take_over()
            await send(self._welcome(command.id, is_resumed=is_resumed))
        if resumption is not None and is_resumed:
            await resumption.resume()

    def _welcome(self, command_id: int | None, *, is_resumed: bool) -> bytes:
        session = self._session
        token = None
        if session.resume_ttl_ms:
            tokens = session.context.resume_tokens
            token = tokens.token(
                session.session_id, self._session.principal, self._session.namespace
            )
        return session.codec.encode(
            session.codec.Welcome(
                id=command_id,
                session=session.session_id,
                resume_token=token,
                resumed=is_resumed,
                ping_ms=session.context.times.ping_ms,
                pong_ms=session.context.times.pong_ms,
            )
        )

    async def _publish(self, command: frames.JsonPublish | frames.PackPublish) -> None:
        spans = self._session.context.spans
        if spans is None:
            await self._offer(command, None)
            return
        span = spans.of_publish(self._session.namespace, command.topic)
        try:
            await self._offer(command, span)
        except (Fault, Problem, StoreError) as error:
            span.failed(error)
            raise

    async def _offer(
        self, command: frames.JsonPublish | frames.PackPublish, span: OperationSpan | None
    ) -> None:
        self._session.principal.require(Scope.PRODUCE, Kind.TOPIC, command.topic)
        if command.key is not None:
            check_key("/key", command.key, "key")
        self._session.meter.check_in(self._session.context.clock.monotonic_ms())
        route = await self._session.topic_route(command.topic)
        # In steps, so that a large batch does not keep others waiting.
        budget = self._session.budget
        check = BatchCheck(command.m, route, pointer="/m")
        while not check.take(_STEP_COUNT):
            await budget.give_way()
        offers = check.offers()
        if span is not None:
            span.carry(offers)
        await self._session.confirms.wait_for_room(len(offers))
        put = Put(
            self._session.context,
            self._session.meter,
            route,
            offers,
            self._session.client,
            key=command.key,
            span=span,
        )
        while not put.encode(_STEP_COUNT):
            await budget.give_way()
        # Handed to the store here, so that frames are stored in the order in which they came.
        self._session.confirms.hand_over(command.id, put, len(offers))
        self._session.published_count += len(offers)

    async def _subscribe(self, command: frames.Subscribe) -> None:
        self._session.budget.spend_commands(_SUBSCRIBE_WEIGHT)
        self._session.principal.require(Scope.CONSUME, Kind.TOPIC, command.topic)
        self._session.principal.require(Scope.CONSUME, Kind.GROUP, command.group)
        if command.sid in self._session.subscriptions:
            raise Fault("/sid", "CONFLICT", f"sid {command.sid} is already in use")
        if len(self._session.subscriptions) >= SUBSCRIPTION_COUNT_MAX:
            raise Problem.of(
                "QUOTA_EXCEEDED",
                f"a session has at most {SUBSCRIPTION_COUNT_MAX} subscriptions; end one first",
            )
        wanted = filter_of("/filter", command.filter)
        if command.mode not in (None, "shared"):
            raise Fault("/mode", "BAD_REQUEST", "the only supported mode is shared")
        topic = await self._session.topic_route(command.topic)
        group = await self._session.group_route(command.group)
        lease_ms = group.lease_ms if command.lease_ms is None else command.lease_ms
        check_lease("/lease_ms", lease_ms)
        _check_auto_extend(command.auto_extend_ms)
        credit = command.credit or frames.Credit()
        _check_credit(credit.msgs, credit.bytes)
        subscription = Subscription(
            self._session,
            sid=command.sid,
            topic=topic,
            group=group,
            lease_ms=lease_ms,
            auto_extend_ms=command.auto_extend_ms or 0,
            wanted=wanted,
            consumer=_consumer_of(command, group),
            credit=frames.Credit(
                min(credit.msgs, CREDIT_MSGS_MAX), min(credit.bytes, CREDIT_BYTES_MAX)
            ),
        )
        await subscription.announce()
        self._session.add(subscription)
        await self._session.send_ok(command.id, frames.Subscribed(subscription.credits.left))
        if not self._session.context.drain.has_begun:
            subscription.pusher.start()
        subscription.notify_paused()

    async def _add_credit(self, command: frames.AddCredit) -> None:
        _check_credit(command.msgs, command.bytes)
        subscription = self._subscription(command.sid)
        before = subscription.credits.left
        subscription.add_credit(command.msgs, command.bytes)
        if subscription.credits.left == before:  # it has all that it may have
            self._session.budget.spend_no_op()
        await self._session.send_ok(command.id, frames.Subscribed(subscription.credits.left))

    async def _ack(self, command: frames.Ack) -> None:
        subscription = self._subscription(command.sid)
        tags = command.t or []
        if len(tags) > SETTLE_COUNT_MAX:
            raise Fault("/t", "BAD_REQUEST", f"a command has at most {SETTLE_COUNT_MAX} tags")
        if command.upto is not None:
            tags = [*tags, *subscription.tags_upto(command.upto)]
        await subscription.wait_ready()
        if not subscription.ack(tags, command.id):
            self._session.budget.spend_no_op()

    async def _nack(self, command: frames.Nack) -> None:
        subscription = self._subscription(command.sid)
        if len(command.t) > SETTLE_COUNT_MAX:
            raise Fault("/t", "BAD_REQUEST", f"a command has at most {SETTLE_COUNT_MAX} tags")
        for index, item in enumerate(command.t):
            if item.delay_ms is not None and not 0 <= item.delay_ms <= NACK_DELAY_MS_MAX:
                raise Fault(f"/t/{index}/1", "BAD_REQUEST", "the delay is out of range")
            _check_reason(f"/t/{index}/2", item.reason)
        await subscription.wait_ready()
        if not subscription.nack(command.t, command.id):
            self._session.budget.spend_no_op()

    async def _dead_letter(self, command: frames.DeadLetter) -> None:
        subscription = self._subscription(command.sid)
        if len(command.t) > SETTLE_COUNT_MAX:
            raise Fault("/t", "BAD_REQUEST", f"a command has at most {SETTLE_COUNT_MAX} tags")
        for index, item in enumerate(command.t):
            _check_reason(f"/t/{index}/1", item.reason)
        await subscription.wait_ready()
        if not subscription.dead_letter(command.t, command.id):
            self._session.budget.spend_no_op()

    async def _extend(self, command: frames.Extend) -> None:
        subscription = self._subscription(command.sid)
        check_lease("/ms", command.ms)
        if len(command.t) > SETTLE_COUNT_MAX:
            raise Fault("/t", "BAD_REQUEST", f"a command has at most {SETTLE_COUNT_MAX} tags")
        await subscription.wait_ready()
        if not subscription.extend(dict.fromkeys(command.t), command.ms, command.id):
            self._session.budget.spend_no_op()

    async def _unsubscribe(self, command: frames.Unsubscribe) -> None:
        subscription = self._subscription(command.sid)
        await subscription.stop_fetching()
        if not command.drain:
            await subscription.close("unsubscribed")
        if not subscription.outstanding_count:
            self._session.remove(subscription)
        await self._session.send_ok(command.id, frames.Unsubscribed(subscription.outstanding_count))

    async def _ping(self, _: frames.Ping) -> None:
        self._session.budget.spend_no_op()
        await self._session.send_frame(self._session.codec.pong)

    async def _pong(self, _: frames.Pong) -> None:
        self._session.budget.spend_no_op()
        self._session.ponged()

    def _subscription(self, sid: int) -> Subscription:
        subscription = self._session.subscriptions.get(sid)
        if subscription is None:
            raise Fault("/sid", "NOT_FOUND", f"there is no subscription {sid}")
        return subscription


def _consumer_of(command: frames.Subscribe, group: GroupRoute) -> Consumer:
    given = command.consumer_id
    return Consumer(
        client_id=client_id_of(group, command.client_id),
        member_id="" if given is None else consumer_member(given),
        zone=zone_of(command.consumer_zone),
    )


def _check_auto_extend(auto_extend_ms: int | None) -> None:
    if auto_extend_ms is not None and not 0 <= auto_extend_ms <= AUTO_EXTEND_MS_MAX:
        raise Fault(
            "/auto_extend_ms",
            "ILLEGAL_LEASE",
            f"auto_extend_ms must be 0 to {AUTO_EXTEND_MS_MAX}, found {auto_extend_ms}",
        )


def _check_reason(pointer: str, reason: str | None) -> None:
    if reason is not None and len(reason) > NACK_REASON_CHARS_MAX:
        raise Fault(pointer, "BAD_REQUEST", "the reason is too long")


def _check_credit(msgs: int, bytes_count: int) -> None:
    if msgs < 0 or bytes_count < 0:
        raise Fault("/credit", "BAD_REQUEST", "credit must not be negative")


# Any: each command goes to the one method that takes its type.
_METHODS_BY_FIELDS: Final[dict[type[Any], Callable[[Commands, Any], Coroutine[Any, Any, None]]]] = {
    frames.Hello: Commands._hello,
    frames.Publish: Commands._publish,
    frames.Subscribe: Commands._subscribe,
    frames.AddCredit: Commands._add_credit,
    frames.Ack: Commands._ack,
    frames.Nack: Commands._nack,
    frames.Extend: Commands._extend,
    frames.DeadLetter: Commands._dead_letter,
    frames.Unsubscribe: Commands._unsubscribe,
    frames.Ping: Commands._ping,
    frames.Pong: Commands._pong,
}
_METHODS: Final = {
    form: _METHODS_BY_FIELDS[frame.fields]
    for frame in frames.COMMANDS
    for form in (frame.json, frame.pack)
}
