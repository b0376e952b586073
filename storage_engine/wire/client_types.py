"""What both clients of the engine take and give, beside the structs of ``protocol``."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from storage_engine.errors import StoreError, error_from_code
from storage_engine.records.record import Record
from storage_engine.wire.deliveries import ReceiveHead
from storage_engine.wire.protocol import FRAME_HEAD_BYTES, HelloReply

MIB: Final = 1024 * 1024


class ClientConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one client."""

    frame_bytes_max: int = 16 * MIB
    put_frame_bytes: int = MIB  # puts that travel together are cut into frames of this size
    # So much waits neither for the end of the tick nor for the reply to the frame before: the
    # engine works on it while the sender makes more.
    put_hold_bytes: int = 64 * 1024
    put_inflight_bytes_max: int = 64 * MIB
    inflight_count_max: int = 100_000
    request_timeout_ms: int = 15_000  # a request that may park gets its own wait on top
    reconnect_min_ms: int = 20
    reconnect_max_ms: int = 500
    sweep_interval_ms: int = 500


class PutResult(NamedTuple):
    """Where a record went. With ``error`` set it was refused and the rest means nothing."""

    queue_offset: int
    physical_offset: int
    store_timestamp_ms: int
    error: StoreError | None = None


def put_bytes_max(hello: HelloReply) -> int:
    """Bytes of records that fit one PUT frame of this engine."""
    return hello.frame_bytes_max - FRAME_HEAD_BYTES


def put_results(store_timestamp_ms: int, offsets: list[tuple[int, int]]) -> list[PutResult]:
    """Results of a PUT reply; a negative queue offset is the code of a refusal."""
    return [
        PutResult(queue_offset, physical_offset, store_timestamp_ms)
        if queue_offset >= 0
        else PutResult(-1, -1, 0, error_from_code(-queue_offset, "refused by the engine"))
        for queue_offset, physical_offset in offsets
    ]


class Received(NamedTuple):
    """Leased messages; ``head.attempts`` runs along ``records``."""

    head: ReceiveHead
    records: list[Record]
