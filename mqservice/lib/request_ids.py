"""IDs that find a request in the logs: 26 characters, sortable by time."""

from __future__ import annotations

import os
import re
import time
from typing import Final

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_GIVEN: Final = re.compile(r"[A-Za-z0-9_-]{8,64}", re.ASCII)


def new_request_id() -> str:
    """48 bits of milliseconds, then 80 random bits, in Crockford's base 32."""
    number = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def accepted_request_id(given: str | None) -> str:
    """The caller's own id when it is harmless to log and send back, else a new one."""
    if given is not None and _GIVEN.fullmatch(given):
        return given
    return new_request_id()
