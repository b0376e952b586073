"""The short way of WebSocket frames: all is told, answered and ended as uvicorn alone would.

Only of pings that came together one is answered, the last.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from mqservice.web.web_sockets import WAITING_COUNT_MAX
from tests.mqservice.lib.connected import (
    ACCEPT,
    BYTES_MAX,
    PONG,
    Connected,
    PatientProtocol,
    frame,
)


@pytest.fixture
def connected() -> Iterator[Connected]:
    made = Connected(PatientProtocol)
    yield made
    made.close()


def with_bits(content: bytes, bits: int) -> bytes:
    """The frame with bits of extensions, or an opcode that nobody knows."""
    return bytes([content[0] | bits]) + content[1:]


contents = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=60).map(str.encode),
    st.sampled_from([125, 126, 65_535, 65_536, BYTES_MAX, BYTES_MAX + 1]).map(lambda n: b"x" * n),
)
rules_kept = st.one_of(
    st.builds(frame, st.sampled_from([1, 2]), contents),
    st.builds(frame, st.sampled_from([9, 10]), st.binary(max_size=125)),
)
rules_stretched = st.one_of(
    st.builds(frame, st.sampled_from([0, 1, 2]), contents, fin=st.booleans()),
    st.builds(frame, st.just(8), st.sampled_from([b"", b"\x03\xe8bye", b"\x03", b"\x00\x01"])),
)
rules_broken = st.one_of(
    st.builds(frame, st.sampled_from([1, 2]), contents, mask=st.just(False)),
    st.builds(with_bits, rules_kept, st.sampled_from([0x40, 0x20, 0x10, 0x04])),
)
some_frames = st.lists(st.one_of(rules_kept, rules_kept, rules_stretched, rules_broken), max_size=6)
CLOSE: Any = {"type": "websocket.close", "code": 4400, "reason": "enough"}


def cut(content: bytes, seed: int) -> list[bytes]:
    cutter = random.Random(seed)
    pieces, at = [], 0
    while at < len(content):
        size = cutter.choice([1, 2, 3, 7, 14, 100, 5_000, len(content)])
        pieces.append(content[at : at + size])
        at += size
    return pieces


def with_last_pongs(written: bytes) -> bytes:
    """Of pongs that follow each other only the last one."""
    frames: list[bytes] = []
    while written:
        head = {126: 4, 127: 10}.get(written[1] & 0x7F, 2)
        length = int.from_bytes(written[2:head]) if head > 2 else written[1]
        if frames and frames[-1][0] == written[0] == PONG:
            frames.pop()
        frames.append(written[: head + length])
        written = written[head + length :]
    return b"".join(frames)


def outcome(one: Connected, before: list[bytes], then: Any, after: list[bytes]) -> Any:
    """What the application and the client get of bytes before and after something is sent."""
    received = []
    for pieces, message in ((before, then), (after, None)):
        for piece in pieces:
            if not one.wire.is_closed:
                one.protocol.data_received(piece)
                received += one.received()
        if message is not None and not one.wire.is_closed:
            one.send(message)
            received += one.received()
    is_over = one.wire.is_closed or one.wire.is_paused
    one.close()
    frames = one.wire.written
    if frames.startswith(b"HTTP/1.1 101"):
        frames = frames.partition(b"\r\n\r\n")[2]
    return received, with_last_pongs(frames), is_over


@given(
    before=some_frames,
    then=st.sampled_from([None, CLOSE, {"type": "websocket.send", "bytes": b"x"}]),
    after=some_frames,
    garbage=st.binary(max_size=20),
    seed=st.integers(0, 1_000_000),
)
def test_all_comes_as_by_uvicorn_alone_however_it_is_cut(
    before: list[bytes], then: Any, after: list[bytes], garbage: bytes, seed: int
) -> None:
    # uvicorn alone forgets what stood before a broken frame in one read: it gets one by one.
    singly = [garbage[at : at + 1] for at in range(len(garbage))]
    expected = outcome(Connected(WebSocketsSansIOProtocol), before, then, after + singly)
    found = outcome(
        Connected(PatientProtocol),
        cut(b"".join(before), seed),
        then,
        cut(b"".join(after) + garbage, seed),
    )
    assert found == expected


@given(early=some_frames, seed=st.integers(0, 1_000_000))
def test_what_comes_before_the_handshake_is_answered_waits_for_it(
    early: list[bytes], seed: int
) -> None:
    expected = outcome(Connected(WebSocketsSansIOProtocol), early, None, [])
    one = Connected(PatientProtocol, is_accepted=False)
    for piece in cut(b"".join(early), seed):
        one.protocol.data_received(piece)
        assert one.wire.is_paused
    assert (one.received(), one.wire.written) == ([], b"")
    assert outcome(one, [], ACCEPT, []) == expected


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 300_000])
def test_messages_are_sent_as_by_uvicorn_alone(size: int) -> None:
    told = []
    for kind in (WebSocketsSansIOProtocol, PatientProtocol):
        one = Connected(kind)
        one.send({"type": "websocket.send", "bytes": b"x" * size})
        one.send({"type": "websocket.send", "text": "ü" * size})
        told.append(one.wire.written)
        one.close()
    assert told[1] == told[0]


def test_little_is_read_ahead_of_an_application_that_takes_nothing(connected: Connected) -> None:
    for _ in range(WAITING_COUNT_MAX):
        assert connected.wire.is_reading()
        connected.protocol.data_received(frame(2, b"x"))
    assert not connected.wire.is_reading()
    assert len(connected.received()) == WAITING_COUNT_MAX
    assert connected.wire.is_reading()
    connected.protocol.data_received(frame(2, b"x" * 20_000))
    assert not connected.wire.is_reading()


def test_a_large_frame_in_many_pieces_is_checked_when_it_is_whole(connected: Connected) -> None:
    content = frame(2, b"x" * 60_000)
    for at in range(len(content)):
        connected.protocol.data_received(content[at : at + 1])
    assert connected.received() == [{"type": "websocket.receive", "bytes": b"x" * 60_000}]


def test_nothing_is_sent_to_a_client_that_is_gone(connected: Connected) -> None:
    connected.protocol.disconnected = True  # as ``connection_lost`` says it
    with pytest.raises(ClientDisconnected):
        connected.send({"type": "websocket.send", "bytes": b"x"})
    assert connected.wire.written == b""


def test_a_client_that_reads_slowly_is_waited_for(connected: Connected) -> None:
    connected.protocol.pause_writing()
    sending = connected.loop.create_task(
        connected.protocol.send({"type": "websocket.send", "bytes": b"x"})
    )
    connected.loop.run_until_complete(asyncio.sleep(0))
    assert connected.wire.written == b""
    connected.protocol.resume_writing()
    connected.loop.run_until_complete(sending)
    assert connected.wire.written == frame(2, b"x", mask=False)
