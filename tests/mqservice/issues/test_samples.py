"""Reasons as they are kept beside their cause: short, and fit for PostgreSQL and for people."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mqservice.issues.samples import sample_of


@given(st.text(max_size=400) | st.lists(st.sampled_from(["a", "\n", "\0", "\t", " "])).map("".join))
def test_a_sample_is_short_and_fit_to_be_stored(reason: str) -> None:
    sample = sample_of(reason, 50)
    assert len(sample) <= 50
    assert all(char == "\n" or char.isprintable() for char in sample)
