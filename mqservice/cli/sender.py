"""Produces many messages: batches, several requests in flight, a result for each message.

    async iterator of lists ─▶ [Sender] ─▶ RestClient ─▶ service
                                   └─▶ on_verdicts(stored, failed, unknown)

Invariants: a message is sent again only when the service promised that it was not stored, when it
has a ``dedup_id``, or when the user asked for it with ``retry_unknown``. Every message gets exactly
one verdict. Messages with a message group are sent one batch at a time, so that their order in the
topic is their order here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from random import Random
from typing import Final

import msgspec

from mqservice.cli.backoff import Backoff
from mqservice.cli.client import Failed, RestClient, Stored
from mqservice.cli.errors import RequestRejected, ResponseMalformed, ResponseMissing, Unreachable
from mqservice.cli.messages import Outgoing, encode_outgoing

# The service takes 4 MiB a batch; half of it keeps one slow request short.
BATCH_BYTES_MAX: Final = 2 * 1024 * 1024
# A body beyond this goes alone and raw, where base64 and JSON do not inflate it.
RAW_BODY_BYTES_MIN: Final = 512 * 1024
# Failures of the caller, not of a message: nothing that follows can fare better.
STATUSES_FATAL: Final = frozenset({401, 402, 403, 404, 405, 415, 421})

Verdict = Stored | Failed


class SendLimits(msgspec.Struct, frozen=True, kw_only=True):
    batch_messages_max: int = 100
    requests_in_flight_max: int = 4
    attempts_max: int = 8
    retry_unknown: bool = False


class Numbered(msgspec.Struct, frozen=True):
    """A message and its place in the input, from 1."""

    number: int
    message: Outgoing
    form: bytes


class Totals(msgspec.Struct):
    stored: int = 0
    failed: int = 0
    unknown: int = 0
    retried: int = 0
    body_bytes: int = 0


class Sender:
    """Sends the messages of one command to one topic."""

    def __init__(
        self,
        client: RestClient,
        topic: str,
        *,
        limits: SendLimits,
        random: Random,
        on_verdict: Callable[[Numbered, Verdict], None],
        backoff: Backoff | None = None,
    ) -> None:
        self.totals = Totals()
        self._client = client
        self._topic = topic
        self._limits = limits
        self._random = random
        self._on_verdict = on_verdict
        self._backoff = backoff or Backoff()
        self._has_responded = False

    async def send_all(self, source: AsyncIterator[Sequence[Outgoing]]) -> None:
        """Send everything ``source`` yields; returns when each message has its verdict.

        Raises:
            Refused: the caller may not do this at all (key, topic); the rest was not sent.
            Unreachable: nobody answered the first request.
            Whatever ``source`` raises, after the messages before it got their verdicts.
        """
        tasks: set[asyncio.Task[None]] = set()
        try:
            async for batch in self._batches(source):
                is_ordered = any(item.message.message_group is not None for item in batch)
                while tasks and (is_ordered or len(tasks) >= self._limits.requests_in_flight_max):
                    await self._reap(tasks)
                tasks.add(asyncio.create_task(self._send(batch, is_ordered=is_ordered)))
                if is_ordered:
                    await self._reap(tasks)
            while tasks:
                await self._reap(tasks)
        finally:
            # Requests under way still get their answers, so that the count is true.
            await asyncio.gather(*tasks, return_exceptions=True)

    @staticmethod
    async def _reap(tasks: set[asyncio.Task[None]]) -> None:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        tasks -= done
        for task in done:
            task.result()

    async def _batches(
        self, source: AsyncIterator[Sequence[Outgoing]]
    ) -> AsyncIterator[list[Numbered]]:
        """Cut what the source has at hand into batches within both limits; never waits for more."""
        number = 0
        async for messages in source:
            batch: list[Numbered] = []
            batch_bytes = 0
            for message in messages:
                number += 1
                if len(message.body) >= RAW_BODY_BYTES_MIN and _fits_headers(message):
                    if batch:
                        yield batch
                    yield [Numbered(number, message, b"")]
                    batch, batch_bytes = [], 0
                    continue
                form = encode_outgoing(message)
                is_full = len(batch) >= self._limits.batch_messages_max
                if batch and (is_full or batch_bytes + len(form) > BATCH_BYTES_MAX):
                    yield batch
                    batch, batch_bytes = [], 0
                batch.append(Numbered(number, message, form))
                batch_bytes += len(form)
            if batch:
                yield batch

    async def _send(self, batch: list[Numbered], *, is_ordered: bool) -> None:
        waiting = batch
        for attempt in range(1, self._limits.attempts_max + 1):
            verdicts = await self._try(waiting)
            again = self._repeatable(waiting, verdicts, attempt, is_ordered=is_ordered)
            floor_ms = 0
            for item, verdict in zip(waiting, verdicts, strict=True):
                if item.number not in again:
                    self._settle(item, verdict)
                elif isinstance(verdict, Failed):
                    floor_ms = max(floor_ms, verdict.retry_after_ms or 0)
            if not again:
                return
            waiting = [item for item in waiting if item.number in again]
            self.totals.retried += len(waiting)
            wait_ms = self._backoff.wait_ms(attempt, self._random, floor_ms=floor_ms)
            await asyncio.sleep(wait_ms / 1000)

    def _repeatable(
        self,
        batch: list[Numbered],
        verdicts: Sequence[Verdict],
        attempt: int,
        *,
        is_ordered: bool,
    ) -> set[int]:
        """Numbers of the messages that may be sent again.

        With a message group, only those that no later one of their group may have overtaken.
        """
        again: set[int] = set()
        overtaken: set[str] = set()
        for item, verdict in reversed(list(zip(batch, verdicts, strict=True))):
            group = item.message.message_group
            is_late = is_ordered and group is not None and group in overtaken
            may_repeat = isinstance(verdict, Failed) and self._may_repeat(item, verdict, attempt)
            if may_repeat and not is_late:
                again.add(item.number)
            if group is not None and (isinstance(verdict, Stored) or verdict.stored is None):
                overtaken.add(group)
        return again

    def _may_repeat(self, item: Numbered, verdict: Failed, attempt: int) -> bool:
        if attempt >= self._limits.attempts_max or not verdict.retriable:
            return False
        is_harmless = self._limits.retry_unknown or item.message.dedup_id is not None
        return verdict.stored is False or (verdict.stored is None and is_harmless)

    async def _try(self, batch: list[Numbered]) -> Sequence[Verdict]:
        """One request for the batch; several when one refused message hides among good ones."""
        try:
            verdicts = await self._request(batch)
        except Unreachable as exc:
            if not self._has_responded:
                raise
            return [
                Failed(code="UNREACHABLE", detail=str(exc), retriable=True, stored=False)
            ] * len(batch)
        except (ResponseMissing, ResponseMalformed) as exc:
            lost = Failed(code="NO_ANSWER", detail=str(exc), retriable=True, stored=None)
            return [lost] * len(batch)
        except RequestRejected as exc:
            self._has_responded = True
            if exc.status in STATUSES_FATAL:
                raise
            if 400 <= exc.status < 500 and not exc.retriable and len(batch) > 1:
                half = len(batch) // 2
                return [*await self._try(batch[:half]), *await self._try(batch[half:])]
            return [_failed(exc)] * len(batch)
        self._has_responded = True
        return verdicts

    async def _request(self, batch: list[Numbered]) -> Sequence[Verdict]:
        if len(batch) == 1 and not batch[0].form:
            return [await self._client.produce_raw(self._topic, batch[0].message)]
        if len(batch) == 1:
            return [await self._client.produce(self._topic, batch[0].message)]
        return await self._client.produce_encoded(self._topic, [item.form for item in batch])

    def _settle(self, item: Numbered, verdict: Verdict) -> None:
        if isinstance(verdict, Stored):
            self.totals.stored += 1
            self.totals.body_bytes += len(item.message.body)
        elif verdict.stored is None:
            self.totals.unknown += 1
        else:
            self.totals.failed += 1
        self._on_verdict(item, verdict)


def _failed(exc: RequestRejected) -> Failed:
    return Failed(
        code=exc.code,
        detail=exc.detail,
        retriable=exc.retriable,
        stored=exc.stored,
        retry_after_ms=exc.retry_after_ms,
    )


def _fits_headers(message: Outgoing) -> bool:
    """Whether all but the body can travel as header lines unchanged."""
    texts = [message.tag or "", message.message_group or "", *message.keys]
    texts += [message.delay or "", message.deliver_at or "", message.dedup_id or ""]
    return not message.properties and all(
        text.isascii() and text.isprintable() and text == text.strip() and "," not in text
        for text in texts
    )
