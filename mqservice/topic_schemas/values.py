"""Values that readers make, and how those are written that JSON does not have.

Readers return None, bool, int, float, str, bytes, lists, dicts by text, and ``Figure``.
"""

from __future__ import annotations

import json
import struct
from datetime import UTC, date, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1)
_DECIMAL_BYTES_MAX: Final = 1_000  # Python writes no number of more than 4,300 digits
_FLOAT_DIGITS: Final = (6, 7, 8, 9)
_FLOAT: Final = struct.Struct("<f")


class Figure(str):
    """A value that is written without quotes: a time, a decimal, the name of a constant."""

    __slots__ = ()


def json_line(value: object) -> str:
    """A value as JSON in one line, bytes in hex."""
    return json.dumps(value, ensure_ascii=False, default=lambda each: bytes(each).hex(" "))


def float_of(four_bytes: bytes) -> float:
    """The shortest number that is these 32 bits: 0.1 and not 0.10000000149011612."""
    exact: float = _FLOAT.unpack(four_bytes)[0]
    for digits in _FLOAT_DIGITS:
        short = float(f"{exact:.{digits}g}")
        try:
            if _FLOAT.pack(short) == four_bytes:
                return short
        except OverflowError:  # rounded up beyond the largest
            continue
    return exact


def signed(value: int, bits: int) -> int:
    """The number that the lowest ``bits`` of ``value`` are in two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def unzigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def moment_text(value: int, digits: int, zone: str = "Z") -> Figure | int:
    """A time in units of 10**-digits seconds since 1970; as it is where no calendar has it."""
    seconds, fraction = divmod(value, 10**digits)
    try:
        at = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return value
    return Figure(f"{at.replace(tzinfo=None).isoformat()}.{fraction:0{digits}}{zone}")


def date_text(days: int) -> Figure | int:
    try:
        return Figure((_EPOCH_DAY + timedelta(days=days)).isoformat())
    except OverflowError:
        return days


def time_text(value: int, digits: int) -> Figure | int:
    """A time of day in units of 10**-digits seconds since midnight."""
    seconds, fraction = divmod(value, 10**digits)
    if not 0 <= seconds < 24 * 3600:
        return value
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return Figure(f"{hour:02}:{minute:02}:{second:02}.{fraction:0{digits}}")


def duration_text(seconds: int, nanos: int) -> Figure:
    """Seconds and billionths of both the same sign, as Protobuf has them: ``-1.500000000 s``."""
    sign = "-" if seconds < 0 or nanos < 0 else ""
    return Figure(f"{sign}{abs(seconds)}.{abs(nanos):09} s")


def decimal_text(unscaled: bytes, scale: int) -> Figure | bytes:
    """A decimal of Avro, with all its digits."""
    if len(unscaled) > _DECIMAL_BYTES_MAX:
        return unscaled
    number = int.from_bytes(unscaled, "big", signed=True)
    digits = f"{abs(number):0{scale + 1}}"
    sign = "-" if number < 0 else ""
    if not scale:
        return Figure(f"{sign}{digits}")
    return Figure(f"{sign}{digits[:-scale]}.{digits[-scale:]}")
