"""Settles of one subscription, collected while the client is read, and their confirmations.

    ack, ack, nack ──▶ one SettleRequest, one LeaseRef per queue and delivery
    SettleReply ──▶ ok for each command that has an id, with the tags that had no effect

What the engine could not be told stays with the subscription as late, so that the client can settle
it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, cast

from mqservice.delivery.socket.leased_batch import Delivery, LeasedBatch
from mqservice.delivery.socket.leased_messages import extend_of
from mqservice.errors import problem_from_store
from mqservice.protocol import frames
from mqservice.store import (
    Extend,
    LeaseRef,
    Nack,
    SettleReply,
    StoreError,
    error_from_code,
)

if TYPE_CHECKING:
    from mqservice.delivery.socket.owner import Session
    from mqservice.delivery.socket.subscription import Subscription

log = logging.getLogger(__name__)

_FLUSH_COUNT_MAX: Final = 64
_GATHERED_COUNT_MAX: Final = 256  # commands of one request
_GATHER_TURNS_MAX: Final = 16  # of the loop


@dataclass(slots=True, eq=False)
class Command:
    """A command that settles; ``outcome`` names the count in its answer."""

    id: int | None
    outcome: Literal["acked", "nacked", "dead_lettered", "extended"]
    count: int = 0
    failures: list[frames.TagFailure] = field(default_factory=list)


class _Part:
    """What one command added to the request of a tick."""

    __slots__ = ("_leased", "command", "tags")

    def __init__(self, command: Command, held: LeasedBatch | list[tuple[int, Delivery]]) -> None:
        self.command = command
        self._leased = held
        self.tags: Sequence[int] = (
            held.tags if isinstance(held, LeasedBatch) else [tag for tag, _ in held]
        )

    @property
    def deliveries(self) -> list[tuple[int, Delivery]]:
        return (
            list(self._leased.deliveries())
            if isinstance(self._leased, LeasedBatch)
            else self._leased
        )


class _Batch:
    """The request of one tick in the making."""

    def __init__(self) -> None:
        self.acks: dict[tuple[str, int, int], list[int]] = {}
        self.nacks: list[Nack] = []
        self.extends: list[Extend] = []
        self.parts: list[_Part] = []
        self.extended_tags: list[int] = []
        self.joined: list[tuple[Command, list[int]]] = []


class SettleBatches:
    """One per subscription."""

    def __init__(self, subscription: Subscription, session: Session) -> None:
        self._subscription = subscription
        self._session = session
        self._batch: _Batch | None = None
        self._flushes: set[asyncio.Task[None]] = set()
        self._unconfirmed: set[int] = set()  # tags the engine has not answered for yet

    @property
    def is_busy(self) -> bool:
        """Whether so many settles wait for the engine that the client should be read no further."""
        return len(self._flushes) >= _FLUSH_COUNT_MAX

    async def wait_ready(self) -> None:
        """Until it is no longer busy."""
        while self.is_busy:
            await asyncio.wait(self._flushes, return_when=asyncio.FIRST_COMPLETED)

    def add_acks(self, command: Command, deliveries: list[tuple[int, Delivery]]) -> None:
        batch = self._open(command, deliveries)
        acks = batch.acks
        for _, (topic, queue_id, generation, queue_offset, _, _, _, _) in deliveries:
            key = (topic, queue_id, generation)
            offsets = acks.get(key)
            if offsets is None:
                acks[key] = [queue_offset]
            else:
                offsets.append(queue_offset)

    def add_batch(self, command: Command, held: LeasedBatch) -> None:
        """The same of all that was pushed in one frame."""
        acks = self._open(command, held).acks
        for topic, queue_id, offsets in held.places():
            acks.setdefault((topic, queue_id, held.lease_generation), []).extend(offsets)

    def add_nacks(
        self, command: Command, deliveries: list[tuple[int, Delivery]], nacks: list[Nack]
    ) -> None:
        self._open(command, deliveries).nacks += nacks

    def add_extends(
        self, command: Command, deliveries: list[tuple[int, Delivery]], lease_ms: int
    ) -> None:
        batch = self._open(command, deliveries)
        batch.extends += [extend_of(delivery, lease_ms) for _, delivery in deliveries]
        batch.extended_tags += [tag for tag, _ in deliveries]

    @property
    def unconfirmed(self) -> set[int]:
        """Tags that were settled and whose outcome is not known yet."""
        return self._unconfirmed

    def join(self, command: Command, tags: list[int]) -> None:
        """Let a command that was just added wait for the outcome of ``tags`` settled before it.

        Confirming it earlier would promise what the engine may still refuse.
        """
        assert self._batch is not None
        self._batch.joined.append((command, tags))

    async def finish(self) -> None:
        """Wait until everything added so far has been told to the engine or has failed."""
        while self._flushes:
            await asyncio.wait(self._flushes)

    def _open(self, command: Command, held: LeasedBatch | list[tuple[int, Delivery]]) -> _Batch:
        batch = self._batch
        if batch is None:
            batch = self._batch = _Batch()
            # The task starts in the next tick, after all commands that arrived in this one.
            flush = asyncio.get_running_loop().create_task(self._flush())
            self._flushes.add(flush)
            flush.add_done_callback(self._flushes.discard)
        part = _Part(command, held)
        command.count = len(part.tags)
        if command.outcome != "extended":
            self._unconfirmed.update(part.tags)
        batch.parts.append(part)
        return batch

    async def _flush(self) -> None:
        batch = self._batch
        assert batch is not None
        # What else the client has sent already goes to the engine with this.
        budget = self._session.budget
        for _ in range(_GATHER_TURNS_MAX):
            if not budget.is_waiting or len(batch.parts) >= _GATHERED_COUNT_MAX:
                break
            await asyncio.sleep(0)
        self._batch = None
        subscription = self._subscription
        earlier = self._flushes - {cast("asyncio.Task[None]", asyncio.current_task())}
        try:
            if batch.joined and earlier:
                await asyncio.wait(earlier)
            if batch.acks or batch.nacks or batch.extends:
                reply = await self._settle(batch)
                self._apply(batch, reply)
        except StoreError as exc:
            for part in batch.parts:
                if part.command.outcome != "extended":
                    subscription.leased.remember_late(part.deliveries)
            self._discard(batch)
            await self._confirm_failed(batch, exc)
            return
        self._discard(batch)
        for command, tags in batch.joined:
            command.failures += [
                frames.TagFailure(tag, "OUTCOME_UNKNOWN")
                for tag in tags
                if subscription.leased.is_late(tag)
            ]
        await self._confirm(batch)

    def _discard(self, batch: _Batch) -> None:
        for part in batch.parts:
            if part.command.outcome != "extended":
                self._unconfirmed.difference_update(part.tags)

    async def _settle(self, batch: _Batch) -> SettleReply:
        context = self._session.context
        request = self._subscription.membership.settle(
            acks=[
                LeaseRef(
                    topic=topic,
                    queue_id=queue_id,
                    lease_generation=generation,
                    queue_offsets=offsets,
                )
                for (topic, queue_id, generation), offsets in batch.acks.items()
            ],
            nacks=batch.nacks,
            extends=batch.extends,
        )
        if context.spans is None:
            return await context.store.settle(request)
        span = context.spans.of_settle(request.group)
        try:
            reply = await context.store.settle(request)
        except StoreError as error:
            span.failed(error)
            raise
        span.settled([(request, reply)])
        return reply

    def _apply(self, batch: _Batch, reply: SettleReply) -> None:
        settled = sum([len(offsets) for offsets in batch.acks.values()]) + len(batch.nacks)
        self._session.meter.release(settled)
        for tag, until_ms in zip(batch.extended_tags, reply.extended_until_ms, strict=True):
            if until_ms:
                self._subscription.extended(tag, until_ms)
        if not reply.failures:
            return
        failed = {
            (f.topic, f.queue_id, f.lease_generation, f.queue_offset): f.code
            for f in reply.failures
        }
        for part in batch.parts:
            for tag, delivery in part.deliveries:
                code = failed.get(delivery[:4])
                if code is not None:
                    problem = problem_from_store(
                        error_from_code(code, "rejected by the storage engine")
                    )
                    part.command.failures.append(frames.TagFailure(tag, problem.code))
                    part.command.count -= 1

    async def _confirm(self, batch: _Batch) -> None:
        codec = self._session.codec
        for part in batch.parts:
            command = part.command
            if command.id is None:
                continue
            result = frames.Settled(failed=command.failures, **{command.outcome: command.count})
            await self._send(codec.encode(codec.Ok(command.id, result)))

    async def _confirm_failed(self, batch: _Batch, exc: StoreError) -> None:
        codec = self._session.codec
        problem = problem_from_store(exc)
        for part in batch.parts:
            if part.command.id is not None:
                err = codec.Err(part.command.id, problem.code, problem.retryable, problem.detail)
                await self._send(codec.encode(err))

    async def _send(self, frame: bytes) -> None:
        try:
            await self._session.send_frame(frame)
        except OSError:
            # The client is gone; its session ends by itself, and the settle counts all the same.
            log.debug(
                "The client disconnected before its settles were confirmed",
                extra={"action": "confirmation_unsent"},
            )
