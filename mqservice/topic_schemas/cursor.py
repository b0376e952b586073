"""Where a reader is in a body: its bytes, its path, and how much more it may read.

    body ──▶ [Cursor] ── take, varint ──▶ reader ── enter(step) ──▶ reader of what is inside
                └── past the end, too deep, too much ──▶ Mismatch: path, byte, reason

Bodies are whatever a tenant wrote. Each value costs one of ``values_max``, also one that takes no
byte, so nothing that is read grows beyond that.
"""

from __future__ import annotations

from typing import Final

from mqservice.topic_schemas.limits import NESTING_MAX

_STEP_CHARS_MAX: Final = 40  # of a key of a map, where a path is shown
_VARINT_BYTES_MAX: Final = 10
_BITS_MAX: Final = 64


class Mismatch(Exception):
    """The body is not what the schema says; the text names the path and the byte."""


class Cursor:
    """One pass over one body."""

    def __init__(self, body: bytes, *, values_max: int, at: int = 0) -> None:
        self.at = at
        self.end = len(body)
        self._body = body
        self._values_max = values_max
        self._budget = iter(range(values_max))
        self._path: list[str] = []

    def inside(self, body: bytes, path: tuple[str, ...]) -> Cursor:
        """A pass over bytes that were the value at ``path``; both have one budget of values."""
        inner = Cursor(body, values_max=self._values_max)
        inner._budget = self._budget
        inner._path = list(path)
        return inner

    @property
    def is_at_end(self) -> bool:
        return self.at >= self.end

    def mismatch(self, reason: str, at: int | None = None) -> Mismatch:
        """What to raise; at ``at`` instead of the next byte."""
        path = "/" + "/".join(self._path)
        return Mismatch(f"{path}, byte {self.at if at is None else at}: {reason}")

    def count_value(self) -> None:
        """Raises Mismatch: there are too many."""
        if next(self._budget, None) is None:
            raise self.mismatch(f"more than {self._values_max:,} values")

    def enter(self, step: str) -> None:
        """A member, an item or a field is read next, up to ``leave``. Raises Mismatch: too deep."""
        shown = step if len(step) <= _STEP_CHARS_MAX else f"{step[:_STEP_CHARS_MAX]}…"
        if len(self._path) >= NESTING_MAX:
            raise self.mismatch(f"values are nested deeper than {NESTING_MAX} levels")
        self._path.append(shown)

    def leave(self) -> None:
        self._path.pop()

    def limit(self, size_bytes: int) -> int:
        """Only the next ``size_bytes`` are read, up to ``end = `` what is returned, the end before.
        Raises Mismatch: there are fewer.
        """
        self._require(size_bytes)
        before, self.end = self.end, self.at + size_bytes
        return before

    def take(self, size_bytes: int) -> bytes:
        self._require(size_bytes)
        start, self.at = self.at, self.at + size_bytes
        return self._body[start : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def varint(self) -> int:
        """Seven bits a byte, the lowest first: 0 to 2**64 - 1."""
        start, value = self.at, 0
        for index in range(_VARINT_BYTES_MAX):
            byte = self.byte()
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                break
        else:
            raise self.mismatch(f"a number is longer than {_VARINT_BYTES_MAX} bytes", start)
        if value >> _BITS_MAX:
            raise self.mismatch(f"a number has more than {_BITS_MAX} bits", start)
        return value

    def _require(self, size_bytes: int) -> None:
        left = self.end - self.at
        if size_bytes < 0:
            raise self.mismatch(f"a length must not be negative, found {size_bytes:,}")
        if size_bytes > left:
            raise self.mismatch(f"{size_bytes:,} bytes expected, {left:,} left")
