"""Limits of masking rules, and of how much of a body is parsed to mask it."""

from __future__ import annotations

from typing import Final

from mqservice.lib.names import NAME_CHARS_MAX

KIB: Final = 1024
RULES_MAX: Final = 50  # of a namespace
PATTERN_CHARS_MAX: Final = NAME_CHARS_MAX + 1  # a name, or how names begin and a *
PATH_CHARS_MAX: Final = 256
STEPS_MAX: Final = 16  # of a path
# Of a larger body nothing is shown where a field of it is hidden: looking for it takes too long.
JSON_BYTES_MAX: Final = 256 * KIB
