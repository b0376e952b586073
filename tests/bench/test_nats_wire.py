"""Lines and messages of NATS out of streams that are cut anywhere."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from bench.measure import MeasureFailed
from bench.peers.nats_wire import NatsMessage, NatsParser, make_publish

STREAM = (
    b'INFO {"version":"2.9.10"}\r\n'
    b"PING\r\n+OK\r\nPONG\r\n"
    b"MSG orders 2 5\r\nhello\r\n"
    b"MSG orders 2 $JS.ACK.x 4\r\nM\r\nG\r\n"
    b"HMSG _INBOX.1 3 21 21\r\nNATS/1.0 408 Done\r\n\r\n\r\n"
    b"HMSG orders 2 $JS.ACK.y 19 24\r\nNATS/1.0\r\nab: c\r\n\r\nhello\r\n"
    b"PING\r\n"
)


@pytest.mark.parametrize("seed", range(80))
def test_messages_are_whole_wherever_the_stream_is_cut(seed: int) -> None:
    random = Random(seed)
    edges = sorted({0, len(STREAM), *(random.randrange(len(STREAM)) for _ in range(seed % 40))})
    parser = NatsParser()

    messages = [
        message
        for start, end in itertools.pairwise(edges)
        for message in parser.feed(STREAM[start:end])
    ]

    assert [message.body for message in messages] == [b"hello", b"M\r\nG", b"", b"hello"]
    assert [message.reply for message in messages] == [b"", b"$JS.ACK.x", b"", b"$JS.ACK.y"]
    assert messages[2].head == b"NATS/1.0 408 Done\r\n\r\n"
    assert (parser.pings, parser.pongs) == (2, 1)


def test_what_is_published_has_the_size_of_its_body() -> None:
    assert make_publish(b"a", b"\r\n") == b"PUB a 2\r\n\r\n\r\n"
    assert make_publish(b"a", b"x", b"_INBOX.1") == b"PUB a _INBOX.1 1\r\nx\r\n"


@pytest.mark.parametrize("line", [b"-ERR 'Permissions Violation'\r\n", b"HTTP/1.1 400 Bad\r\n"])
def test_a_refusal_and_a_stranger_raise(line: bytes) -> None:
    with pytest.raises(MeasureFailed):
        NatsParser().feed(line)


def test_a_message_names_its_parts() -> None:
    (message,) = NatsParser().feed(b"MSG s 1 r 1\r\nb\r\n")

    assert message == NatsMessage(subject=b"s", reply=b"r", head=b"", body=b"b")
