"""Fetches messages for one subscription under its credit, and sends them to the client.

    credit ──▶ fetches ──▶ tags ──▶ msgs frame ──▶ client
                  ▲          │ the next fetches are under way meanwhile
                  └──────────┘

At most two fetches are under way, plus one batch that is being sent, so a client that stops reading
holds three batches and no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from mqservice.delivery.socket.fetches import Fetches
from mqservice.delivery.socket.owner import Session
from mqservice.store import (
    GroupNotFound,
    Received,
    Record,
    StoreError,
    SubscriptionConflict,
    TopicNotFound,
    is_shown_as_it_is,
    shown_record,
)

if TYPE_CHECKING:
    from mqservice.delivery.socket.subscription import Subscription

log = logging.getLogger(__name__)

_RETRY_MS_MIN: Final = 100
_RETRY_MS_MAX: Final = 2_000
# A batch that waited longer than this for the socket gets its lease anew once it is sent.
_HANDOVER_MS_MAX: Final = 1_000


class Pusher:
    """See the module's docstring. ``sent_upto`` is the last tag whose frame was sent."""

    __slots__ = ("_pushing", "_session", "_subscription", "fetches", "sent_upto")

    def __init__(self, subscription: Subscription, session: Session) -> None:
        self._subscription = subscription
        self._session = session
        self.fetches = Fetches(subscription.membership, subscription.credits, session)
        self.sent_upto = 0
        self._pushing: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to push."""
        self._pushing = asyncio.get_running_loop().create_task(self._push())

    def end(self) -> None:
        """Push nothing more, without waiting for what is under way; ``stop`` still follows."""
        if self._pushing is not None:
            self._pushing.cancel()

    async def stop(self) -> None:
        """Push nothing more; what was fetched meanwhile has its tags, and has not been sent."""
        if self._pushing is not None:
            self._pushing.cancel()
            await asyncio.wait({self._pushing})
            self._pushing = None
        for received in await self.fetches.stop():
            self._subscription.register(received)

    async def _push(self) -> None:
        try:
            await self._push_batches()
        except OSError:
            log.debug("The client disconnected during a push", extra={"action": "push_ended"})
        except Exception:
            log.exception(
                "A subscription failed with an unexpected error", extra={"action": "push_failed"}
            )
            self._session.end(1011, "the subscription failed", is_kept=False)

    async def _push_batches(self) -> None:
        """Until cancelled. Survives the engine; ends when topic or group is gone, or the group has
        another filter by now.
        """
        subscription = self._subscription
        available = subscription.credits.available
        retry_ms = _RETRY_MS_MIN
        while True:
            if not self.fetches:
                await available.wait()
                self.fetches.start()
            fetch = await self.fetches.next()
            try:
                received = fetch.result()
            except (TopicNotFound, GroupNotFound, SubscriptionConflict) as exc:
                await subscription.refuse(exc)
                return
            except StoreError as exc:
                log.debug(
                    "Could not fetch messages for a subscription; trying again",
                    extra={"action": "fetch_failed", "error": str(exc)},
                )
                await asyncio.sleep(retry_ms / 1_000)
                with contextlib.suppress(StoreError):
                    await self._session.context.store.wait_connected(_RETRY_MS_MAX)
                    await subscription.announce()  # what was told meanwhile is not known here
                retry_ms = min(2 * retry_ms, _RETRY_MS_MAX)
                continue
            retry_ms = _RETRY_MS_MIN
            first_tag = subscription.register(received)
            # The next fetches are under way while this batch is encoded and sent.
            has_begun = self.fetches.start()
            if received.count:
                if has_begun:
                    # Two turns of the loop: in the first the fetch is written, in the second sent.
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                tags = range(first_tag, first_tag + received.count)
                await self._send_in_span(tags, received)
                self._renew_if_late(tags, fetch.received_ms)
                for notice in fetch.missed:
                    subscription.apply(notice)
            del fetch, received  # the next may be long in coming, and a batch is large

    async def _send_in_span(self, tags: Sequence[int], received: Received) -> None:
        spans = self._session.context.spans
        if spans is None:
            await self._send(tags, received)
            return
        membership = self._subscription.membership
        span = spans.of_push(membership.topic, membership.group)
        # Before its messages are sent, so that a quick client's settles find them.
        span.received(received, membership.group)
        await self._send(tags, received)
        span.end()

    async def _send(self, tags: Sequence[int], received: Received) -> None:
        """By columns, where the messages are alike and fit one frame."""
        sid, session = self._subscription.sid, self._session
        columns, attempts = received.columns, received.head.attempts
        if columns is not None and is_shown_as_it_is(columns.properties):
            frame = session.codec.encode_columns(sid, tags, columns, attempts)
            if len(frame) <= session.frame_bytes_max:
                await session.send_frame(frame)
                self._sent(tags[-1])
                return
        records = received.records
        shown = [shown_record(each) if each.properties else each for each in records]
        await send_messages(session, sid, tags, shown, attempts, self._sent)

    def _sent(self, last_tag: int) -> None:
        self.sent_upto = last_tag

    def _renew_if_late(self, tags: Sequence[int], received_ms: int) -> None:
        if self._session.context.clock.monotonic_ms() - received_ms > _HANDOVER_MS_MAX:
            self._subscription.extend(tags, self._subscription.lease_ms, None)


async def send_messages(
    session: Session,
    sid: int,
    tags: Sequence[int],
    records: Sequence[Record],
    attempts: Sequence[int],
    sent: Callable[[int], None],
) -> None:
    """In one ``msgs`` frame, or in more where the client does not take so large a one.

    ``sent`` is called with the last tag of each frame that has gone out.
    """
    frame = session.codec.encode_messages(sid, tags, records, attempts)
    if len(frame) <= session.frame_bytes_max or len(records) == 1:
        await session.send_frame(frame)
        sent(tags[-1])
        return
    half = len(records) // 2
    await send_messages(session, sid, tags[:half], records[:half], attempts[:half], sent)
    await send_messages(session, sid, tags[half:], records[half:], attempts[half:], sent)
