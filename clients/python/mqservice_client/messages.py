"""Received messages, and the feed in which they wait for the program.

    session or REST ─▶ Feed.deliver ─▶ buffer ─▶ program ─▶ message.ack() ─▶ home's queue of results

``message.ack()`` only queues: the home (one topic's subscription) collects the results of one turn
and sends them together. A home is ``session.SocketSubscription`` or ``rest_receiver.RestSource``.

    OPEN ─▶ QUEUED ─▶ CONFIRMED | FAILED        ``_note``: why it was lost, or failed

A feed belongs to one event loop. The program may be on another thread: deques are filled on one
side and emptied on the other, and nothing else is shared.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta, timezone
from typing import Any, Final, Protocol, TypeVar, overload

import msgspec

from .errors import AlreadySettled, MQError, OutcomeUnknown, SettleFailed, UsageError
from .protocol.frames import PackDelivered
from .tracing import NoSpan, process_span
from .values import Duration, milliseconds, optional_ms

log = logging.getLogger("mqservice_client")
REASON_CHARS_MAX: Final = 1_000
EXTEND_MS_MIN: Final = 1_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
T = TypeVar("T")

OPEN: Final = 0
QUEUED: Final = 1
CONFIRMED: Final = 2
FAILED: Final = 3

NACK: Final = "nack"
DEAD_LETTER: Final = "dead_letter"
EXTEND: Final = "extend"
# Why a result had no effect: its subscription was over before the service confirmed it.
SUBSCRIPTION_CLOSED: Final = "SUBSCRIPTION_CLOSED"
# Why a message is lost: the service has forgotten the session in which it came.
SESSION_LOST: Final = "session_lost"


class Result(msgspec.Struct, frozen=True):
    """What is to become of a message, other than an ack. ``ms``: delay of a nack, lease to come."""

    kind: str
    message: BaseMessage
    ms: int | None = None
    reason: str | None = None


class Sender(Protocol):
    """What sends queued results; may be told from any thread."""

    is_flush_due: bool

    def flush_soon(self) -> None: ...


class Home:
    """One topic read for one group, as its messages see it."""

    def __init__(self, topic: str, group: str, feed: Feed, sender: Sender) -> None:
        self.topic = topic
        self.group = group
        self.feed = feed
        self.sender = sender
        self.acks: deque[BaseMessage] = deque()
        self.results: deque[Result] = deque()
        # What has no confirmed result yet, by tag or receipt.
        self.outstanding: dict[int | str, BaseMessage] = {}

    def queue_result(self, result: Result) -> None:
        self.results.append(result)
        if not self.sender.is_flush_due:
            self.sender.flush_soon()

    @property
    def has_queued(self) -> bool:
        return bool(self.acks or self.results)

    def end(self, unsettled: Iterable[BaseMessage]) -> None:
        """Nothing is sent any more: results without a confirmation fail, and later ones too."""
        self.sender = _Nobody(self)
        self.fail_queued()
        for message in unsettled:
            if message._state == QUEUED:
                message._fail(SUBSCRIPTION_CLOSED)

    def fail_queued(self) -> None:
        while self.acks:
            self.acks.popleft()._fail(SUBSCRIPTION_CLOSED)
        while self.results:
            result = self.results.popleft()
            if result.kind != EXTEND:
                result.message._fail(SUBSCRIPTION_CLOSED)


class _Nobody:
    """Sends nothing, for a home that has ended."""

    is_flush_due = False

    def __init__(self, home: Home) -> None:
        self._home = home

    def flush_soon(self) -> None:
        self._home.fail_queued()


class SubscriptionStats(msgspec.Struct):
    """Counts since the subscription began.

    ``acked``, ``nacked`` and ``dead_lettered`` are results that the service has confirmed,
    ``failed`` those that had no effect. ``lost``: messages whose lease ended before they had a
    result. ``repeated``: messages that came again though they had one, which was given again.
    ``reconnects``: connections that were lost, and attempts that failed.
    """

    received: int = 0
    acked: int = 0
    nacked: int = 0
    dead_lettered: int = 0
    failed: int = 0
    lost: int = 0
    repeated: int = 0
    reconnects: int = 0


class BaseMessage:
    """What messages have and do on either side; ``aio`` and ``sync`` add waiting."""

    __slots__ = ("__weakref__", "_epoch", "_handle", "_home", "_note", "_state", "_wire")

    def __init__(self, wire: PackDelivered, home: Home, handle: int | str, epoch: int) -> None:
        self._wire = wire
        self._home = home
        self._handle: Any = handle  # Any: a tag on a socket, a receipt over REST
        self._epoch = epoch
        self._state = OPEN
        self._note: str | None = None

    def __repr__(self) -> str:
        wire = self._wire
        return f"<{type(self).__name__} {wire.id} of {self._home.topic}, attempt {wire.a}>"

    @property
    def id(self) -> str:
        """The same in every delivery, and what ``messages.get`` and ``messages.trace`` take."""
        return self._wire.id

    @property
    def topic(self) -> str:
        """The topic that it was sent to."""
        return self._home.topic

    @property
    def group(self) -> str:
        """The consumer group that reads it."""
        return self._home.group

    @property
    def queue(self) -> int:
        """Number of its queue in the topic, from 0."""
        return self._wire.q

    @property
    def offset(self) -> int:
        """Its place in the queue, from 0."""
        return self._wire.o

    @property
    def attempt(self) -> int:
        """Number of this delivery, from 1."""
        return self._wire.a

    @property
    def tag(self) -> str | None:
        """What the producer gave it for filters."""
        return self._wire.tag

    @property
    def keys(self) -> list[str]:
        """Business keys, as the producer gave them."""
        return self._wire.keys

    @property
    def message_group(self) -> str | None:
        """Messages of one message group share a queue, and their order in an ordered group."""
        return self._wire.g

    @property
    def properties(self) -> dict[str, str]:
        """Names and values, as the producer gave them."""
        return self._wire.p

    @property
    def stored_at(self) -> datetime:
        """When it was stored, in UTC, to the millisecond."""
        return _EPOCH + timedelta(milliseconds=self._wire.s)

    @property
    def body(self) -> bytes:
        """The bytes that were sent; JSON in UTF-8 for what was sent as JSON."""
        return self._wire.b

    @property
    def text(self) -> str:
        """The body as UTF-8. Raises UnicodeDecodeError."""
        return self._wire.b.decode()

    @overload
    def json(self) -> Any: ...  # Any: whatever the producer wrote

    @overload
    def json(self, kind: type[T]) -> T: ...

    def json(self, kind: Any = Any) -> Any:  # Any: see the overloads
        """The body read as JSON; checked and converted when ``kind`` names a type.

        Raises:
            msgspec.DecodeError: it is no JSON, or not of that type.
        """
        return msgspec.json.decode(self._wire.b, type=kind)

    @property
    def is_settled(self) -> bool:
        """Whether a result was given, confirmed or not."""
        return self._state != OPEN

    @property
    def is_lost(self) -> bool:
        """Whether its lease ended, so that another consumer may have it too."""
        return self._note is not None and self._state in (OPEN, QUEUED)

    def ack(self) -> None:
        """Done: the message is not delivered to this group again. Raises AlreadySettled."""
        if self._state:
            self._refuse()
        self._state = QUEUED
        home = self._home
        home.acks.append(self)
        if not home.sender.is_flush_due:
            home.sender.flush_soon()

    def nack(self, *, delay: Duration | None = None, reason: str | None = None) -> None:
        """Not done: deliver it again, after ``delay``, or by the group's retry policy without one.

        ``reason`` is kept in the message's trace. Raises AlreadySettled.
        """
        delay_ms = optional_ms(delay, "delay")
        if self._state:
            self._refuse()
        self._state = QUEUED
        self._home.queue_result(Result(NACK, self, delay_ms, _cut(reason)))

    def dead_letter(self, reason: str | None = None) -> None:
        """Give it up: it becomes a dead letter of the group now. Raises AlreadySettled."""
        if self._state:
            self._refuse()
        self._state = QUEUED
        self._home.queue_result(Result(DEAD_LETTER, self, None, _cut(reason)))

    def extend(self, lease: Duration = "60s") -> None:
        """Let the lease end ``lease`` from now: 1 s to 12 h, and the group's ``consume_timeout``.

        Needed only without ``auto_extend``, or beyond it. Raises AlreadySettled.
        """
        ms = milliseconds(lease, "lease")
        if ms < EXTEND_MS_MIN:
            raise UsageError(f"lease must be at least 1 s, found {lease!r}")
        if self._state:
            self._refuse()
        self._home.queue_result(Result(EXTEND, self, ms))

    def process_span(self) -> AbstractContextManager[object]:
        """``with message.process_span():`` around what is done with it makes a span of that.

        It is linked to the span that sent the message. Handlers of ``consumer`` have one already;
        without OpenTelemetry it is nothing.
        """
        return self._span(is_root=False)

    def _span(self, *, is_root: bool) -> NoSpan:
        return process_span(self.topic, self.group, self._wire, is_root=is_root)

    def _refuse(self) -> None:
        raise AlreadySettled(f"message {self.id} was settled before")

    def _confirm(self) -> None:
        self._state = CONFIRMED
        self._note = None
        waiters = self._home.feed.confirm_waiters
        if waiters:
            waiters.resolve(self)

    def _lose_result(self) -> None:
        """Nobody knows whether its result arrived; it is repeated if the message comes again."""
        self._note = SESSION_LOST
        self._home.feed.confirm_waiters.resolve(self)

    def _fail(self, code: str) -> None:
        self._state = FAILED
        self._note = code
        self._home.feed.confirm_waiters.resolve(self)


class ConfirmWaiters:
    """Who waits for the confirmation of which message."""

    def __init__(self) -> None:
        self._futures: dict[int, list[asyncio.Future[None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._futures)

    def add(self, message: BaseMessage) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._futures.setdefault(id(message), []).append(future)
        return future

    def remove(self, message: BaseMessage, future: asyncio.Future[None]) -> None:
        waiting = self._futures.get(id(message), [])
        if future in waiting:
            waiting.remove(future)
        if not waiting:
            self._futures.pop(id(message), None)

    def resolve(self, message: BaseMessage) -> None:
        for future in self._futures.pop(id(message), ()):
            if not future.done():
                future.set_result(None)


class Feed:
    """Messages that have arrived for one subscription and that nobody has taken yet."""

    def __init__(self, kind: type[BaseMessage], side: Any) -> None:
        """``side``: of the program, for what its messages wait for."""
        self.kind = kind
        self.side = side
        self.buffer: deque[BaseMessage] = deque()
        self.stats = SubscriptionStats()
        self.error: MQError | None = None
        self.is_ended = False
        self.confirm_waiters = ConfirmWaiters()
        self._waiter: asyncio.Future[None] | None = None
        self._condition = threading.Condition()
        self._is_thread_waiting = False

    def deliver(self, messages: list[BaseMessage]) -> None:
        if self.is_ended:
            return  # nobody takes them; whoever ended it gives them back
        self.stats.received += len(messages)
        self.buffer.extend(messages)
        self._wake()

    def fail(self, error: MQError) -> None:
        """Nothing more comes; the program gets the error after what it has."""
        if self.error is None:
            self.error = error
        self.end()

    def close(self) -> None:
        """The program wants no more, not even of what is here."""
        self.end()
        self.buffer.clear()

    def end(self) -> None:
        self.is_ended = True
        self._wake()

    def take(self) -> BaseMessage | None:
        """The next message that is still leased; None when there is none at the moment."""
        buffer = self.buffer
        try:
            while (message := buffer.popleft())._note is not None:
                pass  # lost while it waited here: somebody else gets it
        except IndexError:
            return None
        return message

    async def wait(self, timeout_s: float | None) -> bool:
        """Wait on the loop until there is something to take, or the end; False after the time."""
        if self.buffer or self.is_ended:
            return True
        waiter = self._waiter
        if waiter is None or waiter.done():
            waiter = self._waiter = asyncio.get_running_loop().create_future()
        if timeout_s is None:
            await asyncio.shield(waiter)
        else:
            await asyncio.wait({waiter}, timeout=timeout_s)
        return bool(self.buffer) or self.is_ended

    def wait_in_thread(self, timeout_s: float | None) -> bool:
        """The same for a program on another thread."""
        with self._condition:
            self._is_thread_waiting = True
            try:
                return self._condition.wait_for(
                    lambda: bool(self.buffer) or self.is_ended, timeout_s
                )
            finally:
                self._is_thread_waiting = False

    async def wait_confirmed(self, message: BaseMessage, timeout_s: float | None) -> None:
        """Raises SettleFailed, OutcomeUnknown, TimeoutError, and UsageError without a result."""
        if message._state == OPEN:
            raise UsageError(f"message {message.id} has no result to be confirmed yet")
        if message._state == QUEUED and message._note != SESSION_LOST:
            future = self.confirm_waiters.add(message)
            try:
                done, _ = await asyncio.wait({future}, timeout=timeout_s)
            finally:
                self.confirm_waiters.remove(message, future)
            if not done:
                raise TimeoutError(f"the result for {message.id} is not confirmed yet")
        if message._state == FAILED:
            raise SettleFailed(message.id, message._note or "UNKNOWN")
        if message._state == QUEUED:
            raise OutcomeUnknown(f"the result for message {message.id}", "the session was lost")

    def settle_failed(self, message: BaseMessage, code: str) -> None:
        self.stats.failed += 1
        message._fail(code)
        log.warning(
            "A result for a message had no effect",
            extra={"action": "settle_failed", "message_id": message.id, "code": code},
        )

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        # A thread that is about to wait looks at the buffer under the lock, hence it is taken.
        with self._condition:
            if self._is_thread_waiting:
                self._condition.notify_all()


def broken(exc: Exception) -> MQError:
    """What a program gets for a mistake of this library, instead of waiting for ever."""
    error = MQError(f"the client failed by a mistake of its own: {exc!r}")
    error.__cause__ = exc
    return error


def _cut(reason: str | None) -> str | None:
    return None if reason is None else reason[:REASON_CHARS_MAX]
