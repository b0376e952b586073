"""Consecutive records of one segment as columns, built with numpy and never one by one.

    segment's bytes, positions of records ──▶ [Columns] ──▶ one array a field
                                                  └── topics, properties, bodies: when asked for

A record counts as whole here when its lengths add up and it says that it stands where it stands;
with ``check_crcs`` also when its CRC is right, which is the only thing that touches its body. One
of RocketMQ's without a CRC property is looked at alone then, see ``record.verify_uncovered``.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import Final

import numpy as np
from isal.isal_zlib import crc32
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from storage_engine.records.record import (
    BODY_LENGTH_AT,
    CRC_DIGITS,
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_HEAD,
    HOST_V4_BYTES,
    HOST_V6_BYTES,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTY_END,
    STORE_TIMESTAMP_AT,
    SYSFLAG_BORN_HOST_V6,
    SYSFLAG_STORE_HOST_V6,
)
from storage_engine.records.record_check import is_whole

Ints = NDArray[np.int64]
HEAD_BYTES: Final = BODY_LENGTH_AT + 4
_V6_MORE: Final = HOST_V6_BYTES - HOST_V4_BYTES
_V6: Final = SYSFLAG_BORN_HOST_V6 | SYSFLAG_STORE_HOST_V6
_RECONSUME_TIMES_AT: Final = 72
# What stands behind the born host is where it is here when both hosts are IPv4.
_HEAD: Final = np.dtype(
    {
        "names": [
            "record_bytes", "magic", "queue_id", "flag", "queue_offset", "physical_offset",
            "sysflag", "born_ms", "store_ms", "reconsume_times", "body_bytes",
        ],
        "formats": [
            ">u4", ">u4", ">i4", ">i4", ">i8", ">i8", ">u4", ">i8", ">i8", ">i4", ">u4",
        ],
        "offsets": [
            0, 4, 12, 16, 20, 28, 36, 40, STORE_TIMESTAMP_AT, _RECONSUME_TIMES_AT, BODY_LENGTH_AT,
        ],
        "itemsize": HEAD_BYTES,
    }
)  # fmt: skip
_DIGIT_VALUES: Final = 10 ** np.arange(CRC_DIGITS, dtype=np.int64)  # least significant first
_CRC_HEAD: Final = np.frombuffer(CRC_PROPERTY_HEAD, np.uint8)
_PAIR_END: Final = PROPERTY_END.encode()
_SHAPES_MAX: Final = 4
_CRC_END: Final = ord(PROPERTY_END)


@dataclass(frozen=True, slots=True)
class Texts:
    """Values of different lengths: value i is ``content[borders[i]:borders[i + 1]]``."""

    borders: NDArray[np.int32]
    content: bytes

    def __getitem__(self, index: int) -> bytes:
        return self.content[self.borders[index] : self.borders[index + 1]]


class Columns:
    """See the module's docstring. Row i of every array is record i, in log order.

    ``is_whole`` says of each row whether it is a whole record; the other columns of a row that is
    none mean nothing. ``select`` gives those that are.
    """

    def __init__(self, content: mmap.mmap | memoryview, positions: Ints, base_offset: int) -> None:
        self._content = content
        self._bytes = np.frombuffer(content, np.uint8)
        self._at = positions
        head = sliding_window_view(self._bytes, HEAD_BYTES)[positions].view(_HEAD)[:, 0]
        sysflag = head["sysflag"]
        self.record_bytes: Ints = head["record_bytes"].astype(np.int64)
        self.queue_id: NDArray[np.int32] = head["queue_id"].astype(np.int32)
        self.flag: NDArray[np.int32] = head["flag"].astype(np.int32)
        self.queue_offset: Ints = head["queue_offset"].astype(np.int64)
        self.physical_offset: Ints = head["physical_offset"].astype(np.int64)
        self.born_ms: Ints = head["born_ms"].astype(np.int64)
        self.store_ms: Ints = head["store_ms"].astype(np.int64)
        self.reconsume_times: NDArray[np.int32] = head["reconsume_times"].astype(np.int32)
        self.body_bytes: Ints = head["body_bytes"].astype(np.int64)
        more = self._read_v6(sysflag) if (sysflag & _V6).any() else np.int64(0)
        self._body_at: Ints = positions + HEAD_BYTES + more
        self._end: Ints = positions + self.record_bytes
        self._topic_at, self._topic_bytes, self._properties_at = self._places(head["magic"])
        self.is_whole: NDArray[np.bool_] = self._adds_up(head["magic"], base_offset)

    def __len__(self) -> int:
        return len(self._at)

    def _read_v6(self, sysflag: NDArray[np.uint32]) -> Ints:
        """Read again what an IPv6 host moves; how far each body has moved."""
        born_more = np.where(sysflag & SYSFLAG_BORN_HOST_V6, _V6_MORE, 0)
        more: Ints = born_more + np.where(sysflag & SYSFLAG_STORE_HOST_V6, _V6_MORE, 0)
        self.store_ms = self._read(self._at + STORE_TIMESTAMP_AT + born_more, ">i8")
        times = self._read(self._at + _RECONSUME_TIMES_AT + more, ">i4")
        self.reconsume_times = times.astype(np.int32)
        self.body_bytes = self._read(self._at + BODY_LENGTH_AT + more, ">u4")
        return more

    def _read(self, at: Ints, kind: str) -> Ints:
        """The integers at those positions; of those beyond the end, some other."""
        width = np.dtype(kind).itemsize
        at = np.minimum(at, len(self._bytes) - width)
        found: Ints = sliding_window_view(self._bytes, width)[at].view(kind)[:, 0].astype(np.int64)
        return found

    def _places(self, magic: NDArray[np.uint32]) -> tuple[Ints, Ints, Ints]:
        """Where each topic begins, how long it is, where the properties begin."""
        length_at = self._body_at + self.body_bytes
        topic_bytes = self._read(length_at, ">u1")
        topic_at = length_at + 1
        is_v2 = magic == MAGIC_V2
        if is_v2.any():
            topic_bytes = np.where(is_v2, self._read(length_at, ">u2"), topic_bytes)
            topic_at += is_v2
        return topic_at, topic_bytes, topic_at + topic_bytes + 2

    def _adds_up(self, magic: NDArray[np.uint32], base_offset: int) -> NDArray[np.bool_]:
        properties_bytes = self._read(self._properties_at - 2, ">u2")
        whole: NDArray[np.bool_] = (
            ((magic == MAGIC_V1) | (magic == MAGIC_V2))
            & (self._end <= len(self._bytes))
            & (self.physical_offset == base_offset + self._at)
            & (self._properties_at + properties_bytes == self._end)
        )
        return whole

    def check_crcs(self) -> None:
        """Take ``is_whole`` back where the CRC of a record is wrong; reads every byte of it."""
        rows = np.flatnonzero(self.is_whole)
        # A record without the CRC property may be shorter; whatever stands there then is none.
        crc_at = np.maximum(self._end[rows] - CRC_PROPERTY_BYTES, 0)
        view = memoryview(self._content)
        places = zip(self._at[rows].tolist(), crc_at.tolist(), strict=True)
        found = np.array([crc32(view[at:end]) for at, end in places], np.int64) & CRC_MASK
        stored = sliding_window_view(self._bytes, CRC_PROPERTY_BYTES)[crc_at]
        digits = stored[:, len(_CRC_HEAD) : -1].astype(np.int64) - ord("0")
        self.is_whole[rows] = (
            (stored[:, : len(_CRC_HEAD)] == _CRC_HEAD).all(axis=1)
            & ((digits >= 0) & (digits <= 9)).all(axis=1)
            & (digits @ _DIGIT_VALUES == found)
            & (stored[:, -1] == _CRC_END)
        )
        for row in rows[~self.is_whole[rows]].tolist():
            self.is_whole[row] = is_whole(
                view,
                int(self._at[row]),
                int(self.record_bytes[row]),
                int(self.physical_offset[row]),
            )

    def select(self, rows: NDArray[np.bool_] | slice) -> Columns:
        """The same columns of some rows only."""
        chosen = object.__new__(Columns)
        for name, value in vars(self).items():
            is_column = isinstance(value, np.ndarray) and name != "_bytes"
            setattr(chosen, name, value[rows] if is_column else value)
        return chosen

    def topics(self) -> tuple[NDArray[np.int32], list[str]]:
        """Of each record the index of its topic, and the topics' full names, each once."""
        view = memoryview(self._content)
        indexes: dict[bytes, int] = {}
        places = zip(
            self._topic_at.tolist(), (self._topic_at + self._topic_bytes).tolist(), strict=True
        )
        rows = [indexes.setdefault(bytes(view[at:end]), len(indexes)) for at, end in places]
        return np.array(rows, np.int32), [name.decode("utf-8", "replace") for name in indexes]

    def properties(self) -> Texts:
        """``name 0x01 value 0x02`` each, without the CRC at the end."""
        return self._texts(self._properties_at, self._properties_end())

    def _properties_end(self) -> Ints:
        """Where the CRC property begins; the end of a record that has none."""
        crc_at = self._end - CRC_PROPERTY_BYTES
        heads = sliding_window_view(self._bytes, len(_CRC_HEAD))[np.maximum(crc_at, 0)]
        has_crc = (heads == _CRC_HEAD).all(axis=1) & (crc_at >= self._properties_at)
        return np.where(has_crc, crc_at, self._end)

    def values(self, name: bytes, bytes_max: int) -> list[bytes | None]:
        """The value of one property of each record; None where it must be looked for.

        It is found where it stands as far behind the body as in one of the few first records that
        are different; nobody else's bytes are looked at. None too when it is longer than
        ``bytes_max``, or there is none.
        """
        mark = np.frombuffer(name + b"\x01", np.uint8)
        found = np.full(len(self), None, object)
        view = memoryview(self._content)
        left = np.flatnonzero(self.is_whole)
        window_bytes = 1 + len(mark) + bytes_max + 1
        left = left[self._end[left] + window_bytes <= len(self._bytes)]
        for _ in range(_SHAPES_MAX):
            if not len(left):
                break
            properties = bytes(view[self._properties_at[left[0]] : self._end[left[0]]])
            at = (_PAIR_END + properties).find(_PAIR_END + mark.tobytes())
            if at < 0:
                left = left[1:]
                continue
            windows = sliding_window_view(self._bytes, window_bytes)
            rows = windows[self._properties_at[left] + at - 1]
            is_there = (rows[:, 1 : 1 + len(mark)] == mark).all(axis=1)
            if at:  # else the length of all properties stands before it
                is_there &= rows[:, 0] == _PAIR_END[0]
            found[left[is_there]] = _ended(rows[is_there, 1 + len(mark) :])
            left = left[~is_there]
        texts: list[bytes | None] = found.tolist()
        return texts

    def bodies(self) -> Texts:
        return self._texts(self._body_at, self._body_at + self.body_bytes)

    def _texts(self, start: Ints, end: Ints) -> Texts:
        view = memoryview(self._content)
        borders = np.zeros(len(start) + 1, np.int64)
        np.cumsum(end - start, out=borders[1:])
        assert borders[-1] < 1 << 31, "a batch is bounded far below"
        places = zip(start.tolist(), end.tolist(), strict=True)
        content = b"".join([view[at:stop] for at, stop in places])
        return Texts(borders.astype(np.int32), content)


def _ended(rows: NDArray[np.uint8]) -> NDArray[np.object_]:
    """What stands in each row before the end of a pair; None where there is no end."""
    found = np.full(len(rows), None, object)
    left = np.arange(len(rows))
    for _ in range(_SHAPES_MAX):  # mostly they are of few kinds
        if not len(left):
            return found
        value, end, _ = rows[left[0]].tobytes().partition(_PAIR_END)
        kind = np.frombuffer(value + end, np.uint8)
        is_same = (rows[left, : len(kind)] == kind).all(axis=1)
        found[left[is_same]] = value if end else None
        left = left[~is_same]
    for row in left.tolist():
        value, end, _ = rows[row].tobytes().partition(_PAIR_END)
        found[row] = value if end else None
    return found
