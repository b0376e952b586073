"""Bugs by which failures are counted wrongly, told too often, or shown to others."""

from __future__ import annotations

from typing import Final

import msgspec

from tests.planted.plant import Plant, Real, Thing, planting

PLANTS: Final[list[Plant]] = []
planted: Final = planting("Issues", PLANTS)

_ISSUES: Final = "tests/mqservice/issues"
_RULES: Final = "tests/mqservice/alerts/test_issue_rules.py"


@planted(
    "mqservice.issues.scanning:_request",
    f"{_ISSUES}/test_scanning.py::test_letters_that_were_redriven_or_dropped_meanwhile_are_counted",
)
def redriven_letters_not_counted(real: Real, group: Thing, offset: Thing) -> Thing:
    return msgspec.structs.replace(real(group, offset), shows_gone=False)


@planted(
    "mqservice.issues.tallies:cause_of",
    f"{_ISSUES}/test_scanning.py::test_letters_with_one_cause_are_one_issue",
)
def an_issue_for_each_number(real: Real, reason: Thing) -> Thing:
    return reason


@planted(
    "mqservice.issues.recording:_room_for",
    f"{_ISSUES}/test_scanning.py::"
    "test_reasons_above_the_limit_are_counted_as_others_and_resolved_issues_make_room",
)
def unlimited_issues(real: Real, namespace: Thing, wanted: Thing) -> Thing:
    return wanted


@planted(
    "mqservice.issues.api:may_read",
    f"{_ISSUES}/test_issue_api.py::test_who_may_not_read_messages_sees_no_words_of_their_failures",
)
def words_of_failures_for_everybody(real: Real, principal: Thing, issue: Thing) -> Thing:
    return True


@planted(
    "mqservice.alerts.issue_rules:openings_after",
    f"{_RULES}::test_an_issue_that_opens_is_reported_once_and_its_further_letters_are_not",
)
def what_was_told_is_told_again(
    real: Real, namespace_id: Thing, number: Thing, *, group: Thing = "", topic: Thing = ""
) -> Thing:
    return real(namespace_id, 0, group=group, topic=topic)
