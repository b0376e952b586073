"""Frames cut anywhere, too large, of the wrong version, damaged, and with unknown content."""

from __future__ import annotations

import itertools
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_engine.errors import (
    ERRORS_BY_CODE,
    BadFrame,
    BadRequest,
    DiskFull,
    StoreError,
    error_from_code,
)
from storage_engine.wire.deliveries import ReceiveHead, ReceiveRequest
from storage_engine.wire.frames import (
    Frame,
    FrameDecoder,
    decode_error,
    decode_put_reply,
    encode_error,
    encode_frame,
    encode_put_reply,
    encode_records_frame,
    encode_struct,
)
from storage_engine.wire.operations import OPERATIONS, AnyOperation, Op
from storage_engine.wire.protocol import HelloRequest
from storage_engine.wire.reads import PullHead, PullStatus
from storage_engine.wire.topics import TopicConfig

LIMIT = 1_000


def test_golden_bytes_of_a_frame() -> None:
    assert encode_frame(Op.PUT, 0x01020304, b"abc") == bytes.fromhex(
        "0000000f"  # 12 bytes of head behind the length, 3 of payload
        "01"  # version
        "10"  # PUT
        "0000"  # status
        "01020304"  # request id
        "352441c2"  # CRC-32 of "abc"
        "616263"
    )


def test_golden_bytes_of_a_put_reply() -> None:
    assert encode_put_reply(1, [2, 3, -5, 0]) == bytes.fromhex(
        "000000000000000100000000000000020000000000000003fffffffffffffffb0000000000000000"
    )
    stored, refused = decode_put_reply(encode_put_reply(1, [2, 3, -5, 0]), 2)
    assert stored == (2, 3, 1, None, 0)
    assert refused.error is not None
    assert refused.error.code == 5


def test_numbers_of_the_protocol_never_change() -> None:
    assert {op.name: int(op) for op in OPERATIONS.values()} == {
        "HELLO": 1, "PING": 2, "CANCEL": 3, "CHALLENGE": 4,
        "PUT": 16, "PULL": 17, "RECEIVE": 18, "SETTLE": 19,
            "LOOK_UP": 20, "OFFSET_AT_TIME": 21, "OFFSET_COMMIT": 22, "OFFSET_RESET": 23,
            "LEAVE": 24, "SUBSCRIBE": 25, "GROUP_CLIENTS": 26, "NOTICE": 28,
        "SESSION_KEEP": 29, "SESSION_TAKE": 30, "SESSION_ABSENT": 31,
        "TOPIC_PUT": 32, "TOPIC_LIST": 33, "TOPIC_STATS": 34, "TOPIC_DELETE": 35,
        "TOPIC_PURGE": 36,
        "GROUP_PUT": 40, "GROUP_LIST": 41, "GROUP_STATS": 42, "GROUP_DELETE": 43,
        "GROUP_MEMBERS": 45, "TRACE": 46, "OFFSETS_CHANGED": 44, "OBSERVE": 47,
        "CHECKPOINT": 48, "STATS": 49, "SNAPSHOT": 50, "SNAPSHOT_RELEASE": 51,
        "PUT_ONCE": 52, "USE": 53, "KEY_TOPICS": 54, "REDRIVE": 56, "PURGE": 57, "DEAD_LETTERS": 58,
        "DELIVER_DUE": 60, "SCHEDULED_LIST": 61, "SCHEDULED_CANCEL": 62, "SCHEDULED_SEND_NOW": 63,
        "SCHEDULED_MOVE": 64,
        "NAMESPACE_HOLD": 70, "NAMESPACE_RELEASE": 71, "NAMESPACE_DROP": 72, "NAMESPACE_HOLDS": 73,
        "STORE_ADOPT": 74, "STORE_DISCARD": 75,
    }  # fmt: skip
    assert {cls.code: cls.__name__ for cls in ERRORS_BY_CODE.values()}.items() >= {
        1: "StoreUnavailable", 2: "OutcomeUnknown", 3: "BadFrame", 4: "BadRequest",
        5: "TopicNotFound", 6: "GroupNotFound", 7: "QueueNotFound", 8: "RecordRefused",
        9: "LeaseExpired", 10: "OffsetOutOfRange", 11: "StoreBusy", 12: "DiskFull",
        13: "SyncFailed", 14: "ShuttingDown", 15: "StoreInUse", 16: "StoreCorrupt",
        17: "Unauthenticated", 18: "ConfigInvalid", 19: "StoreReadOnly", 20: "CursorInvalid",
        21: "FilterInvalid", 22: "CommitRefused", 23: "SubscriptionConflict",
        26: "ClientLimit", 27: "BatchUnknown", 31: "WrongShard", 35: "OldMessagesUnavailable",
    }.items()  # fmt: skip


