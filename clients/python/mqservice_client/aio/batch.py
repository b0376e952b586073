"""Batches: many messages in few requests, with a result for each message."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from datetime import datetime
from types import TracebackType

from ..accumulator import Chunk
from ..batch_core import BatchCore
from ..errors import MQError
from ..http_calls import Stored, outgoing
from ..sides import AsyncSide
from ..tracing import created
from ..values import Body, Duration, optional_ms, optional_s, optional_time


class AsyncPending:
    """The result to come of one message of a batch."""

    __slots__ = ("_chunk", "_index", "_side")

    def __init__(self, side: AsyncSide, chunk: Chunk, index: int) -> None:
        self._side = side
        self._chunk = chunk
        self._index = index

    @property
    def is_done(self) -> bool:
        """Whether there is a result, so that ``result`` does not wait."""
        return self._chunk.done.is_set()

    async def result(self, timeout: Duration | None = None) -> Stored:
        """Where the message was stored. Waits for the result.

        Raises:
            RequestRejected, Unreachable: it was not stored.
            OutcomeUnknown: it may or may not be stored.
            TimeoutError: there is no result within ``timeout``; the message is still under way.
        """
        timeout_s = optional_s(timeout, "timeout")
        if not self.is_done and not await self._side.wait_for_results(self._chunk, timeout_s):
            raise TimeoutError("the message has no result yet")
        result = self._chunk.results[self._index]
        if isinstance(result, MQError):
            raise result
        return result

    def __await__(self) -> Generator[object, None, Stored]:
        return self.result().__await__()


class AsyncBatch:
    """Messages for one topic, sent together; leaving ``async with`` waits for every result.

    ``send`` returns when the message has its place in a request; what it returns has the result of
    that message. Leaving the block raises ``BatchFailed`` if a message was not stored, or nobody
    knows. Memory is bounded: ``send`` waits while too much is under way.
    """

    def __init__(self, side: AsyncSide, core: BatchCore) -> None:
        self._side = side
        self._core = core

    @property
    def stored(self) -> int:
        """How many messages are confirmed."""
        return self._core.stored

    @property
    def repeated(self) -> int:
        """How many times a message was sent again."""
        return self._core.sender.repeated

    @property
    def failures(self) -> list[tuple[int, MQError]]:
        """(number of the message, from 0; its error), the latest 10,000."""
        return list(self._core.failures)

    async def send(
        self,
        body: Body,
        *,
        tag: str | None = None,
        keys: str | Sequence[str] = (),
        message_group: str | None = None,
        properties: Mapping[str, str] | None = None,
        queue: int | None = None,
        delay: Duration | None = None,
        delay_level: int | None = None,
        deliver_at: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncPending:
        """Add a message; the arguments are those of ``AsyncClient.send``.

        Returns when there is room for it, before it is sent. Raises ClientClosed after ``close``.
        """
        core = self._core
        core.check()
        message = outgoing(
            body,
            tag=tag,
            keys=keys,
            message_group=message_group,
            properties=properties,
            queue=queue,
            delay_level=delay_level,
            delay_ms=optional_ms(delay, "delay"),
            deliver_at=optional_time(deliver_at, "deliver_at"),
            dedup_id=core.key_of(idempotency_key),
        )
        message = created(core.topic, message)
        if core.accumulator.is_full:
            await self._side.wait_for_room(core)
        return AsyncPending(self._side, *core.add(message))

    async def flush(self) -> None:
        """Send what lingers, and wait until every message so far has its result."""
        await self._side.run(self._core.flush())

    async def close(self) -> None:
        """Wait for every result; nothing can be added any more. Failures are not raised."""
        await self._side.run(self._core.close())

    async def __aenter__(self) -> AsyncBatch:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
        if error is None:
            self._core.raise_for_failures()
