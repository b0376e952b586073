"""Receiving over REST, where WebSockets are blocked or not wanted.

    [RestSource] ── :receive (long poll) ──▶ feed
                 ◀── results ── :settle, as soon as there are some

One source reads one topic. At most ``prefetch`` messages are unsettled. Each source is a member of
the group with a ``consumer_id``, so that ``auto_extend`` works: it is seen whenever it receives or
settles, and sends an empty settle where neither happens for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any, Final, TypeVar

import msgspec

from .backoff import Backoff
from .caller import Caller
from .errors import MQError, RequestRejected, ResponseMalformed, Unreachable
from .http_calls import JSON_TYPE, PACK_TYPE, Request, Response, raise_for, segment
from .messages import DEAD_LETTER, EXTEND, NACK, Feed, Home, Result, broken, log
from .network import NoResponse, NotSent
from .protocol.frames import PackDelivered
from .session import ACK, SubscribeOptions
from .tasks import call_on, end, within

RECEIVE_MAX: Final = 256
WAIT_S: Final = 20
SETTLE_COUNT_MAX: Final = 1_000
LEASE_MS_DEFAULT: Final = 60_000
GIVE_BACK_MS: Final = 10
TIMEOUT_MS: Final = 30_000
T = TypeVar("T")


class _Received(msgspec.Struct, kw_only=True):
    id: str
    receipt: str
    body: bytes = b""
    tag: str | None = None
    keys: list[str] = []
    message_group: str | None = None
    properties: dict[str, str] = {}
    queue: int
    offset: int
    attempt: int
    stored_at: str


class _ReceiveResponse(msgspec.Struct):
    messages: list[_Received]


class _Failure(msgspec.Struct):
    receipt: str
    code: str = "UNKNOWN"


class _SettleResponse(msgspec.Struct):
    failed: list[_Failure] = []


_decode_received = msgspec.msgpack.Decoder(_ReceiveResponse).decode
_decode_settled = msgspec.json.Decoder(_SettleResponse).decode
_encode = msgspec.json.Encoder().encode


class RestSource(Home):
    """One topic and group over REST."""

    def __init__(
        self,
        caller: Caller,
        root: str,
        topic: str,
        group: str,
        options: SubscribeOptions,
        feed: Feed,
        random: Random,
    ) -> None:
        super().__init__(topic, group, feed, self)
        self.is_flush_due = False
        self._caller = caller
        self._root = root
        self._options = options
        self._prefetch = options.prefetch
        self._random = random
        self._backoff = Backoff()
        self._consumer_id = options.consumer_id or f"py-{uuid.uuid4().hex}"
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        self.was_seen = False
        self._is_stopping = False
        self._is_settling = False
        self._receiving = self._loop.create_task(self._receive_all(), name="mqservice receive")
        self._settling = self._loop.create_task(self._settle_all(), name="mqservice settle")

    def flush_soon(self) -> None:
        self.is_flush_due = not self._loop.is_closed()
        call_on(self._loop, self._thread_id, self._flush)

    def prefetch_more(self, messages: int) -> None:
        self._prefetch += messages
        self._settled.set()

    def stop(self) -> None:
        """Receive nothing more."""
        self._is_stopping = True
        self._receiving.cancel()

    async def drain(self, timeout_s: float) -> bool:
        """Receive nothing more; whether all results are confirmed within the time."""
        self.stop()
        await end(self._receiving)
        return await self.settled(timeout_s)

    async def settled(self, timeout_s: float) -> bool:
        deadline = self._loop.time() + timeout_s
        while self.has_queued or self._is_settling:
            left = deadline - self._loop.time()
            if left <= 0 or self._settling.done():
                return False
            self._settled.clear()
            self._wake.set()
            with contextlib.suppress(asyncio.TimeoutError):
                await within(left, self._settled.wait())
        return True

    async def leave(self, timeout_s: float) -> None:
        """Give back what was not settled: by a nack, as REST has nothing that counts no attempt."""
        for message in self.outstanding.values():
            if not message.is_settled:
                self.results.append(Result(NACK, message, GIVE_BACK_MS, "the consumer stopped"))
        await self.settled(timeout_s)
        await self.close()
        self.end(self.outstanding.values())

    async def close(self) -> None:
        await end(self._receiving, self._settling)

    # Receiving ------------------------------------------------------------------------------

    async def _receive_all(self) -> None:
        try:
            await self._receive_until_stopped()
        except Exception as exc:
            log.exception("Receiving failed", extra={"action": "receive_failed"})
            self.feed.fail(broken(exc))

    async def _receive_until_stopped(self) -> None:
        attempt = 0
        started = self._loop.time()
        attempt_id = uuid.uuid4().hex
        while not self._is_stopping:
            room = self._prefetch - len(self.outstanding)
            if room <= 0:
                await self._wait_for_room()
                continue
            try:
                await self._receive(min(room, RECEIVE_MAX), attempt_id)
            except MQError as exc:
                attempt += 1
                is_late = self._loop.time() - started >= self._caller.timeout_ms / 1000
                if _is_final(exc) or (is_late and not self.was_seen):
                    self.feed.fail(exc)
                    return
                await self._pause(attempt, exc)
                continue  # with the same id: what a lost response leased comes again
            attempt = 0
            attempt_id = uuid.uuid4().hex

    async def _receive(self, count: int, attempt_id: str) -> None:
        options = self._options
        wait_s = WAIT_S if self.was_seen else 0  # the first answer says that the service is there
        fields: dict[str, Any] = {  # Any: JSON
            "max": count,
            "wait": f"{wait_s}s",
            "attempt_id": attempt_id,
            "consumer_id": self._consumer_id,
            "filter": options.filter,
            "client_id": options.client_id,
            "consumer_zone": options.consumer_zone,
        }
        if options.lease_ms is not None:
            fields["lease"] = f"{options.lease_ms}ms"
        if options.auto_extend_ms:
            fields["auto_extend"] = f"{options.auto_extend_ms}ms"
        path = f"{self._root}/topics/{segment(self.topic)}/groups/{segment(self.group)}:receive"
        response = await self._exchange(
            path,
            {name: value for name, value in fields.items() if value is not None},
            wait_ms=wait_s * 1000,
            accept=PACK_TYPE,
        )
        received = _decoded(_decode_received, response).messages
        self.was_seen = True
        fresh = []
        for each in received:
            if each.receipt in self.outstanding:
                continue  # a repeat of the receive brought it again
            message = self.feed.kind(_wire_of(each), self, each.receipt, 1)
            self.outstanding[each.receipt] = message
            fresh.append(message)
        if fresh:
            self.feed.deliver(fresh)

    async def _wait_for_room(self) -> None:
        """Until something is settled; seen by the service meanwhile, which extends the leases."""
        self._settled.clear()
        lease_ms = self._options.lease_ms or LEASE_MS_DEFAULT
        try:
            await within(lease_ms / 3000, self._settled.wait())
        except asyncio.TimeoutError:
            if self._options.auto_extend_ms:
                with contextlib.suppress(MQError):
                    await self._settle({})

    async def _pause(self, attempt: int, exc: MQError) -> None:
        self.feed.stats.reconnects += 1
        wait_ms = self._backoff.wait_ms(attempt, self._random, floor_ms=exc.retry_after_ms or 0)
        log.warning(
            "A receive failed and is tried again",
            extra={"action": "receive_retried", "wait_ms": wait_ms, "error": str(exc)},
        )
        await asyncio.sleep(wait_ms / 1000)

    # Settling -------------------------------------------------------------------------------

    async def _settle_all(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self.has_queued:
                self._is_settling = True
                batch = self._next_batch()
                await self._settle_until_confirmed(batch)
            self._is_settling = False
            self._settled.set()

    def _next_batch(self) -> list[Result]:
        batch: list[Result] = []
        while self.acks and len(batch) < SETTLE_COUNT_MAX:
            batch.append(Result(ACK, self.acks.popleft()))
        while self.results and len(batch) < SETTLE_COUNT_MAX:
            batch.append(self.results.popleft())
        return batch

    async def _settle_until_confirmed(self, batch: list[Result]) -> None:
        """Sending the same receipts again is safe: what is settled stays settled."""
        attempt = 0
        while True:
            try:
                failed = await self._settle(_settle_fields(batch))
            except MQError as exc:
                attempt += 1
                if isinstance(exc, RequestRejected) and _is_final(exc):
                    self._confirm(batch, {str(each.message._handle): exc.code for each in batch})
                    return
                await self._pause(attempt, exc)
                continue
            self._confirm(batch, failed)
            return

    async def _settle(self, fields: dict[str, object]) -> dict[str, str]:
        path = f"{self._root}/groups/{segment(self.group)}:settle"
        body = {"consumer_id": self._consumer_id, **fields}
        if self._options.client_id is not None:
            body["client_id"] = self._options.client_id
        response = await self._exchange(path, body)
        return {each.receipt: each.code for each in _decoded(_decode_settled, response).failed}

    def _confirm(self, batch: list[Result], failed: dict[str, str]) -> None:
        stats = self.feed.stats
        for result in batch:
            message, receipt = result.message, str(result.message._handle)
            if result.kind == EXTEND:
                continue
            self.outstanding.pop(receipt, None)
            if receipt in failed:
                self.feed.settle_failed(message, failed[receipt])
                continue
            message._confirm()
            if result.kind == ACK:
                stats.acked += 1
            elif result.kind == NACK:
                stats.nacked += 1
            else:
                stats.dead_lettered += 1
        self._settled.set()

    async def _exchange(
        self, path: str, body: dict[str, Any], *, wait_ms: int = 0, accept: str = JSON_TYPE
    ) -> Response:
        request = Request(
            method="POST",
            path=path,
            content=_encode(body),
            headers={"content-type": JSON_TYPE, "accept": accept},
            wait_ms=wait_ms,
        )
        try:
            response = await self._caller.network.exchange(request, TIMEOUT_MS)
        except (NotSent, NoResponse) as exc:
            raise Unreachable(self._caller.base_url, str(exc)) from exc
        raise_for(response)
        return response

    def _flush(self) -> None:
        self.is_flush_due = False
        self._wake.set()


def _is_final(exc: MQError) -> bool:
    """Whether trying again does not help."""
    is_rejected_for_now = isinstance(exc, RequestRejected) and exc.status >= 500
    return not (exc.retryable or is_rejected_for_now)


def _decoded(decode: Callable[[bytes], T], response: Response) -> T:
    try:
        return decode(response.content)
    except msgspec.DecodeError as exc:
        raise ResponseMalformed(f"a response is not what the API promises: {exc}") from exc


def _settle_fields(batch: list[Result]) -> dict[str, object]:
    fields: dict[str, list[object]] = {}
    for result in batch:
        receipt = result.message._handle
        if result.kind == ACK:
            fields.setdefault("ack", []).append(receipt)
        elif result.kind == EXTEND:
            fields.setdefault("extend", []).append({"receipt": receipt, "lease": f"{result.ms}ms"})
        else:
            item: dict[str, object] = {"receipt": receipt}
            if result.ms is not None:
                item["delay"] = f"{result.ms}ms"
            if result.reason is not None:
                item["reason"] = result.reason
            name = "dead_letter" if result.kind == DEAD_LETTER else "nack"
            fields.setdefault(name, []).append(item)
    return dict(fields)


def _wire_of(message: _Received) -> PackDelivered:
    return PackDelivered(
        t=0,
        id=message.id,
        q=message.queue,
        o=message.offset,
        s=_epoch_ms(message.stored_at),
        a=message.attempt,
        tag=message.tag,
        keys=message.keys,
        g=message.message_group,
        p=message.properties,
        b=message.body,
    )


def _epoch_ms(text: str) -> int:
    moment = datetime.strptime(text.replace("Z", "+0000"), "%Y-%m-%dT%H:%M:%S.%f%z")
    return round(moment.timestamp() * 1000)
