"""Reads a topic without a group: from a position on, queue by queue, and then new messages.

    GET …/topics/T ─▶ where each queue begins and ends ─▶ [Reader] ─▶ pull, pull, … ─▶ on_messages

Nothing is leased and nothing changes on the service: whoever reads keeps the offsets, here until
the command ends. At most ``PAGE_MESSAGES_MAX`` messages are held at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Final
from urllib.parse import quote, urlencode

import msgspec
from mqservice_client.backoff import Backoff

from mqservice.cli.client import RestClient
from mqservice.cli.errors import ClientError, UsageError
from mqservice.cli.messages import Delivered

PAGE_MESSAGES_MAX: Final = 256
PAUSE_MS: Final = 500
BEGINNING: Final = "beginning"
END: Final = "end"
_BACK: Final = re.compile(r"-[0-9]{1,18}", re.ASCII)


class _Queue(msgspec.Struct):
    queue: int
    min_offset: int
    max_offset: int


class _Topic(msgspec.Struct):
    queue_offsets: list[_Queue] | None = None


class _Offset(msgspec.Struct):
    offset: int


def parse_position(text: str) -> str | int | datetime:
    """``beginning``, ``end``, an offset, so many messages back (negative), or a time.

    Raises:
        UsageError: it is none of these.
    """
    if text in (BEGINNING, "earliest", "start"):
        return BEGINNING
    if text in (END, "latest"):
        return END
    if (text.isascii() and text.isdigit() and len(text) <= 18) or _BACK.fullmatch(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise UsageError(
            f"--from {text!r} is not a valid position: give beginning, end, an "
            "offset, -10 for the last 10 of each queue, or a time such as "
            "2026-11-21T09:00:00Z"
        )
    return moment


class Reader:
    """Hands over messages in the order of each queue until it is stopped or has enough."""

    def __init__(
        self,
        client: RestClient,
        topic: str,
        *,
        place: str | int | datetime,
        queue: int | None,
        tag: str | None,
        messages_max: int | None,
        idle_exit_ms: int | None,
        on_messages: Callable[[list[Delivered]], None],
        on_notice: Callable[[str], None],
        backoff: Backoff | None = None,
    ) -> None:
        """``queue`` None: all of them; ``idle_exit_ms`` None: wait for ever."""
        self.received = 0
        self._client = client
        self._topic = topic
        self._place = place
        self._queue = queue
        self._tag = tag
        self._messages_max = messages_max
        self._idle_exit_ms = idle_exit_ms
        self._on_messages = on_messages
        self._on_notice = on_notice
        self._backoff = backoff or Backoff()
        self._random = Random()
        self._stop = asyncio.Event()
        self._attempt = 0

    def stop(self) -> None:
        """Hand over nothing more, and end."""
        self._stop.set()

    async def run(self) -> None:
        """Raises ClientError: the first request failed, or one that will not get better."""
        offsets = await self._begin()
        loop = asyncio.get_running_loop()
        idle_since = loop.time()
        while not self._is_finished():
            before = self.received
            pause_ms = PAUSE_MS
            try:
                await self._round(offsets)
                self._attempt = 0
            except ClientError as exc:
                pause_ms = self._wait_after(exc)
            if self.received > before:
                idle_since = loop.time()
                continue
            if self._idle_exit_ms is not None:
                left_ms = self._idle_exit_ms - round((loop.time() - idle_since) * 1000)
                if left_ms <= 0:
                    return
                pause_ms = min(pause_ms, left_ms)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_ms / 1000):
                    await self._stop.wait()

    async def _begin(self) -> dict[int, int]:
        """Where to read in each queue."""
        topic = await self._client.call("GET", f"topics/{quote(self._topic, safe='')}", _Topic)
        if topic.queue_offsets is None:
            raise ClientError(
                "cannot find where the queues start: the storage engine is not responding"
            )
        queues = [each for each in topic.queue_offsets if self._queue in (None, each.queue)]
        if not queues:
            raise UsageError(f"{self._topic} has no queue {self._queue}")
        return {each.queue: await self._start_of(each) for each in queues}

    async def _start_of(self, queue: _Queue) -> int:
        match self._place:
            case datetime():
                asked = urlencode({"time": self._place.isoformat()})
                path = f"{self._path(queue.queue)}/offset?{asked}"
                return (await self._client.call("GET", path, _Offset)).offset
            case int() if self._place < 0:
                return max(queue.max_offset + self._place, queue.min_offset)
            case int():
                return min(max(self._place, queue.min_offset), queue.max_offset)
            case _:
                return queue.min_offset if self._place == BEGINNING else queue.max_offset

    async def _round(self, offsets: dict[int, int]) -> None:
        """One page of each queue."""
        for queue, offset in offsets.items():
            if self._is_finished():
                return
            wanted = PAGE_MESSAGES_MAX
            if self._messages_max is not None:
                wanted = min(wanted, self._messages_max - self.received)
            asked = {"offset": str(offset), "max": str(wanted)}
            if self._tag is not None:
                asked["tag"] = self._tag
            path = f"{self._path(queue)}/messages?{urlencode(asked)}"
            page = await self._client.pull(path)
            if page.messages:
                self._on_messages(page.messages)
                self.received += len(page.messages)
            offsets[queue] = page.next_offset

    def _wait_after(self, exc: ClientError) -> int:
        """How long to wait before asking again, in ms; raises where that is no use."""
        if not exc.retriable:
            raise exc
        self._attempt += 1
        wait_ms = self._backoff.wait_ms(
            self._attempt, self._random, floor_ms=exc.retry_after_ms or 0
        )
        self._on_notice(f"{exc}; trying again in {wait_ms / 1000:.1f} s")
        return wait_ms

    def _path(self, queue: int) -> str:
        return f"topics/{quote(self._topic, safe='')}/queues/{queue}"

    def _is_finished(self) -> bool:
        has_all = self._messages_max is not None and self.received >= self._messages_max
        return has_all or self._stop.is_set()
