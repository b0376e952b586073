"""Consuming over WebSocket: credit, confirmed acks, reconnecting.

    service ─▶ PushSession ─▶ [Consumer] ─▶ on_messages(list of Delivered)
                          ◀── ack ───┘          (returns before the ack leaves)

Invariants: a message is acked only after ``on_messages`` took it. A message whose ack was not
confirmed when the connection broke comes again; it is acked again but not handed over twice.
With ``messages_max`` the consumer never holds credit for more messages than it still wants.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Final

import msgspec

from mqservice.cli.backoff import Backoff
from mqservice.cli.errors import (
    ClientError,
    ConnectionLost,
    RequestRejected,
    ResponseMalformed,
    Unreachable,
)
from mqservice.cli.messages import Delivered
from mqservice.cli.push import PushSession, open_session, rejection_of
from mqservice.cli.target import Target
from mqservice.protocol import frames
from mqservice.protocol.client_codec import body_of
from mqservice.protocol.frames import (
    FrameBroken,
    JsonDelivered,
    JsonMessages,
    PackDelivered,
    PackMessages,
    Subprotocol,
)
from mqservice.protocol.messages import FilterForm

CLIENT_NAME: Final = "mqservice-cli/1"
SID: Final = 1
RESTARTING: Final = 1012
CONFIRM_WAIT_MS: Final = 10_000
UNCONFIRMED_MAX: Final = 100_000


class ConsumeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """``messages_max`` None: no end; ``idle_exit_ms`` None: wait for ever."""

    window_messages: int = 64
    window_bytes: int = 4 * 1024 * 1024
    messages_max: int | None = None
    idle_exit_ms: int | None = None
    does_ack: bool = False
    filter: FilterForm | None = None


class Totals(msgspec.Struct):
    received: int = 0
    acked: int = 0
    ack_failed: int = 0
    unconfirmed: int = 0
    repeated: int = 0
    lost: int = 0
    reconnects: int = 0
    body_bytes: int = 0


class Consumer:
    """Receives one topic for one group until done, stopped or refused."""

    def __init__(
        self,
        target: Target,
        topic: str,
        group: str,
        *,
        subprotocol: Subprotocol,
        limits: ConsumeLimits,
        random: Random,
        on_messages: Callable[[list[Delivered]], None],
        on_notice: Callable[[str], None],
        backoff: Backoff | None = None,
        client_id: str | None = None,
    ) -> None:
        self.totals = Totals()
        self._target = target
        self._topic = topic
        self._group = group
        self._client_id = client_id
        self._subprotocol = subprotocol
        self._limits = limits
        self._random = random
        self._on_messages = on_messages
        self._on_notice = on_notice
        self._backoff = backoff or Backoff()
        self._stop = asyncio.Event()
        # Ids handed over whose ack is not confirmed yet; survives reconnects.
        self._unconfirmed: set[str] = set()
        self._attempt = 0
        self._was_connected = False
        self._idle_since = 0.0

    def stop(self) -> None:
        """Finish soon: confirm what was acked, then leave."""
        self._stop.set()

    async def run(self) -> None:
        """Consume until a limit is reached or ``stop`` was called.

        Raises:
            Refused, ConnectionLost: the service does not want this client; trying again is no use.
            Unreachable: nobody answered the first time.
        """
        self._idle_since = asyncio.get_running_loop().time()
        while not self._is_finished():
            try:
                session = await open_session(self._target, self._subprotocol, client=CLIENT_NAME)
            except (Unreachable, RequestRejected, ConnectionLost) as exc:
                if not self._was_connected and isinstance(exc, Unreachable):
                    raise
                await self._wait_before_retry(exc)
                continue
            self._was_connected = True
            try:
                await _Subscription(self, session).run()
            except (ConnectionLost, RequestRejected) as exc:
                await self._wait_before_retry(exc)
            finally:
                await session.aclose()
        self.totals.unconfirmed = len(self._unconfirmed)

    async def _wait_before_retry(self, exc: ClientError) -> None:
        is_wrong_request = isinstance(exc, RequestRejected) and 400 <= exc.status < 500
        if (not exc.retriable and not _is_server_fault(exc)) or is_wrong_request:
            raise exc
        self._attempt += 1
        self.totals.reconnects += 1
        wait_ms = self._backoff.wait_ms(
            self._attempt, self._random, floor_ms=exc.retry_after_ms or 0
        )
        self._on_notice(f"{exc}; trying again in {wait_ms / 1000:.1f} s")
        remaining_ms = self._idle_ms_left()
        if remaining_ms is not None:
            wait_ms = min(wait_ms, max(remaining_ms, 0))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_ms / 1000):
                await self._stop.wait()

    def _idle_ms_left(self) -> int | None:
        if self._limits.idle_exit_ms is None:
            return None
        passed = (asyncio.get_running_loop().time() - self._idle_since) * 1000
        return self._limits.idle_exit_ms - round(passed)

    def _remaining_count(self) -> int | None:
        if self._limits.messages_max is None:
            return None
        return max(self._limits.messages_max - self.totals.received, 0)

    def _is_finished(self) -> bool:
        idle_left = self._idle_ms_left()
        return (
            self._stop.is_set()
            or self._remaining_count() == 0
            or (idle_left is not None and idle_left <= 0)
        )

    def _accept(self, messages: list[Delivered]) -> tuple[list[Delivered], list[Delivered]]:
        """Hand over what is new and wanted; returns what came again and what is new."""
        self._idle_since = asyncio.get_running_loop().time()
        self._attempt = 0
        fresh = [message for message in messages if message.id not in self._unconfirmed]
        repeated = [message for message in messages if message.id in self._unconfirmed]
        wanted = self._remaining_count()
        fresh = fresh if wanted is None else fresh[:wanted]
        self.totals.repeated += len(repeated)
        if fresh:
            self._on_messages(fresh)
        self.totals.received += len(fresh)
        self.totals.body_bytes += sum(len(message.body) for message in fresh)
        if self._limits.does_ack:
            assert len(self._unconfirmed) <= UNCONFIRMED_MAX
            self._unconfirmed.update(message.id for message in fresh)
        return repeated, fresh


class _Subscription:
    """One connection's part of a ``Consumer``: its credit and its acks under way."""

    def __init__(self, consumer: Consumer, session: PushSession) -> None:
        self._consumer = consumer
        self._session = session
        limits, offered = consumer._limits, session.welcome.limits
        window = min(limits.window_messages, offered.credit_msgs)
        wanted = consumer._remaining_count()
        self._window = window if wanted is None else min(window, wanted)
        self._window_bytes = min(limits.window_bytes, offered.credit_bytes)
        # A settled message gives its credit back, so some acks wait (see ``_send_acks``).
        self._acks_held: list[Delivered] = []
        self._acks_sent: dict[int, list[Delivered]] = {}
        self._ack_count = 0
        self._repeated_count = 0
        self._wanted_at_start = wanted
        self._sub_id = 0

    async def run(self) -> None:
        """Until the consumer is finished; every ack sent is confirmed or given up by then."""
        consumer = self._consumer
        self._sub_id = self._session.next_id()
        await self._session.send(
            frames.Subscribe(
                id=self._sub_id,
                sid=SID,
                topic=consumer._topic,
                group=consumer._group,
                filter=consumer._limits.filter,
                credit=frames.Credit(self._window, self._window_bytes),
                client_id=consumer._client_id,
            )
        )
        receiving: asyncio.Task[list[msgspec.Struct]] | None = None
        stopping = asyncio.create_task(consumer._stop.wait())
        deadline: float | None = None
        loop = asyncio.get_running_loop()
        try:
            while True:
                if consumer._is_finished():
                    if deadline is None:
                        deadline = loop.time() + CONFIRM_WAIT_MS / 1000
                        await self._drain()
                    await self._send_acks(everything=True)
                    if not self._acks_sent or loop.time() >= deadline:
                        return
                receiving = receiving or asyncio.create_task(self._session.receive())
                waited: set[asyncio.Task[object]] = {receiving}
                timeout = _seconds(consumer._idle_ms_left())
                if deadline is not None:
                    timeout = max(deadline - loop.time(), 0)
                else:
                    waited.add(stopping)
                await asyncio.wait(waited, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                if receiving.done():
                    pushes, receiving = receiving.result(), None
                    await self._take_all(pushes)
        finally:
            stopping.cancel()
            if receiving is not None:
                receiving.cancel()
                with contextlib.suppress(asyncio.CancelledError, ClientError):
                    await receiving

    async def _drain(self) -> None:
        """Ask for nothing more: the last acks would give credit back, and messages with it."""
        drain_id = self._session.next_id()
        await self._session.send(frames.Unsubscribe(id=drain_id, sid=SID, drain=True))

    async def _take_all(self, pushes: list[msgspec.Struct]) -> None:
        for push in pushes:
            match push:
                case JsonMessages() | PackMessages():
                    await self._take_messages([_delivered(message) for message in push.m])
                case frames.Ok():
                    self._confirm(push)
                case frames.Err():
                    self._refuse(push)
                case frames.Lost():
                    self._consumer.totals.lost += len(push.t)
                case frames.Goaway():
                    raise ConnectionLost(
                        RESTARTING,
                        push.why or "the server is shutting down",
                        retry_after_ms=push.retry_ms,
                    )
                case _:
                    pass

    async def _take_messages(self, messages: list[Delivered]) -> None:
        repeated, fresh = self._consumer._accept(messages)
        if self._consumer._limits.does_ack:
            self._acks_held += repeated + fresh
            self._repeated_count += len(repeated)
            await self._send_acks()
        elif not self._consumer._is_finished():
            body_bytes = sum(len(message.body) for message in messages)
            await self._session.send(
                frames.AddCredit(sid=SID, msgs=len(messages), bytes=max(body_bytes, 1))
            )

    async def _send_acks(self, *, everything: bool = False) -> None:
        now = self._acks_held
        if not everything and self._wanted_at_start is not None:
            # Credit given in all is window + acked; it must not pass what is wanted besides what
            # came again.
            due = self._wanted_at_start + self._repeated_count
            now = now[: max(due - self._window - self._ack_count, 0)]
        if not now:
            return
        self._acks_held = self._acks_held[len(now) :]
        self._ack_count += len(now)
        ack_id = self._session.next_id()
        self._acks_sent[ack_id] = now
        await self._session.send(
            frames.Ack(id=ack_id, sid=SID, t=[message.tag_number for message in now])
        )

    def _confirm(self, push: frames.Ok) -> None:
        acked = self._acks_sent.pop(push.id, None)
        if acked is None:
            return
        failed = _failed_tags(push)
        totals = self._consumer.totals
        for message in acked:
            self._consumer._unconfirmed.discard(message.id)
            if message.tag_number in failed:
                totals.ack_failed += 1
            else:
                totals.acked += 1

    def _refuse(self, push: frames.Err) -> None:
        acked = self._acks_sent.pop(push.id, None) if push.id is not None else None
        if acked is None:
            raise rejection_of(push)
        self._consumer._on_notice(f"ack of {len(acked)} messages rejected: {push.code}: {push.msg}")
        if push.retryable:
            self._acks_held = acked + self._acks_held
            self._ack_count -= len(acked)
            raise rejection_of(push)
        self._consumer.totals.ack_failed += len(acked)
        self._consumer._unconfirmed.difference_update(message.id for message in acked)


def _failed_tags(push: frames.Ok) -> set[int]:
    try:
        entries = msgspec.convert((push.r or {}).get("failed", []), type=list[_FailedTag])
    except msgspec.ValidationError:
        return set()
    return {entry.t for entry in entries}


class _FailedTag(msgspec.Struct):
    t: int


def _delivered(message: JsonDelivered | PackDelivered) -> Delivered:
    return Delivered(
        id=message.id,
        queue=message.q,
        offset=message.o,
        attempt=message.a,
        body=_body_of(message),
        tag=message.tag,
        keys=message.keys,
        message_group=message.g,
        properties=message.p,
        tag_number=message.t,
        stored_at=_rfc3339(message.s),
    )


def _body_of(message: JsonDelivered | PackDelivered) -> bytes:
    try:
        return body_of(message)
    except FrameBroken as exc:
        raise ResponseMalformed(str(exc)) from exc


def _rfc3339(stored_ms: int) -> str:
    if not stored_ms:
        return ""
    moment = datetime.fromtimestamp(stored_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_server_fault(exc: ClientError) -> bool:
    return isinstance(exc, RequestRejected) and exc.status >= 500


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else max(ms, 0) / 1000
