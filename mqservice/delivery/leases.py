"""The lease time that a request or a command gives."""

from __future__ import annotations

from mqservice.delivery.decoding import Fault
from mqservice.delivery.limits import LEASE_MS_MAX, LEASE_MS_MIN
from mqservice.lib.durations import pick_duration_ms


def lease_ms_of(pointer: str, text: str | None, ms: int | None, default_ms: int) -> int:
    """A lease out of its twin fields; Fault ILLEGAL_LEASE unless it is in the allowed range."""
    try:
        lease_ms = pick_duration_ms("lease", text, ms, default_ms=default_ms)
    except ValueError as exc:
        raise Fault(pointer, "ILLEGAL_LEASE", str(exc)) from exc
    check_lease(pointer, lease_ms)
    return lease_ms


def check_lease(pointer: str, lease_ms: int) -> None:
    """Raises Fault ILLEGAL_LEASE unless it is in the allowed range."""
    if not LEASE_MS_MIN <= lease_ms <= LEASE_MS_MAX:
        raise Fault(
            pointer,
            "ILLEGAL_LEASE",
            f"a lease must be {LEASE_MS_MIN} to {LEASE_MS_MAX} ms long, found {lease_ms}",
        )
