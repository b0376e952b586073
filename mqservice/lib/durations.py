"""Durations as users write them: ``"30s"``, ``"15m"``, ``"7d"``, or an integer with suffix ``_ms``.

One rule for every field of the API: a field ``x`` takes the text, its twin ``x_ms`` takes whole
milliseconds, and giving both is refused.
"""

from __future__ import annotations

import re
from typing import Final

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

_UNITS_MS: Final = {"ms": 1, "s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
DURATION_PATTERN: Final = r"^[0-9]{1,15}(ms|s|m|h|d)$"  # in JSON Schema
_FORM: Final = re.compile(r"([0-9]{1,15})(ms|s|m|h|d)", re.ASCII)


def parse_duration_ms(text: str) -> int:
    """Milliseconds of ``text``.

    Raises:
        ValueError: not a whole number followed by ms, s, m, h or d.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a duration such as 500ms, 30s, 15m, 12h or 7d")
    return int(match[1]) * _UNITS_MS[match[2]]


def pick_duration_ms(name: str, text: str | None, ms: int | None, *, default_ms: int) -> int:
    """One duration out of the twin fields ``name`` and ``name_ms``.

    Raises:
        ValueError: both are given, the text has no such form, or the number is negative.
    """
    if text is not None and ms is not None:
        raise ValueError(f"{name} and {name}_ms mean the same; give only one of them")
    if text is not None:
        return parse_duration_ms(text)
    if ms is None:
        return default_ms
    if ms < 0:
        raise ValueError(f"{name}_ms must not be negative, found {ms}")
    return ms


def format_duration_ms(ms: int) -> str:
    """The shortest exact text: 60000 -> ``1m``, 259200000 -> ``3d``, 1500 -> ``1500ms``."""
    for unit in ("d", "h", "m", "s"):
        if ms and ms % _UNITS_MS[unit] == 0:
            return f"{ms // _UNITS_MS[unit]}{unit}"
    return f"{ms}ms"
