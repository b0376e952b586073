"""Limits of a topic's schema, and of how much of a body is decoded by it."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
DEFINITION_BYTES_MAX: Final = 256 * KIB  # as it is sent: JSON, or the base64 of a descriptor set
NAME_CHARS_MAX: Final = 255  # of a type, field, symbol or message
NESTING_MAX: Final = 64  # of a definition, and of values in a body
DECODED_BYTES_MAX: Final = MIB  # a larger body is shown as bytes: a page waits for decoding
LINE_BYTES_MAX: Final = 4 * KIB  # of a body that is decoded for one line of a table
VALUES_MAX: Final = 2_000  # of a body, containers included: as many as a tree shows
DEFINITION_VALUES_MAX: Final = 40_000  # of a descriptor set: some 6,500 fields, read in 0.3 s
PARSED_SCHEMAS_MAX: Final = 16  # that a process keeps; some MiB each at most
