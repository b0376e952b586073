"""``mqservice drill failover``: practise losing a node, with messages that are counted.

    one message after another ─▶ service ─▶ owner of the shard   ✕ you stop it, or move the shard
    at the end: every queue is read ─▶ what was acknowledged, and is not there or in another order

Exit codes: 0 nothing was lost; 1 something was, or the drill could not be done.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Coroutine
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import quote

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient, Topic
from mqservice.cli.errors import ClientError, RequestRejected, ResponseMissing
from mqservice.cli.messages import PulledPage
from mqservice.cli.reader import PAGE_MESSAGES_MAX
from mqservice.cli.tables import Table
from mqservice.cli.target import Target

app = typer.Typer(no_args_is_help=True, help="Practise what happens when a machine is gone.")

COUNT_MAX: Final = 100_000
_PAUSE_S: Final = 0.05
_SILENCE_S: Final = 1.0  # without an acknowledgement before the drill reports a gap
_READ_WAIT_S: Final = 60.0  # for a shard that cannot be read at the end, until one gives up
REPLICATED: Final = "replicated"


class _Stored(msgspec.Struct, kw_only=True):
    id: str
    queue: int
    offset: int
    durability: str


class _Found(NamedTuple):
    """What became of what was acknowledged."""

    lost: list[_Stored]
    misplaced: int


class _Drill:
    """One run. Messages are sent one at a time: their order is that of the acknowledgements."""

    def __init__(self, client: RestClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._path = f"topics/{quote(topic, safe='')}"
        self.acknowledged: list[_Stored] = []
        self.rejected_count = 0
        self.unknown_count = 0
        self.longest_s = 0.0

    async def prepare(self) -> None:
        """Creates the topic unless it is there."""
        try:
            await self._client.call("GET", self._path, Topic)
        except RequestRejected as exc:
            if exc.code != "TOPIC_NOT_FOUND":
                raise
            content = msgspec.json.encode({"queues": 1})
            await self._client.call("PUT", self._path, Topic, content=content)

    async def send(self, count: int) -> None:
        """So many messages, or until it is cancelled."""
        last_s = time.monotonic()
        is_silent = False
        for number in range(count):
            failure = await self._send(number)
            gap_s = time.monotonic() - last_s
            self.longest_s = max(self.longest_s, gap_s)
            if failure is None:
                if gap_s >= _SILENCE_S:
                    screen.notice(f"messages are stored again, after {gap_s:.1f} s")
                last_s, is_silent = last_s + gap_s, False
            elif not is_silent and gap_s >= _SILENCE_S:
                is_silent = True
                screen.notice(f"no message is stored: {failure}")
            await asyncio.sleep(_PAUSE_S)

    async def _send(self, number: int) -> ClientError | None:
        content = msgspec.json.encode({"body": f"failover drill, message {number}"})
        try:
            stored = await self._client.call(
                "POST", f"{self._path}/messages", _Stored, content=content
            )
        except ClientError as exc:
            if isinstance(exc, ResponseMissing) or exc.stored is None:
                self.unknown_count += 1
            else:
                self.rejected_count += 1
            return exc
        except asyncio.CancelledError:
            self.unknown_count += 1
            raise
        self.acknowledged.append(stored)
        return None

    async def check(self) -> _Found:
        """Read what is there now."""
        places: dict[int, dict[int, str]] = {}
        for queue in sorted({each.queue for each in self.acknowledged}):
            offsets = [each.offset for each in self.acknowledged if each.queue == queue]
            places[queue] = await self._read(queue, min(offsets), max(offsets) + 1)
        there = {message_id for found in places.values() for message_id in found.values()}
        lost = [each for each in self.acknowledged if each.id not in there]
        misplaced, last = 0, dict.fromkeys(places, -1)
        for each in self.acknowledged:
            is_there = places[each.queue].get(each.offset) == each.id
            misplaced += each.id in there and not (is_there and each.offset > last[each.queue])
            last[each.queue] = max(last[each.queue], each.offset)
        return _Found(lost, misplaced)

    async def _read(self, queue: int, start: int, end: int) -> dict[int, str]:
        """Ids by offset, of ``[start, end)``."""
        found: dict[int, str] = {}
        while start < end:
            path = f"{self._path}/queues/{queue}/messages?offset={start}&max={PAGE_MESSAGES_MAX}"
            page = await self._pull(path)
            found |= {each.offset: each.id for each in page.messages}
            if page.next_offset <= start:
                break
            start = page.next_offset
        return found

    async def _pull(self, path: str) -> PulledPage:
        """Waits while the shard has no owner: a drill may be ended during a takeover."""
        until_s = time.monotonic() + _READ_WAIT_S
        while True:
            try:
                return await self._client.pull(path)
            except ClientError as exc:
                if not exc.retriable or time.monotonic() > until_s:
                    raise
            await asyncio.sleep(_PAUSE_S)


@app.callback()
def drill() -> None:
    """Practise what happens when a machine is gone."""


@app.command("failover")
async def failover(
    target: Target,
    topic: Annotated[
        str, typer.Option("--topic", "-t", help="Topic to send to; created if it is not there.")
    ] = "failover-drill",
    count: Annotated[
        int,
        typer.Option(
            "--count", min=1, max=COUNT_MAX, help="Messages to send, some twenty a second."
        ),
    ] = 1_200,
) -> int:
    """Send messages while you stop a node or hand a shard over, then check that none was lost.

    Use a namespace of the shard that is meant, and do the rest meanwhile: kill the owner's machine,
    stop its node, or run `mqservice shard move`. Ctrl-C ends the sending.
    """
    async with RestClient(target) as client:
        run = _Drill(client, topic)
        await run.prepare()
        screen.notice(
            f"sending {count:,} messages to {topic}; stop the shard's node now "
            "(Ctrl-C ends the sending)"
        )
        await _until_interrupted(run.send(count))
        if not run.acknowledged:
            screen.print_error("no message was stored, so that there is nothing to check")
            return 1
        return _show(run, await run.check())


async def _until_interrupted(work: Coroutine[Any, Any, None]) -> None:  # Any: see screen.run
    """Ctrl-C and SIGTERM end the work; once more, they end the program as ever."""
    task = asyncio.create_task(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _show(run: _Drill, found: _Found) -> int:
    durabilities = sorted({each.durability for each in run.acknowledged})
    table = Table("", "")
    for name, value in (
        ("acknowledged", f"{len(run.acknowledged):,} ({', '.join(durabilities)})"),
        ("rejected", f"{run.rejected_count:,}"),
        ("outcome unknown", f"{run.unknown_count:,}"),
        ("longest time without one", f"{run.longest_s:.1f} s"),
        ("acknowledged and lost", f"{len(found.lost):,}"),
        ("at another place, or out of order", f"{found.misplaced:,}"),
    ):
        table.add_row(name, value)
    screen.show(table)
    if any(each.durability != REPLICATED for each in found.lost):
        screen.warn(
            "messages of topics that are not `replicated` may be lost with a machine: those of the "
            "last moments, which the replicated log did not have yet"
        )
    return 1 if found.lost or found.misplaced else 0
