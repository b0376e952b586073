"""How long a connection may be in each of its states; the table is in ``web.transport``."""

from __future__ import annotations

import msgspec

_SECOND_MS = 1_000
_MIB = 1024 * 1024


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Durations are milliseconds. Those of a body that nobody wants are nginx's ``lingering_time``
    and ``lingering_timeout``.
    """

    head_ms_max: int = 20 * _SECOND_MS
    # The application answers 408 itself after 30 s; this is for when it does not ask for the body.
    body_ms_max: int = 35 * _SECOND_MS
    handshake_ms_max: int = 20 * _SECOND_MS
    # A client that takes so long to read what is above the high-water mark of 64 KiB is given up.
    send_ms_max: int = 120 * _SECOND_MS
    # Of a body that comes after its answer: silence, all of the time, and bytes.
    unwanted_silence_ms_max: int = 5 * _SECOND_MS
    unwanted_ms_max: int = 30 * _SECOND_MS
    # As much as JSON makes of the largest message if each of its characters is escaped, and more.
    unwanted_bytes_max: int = 32 * _MIB
    closing_ms_max: int = 30 * _SECOND_MS
    # Connections that have shown no good key or session, of one web process.
    strangers_max: int = 4_000
    strangers_of_address_max: int = 1_000
