"""Floods of frames: taken in turns with everybody else, read more slowly, and closed in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mqservice.web.loop_turns import turns_of
from mqservice.web.socket_budget import BudgetLimits, SocketBudget
from mqservice.web.web_sockets import (
    FRAGMENTS_MAX,
    LATE_BYTES_MAX,
    SMALL_FRAGMENT_BYTES,
    WAITING_COUNT_MAX,
    SocketProtocol,
)
from tests.mqservice.lib.connected import PONG, Connected, frame

TURN_FRAMES = 4
TURN_BYTES = 20_000
NO_OPS = 20
EXCESS_S = 3
CLOSE: Any = {"type": "websocket.close", "code": 4400, "reason": "enough"}
PING = frame(9)


class FloodedProtocol(SocketProtocol):
    """With small limits, a clock that the test moves, and a count of the frames it has taken."""

    limits = BudgetLimits(
        turn_count_max=TURN_FRAMES,
        turn_bytes_max=TURN_BYTES,
        no_ops_per_second_max=NO_OPS,
        excess_s_max=EXCESS_S,
    )
    now_ns = 0
    taken_count = 0

    def make_budget(self) -> SocketBudget:
        return SocketBudget(turns_of(self.loop), self.limits, lambda: self.now_ns)

    def _take_frame(self, data: bytes | bytearray, at: int, end: int) -> int:
        taken = super()._take_frame(data, at, end)
        self.taken_count += bool(taken)
        return taken


class HarmlessProtocol(FloodedProtocol):
    """To which nothing is a no-op too many."""

    limits = BudgetLimits(
        turn_count_max=TURN_FRAMES, turn_bytes_max=TURN_BYTES, no_ops_per_second_max=1_000_000
    )


class Flooded(Connected):
    """The connection, turn by turn; timers fire when the test says so."""

    protocol: FloodedProtocol

    def __init__(self, kind: type[FloodedProtocol]) -> None:
        super().__init__(kind)
        self.messages: list[Any] = []
        self._application = self.loop.create_task(self._take_messages())
        self.turn()  # the one of the handshake ends
        self.timers: list[tuple[float, Callable[..., None]]] = []
        self.loop.call_later = self._call_later  # type: ignore[method-assign,assignment] # as said

    async def _take_messages(self) -> None:
        while True:
            self.messages.append(await self.protocol.receive())

    def leave_all(self) -> None:
        """The application takes nothing any more."""
        self._application.cancel()
        self.turn()

    def close(self) -> None:
        self._application.cancel()
        super().close()

    def _call_later(self, delay_s: float, call: Callable[..., None], *given: Any) -> Any:
        self.timers.append((delay_s, call))
        return asyncio.TimerHandle(0.0, call, given, self.loop)

    def turn(self) -> int:
        """What is ready in the loop now; how many frames were taken meanwhile."""
        before = self.protocol.taken_count
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()
        return self.protocol.taken_count - before

    def turns_until_read(self) -> list[int]:
        """Frames that were taken in each turn until the connection reads again."""
        counts: list[int] = []
        while not self.wire.is_reading():
            counts.append(self.turn())
        return counts

    def wait(self) -> float:
        """Move the clock to the one timer there is, which fires; the seconds."""
        ((delay_s, call),) = self.timers
        self.timers.clear()
        self.protocol.now_ns += round(delay_s * 1e9)
        call()
        return delay_s

    def flood(self, content: bytes) -> None:
        """Send until the connection reads no more and waits for a timer, or has closed."""
        while not self.timers:
            if self.wire.is_reading():
                self.protocol.data_received(content)
            self.turn()


@pytest.fixture
def flooded() -> Iterator[Flooded]:
    made = Flooded(FloodedProtocol)
    yield made
    made.close()


@pytest.fixture
def harmless() -> Iterator[Flooded]:
    made = Flooded(HarmlessProtocol)
    yield made
    made.close()


FRAGMENTED = frame(1, b"a", fin=False) + frame(0, b"b", fin=False) * 98 + frame(0, b"c")
FLOODS = {
    "pings": PING * 100,
    "pongs": frame(10) * 100,
    "fragments": FRAGMENTED,
    "pings between fragments": frame(1, b"a", fin=False) + (PING + frame(0, b"b", fin=False)) * 50,
    "messages": frame(2, b"x") * 100,
    "messages and pings": (frame(2, b"x") + PING) * 50,
}


@pytest.mark.parametrize("name", FLOODS)
def test_frames_of_one_read_are_spread_over_turns(harmless: Flooded, name: str) -> None:
    content = FLOODS[name]

    harmless.protocol.data_received(content)

    assert harmless.protocol.taken_count <= TURN_FRAMES
    assert not harmless.wire.is_reading()
    counts = harmless.turns_until_read()
    # Its own continuation, and the frames that the application makes room for.
    assert max(counts) <= 2 * TURN_FRAMES
    assert len(counts) >= 100 // (2 * TURN_FRAMES)
    assert harmless.protocol.taken_count in (100, 101)


def test_what_comes_after_the_close_is_spread_over_turns_as_well(harmless: Flooded) -> None:
    harmless.send(CLOSE)
    harmless.turn()
    harmless.protocol.data_received(PING * 100)
    assert harmless.protocol.taken_count <= TURN_FRAMES
    assert max(harmless.turns_until_read()) <= 2 * TURN_FRAMES


def test_messages_arrive_in_their_order_whole_and_once(harmless: Flooded) -> None:
    contents = [b"%d" % number for number in range(100)]
    harmless.protocol.data_received(b"".join(frame(2, each) for each in contents))
    harmless.turns_until_read()
    while len(harmless.messages) < len(contents):
        harmless.turn()
    assert [each["bytes"] for each in harmless.messages] == contents


def test_no_more_messages_wait_for_the_application_than_there_is_room_for(
    harmless: Flooded,
) -> None:
    harmless.leave_all()
    harmless.protocol.data_received(frame(2, b"x") * 100)
    for _ in range(50):
        harmless.turn()
    assert harmless.protocol.queue.qsize() == WAITING_COUNT_MAX
    assert not harmless.wire.is_reading()


def test_a_large_message_that_comes_in_parts_gives_way_between_them(harmless: Flooded) -> None:
    content = frame(2, b"x" * 60_000)
    counts = []
    for at in range(0, len(content), TURN_BYTES // 2):
        harmless.protocol.data_received(content[at : at + TURN_BYTES // 2])
        counts.append(harmless.wire.is_reading())
        if not counts[-1]:
            harmless.turns_until_read()
    assert counts[:4] == [True, False, True, False]
    harmless.turn()
    assert harmless.messages == [{"type": "websocket.receive", "bytes": b"x" * 60_000}]


# Pongs ------------------------------------------------------------------------------------------


def pongs(written: bytes) -> list[bytes]:
    found = []
    while written:
        assert written[0] == PONG, written
        found.append(written[2 : 2 + written[1]])
        written = written[2 + written[1] :]
    return found


def test_of_pings_that_are_taken_together_the_last_one_is_answered(harmless: Flooded) -> None:
    harmless.protocol.data_received(b"".join(frame(9, b"%d" % number) for number in range(12)))
    harmless.turns_until_read()
    assert pongs(harmless.wire.written) == [b"3", b"7", b"11"]


def test_a_client_that_reads_nothing_is_owed_one_pong(harmless: Flooded) -> None:
    harmless.protocol.pause_writing()
    harmless.protocol.data_received(b"".join(frame(9, b"%d" % number) for number in range(12)))
    harmless.turns_until_read()
    assert harmless.wire.written == b""
    harmless.protocol.resume_writing()
    assert pongs(harmless.wire.written) == [b"11"]


# A second ---------------------------------------------------------------------------------------

NO_OP_FRAMES = {
    "pings": PING * 4,
    "pongs": frame(10) * 4,
    "small fragments": frame(1, b"a", fin=False) + frame(0, b"b", fin=False) * 3 + frame(0, b"c"),
}


@pytest.mark.parametrize("name", NO_OP_FRAMES)
def test_too_many_no_ops_pause_reading_until_the_second_is_over(
    flooded: Flooded, name: str
) -> None:
    flooded.flood(NO_OP_FRAMES[name])
    assert NO_OPS < flooded.protocol.taken_count <= 2 * NO_OPS
    assert not flooded.wire.is_reading()
    assert flooded.wait() == pytest.approx(1)
    flooded.turns_until_read()


def test_many_no_ops_for_seconds_in_a_row_close_with_1008(flooded: Flooded) -> None:
    for _ in range(EXCESS_S - 1):
        flooded.flood(PING * 4)
        flooded.wait()
    flooded.wire.written = b""
    flooded.flood(PING * 4)
    reason = (
        f"over {NO_OPS} pings, pongs, small fragments and commands without effect a second"
        f" for {EXCESS_S} s in a row"
    )
    assert flooded.wire.written.endswith(frame(8, b"\x03\xf0" + reason.encode(), mask=False))
    flooded.turn()
    assert flooded.messages == [{"type": "websocket.disconnect", "code": 1008, "reason": reason}]


def test_who_was_closed_is_not_checked_any_more_and_soon_cut_off(flooded: Flooded) -> None:
    flooded.protocol.budget.excess = "enough"
    flooded.protocol.data_received(PING)
    flooded.turns_until_read()
    taken = flooded.protocol.taken_count
    flooded.protocol.data_received(PING * 100)
    flooded.turn()
    assert flooded.protocol.taken_count == taken
    assert not flooded.wire.is_closed
    flooded.wait()
    assert flooded.wire.is_closed


def test_fragments_of_an_honest_size_are_no_no_ops(flooded: Flooded) -> None:
    part = b"x" * SMALL_FRAGMENT_BYTES
    flooded.protocol.data_received(frame(1, part, fin=False))
    for _ in range(4 * NO_OPS):
        flooded.turns_until_read()
        flooded.protocol.data_received(frame(0, part, fin=False))
    flooded.turns_until_read()
    flooded.protocol.data_received(frame(0, part))
    flooded.turns_until_read()
    (message,) = flooded.messages
    assert len(message["text"]) == (4 * NO_OPS + 2) * SMALL_FRAGMENT_BYTES


def test_a_message_of_too_many_fragments_is_closed_with_1008(harmless: Flooded) -> None:
    harmless.protocol.data_received(frame(1, b"", fin=False))
    for _ in range(FRAGMENTS_MAX - 1):
        harmless.turns_until_read()
        harmless.protocol.data_received(frame(0, b"", fin=False))
    harmless.turns_until_read()
    assert harmless.wire.written == b""
    harmless.protocol.data_received(frame(0, b"", fin=False))
    reason = b"a message must have at most %d fragments" % FRAGMENTS_MAX
    assert harmless.wire.written == frame(8, b"\x03\xf0" + reason, mask=False)


def test_who_keeps_sending_after_the_close_is_cut_off(harmless: Flooded) -> None:
    harmless.send(CLOSE)
    harmless.turn()
    part = frame(2, b"x" * 60_000)
    sent = 0
    while not harmless.wire.is_closed:
        assert sent <= LATE_BYTES_MAX
        harmless.turns_until_read()
        harmless.protocol.data_received(part)
        sent += len(part)
    assert sent > LATE_BYTES_MAX
