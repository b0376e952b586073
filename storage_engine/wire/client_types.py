"""Types that both clients of the engine accept and return, besides the structs of ``protocol``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from storage_engine.errors import StoreError
from storage_engine.records.record import Record
from storage_engine.records.record_columns import RecordColumns, columns_of
from storage_engine.records.record_run import decode_records
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
    put_inflight_bytes_max: int = 64 * MIB  # of each lane
    inflight_count_max: int = 100_000
    request_timeout_ms: int = 15_000  # a request that may park gets its own wait on top
    connect_timeout_ms: int = 2_000  # over a network
    # While an engine that another one may replace is away, calls wait instead of failing: so many,
    # so long each, and as long as the slowest takeover.
    hold_ms_max: int = 5_000
    hold_count_max: int = 10_000
    hold_bytes_max: int = 16 * MIB
    hold_outage_ms_max: int = 30_000
    reconnect_min_ms: int = 20
    reconnect_max_ms: int = 500
    sweep_interval_ms: int = 250
    # See ``silence.py``. With the sweep's interval on top, an engine that stops is noticed within
    # 2 s, and what was under way ends within 5 s.
    ping_after_ms: int = 500
    silent_after_ms: int = 1_500
    give_up_after_ms: int = 4_500


class PutResult(NamedTuple):
    """Where a record went. With ``error`` set it was refused and the rest means nothing.

    ``due_ms``: when it is delivered, if it waits and was sent with a delay instead of a time.
    """

    queue_offset: int
    physical_offset: int
    store_timestamp_ms: int
    error: StoreError | None = None
    due_ms: int = 0


def put_bytes_max(hello: HelloReply) -> int:
    """Bytes of records that fit one PUT frame of this engine."""
    return hello.frame_bytes_max - FRAME_HEAD_BYTES


class Received:
    """``count`` leased messages; ``head.attempts`` runs along ``records``.

    Those of a reply, ``content`` from ``at`` on, are decoded when somebody asks for them.
    """

    __slots__ = (
        "_at",
        "_body_sizes",
        "_columns",
        "_content",
        "_is_decoded",
        "_records",
        "count",
        "head",
    )

    def __init__(
        self,
        head: ReceiveHead,
        records: list[Record] | None = None,
        *,
        content: bytes = b"",
        at: int = 0,
    ) -> None:
        self.head = head
        self.count = len(head.attempts)
        self._records = records
        self._content = content
        self._at = at
        self._is_decoded = records is not None  # whether ``_columns`` are known
        self._columns: RecordColumns | None = None
        self._body_sizes: Sequence[int] | None = None

    @property
    def records(self) -> list[Record]:
        """Each message by itself."""
        if self._records is None:
            self._records = decode_records(self._content, self._at)
        return self._records

    @property
    def columns(self) -> RecordColumns | None:
        """The same by columns, if they are alike: see ``record_columns.py``."""
        if not self._is_decoded:
            self._is_decoded = True
            self._columns = columns_of(self._content, self._at, self.count)
        return self._columns

    @property
    def body_sizes(self) -> Sequence[int]:
        """Bytes of each body."""
        if self._body_sizes is None:
            columns = self.columns
            if columns is not None:
                self._body_sizes = columns.body_sizes
            else:
                self._body_sizes = [len(record.body) for record in self.records]
        return self._body_sizes
