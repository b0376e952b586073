"""The running fetches of one subscription, and the credit that they have reserved.

    credit ── begin ──▶ [fetch, fetch] ── store.receive ──▶ next: the first one that is done

One is under way while the client has credit. A second one follows it while messages keep coming in
full batches: the engine then has something to do while a batch is registered, encoded and sent.
What a batch costs besides its messages is spread over them, so a batch is large, but leaves credit
for three more: two come while the client has one and another is on its way to it. Large messages
fill it by their bytes: then a fetch asks for, and reserves, no more of them than twice what a batch
was seen to hold.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from mqservice.delivery.limits import FRAME_MESSAGES_MAX
from mqservice.delivery.socket.owner import Session
from mqservice.store import Notice, Received, ReceiveRequest
from mqservice.usage.counts import usage_counts

if TYPE_CHECKING:
    from mqservice.delivery.socket.credit import Credits
    from mqservice.delivery.socket.membership import Membership

BATCH_MESSAGES_MIN: Final = 128  # that a fetch asks for, of any credit that has them
_FETCHES_MAX: Final = 2
_BATCHES_OF_CREDIT: Final = 4
_MISSED_COUNT_MAX: Final = 64
_RECORD_OVERHEAD_BYTES: Final = 512  # about as much of a record as is not its body
_QUOTA_MS_MAX: Final = 2_000
_ROOM_MS: Final = 200  # between looks whether the tenant may have more in flight


class Fetch:
    """One under way. ``missed``: what was told meanwhile, which may concern its messages.

    ``body_bytes``: of what it brought, once it is done.
    """

    __slots__ = ("body_bytes", "bytes", "missed", "msgs", "received_ms", "task")

    def __init__(self, msgs: int, bytes_count: int) -> None:
        self.msgs = msgs
        self.bytes = bytes_count
        self.missed: list[Notice] = []
        self.received_ms = 0
        self.body_bytes = 0
        self.task: asyncio.Task[Received]

    def result(self) -> Received:
        """Once it is done. Raises StoreError."""
        return self.task.result()

    @property
    def has_messages(self) -> bool:
        """Once it is done: whether it brought an answer."""
        return not self.task.cancelled() and self.task.exception() is None

    def is_full_of_bytes(self, count: int) -> bool:
        """Whether one more message like the ``count`` it brought would not have fitted."""
        return (self.body_bytes / count + _RECORD_OVERHEAD_BYTES) * (count + 1) > self.bytes


class Fetches:
    """See the module's docstring. One event loop uses it. ``membership``: of those that begin."""

    __slots__ = ("_credits", "_is_flowing", "_running", "_seen_msgs", "_session", "membership")

    def __init__(self, membership: Membership, credits: Credits, session: Session) -> None:
        self.membership = membership
        self._credits = credits
        self._session = session
        self._running: list[Fetch] = []  # oldest first
        self._is_flowing = False
        self._seen_msgs = FRAME_MESSAGES_MAX  # as many as the bytes of a batch have room for

    def __bool__(self) -> bool:
        """Whether any is under way."""
        return bool(self._running)

    def on_notice(self, notice: Notice) -> None:
        """Keep what was told for those whose messages are not known yet."""
        for fetch in self._running:
            if len(fetch.missed) < _MISSED_COUNT_MAX:
                fetch.missed.append(notice)

    def start(self) -> bool:
        """Begin as many as may be under way. Whether any was begun."""
        has_begun = False
        while self._may_start():
            has_begun = True
            self._start()
        return has_begun

    async def next(self) -> Fetch:
        """Wait for one, the oldest of those that are done; it is under way no longer.

        Cancelling this leaves the fetches alone, for ``stop``.
        """
        await asyncio.wait(
            [fetch.task for fetch in self._running], return_when=asyncio.FIRST_COMPLETED
        )
        fetch = next(each for each in self._running if each.task.done())
        self._running.remove(fetch)
        count = fetch.result().count if fetch.has_messages else 0
        if count and fetch.is_full_of_bytes(count):
            self._is_flowing, self._seen_msgs = True, min(2 * count, FRAME_MESSAGES_MAX)
        else:
            self._is_flowing, self._seen_msgs = count == fetch.msgs, FRAME_MESSAGES_MAX
        return fetch

    async def stop(self) -> list[Received]:
        """Begin no more; what came all the same.

        The engine frees the parked place, and takes back what the reply may have leased.
        """
        fetches, self._running = self._running, []
        if not fetches:
            return []
        for fetch in fetches:
            fetch.task.cancel()
        await asyncio.wait([fetch.task for fetch in fetches])
        return [fetch.result() for fetch in fetches if fetch.has_messages]

    def _may_start(self) -> bool:
        if not self._credits.available.is_set():
            return False
        if not self._running:
            return True
        if not self._is_flowing or len(self._running) >= _FETCHES_MAX:
            return False
        # A second one is worth it where a whole batch fits.
        msgs, bytes_count = self._unreserved()
        return msgs >= self._batch_msgs and bytes_count >= self._batch_bytes_max

    def _start(self) -> None:
        msgs, bytes_count = self._unreserved()
        fetch = Fetch(min(msgs, self._batch_msgs), min(bytes_count, self._batch_bytes_max))
        request = self.membership.order(messages_max=fetch.msgs, bytes_max=fetch.bytes)
        fetch.task = asyncio.get_running_loop().create_task(self._receive(fetch, request))
        self._running.append(fetch)

    def _unreserved(self) -> tuple[int, int]:
        """Messages and bytes of the credit that no fetch under way may use."""
        msgs, bytes_count = self._credits.msgs, self._credits.bytes
        for fetch in self._running:
            msgs -= fetch.msgs
            bytes_count -= fetch.bytes
        return msgs, bytes_count

    @property
    def _batch_msgs(self) -> int:
        """That a fetch asks for at most."""
        share = max(self._credits.msgs_most // _BATCHES_OF_CREDIT, BATCH_MESSAGES_MIN)
        return min(self._seen_msgs, share)

    @property
    def _batch_bytes_max(self) -> int:
        # A quarter is left for what JSON adds.
        return self._session.frame_bytes_max * 3 // 4

    async def _receive(self, fetch: Fetch, request: ReceiveRequest) -> Received:
        context, meter = self._session.context, self._session.meter
        while wait_ms := meter.out_wait_ms(context.clock.monotonic_ms()):
            self._credits.is_over_quota = True
            await asyncio.sleep(min(wait_ms, _QUOTA_MS_MAX) / 1_000)
        self._credits.is_over_quota = False
        while meter.lease_room <= 0:
            self._credits.is_at_inflight_limit = True
            await asyncio.sleep(_ROOM_MS / 1_000)
        self._credits.is_at_inflight_limit = False
        received = await self.membership.store.receive(request)
        count = received.count
        if count:
            meter.lease(count)
            byte_count = sum(received.body_sizes)
            meter.charge_out(count, byte_count)
            usage_counts.sent(request.topic, count, byte_count)
            fetch.body_bytes = byte_count
        fetch.received_ms = context.clock.monotonic_ms()
        return received
