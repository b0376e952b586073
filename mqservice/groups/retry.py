"""A group's retry policy in the forms of the API, the engine and the row.

    {"policy": "list", "delays": ["10s", "1m"]} ──▶ [retry] ──▶ ListDelays ──▶ row, engine
                                                ◀── shown ◀──

The engine's form is what is stored, so that both read it with the same code.
"""

from __future__ import annotations

import msgspec

from mqservice.groups.settings import RETRY, Policy
from mqservice.lib.durations import format_duration_ms
from mqservice.lib.json_fields import Fields
from mqservice.store import ExponentialDelays, LevelDelays, ListDelays, RetryPolicy

StoredPolicy = dict[str, object]


def policy_of(stored: StoredPolicy) -> RetryPolicy:
    """What the row means."""
    policy: RetryPolicy = msgspec.convert(stored, RetryPolicy)
    return policy


def read_retry(fields: Fields) -> RetryPolicy | None:
    """The policy in the field ``retry``; None when it is left out, or has faults."""
    given = RETRY.read(fields)
    if given is None:
        return None
    if given["policy"] is Policy.LEVELS:
        return LevelDelays()
    if given["policy"] is Policy.LIST:
        if "delays" not in given:
            fields.fault("retry/delays", "is missing: a list policy needs delays or delays_ms")
            return None
        return ListDelays(delays_ms=tuple(given["delays"]))
    plain = ExponentialDelays()
    start_ms = given.get("start", plain.start_ms)
    cap_ms = given.get("cap", max(plain.cap_ms, start_ms))
    if cap_ms < start_ms:
        start, cap = format_duration_ms(start_ms), format_duration_ms(cap_ms)
        asked = fields.find("retry")
        name = "cap_ms" if isinstance(asked, dict) and "cap_ms" in asked else "cap"
        fields.out_of_range(f"retry/{name}", f"must not be less than start, {start}, found {cap}")
        return None
    factor = given.get("factor", plain.factor)
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
