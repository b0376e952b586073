"""When a rule fires: a table of the corners, and any history against a slow, obvious reading."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqservice.alerts.models import AlertState
from mqservice.alerts.rule_status import RuleStatus, next_status

OK, FIRING = AlertState.OK, AlertState.FIRING
NOTHING = RuleStatus(OK, None)


@pytest.mark.parametrize(
    ("before", "is_breached", "for_ms", "after"),
    [
        (NOTHING, False, 0, NOTHING),
        (NOTHING, None, 0, NOTHING),
        (NOTHING, True, 0, RuleStatus(FIRING, 100)),
        (NOTHING, True, 1, RuleStatus(OK, 100)),
        (RuleStatus(OK, 90), True, 10, RuleStatus(FIRING, 90)),
        (RuleStatus(OK, 91), True, 10, RuleStatus(OK, 91)),
        (RuleStatus(OK, 90), None, 10, RuleStatus(OK, 90)),
        (RuleStatus(OK, 90), False, 10, NOTHING),
        (RuleStatus(FIRING, 5), None, 10, RuleStatus(FIRING, 5)),
        (RuleStatus(FIRING, 5), True, 1_000, RuleStatus(FIRING, 5)),  # it was lengthened meanwhile
        (RuleStatus(FIRING, 5), False, 10, NOTHING),
        (RuleStatus(OK, 500), True, 10, RuleStatus(OK, 100)),  # the clock was set back
    ],
)
def test_one_look(
    before: RuleStatus, is_breached: bool | None, for_ms: int, after: RuleStatus
) -> None:
    assert next_status(before, is_breached=is_breached, for_ms=for_ms, now_ms=100) == after


@given(
    looks=st.lists(st.tuples(st.integers(1, 50), st.sampled_from([True, False, None]))),
    for_ms=st.integers(0, 120),
)
def test_any_history_means_what_people_would_say(
    looks: list[tuple[int, bool | None]], for_ms: int
) -> None:
    """Firing: among the looks that knew something, the last ones were all breaches, and between the
    first of them and some look that found a breach lie ``for_ms`` at least.
    """
    standing, now_ms = NOTHING, 0
    known: list[tuple[int, bool]] = []
    changes = []
    for step_ms, is_breached in looks:
        now_ms += step_ms
        if is_breached is not None:
            known.append((now_ms, is_breached))
        before = standing
        standing = next_status(standing, is_breached=is_breached, for_ms=for_ms, now_ms=now_ms)
        breaches = []
        for at_ms, was_breached in reversed(known):
            if not was_breached:
                break
            breaches.append(at_ms)
        is_firing = bool(breaches) and breaches[0] - breaches[-1] >= for_ms
        assert (standing.state is FIRING) == is_firing
        assert standing.breached_since_ms == (breaches[-1] if breaches else None)
        if standing.state is not before.state:
            changes.append(standing.state)
    assert changes == [FIRING, OK] * (len(changes) // 2) + [FIRING] * (len(changes) % 2)