STREAM = encode_frame(1, 1, b"") + encode_frame(2, 2, b"x" * 50, 7) + encode_frame(3, 3, b"yz")
FRAMES = [Frame(1, 0, 1, b""), Frame(2, 7, 2, b"x" * 50), Frame(3, 0, 3, b"yz")]


def test_a_stream_cut_at_every_place_gives_the_same_frames() -> None:
    for cut in range(len(STREAM) + 1):
        decoder = FrameDecoder(LIMIT)
        assert decoder.feed(STREAM[:cut]) + decoder.feed(STREAM[cut:]) == FRAMES


def test_a_stream_fed_byte_by_byte_gives_the_same_frames() -> None:
    decoder = FrameDecoder(LIMIT)
    frames = [frame for at in range(len(STREAM)) for frame in decoder.feed(STREAM[at : at + 1])]
    assert frames == FRAMES


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(0, 500), max_size=12))
def test_any_cuts_give_the_same_frames(payloads: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(encode_frame(i, i, payload) for i, payload in enumerate(payloads))
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    decoder = FrameDecoder(LIMIT)
    frames = []
    for start, end in itertools.pairwise(places):
        frames += decoder.feed(stream[start:end])
    assert [frame.payload for frame in frames] == payloads


def test_a_frame_of_exactly_the_limit_is_taken_and_one_byte_more_is_not() -> None:
    fits = encode_frame(1, 1, bytes(LIMIT - 12))
    assert len(FrameDecoder(LIMIT).feed(fits)) == 1
    with pytest.raises(BadFrame, match="1001 bytes, at most 1000"):
        FrameDecoder(LIMIT).feed(encode_frame(1, 1, bytes(LIMIT - 11)))


@pytest.mark.parametrize("length", [0, 1, 11, 1_001, 0x7FFF_FFFF, 0xFFFF_FFFF])
def test_an_impossible_length_is_refused_before_anything_is_kept(length: int) -> None:
    head = length.to_bytes(4) + encode_frame(1, 1, b"")[4:]
    with pytest.raises(BadFrame):
        FrameDecoder(LIMIT).feed(head)


@pytest.mark.parametrize("version", [0, 2, 255])
def test_another_version_is_refused(version: int) -> None:
    frame = bytearray(encode_frame(1, 1, b"x"))
    frame[4] = version
    with pytest.raises(BadFrame, match=f"speaks version {version} of the protocol"):
        FrameDecoder(LIMIT).feed(bytes(frame))


def test_every_flipped_bit_of_a_payload_is_refused() -> None:
    frame = encode_frame(1, 1, b"payload")
    for bit in range(12 * 8, len(frame) * 8):
        damaged = bytearray(frame)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadFrame, match="CRC"):
            FrameDecoder(LIMIT).feed(bytes(damaged))


@given(st.binary(max_size=200))
def test_garbage_gives_frames_or_bad_frame(garbage: bytes) -> None:
    decoder = FrameDecoder(LIMIT)
    try:
        frames = decoder.feed(garbage)
    except BadFrame:
        return
    for frame in frames:
        assert zlib.crc32(frame.payload) == 0 or frame.payload in garbage


def test_a_payload_survives_the_chunk_it_came_in() -> None:
    chunk = bytearray(encode_frame(1, 1, b"abc"))
    (frame,) = FrameDecoder(LIMIT).feed(bytes(chunk))
    assert type(frame.payload) is bytes


