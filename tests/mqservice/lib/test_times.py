"""Durations and timestamps on the wire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqservice.lib.durations import format_duration_ms, parse_duration_ms, pick_duration_ms
from mqservice.lib.timestamps import parse_rfc3339, rfc3339

YEAR_2100_MS = 4_102_444_800_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [("0s", 0), ("500ms", 500), ("30s", 30_000), ("15m", 900_000), ("12h", 43_200_000),
     ("7d", 604_800_000)],
)  # fmt: skip
def test_duration_texts_mean_milliseconds(text: str, ms: int) -> None:
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize(
    "text", ["", "30", "s", "-1s", "1.5s", "30 s", "1w", "PT30S", "٣s", "1s\n"]
)
def test_other_duration_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration_ms(text)


@given(st.integers(0, 10**14))
def test_formatted_duration_is_read_back(ms: int) -> None:
    assert parse_duration_ms(format_duration_ms(ms)) == ms


def test_twin_fields_together_are_refused() -> None:
    with pytest.raises(ValueError, match="give only one of them"):
        pick_duration_ms("lease", "30s", 30_000, default_ms=1)


def test_twin_fields_take_text_or_milliseconds_or_the_default() -> None:
    assert pick_duration_ms("lease", "30s", None, default_ms=1) == 30_000
    assert pick_duration_ms("lease", None, 5, default_ms=1) == 5
    assert pick_duration_ms("lease", None, None, default_ms=1) == 1


def test_negative_milliseconds_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        pick_duration_ms("lease", None, -1, default_ms=1)


def test_moments_are_written_in_utc_with_milliseconds() -> None:
    assert rfc3339(1_795_251_600_123) == "2026-11-21T09:00:00.123Z"
    assert rfc3339(0) == "1970-01-01T00:00:00.000Z"


@given(st.integers(0, YEAR_2100_MS))
def test_written_moment_is_read_back(ms: int) -> None:
    assert parse_rfc3339(rfc3339(ms)) == ms


@pytest.mark.parametrize(
    "text",
    ["2026-11-21T09:00:00.123Z", "2026-11-21t09:00:00.123z", "2026-11-21T09:00:00.1239Z",
     "2026-11-21T10:00:00.123+01:00", "2026-11-21T03:30:00.123-05:30"],
)  # fmt: skip
def test_forms_of_one_moment_are_the_same(text: str) -> None:
    assert parse_rfc3339(text) == 1_795_251_600_123


@pytest.mark.parametrize(
    "text",
    ["", "2026-11-21", "2026-11-21T09:00:00", "2026-13-21T09:00:00Z", "2026-11-21T25:00:00Z",
     "20261121T090000Z", "2026-11-21 09:00:00Z", "tomorrow", "9999-12-31T23:59:59.999-00:01"],
)  # fmt: skip
def test_other_texts_are_no_moment(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - two sources with different words
        parse_rfc3339(text)


def test_the_last_moment_that_can_be_read_can_be_written() -> None:
    last = "9999-12-31T23:59:59.999Z"
    assert rfc3339(parse_rfc3339(last)) == last
