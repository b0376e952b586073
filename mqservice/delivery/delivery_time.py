"""When a message is to be delivered, as producers give it: one of four fields, or none.

    delay_level 1 … 18 (more counts as 18)   delay "30s", delay_ms   deliver_at, RFC 3339
        └──────────────┴────────────────────────┴──▶ [read_wait] ─▶ Wait, or None: at once

Up to 365 days ahead. Invalid times are refused; they are never treated as "now". A ``deliver_at``
that is over means now, and so does a delay of 0: both are moments that have been reached.
"""

from __future__ import annotations

import re
from typing import Final

from mqservice.delivery.decoding import Fault
from mqservice.lib.durations import parse_duration_ms
from mqservice.lib.timestamps import parse_rfc3339, rfc3339
from mqservice.store import DELAY_MS_MAX, Wait

CODE: Final = "ILLEGAL_DELIVERY_TIME"
LEVEL_MAX: Final = (1 << 31) - 1  # RocketMQ's levels are Java ints
_FIELD: Final = re.compile(r"(?:/m)?(?:/\d+)?/(?:delay_level|delay_ms|delay|deliver_at)", re.ASCII)
_DAY_MS: Final = 86_400_000
_LONGEST: Final = f"at most {DELAY_MS_MAX // _DAY_MS} days ahead"
_SHOWN_CHARS_MAX: Final = 60
_NOW: Final = Wait(deliver_at_ms=1)  # a moment that is over
_DIGITS: Final = re.compile(r"-?[0-9]{1,40}", re.ASCII)


def read_wait(
    delay_level: int | None, delay: str | None, delay_ms: int | None, deliver_at: str | None
) -> Wait | None:
    """What the four fields say; None when none is given. Raises Fault."""
    if delay_level is None and delay is None and delay_ms is None and deliver_at is None:
        return None
    given = [
        name
        for name, value in (
            ("delay_level", delay_level),
            ("delay", delay),
            ("delay_ms", delay_ms),
            ("deliver_at", deliver_at),
        )
        if value is not None
    ]
    if len(given) > 1:
        raise _fault(given[1], f"give one of {' and '.join(given)}, not {len(given)} of them")
    if delay_level is not None:
        if not 1 <= delay_level <= LEVEL_MAX:
            raise _fault(
                "delay_level",
                f"a delay level must be 1 to 18 (higher ones count as 18), found {delay_level}",
            )
        return Wait(level=delay_level)
    if deliver_at is not None:
        try:
            at_ms = parse_rfc3339(deliver_at)
        except (ValueError, OverflowError):
            raise _fault(
                "deliver_at",
                "a delivery time must be in RFC 3339, such as "
                f"2026-12-01T08:00:00.000Z, found {_shown(deliver_at)}",
            ) from None
        return Wait(deliver_at_ms=max(at_ms, 1))
    name = "delay" if delay is not None else "delay_ms"
    if delay is not None:
        try:
            delay_ms = parse_duration_ms(delay)
        except ValueError:
            raise _fault(
                "delay",
                "a delay must be a whole number and a unit, such as 500ms, 30s, 15m, "
                f"12h or 7d, found {_shown(delay)}",
            ) from None
    assert delay_ms is not None
    if not 0 <= delay_ms <= DELAY_MS_MAX:
        found = _shown(str(delay or delay_ms))
        raise _fault(name, f"a delay must not be negative and must be {_LONGEST}, found {found}")
    return Wait(delay_ms=delay_ms) if delay_ms else _NOW


def check_not_too_far(wait: Wait, now_ms: int) -> None:
    """Raises Fault for a time that is too far ahead."""
    if wait.deliver_at_ms > now_ms + DELAY_MS_MAX:
        raise _fault(
            "deliver_at",
            f"a delivery time must be {_LONGEST}, which is "
            f"{rfc3339(now_ms + DELAY_MS_MAX)} now; found "
            f"{rfc3339(wait.deliver_at_ms)}",
        )


def is_in_future(wait: Wait, now_ms: int) -> bool:
    """False for a time that is over: such a message is delivered at once."""
    return not wait.deliver_at_ms or wait.deliver_at_ms > now_ms


def read_level_header(text: str) -> int:
    """The number in a header ``mq-delay-level``. Raises Fault."""
    if not _DIGITS.fullmatch(text):
        raise _fault(
            "delay_level", f"a delay level must be a number from 1 to 18, found {_shown(text)}"
        )
    return int(text)


def as_time_fault(fault: Fault) -> Fault:
    """The same fault of decoding; one in the fields of this module has their code."""
    if _FIELD.fullmatch(fault.pointer):
        return Fault(fault.pointer, CODE, fault.detail)
    return fault


def _fault(name: str, detail: str) -> Fault:
    return Fault(f"/{name}", CODE, detail)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "…")
