"""Letters of one cause: which fit, and what may be asked for."""

from __future__ import annotations

from hypothesis import given

from mqservice.delivery.reading.same_cause import SameCause, requested_cause
from mqservice.store import cause_of
from tests.storage_engine.records.test_causes import REASONS


@given(REASONS, REASONS)
def test_reasons_fit_a_cause_if_they_have_it_and_only_then(reason: str, other: str) -> None:
    same = SameCause(cause_of(reason))
    assert same.matches(reason)
    assert same.matches(other) == (cause_of(other) == cause_of(reason))


def test_a_reason_asks_for_its_cause_and_a_word_for_none() -> None:
    assert (
        requested_cause("order 1 failed")
        == requested_cause("order <n> failed")
        == "order <n> failed"
    )
    assert requested_cause(" <none> ") == ""
