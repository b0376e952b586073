"""Requests that wait for messages which only the bucket has, by the rules alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from storage_engine.errors import NotLocal, OldMessagesUnavailable, StoreError, TopicNotFound
from storage_engine.server.absent_requests import AbsentRequests
from storage_engine.wire.frames import Frame


class Connection:
    """``serving``: what happens to a frame that is served again; in its absence it is answered."""

    def __init__(self, serving: Callable[[], None] | None = None) -> None:
        self.serving = serving
        self.gate = asyncio.Event()
        self.fetch_count = 0
        self.served: list[Frame] = []
        self.failed: list[tuple[int, StoreError]] = []
        self.requests = AbsentRequests(self._serve, self._fail)

    def absent(self) -> NotLocal:
        return NotLocal("only in the bucket", self._fetch, 0)

    async def _fetch(self) -> None:
        self.fetch_count += 1
        await self.gate.wait()

    def _serve(self, frame: Frame) -> None:
        if self.serving is not None:
            self.serving()
        self.served.append(frame)

    def _fail(self, frame: Frame, error: StoreError) -> None:
        self.failed.append((frame.request_id, error))

    def wait(self, request_id: int) -> Frame:
        frame = Frame(1, 0, request_id, b"")
        self.requests.wait(frame, self.absent())
        return frame

    async def end(self) -> None:
        while self.requests._waiting:
            await asyncio.sleep(0)


async def test_a_request_is_served_once_what_it_needs_is_here() -> None:
    connection = Connection()
    frames = [connection.wait(1), connection.wait(2)]
    await asyncio.sleep(0)
    assert not connection.served
    connection.gate.set()
    await connection.end()
    assert connection.served == frames
    assert not connection.failed


async def test_a_request_that_is_cancelled_is_answered_and_not_served() -> None:
    connection = Connection()
    connection.wait(1)
    await asyncio.sleep(0)
    connection.requests.cancel(1)
    connection.requests.cancel(2)
    connection.gate.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not connection.served
    assert [number for number, _ in connection.failed] == [1]


async def test_nothing_is_served_when_the_connection_is_gone() -> None:
    connection = Connection()
    connection.wait(1)
    await asyncio.sleep(0)
    connection.requests.cancel_all()
    connection.gate.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not connection.served
    assert not connection.failed


async def test_an_error_of_the_request_itself_is_answered() -> None:
    def serving() -> None:
        raise TopicNotFound("deleted meanwhile")

    connection = Connection(serving)
    connection.gate.set()
    connection.wait(1)
    await connection.end()
    assert [type(error) for _, error in connection.failed] == [TopicNotFound]


async def test_a_request_that_always_needs_more_ends() -> None:
    def serving() -> None:
        raise connection.absent()

    connection = Connection(serving)
    connection.gate.set()
    connection.wait(1)
    await connection.end()
    assert connection.fetch_count == 64
    ((_, error),) = connection.failed
    assert type(error) is OldMessagesUnavailable


async def test_a_number_that_waits_already_is_refused() -> None:
    connection = Connection()
    connection.wait(1)
    connection.wait(1)
    assert [number for number, _ in connection.failed] == [1]
    connection.requests.cancel_all()
