"""One session of the socket protocol without I/O: frames in, frames out.

    hub ── hello() ─▶                            ◀── take(content) ── hub
    programs ── results in the homes' queues ─▶ flush() ─▶ contents to send

It outlives connections. A connection that breaks and is resumed continues with its tags; results
that were not confirmed are sent again. Where the service kept nothing, the session starts anew:

* what nobody has taken yet is dropped; the service delivers it again;
* a message that the program still works on is adopted under its new tag when it comes again, and
  is not handed over a second time;
* an ack or dead letter that was not confirmed is repeated when its message comes again.
"""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from typing import Final, NamedTuple

import msgspec

from .errors import ConnectionLost, MQError, ResponseMalformed, UsageError, rejected
from .messages import (
    CONFIRMED,
    DEAD_LETTER,
    EXTEND,
    NACK,
    OPEN,
    QUEUED,
    SESSION_LOST,
    BaseMessage,
    Feed,
    Home,
    Result,
    Sender,
)
from .protocol import client_codec, frames
from .protocol.frames import FrameBroken, JsonMessages, PackDelivered, PackMessages, Subprotocol
from .protocol.limits import CREDIT_BYTES_MAX, CREDIT_MSGS_MAX, PING_MS, PONG_MS
from .protocol.messages import FilterForm

SETTLE_COUNT_MAX: Final = 1_000
REMEMBERED_MAX: Final = 10_000
FRAME_BYTES_MAX: Final = 4 * 1024 * 1024
RESUME_TTL_MS: Final = 60_000
RESTARTING: Final = 1012
ACK: Final = "ack"


class SubscribeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a subscription asks for; shared by both ways of receiving. ``_ms`` None: the group's.

    Raises UsageError.
    """

    prefetch: int = 200
    prefetch_bytes: int = 8 * 1024 * 1024
    filter: FilterForm | None = None
    lease_ms: int | None = None
    auto_extend_ms: int | None = None
    client_id: str | None = None
    consumer_id: str | None = None
    consumer_zone: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.prefetch <= CREDIT_MSGS_MAX:
            raise UsageError(f"prefetch must be 1 to {CREDIT_MSGS_MAX}, found {self.prefetch}")
        if not 1 <= self.prefetch_bytes <= CREDIT_BYTES_MAX:
            raise UsageError(
                f"prefetch_bytes must be 1 to {CREDIT_BYTES_MAX}, found {self.prefetch_bytes}"
            )


class _Remembered(NamedTuple):
    """A result that was not confirmed before its session was lost."""

    kind: str
    reason: str | None
    message: weakref.ref[BaseMessage]


class SocketSubscription(Home):
    """One topic and group on the socket."""

    def __init__(
        self,
        sid: int,
        topic: str,
        group: str,
        options: SubscribeOptions,
        feed: Feed,
        sender: Sender,
    ) -> None:
        super().__init__(topic, group, feed, sender)
        self.sid = sid
        self.options = options
        self.epoch = 1
        self.last_tag = 0
        self.is_confirmed = False
        self.is_draining = False
        self.flow = "open"
        # By message id, of earlier sessions.
        self.orphans: weakref.WeakValueDictionary[str, BaseMessage] = weakref.WeakValueDictionary()
        self.remembered: OrderedDict[str, _Remembered] = OrderedDict()

    def arrive(self, wires: list[PackDelivered]) -> None:
        """Hand new messages to the feed, settle again what was settled before."""
        if not wires:
            return
        kind, epoch, outstanding = self.feed.kind, self.epoch, self.outstanding
        if self.remembered or self.orphans:
            wires = [wire for wire in wires if not self._is_known(wire)]
        fresh = []
        for wire in wires:
            message = kind(wire, self, wire.t, epoch)
            outstanding[wire.t] = message
            fresh.append(message)
        if fresh:
            self.feed.deliver(fresh)

    def _is_known(self, wire: PackDelivered) -> bool:
        done = self.remembered.pop(wire.id, None)
        if done is not None:
            message = done.message() or self.feed.kind(wire, self, wire.t, self.epoch)
            message._handle, message._epoch, message._note = wire.t, self.epoch, None
            message._state = QUEUED
            self.outstanding[wire.t] = message
            self.feed.stats.repeated += 1
            if done.kind == ACK:
                self.acks.append(message)
            else:
                self.results.append(Result(done.kind, message, None, done.reason))
            return True
        orphan = self.orphans.pop(wire.id, None)
        if orphan is None or orphan._state != OPEN:
            return False
        orphan._handle, orphan._epoch, orphan._note = wire.t, self.epoch, None
        self.outstanding[wire.t] = orphan
        self.feed.stats.repeated += 1
        return True

    def start_anew(self) -> None:
        """The service has forgotten the session, and with it all tags."""
        waiting = set(map(id, list(self.feed.buffer)))
        for message in self.outstanding.values():
            if message._state in (OPEN, QUEUED):
                message._note = SESSION_LOST
            if message._state == OPEN and id(message) not in waiting:
                self.orphans[message.id] = message
        self.feed.stats.lost += len(self.outstanding)
        self.outstanding.clear()
        self.epoch += 1
        self.last_tag = 0
        self.is_confirmed = False

    def remember(self, message: BaseMessage, kind: str, reason: str | None) -> None:
        message._lose_result()
        self.remembered[message.id] = _Remembered(kind, reason, weakref.ref(message))
        while len(self.remembered) > REMEMBERED_MAX:
            self.remembered.popitem(last=False)


class _Command(msgspec.Struct, frozen=True):
    """A command that is not confirmed yet; ``results`` are of the messages that it settles."""

    frame: msgspec.Struct
    subscription: SocketSubscription
    kind: str
    results: list[Result] | list[BaseMessage] = []


SUBSCRIBE: Final = "subscribe"
UNSUBSCRIBE: Final = "unsubscribe"
PROBE: Final = "probe"


class SocketSession:
    """See the module. ``retry`` is not empty while commands wait to be sent again."""

    def __init__(
        self, client_name: str, sender: Sender, subprotocol: Subprotocol = Subprotocol.MSGPACK
    ) -> None:
        self.subscriptions: dict[int, SocketSubscription] = {}
        self.is_welcome = False
        self.was_welcome = False
        self.goaway: ConnectionLost | None = None
        self.silence_ms_max = PING_MS + PONG_MS
        self._client_name = client_name
        self._sender = sender
        self._subprotocol = subprotocol
        self._sids = itertools.count(1)
        self._ids = itertools.count(2)
        self._session_id = ""
        self._token: str | None = None
        self._limits = frames.Limits()
        self._commands: dict[int, _Command] = {}
        self._refused: list[_Command] = []
        self._out: list[msgspec.Struct] = []
        self._ended_by: MQError | None = None

    # Subscriptions --------------------------------------------------------------------------

    def subscribe(
        self, topic: str, group: str, options: SubscribeOptions, feed: Feed
    ) -> SocketSubscription:
        subscription = SocketSubscription(
            next(self._sids), topic, group, options, feed, self._sender
        )
        self.subscriptions[subscription.sid] = subscription
        if self.is_welcome:
            self._send_subscribe(subscription)
        return subscription

    def add_credit(self, subscription: SocketSubscription, messages: int, size: int) -> None:
        if self.is_welcome and not subscription.is_draining:
            self._out.append(frames.AddCredit(sid=subscription.sid, msgs=messages, bytes=size))

    def drain(self, subscription: SocketSubscription) -> None:
        """Ask for nothing more; what is outstanding can still be settled."""
        if not subscription.is_draining:
            subscription.is_draining = True
            self._send_unsubscribe(subscription, is_drain=True)

    def release(self, subscription: SocketSubscription) -> None:
        """Give back what is outstanding, without an attempt counted."""
        self._send_unsubscribe(subscription, is_drain=False)

    def forget(self, subscription: SocketSubscription) -> None:
        """Nothing of it is sent or awaited any more."""
        self.subscriptions.pop(subscription.sid, None)
        remembered = [done.message() for done in subscription.remembered.values()]
        subscription.end([*subscription.outstanding.values(), *filter(None, remembered)])
        subscription.outstanding.clear()
        self._commands = {
            number: command
            for number, command in self._commands.items()
            if command.subscription is not subscription
        }
        self._refused = [each for each in self._refused if each.subscription is not subscription]

    def is_busy(self, subscription: SocketSubscription) -> bool:
        """Whether results of it are not confirmed yet, or commands while there is a connection."""
        return subscription.has_queued or any(
            command.subscription is subscription and (command.results or self.is_welcome)
            for command in (*self._commands.values(), *self._refused)
        )

    @property
    def has_unconfirmed(self) -> bool:
        return bool(self._commands or self._refused)

    @property
    def has_refused(self) -> bool:
        """Whether commands were refused for the moment and wait for ``send_refused``."""
        return bool(self._refused)

    def fail_all(self, error: MQError) -> None:
        for subscription in list(self.subscriptions.values()):
            self._end(subscription, error)
        self._commands.clear()
        self._refused.clear()

    # A connection ---------------------------------------------------------------------------

    def hello(self) -> bytes:
        """The first frame of a connection."""
        resume = None
        if self._token is not None and self._session_id:
            have = [
                frames.Have(each.sid, each.last_tag)
                for each in self.subscriptions.values()
                if each.last_tag
            ]
            resume = frames.Resume(self._session_id, self._token, have)
        return self._encode(
            frames.Hello(
                id=1,
                client=self._client_name,
                resume=resume,
                max_frame=FRAME_BYTES_MAX,
                resume_ttl_ms=RESUME_TTL_MS,
            )
        )

    def disconnected(self) -> None:
        self.is_welcome = False
        self.goaway = None
        self._out.clear()

    def forget_token(self) -> None:
        """The session was taken over elsewhere: the next one starts anew."""
        self._token = None

    def take(self, content: bytes) -> None:
        """What the service sent. Raises ResponseMalformed, RequestRejected for the hello."""
        try:
            pushes = client_codec.decode(content, self._subprotocol)
            if self._subprotocol is Subprotocol.JSON:
                pushes = [_as_pack(push) for push in pushes]
        except FrameBroken as exc:
            raise ResponseMalformed(str(exc)) from exc
        for push in pushes:
            if type(push) is PackMessages:
                subscription = self.subscriptions.get(push.sid)
                if subscription is not None and push.m:
                    subscription.last_tag = push.m[-1].t
                    subscription.arrive(push.m)
            elif isinstance(push, frames.Ok):
                self._confirm(push)
            else:
                self._take_other(push)

    def flush(self) -> list[bytes]:
        """Everything that is to be sent now, encoded, at most 1,000 results a frame."""
        if not self.is_welcome:
            return []
        for subscription in self.subscriptions.values():
            if subscription.has_queued:
                self._collect(subscription)
        out, self._out = self._out, []
        return [self._encode(frame) for frame in out]

    def send_refused(self) -> None:
        """Send again what the service could not do at the time."""
        refused, self._refused = self._refused, []
        for command in refused:
            self._command(
                msgspec.structs.replace(command.frame, id=next(self._ids)),
                command.subscription,
                command.kind,
                command.results,
            )

    # Incoming -------------------------------------------------------------------------------

    def _take_other(self, push: msgspec.Struct) -> None:
        if isinstance(push, frames.Welcome):
            self._welcome(push)
        elif isinstance(push, frames.Err):
            self._refuse(push)
        elif isinstance(push, frames.Lost):
            self._lose(push)
        elif isinstance(push, frames.Flow):
            subscription = self.subscriptions.get(push.sid)
            if subscription is not None:
                subscription.flow = push.state
        elif isinstance(push, frames.Ping):
            self._out.append(frames.Pong())
        elif isinstance(push, frames.Goaway):
            self.goaway = ConnectionLost(RESTARTING, push.why, retry_after_ms=push.retry_ms)

    def _welcome(self, push: frames.Welcome) -> None:
        was_known = bool(self._session_id)
        self.is_welcome = self.was_welcome = True
        self.silence_ms_max = push.ping_ms + push.pong_ms
        self._session_id, self._token = push.session, push.resume_token
        self._limits = push.limits
        if push.resumed:
            again, self._commands = self._commands, {}
            for command in (*again.values(), *self._refused):
                self._command(command.frame, command.subscription, command.kind, command.results)
            self._refused.clear()
        elif was_known:
            self._start_anew()
        for subscription in self.subscriptions.values():
            is_asked = any(
                command.subscription is subscription and command.kind == SUBSCRIBE
                for command in self._commands.values()
            )
            if not (subscription.is_confirmed or subscription.is_draining or is_asked):
                self._send_subscribe(subscription)

    def _start_anew(self) -> None:
        unconfirmed = [*self._commands.values(), *self._refused]
        self._commands.clear()
        self._refused.clear()
        for command in unconfirmed:
            for each in command.results:
                result = each if isinstance(each, Result) else Result(ACK, each)
                self._settle_later(command.subscription, result)
        for subscription in self.subscriptions.values():
            subscription.start_anew()

    def _settle_later(self, subscription: SocketSubscription, result: Result) -> None:
        """For a message whose tag is gone: when it comes again, or not at all."""
        message = result.message
        if result.kind in (ACK, DEAD_LETTER):
            subscription.remember(message, result.kind, result.reason)
        elif result.kind == NACK:
            message._fail("SESSION_LOST")  # it is delivered again without it

    def _lose(self, push: frames.Lost) -> None:
        subscription = self.subscriptions.get(push.sid)
        if subscription is None:
            return
        for tag in push.t:
            message = subscription.outstanding.pop(tag, None)
            if message is not None and message._state == OPEN:
                message._note = push.why
                subscription.feed.stats.lost += 1

    def _confirm(self, push: frames.Ok) -> None:
        command = self._commands.pop(push.id, None)
        if command is None:
            return
        subscription = command.subscription
        if command.kind == SUBSCRIBE:
            subscription.is_confirmed = True
        failed = _failed_tags(push)
        outstanding = subscription.outstanding
        stats = subscription.feed.stats
        if command.kind == ACK and not failed and not subscription.feed.confirm_waiters:
            # Nearly always: worth its lines, as every message passes here.
            for message in command.results:
                outstanding.pop(message._handle, None)  # type: ignore[union-attr]  # acks have no Result
                message._state, message._note = CONFIRMED, None  # type: ignore[union-attr]
            stats.acked += len(command.results)
            return
        done = 0
        for each in command.results:
            message = each.message if isinstance(each, Result) else each
            tag = message._handle
            if command.kind == EXTEND:
                continue
            outstanding.pop(tag, None)
            if failed and tag in failed:
                subscription.feed.settle_failed(message, failed[tag])
            else:
                message._confirm()
                done += 1
        if command.kind == ACK:
            stats.acked += done
        elif command.kind == NACK:
            stats.nacked += done
        elif command.kind == DEAD_LETTER:
            stats.dead_lettered += done

    def _refuse(self, push: frames.Err) -> None:
        error = rejected(status=0, code=push.code, detail=push.msg, retryable=push.retryable)
        if push.id == 1:
            raise error
        command = None if push.id is None else self._commands.pop(push.id, None)
        if command is None:
            if push.id is None:
                self._find_ended(error)
            return
        subscription = command.subscription
        if command.kind == SUBSCRIBE and push.code == "CONFLICT":
            subscription.is_confirmed = True  # it arrived the first time
        elif command.kind == PROBE:
            if self._ended_by is not None:
                self._end(subscription, self._ended_by)
        elif push.retryable:
            self._refused.append(command)
        elif command.kind == SUBSCRIBE:
            self._end(subscription, error)
        elif command.kind not in (UNSUBSCRIBE, EXTEND):
            for each in command.results:
                message = each.message if isinstance(each, Result) else each
                subscription.outstanding.pop(message._handle, None)
                subscription.feed.settle_failed(message, push.code)

    def _find_ended(self, error: MQError) -> None:
        """The service ended a subscription without saying which: ask for each of them."""
        active = [each for each in self.subscriptions.values() if each.is_confirmed]
        if len(active) == 1:
            self._end(active[0], error)
            return
        self._ended_by = error
        for subscription in active:
            number = next(self._ids)
            self._command(frames.AddCredit(sid=subscription.sid, id=number), subscription, PROBE)

    def _end(self, subscription: SocketSubscription, error: MQError) -> None:
        self.forget(subscription)
        subscription.feed.fail(error)

    # Outgoing -------------------------------------------------------------------------------

    def _collect(self, subscription: SocketSubscription) -> None:
        """Queued results as commands; those for tags of an earlier session wait for a new one."""
        sid, acks, results = subscription.sid, subscription.acks, subscription.results
        while acks:
            batch: list[BaseMessage] = []
            while acks and len(batch) < SETTLE_COUNT_MAX:
                message = acks.popleft()
                if message._epoch == subscription.epoch:
                    batch.append(message)
                else:
                    subscription.remember(message, ACK, None)
            if batch:
                tags: list[int] = [message._handle for message in batch]
                frame = frames.Ack(id=next(self._ids), sid=sid, t=tags)
                self._command(frame, subscription, ACK, batch)
        by_command: dict[tuple[str, int | None], list[Result]] = {}
        while results:
            result = results.popleft()
            if result.message._epoch != subscription.epoch:
                self._settle_later(subscription, result)
                continue
            ms = result.ms if result.kind == EXTEND else None
            by_command.setdefault((result.kind, ms), []).append(result)
        for (kind, ms), of_kind in by_command.items():
            for start in range(0, len(of_kind), SETTLE_COUNT_MAX):
                part = of_kind[start : start + SETTLE_COUNT_MAX]
                frame_of_part = _settle_frame(next(self._ids), sid, kind, ms, part)
                self._command(frame_of_part, subscription, kind, part)

    def _send_subscribe(self, subscription: SocketSubscription) -> None:
        options = subscription.options
        credit = frames.Credit(
            min(options.prefetch, self._limits.credit_msgs),
            min(options.prefetch_bytes, self._limits.credit_bytes),
        )
        frame = frames.Subscribe(
            id=next(self._ids),
            sid=subscription.sid,
            topic=subscription.topic,
            group=subscription.group,
            filter=options.filter,
            lease_ms=options.lease_ms,
            auto_extend_ms=options.auto_extend_ms,
            credit=credit,
            client_id=options.client_id,
            consumer_id=options.consumer_id,
            consumer_zone=options.consumer_zone,
        )
        self._command(frame, subscription, SUBSCRIBE)

    def _send_unsubscribe(self, subscription: SocketSubscription, *, is_drain: bool) -> None:
        if self.is_welcome and subscription.is_confirmed:
            frame = frames.Unsubscribe(id=next(self._ids), sid=subscription.sid, drain=is_drain)
            self._command(frame, subscription, UNSUBSCRIBE)

    def _command(
        self,
        frame: msgspec.Struct,
        subscription: SocketSubscription,
        kind: str,
        results: list[Result] | list[BaseMessage] | None = None,
    ) -> None:
        number: int = frame.id  # type: ignore[attr-defined]  # every command has one
        self._commands[number] = _Command(frame, subscription, kind, results or [])
        self._out.append(frame)

    def _encode(self, frame: msgspec.Struct) -> bytes:
        return client_codec.encode(frame, self._subprotocol)


def _settle_frame(
    number: int, sid: int, kind: str, ms: int | None, results: list[Result]
) -> msgspec.Struct:
    tags: list[int] = [result.message._handle for result in results]
    if kind == EXTEND:
        assert ms is not None
        return frames.Extend(id=number, sid=sid, t=tags, ms=ms)
    if kind == DEAD_LETTER:
        lost = [
            frames.DeadLetterItem(tag, result.reason)
            for tag, result in zip(tags, results, strict=True)
        ]
        return frames.DeadLetter(id=number, sid=sid, t=lost)
    back = [
        frames.NackItem(tag, result.ms, result.reason)
        for tag, result in zip(tags, results, strict=True)
    ]
    return frames.Nack(id=number, sid=sid, t=back)


def _as_pack(push: msgspec.Struct) -> msgspec.Struct:
    """Messages of a JSON frame as those of a MessagePack one. Raises FrameBroken."""
    if not isinstance(push, JsonMessages):
        return push
    wires = []
    for each in push.m:
        fields = msgspec.structs.asdict(each)
        del fields["e"]
        wires.append(PackDelivered(**{**fields, "b": client_codec.body_of(each)}))
    return PackMessages(push.sid, wires)


def _failed_tags(push: frames.Ok) -> dict[int, str]:
    """Which tags of a settle had no effect, and why."""
    if not isinstance(push.r, dict) or not push.r.get("failed"):
        return {}
    try:
        failures = msgspec.convert(push.r["failed"], type=list[frames.TagFailure])
    except msgspec.ValidationError:
        return {}
    return {failure.t: failure.code for failure in failures}
