"""Produces many messages, with a verdict for each.

    async iterator of lists ─▶ [Sender] ─▶ AsyncBatch ─▶ service
                                   └─▶ on_verdict(number, Stored or why not)

A message is sent again only when the service promised that it was not stored, when it has a
``dedup_id``, or when the user asked for it with ``repeat_unknown``.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Final

import msgspec
from mqservice_client import (
    AsyncBatch,
    AsyncClient,
    MQError,
    RequestRejected,
    Stored,
    Unreachable,
    UsageError,
)

from mqservice.cli.library_errors import client_error
from mqservice.cli.messages import Outgoing

# The service takes 4 MiB a batch; half of it keeps one slow request short.
BATCH_BYTES_MAX: Final = 2 * 1024 * 1024
# What a read of the input gave is sent at once, unless the next read is as fast.
LINGER: Final = "1ms"
# Attempts are counted instead.
TIMEOUT: Final = "1d"
# Failures of the caller, not of a message: nothing that follows can fare better.
STATUSES_FATAL: Final = frozenset({401, 402, 403, 404, 405, 415, 421})

Verdict = Stored | MQError


class SendLimits(msgspec.Struct, frozen=True, kw_only=True):
    batch_messages_max: int = 100
    requests_in_flight_max: int = 4
    attempts_max: int = 8
    retry_unknown: bool = False


class Totals(msgspec.Struct):
    stored: int = 0
    failed: int = 0
    unknown: int = 0
    retried: int = 0


class Sender:
    """Sends the messages of one command to one topic."""

    def __init__(
        self,
        client: AsyncClient,
        topic: str,
        *,
        limits: SendLimits,
        on_verdict: Callable[[int, Verdict], None],
    ) -> None:
        """``on_verdict`` gets the number of the message in the input, from 1."""
        self.totals = Totals()
        self._client = client
        self._topic = topic
        self._limits = limits
        self._on_verdict = on_verdict
        # Places in the batch before which messages were left out, for they make no sense.
        self._gaps: list[int] = []
        self._sent = 0
        self._failure: Exception | None = None
        self._filling: asyncio.Task[None] | None = None

    async def send_all(self, source: AsyncIterator[Sequence[Outgoing]]) -> None:
        """Send everything ``source`` yields; returns when each message has its verdict.

        Raises:
            ClientError: the caller may not do this at all (key, topic), or nobody answered the
                first request; the rest was not sent.
            Whatever ``source`` raises, after the messages before it got their verdicts.
        """
        batch = self._client.batch(
            self._topic,
            linger=LINGER,
            messages_max=self._limits.batch_messages_max,
            bytes_max=BATCH_BYTES_MAX,
            requests_max=self._limits.requests_in_flight_max,
            repeat_unknown=self._limits.retry_unknown,
            attempts_max=self._limits.attempts_max,
            timeout=TIMEOUT,
            on_result=self._take,
        )
        self._filling = asyncio.create_task(self._fill(batch, source))
        try:
            await self._filling
        except asyncio.CancelledError:
            if self._failure is None:
                raise
        finally:
            # Requests under way still get their answers, so that the count is true.
            await batch.close()
            self.totals.retried = batch.repeated
        if self._failure is not None:
            raise self._failure

    async def _fill(self, batch: AsyncBatch, source: AsyncIterator[Sequence[Outgoing]]) -> None:
        async for messages in source:
            for message in messages:
                try:
                    await _add(batch, message)
                except UsageError as exc:
                    self._gaps.append(self._sent)
                    self._settle(self._sent + len(self._gaps), exc)
                else:
                    self._sent += 1

    def _take(self, index: int, result: Verdict) -> None:
        """What became of a message of the batch."""
        try:
            if isinstance(result, MQError) and _is_fatal(result):
                raise client_error(result)
            self._settle(index + 1 + bisect_right(self._gaps, index), result)
        except Exception as exc:
            self._failure = self._failure or exc
            if self._filling is not None:
                self._filling.cancel()

    def _settle(self, number: int, verdict: Verdict) -> None:
        if isinstance(verdict, Stored):
            self.totals.stored += 1
        elif verdict.stored is None:
            self.totals.unknown += 1
        else:
            self.totals.failed += 1
        self._on_verdict(number, verdict)


def _is_fatal(error: MQError) -> bool:
    if isinstance(error, RequestRejected):
        return error.status in STATUSES_FATAL
    return isinstance(error, Unreachable) and not error.retryable


async def _add(batch: AsyncBatch, message: Outgoing) -> None:
    """Raises UsageError for what the service would refuse."""
    deliver_at = None
    if message.deliver_at is not None:
        try:
            deliver_at = datetime.fromisoformat(message.deliver_at)
        except ValueError as exc:
            raise UsageError(f"{message.deliver_at!r} is not a time in RFC 3339") from exc
    await batch.send(
        message.body,
        tag=message.tag,
        keys=message.keys,
        message_group=message.message_group,
        properties=message.properties,
        delay=message.delay,
        delay_level=message.delay_level,
        deliver_at=deliver_at,
        idempotency_key=message.dedup_id,
    )