@pytest.mark.parametrize(
    ("op", "payload"),
    [
        (Op.HELLO, b""),
        (Op.HELLO, b"\xc1"),
        (Op.HELLO, msgspec.msgpack.encode({})),
        (Op.HELLO, msgspec.msgpack.encode({"client": 7})),
        (Op.HELLO, msgspec.msgpack.encode({"client": "c", "more": 1})),
        (Op.TOPIC_PUT, msgspec.msgpack.encode({"topic": "t", "queue_count": "1"})),
        (Op.TOPIC_PUT, msgspec.msgpack.encode({"topic": "t", "queue_count": 1, "durability": "x"})),
        (Op.PING, b"\x91\x01"),
        (Op.STATS, encode_struct(HelloRequest(client="c")) + b"trailing"),
    ],
)
def test_a_request_that_is_none_is_a_bad_request(op: AnyOperation, payload: bytes) -> None:
    with pytest.raises(BadRequest, match=op.name):
        op.decode_request(payload)


def test_a_reply_that_is_none_is_a_bad_frame() -> None:
    with pytest.raises(BadFrame, match="SETTLE reply"):
        Op.SETTLE.decode_reply(b"\x80")


def test_requests_come_back_as_they_were() -> None:
    topic = TopicConfig(topic="n%t", queue_count=4)
    assert Op.TOPIC_PUT.decode_request(encode_struct(topic)) == topic
    receive = ReceiveRequest(
        group="g", topic="t", member_id="m", messages_max=1, bytes_max=2, wait_ms=3, lease_ms=4
    )
    assert Op.RECEIVE.decode_request(encode_struct(receive)) == receive


def test_each_number_is_of_one_operation() -> None:
    assert len(OPERATIONS) == len([each for each in vars(Op) if each.isupper()])


def test_errors_keep_their_kind_and_text_over_the_wire() -> None:
    for code, kind in ERRORS_BY_CODE.items():
        error = decode_error(code, encode_error(kind("what, where, 17")))
        assert type(error) is kind
        assert error.message == "what, where, 17"
    assert type(error_from_code(999, "later")) is StoreError
    assert type(decode_error(DiskFull.code, b"\xff")) is DiskFull


def test_records_replies_say_where_their_records_begin() -> None:
    head = ReceiveHead(lease_generation=1 << 62, lease_until_ms=5, attempts=[1, 2])
    payload = payload_of(Op.RECEIVE, encode_records_frame(Op.RECEIVE, 7, head, b"records"))
    decoded, at = Op.RECEIVE.decode_head(payload)
    assert (decoded, payload[at:]) == (head, b"records")
    pull = PullHead(status=PullStatus.FOUND, next_offset=1, min_offset=0, max_offset=2)
    payload = payload_of(Op.PULL, encode_records_frame(Op.PULL, 7, pull, b""))
    assert Op.PULL.decode_head(payload) == (pull, len(payload))


def payload_of(op: AnyOperation, pieces: tuple[bytes, bytes]) -> bytes:
    """What a client finds in a frame of request 7."""
    (frame,) = FrameDecoder(LIMIT).feed(b"".join(pieces))
    assert (frame.op, frame.status, frame.request_id) == (op, 0, 7)
    return frame.payload


def test_a_frame_that_only_claims_to_be_large_takes_no_memory() -> None:
    large = 16 * 1024 * 1024
    decoder = FrameDecoder(large)
    frame = encode_frame(1, 1, bytes(large - 12))

    assert decoder.feed(frame[:16]) == []
    assert len(decoder.space()) < 64 * 1024

    (whole,) = decoder.feed(frame[16:])
    assert len(whole.payload) == large - 12
    assert decoder.feed(encode_frame(1, 2, b"small")) != []
    assert len(decoder.space()) <= 512 * 1024


def test_batches_for_pushes_are_all_read_into_one_buffer() -> None:
    decoder = FrameDecoder(1024 * 1024)
    batch = encode_frame(1, 1, bytes(250 * 1_200))
    decoder.feed(batch)
    rooms = set()
    for _ in range(4):
        assert decoder.feed(batch[:280_000]) == []
        rooms.add(280_000 + len(decoder.space()))
        assert len(decoder.feed(batch[280_000:])) == 1
        rooms.add(len(decoder.space()))
    assert len(rooms) == 1
