"""The state of a rule after one more evaluation; pure.

    (state, since when breached) + (is it breached? now) ──▶ (state, since when breached)

Unknown is neither: it changes nothing, and a rule that waits to fire waits on.
"""

from __future__ import annotations

from dataclasses import dataclass

from mqservice.alerts.models import AlertState


@dataclass(frozen=True, slots=True)
class RuleStatus:
    """``breached_since_ms`` is None while the rule is not breached."""

    state: AlertState
    breached_since_ms: int | None


def next_status(
    before: RuleStatus, *, is_breached: bool | None, for_ms: int, now_ms: int
) -> RuleStatus:
    """How a rule stands now; fires once it was breached for ``for_ms`` without a pause."""
    if is_breached is None:
        return before
    if not is_breached:
        return RuleStatus(AlertState.OK, None)
    since_ms = now_ms if before.breached_since_ms is None else before.breached_since_ms
    if since_ms > now_ms:  # the clock was set back: what is left to wait is for_ms at most
        since_ms = now_ms
    if before.state is AlertState.FIRING or now_ms - since_ms >= for_ms:
        return RuleStatus(AlertState.FIRING, since_ms)
    return RuleStatus(AlertState.OK, since_ms)
