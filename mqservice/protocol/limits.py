"""Limits of the WebSocket that its frames state or that bound their lists."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

CREDIT_MSGS_DEFAULT: Final = 64
CREDIT_BYTES_DEFAULT: Final = 256 * KIB
CREDIT_MSGS_MAX: Final = 1_000
CREDIT_BYTES_MAX: Final = 8 * MIB
# The server refuses above ``FRAME_BYTES_MAX`` with 4413; above twice that the protocol library
# closes with 1009, before the frame is assembled.
FRAME_BYTES_MAX: Final = 4 * MIB
# A frame of many small commands is one large piece of work before any of them is answered.
FRAME_COMMANDS_MAX: Final = 1_000
# Lists of one command, refused while they are decoded; the limit of each command is lower.
LIST_COUNT_HARD_MAX: Final = 2_000
PING_MS: Final = 25_000
PONG_MS: Final = 10_000
