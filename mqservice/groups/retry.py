"""A group's retry policy in the forms of the API, the engine and the row.

    {"policy": "list", "delays": ["10s", "1m"]} ──▶ [retry] ──▶ ListDelays ──▶ row, engine
                                                ◀── shown ◀──

The engine's form is what is stored, so that both read it with the same code.
"""

from __future__ import annotations

from typing import Final

import msgspec

from mqservice.groups.settings import Policy
from mqservice.lib.durations import format_duration_ms
from mqservice.lib.json_fields import Fields, shown
from mqservice.store import (
    DELAY_MS_MAX,
    RETRY_DELAY_COUNT_MAX,
    ExponentialDelays,
    LevelDelays,
    ListDelays,
    RetryPolicy,
)

FACTOR_MAX: Final = 1_000.0
StoredPolicy = dict[str, object]


def policy_of(stored: StoredPolicy) -> RetryPolicy:
    """What the row means."""
    policy: RetryPolicy = msgspec.convert(stored, RetryPolicy)
    return policy


def read_retry(fields: Fields) -> RetryPolicy | None:
    """The policy in the field ``retry``; None when it is left out, or has faults."""
    retry = fields.object("retry")
    if retry is None:
        return None
    fault_count = len(fields.faults)
    kind = retry.choice("policy", Policy)
    if kind is None:
        if len(fields.faults) == fault_count:
            retry.fault("policy", f"must be one of {', '.join(Policy)}")
        return None
    policy: RetryPolicy = LevelDelays()
    if kind is Policy.LIST:
        policy = ListDelays(delays_ms=_read_delays(retry))
    elif kind is Policy.EXPONENTIAL:
        policy = _read_exponential(retry)
    retry.reject_unknown()
    return None if len(fields.faults) > fault_count else policy


def _read_delays(retry: Fields) -> tuple[int, ...]:
    given = retry.pick_twin("delays")
    if given is None:
        if not (retry.find("delays") and retry.find("delays_ms")):
            retry.fault("delays", "a list policy needs delays or delays_ms")
        return ()
    values = retry.find(given)
    if not isinstance(values, list):
        retry.fault(given, f"must be a list, found {shown(values)}")
        return ()
    if not 1 <= len(values) <= RETRY_DELAY_COUNT_MAX:
        retry.out_of_range(
            given, f"must have 1 to {RETRY_DELAY_COUNT_MAX} delays, found {len(values)}"
        )
        return ()
    delays = [
        retry.checked_duration_ms(
            f"{given}/{at}", value, 1, DELAY_MS_MAX, is_text=given == "delays"
        )
        for at, value in enumerate(values)
    ]
    return tuple(delay_ms for delay_ms in delays if delay_ms is not None)


def _read_exponential(retry: Fields) -> ExponentialDelays:
    default = ExponentialDelays()
    start_ms = retry.duration_ms("start", 1, DELAY_MS_MAX) or default.start_ms
    factor = retry.number("factor", 1.0, FACTOR_MAX) or default.factor
    cap_ms = retry.duration_ms("cap", 1, DELAY_MS_MAX) or max(default.cap_ms, start_ms)
    if cap_ms < start_ms:
        place = "cap" if retry.find("cap") is not None else "cap_ms"
        retry.out_of_range(
            place, f"must not be less than start: cap is {cap_ms} ms, start is {start_ms} ms"
        )
    return ExponentialDelays(start_ms=start_ms, factor=factor, cap_ms=cap_ms)


def shown_retry(policy: RetryPolicy) -> dict[str, object]:
    """The policy as the API writes it; it can be sent back as it is."""
    match policy:
        case ListDelays():
            delays = [format_duration_ms(delay_ms) for delay_ms in policy.delays_ms]
            return {"policy": Policy.LIST, "delays": delays}
        case ExponentialDelays():
            return {
                "policy": Policy.EXPONENTIAL,
                "start": format_duration_ms(policy.start_ms),
                "factor": policy.factor,
                "cap": format_duration_ms(policy.cap_ms),
            }
        case _:
            return {"policy": Policy.LEVELS}
