"""STOMP frames out of streams that are cut anywhere."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from bench.measure import MeasureFailed
from bench.peers.stomp import StompFrame, StompParser, make_frame

STREAM = (
    b"CONNECTED\nversion:1.2\n\n\0"
    b"\n"  # a heart-beat
    b"MESSAGE\nack:a\\c1\ncontent-length:7\n\nx\0y\n\nz\0\0\n"
    b"MESSAGE\r\nack:2\r\ncontent-length:0\n\n\0"
    b"RECEIPT\nreceipt-id:r\n\nno length\0"
)


def _pieces(stream: bytes, seed: int) -> list[bytes]:
    random = Random(seed)
    edges = sorted({0, len(stream), *(random.randrange(len(stream)) for _ in range(seed % 40))})
    return [stream[start:end] for start, end in itertools.pairwise(edges)]


@pytest.mark.parametrize("seed", range(80))
def test_frames_are_whole_wherever_the_stream_is_cut(seed: int) -> None:
    parser = StompParser()

    frames = [frame for piece in _pieces(STREAM, seed) for frame in parser.feed(piece)]

    assert [frame.command for frame in frames] == [
        b"CONNECTED", b"MESSAGE", b"MESSAGE", b"RECEIPT",
    ]  # fmt: skip
    assert [frame.body for frame in frames] == [b"", b"x\0y\n\nz\0", b"", b"no length"]


def test_a_header_stays_as_it_came_and_another_one_s_end_is_not_it() -> None:
    frame = StompFrame(b"MESSAGE", b"\nx-ack:1\nack:a\\c1\nack:2", b"")

    assert frame.header(b"ack") == b"a\\c1"
    assert frame.header(b"receipt") == b""


def test_what_is_made_is_what_is_read() -> None:
    body = bytes(range(256))
    made = make_frame("SEND", {"destination": "/queue/a", "content-length": "256"}, body)

    (frame,) = StompParser().feed(made)

    assert (frame.command, frame.body) == (b"SEND", body)
    assert frame.header(b"destination") == b"/queue/a"


def test_an_error_frame_raises_its_message() -> None:
    with pytest.raises(MeasureFailed, match="no such queue"):
        StompParser().feed(b"ERROR\nmessage:no such queue\n\nmore\0")


def test_a_frame_longer_than_it_says_raises() -> None:
    with pytest.raises(MeasureFailed, match="NUL"):
        StompParser().feed(b"MESSAGE\ncontent-length:1\n\nab\0")
