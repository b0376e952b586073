"""When an expression fires: what is refused, and the rules for clocks that are set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mqservice.schedules.cron import ALIASES, Cron, CronFault, parse_cron
from tests.sizes import sized

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
# Clocks here are set by an hour, by half of one, at midnight, never; one has left out a whole day.
ZONES = (
    "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "Africa/Cairo",
    "America/Santiago", "Asia/Shanghai", "Asia/Kathmandu", "Pacific/Apia", "UTC",
)  # fmt: skip
BEGIN_MS = 1_262_304_000_000  # 2010
END_MS = 1_893_456_000_000  # 2030


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000)


def walls(text: str, zone: str, after: str, count: int) -> list[str]:
    """What the clock there shows at the next times."""
    cron = parse_cron(text, zone)
    times = islice(cron.times_from(ms(after)), count)
    return [_at(at_ms, cron.zone).isoformat(timespec="minutes") for at_ms in times]


def _at(at_ms: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).astimezone(zone)


def test_a_fixed_time_that_the_clock_leaves_out_comes_once_right_after() -> None:
    assert walls("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00+01:00", 3) == [
        "2026-03-28T02:30+01:00", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00",
    ]  # fmt: skip
    assert walls("0,30 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00+01:00", 3) == [
        "2026-03-29T03:00+02:00", "2026-03-29T03:30+02:00", "2026-03-30T02:00+02:00",
    ]  # fmt: skip


def test_a_fixed_time_that_the_clock_shows_twice_comes_the_first_time() -> None:
    assert walls("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00+02:00", 2) == [
        "2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00",
    ]  # fmt: skip
    after_the_first = "2026-10-25T02:15+01:00"  # the clock shows 2:30 once more, a little later
    assert walls("30 2 * * *", "Europe/Berlin", after_the_first, 1) == ["2026-10-26T02:30+01:00"]


def test_an_interval_goes_by_what_the_clock_shows() -> None:
    assert walls("30 * * * *", "Europe/Berlin", "2026-10-25T01:00+02:00", 4) == [
        "2026-10-25T01:30+02:00", "2026-10-25T02:30+02:00",
        "2026-10-25T02:30+01:00", "2026-10-25T03:30+01:00",
    ]  # fmt: skip
    assert walls("*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00", 1) == [
        "2026-03-30T02:00+02:00"
    ]


def test_a_clock_that_is_set_by_half_an_hour_leaves_nothing_out() -> None:
    assert walls("*/20 2-3 * * *", "Australia/Lord_Howe", "2026-10-03T12:00+10:30", 4) == [
        "2026-10-04T02:40+11:00", "2026-10-04T03:00+11:00",
        "2026-10-04T03:20+11:00", "2026-10-04T03:40+11:00",
    ]  # fmt: skip


def test_the_day_that_samoa_left_out() -> None:
    assert walls("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00-10:00", 3) == [
        "2011-12-29T12:00-10:00", "2011-12-31T00:00+14:00", "2011-12-31T12:00+14:00",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("@daily", "2026-06-11T00:00+00:00"),
        ("@HOURLY", "2026-06-10T11:00+00:00"),
        ("0 9 * jul MON-fri", "2026-07-01T09:00+00:00"),
        ("0 9 * * 7", "2026-06-14T09:00+00:00"),
        ("0 9 L * *", "2026-06-30T09:00+00:00"),
        ("0 9 * * mon#1", "2026-07-06T09:00+00:00"),
        ("0 9 29 2 *", "2028-02-29T09:00+00:00"),
        ("0 9 1 * mon", "2026-06-15T09:00+00:00"),  # either day, as cron has it
    ],
)
def test_what_an_expression_means(text: str, first: str) -> None:
    assert walls(text, "UTC", "2026-06-10T10:00+00:00", 1) == [first]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must have five fields, found 0"),
        ("* * * *", "must have five fields, found 4"),
        ("*/5 * * * * *", "not have a field for seconds"),
        ("60 * * * *", "the minute (0 to 59)"),
        ("0 24 * * *", "the hour (0 to 23)"),
        ("0 0 32 * *", "the day (1 to 31"),
        ("0 0 1 13 *", "the month (1 to 12"),
        ("0 0 * * day", "the weekday (0 to 7"),
        ("*/0 * * * *", "the minute"),
        ("5-1 * * * *", "the minute"),
        ("0 0 31 4,6 *", "never fires"),
        ("0 0 30 feb *", "never fires"),
        ("@reboot", "must be one of @hourly"),
        ("CRON_TZ=UTC 0 9 * * *", "set it in time_zone"),
        ("1," * 60 + "1 * * * *", "must have at most 120 characters"),
    ],
)
def test_what_is_no_expression_is_reported_where_it_is_wrong(text: str, why: str) -> None:
    with pytest.raises(CronFault) as caught:
        parse_cron(text)
    assert why in str(caught.value)


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "europe/berlin", "../etc/passwd", "+02:00"])
def test_what_is_no_time_zone(name: str) -> None:
    with pytest.raises(CronFault, match="IANA time zone"):
        parse_cron("@daily", name)


@given(st.text(st.sampled_from("0159*/,-#LWMONJAF @²\x00ß"), max_size=40))
def test_any_text_is_an_expression_or_a_fault(text: str) -> None:
    try:
        cron = parse_cron(text)
    except CronFault:
        return
    assert cron.next_ms(BEGIN_MS) is not None


_minutes = st.sampled_from(["*", "*/15", "0", "30", "0,59", "10-20/5", "*/7"])
_hours = st.sampled_from(["*", "*/2", "0", "1", "2", "3", "1-3", "0,2", "23"])
_days = st.sampled_from(["* * *", "1 * *", "* * sun", "L * *", "29 2 *", "* 3,10 0", "* 4,9,11 *"])
_crons = st.builds(
    lambda minute, hour, day, zone: parse_cron(f"{minute} {hour} {day}", zone),
    _minutes, _hours, _days, st.sampled_from(ZONES),
)  # fmt: skip


def _near(zone: ZoneInfo) -> list[int]:
    """Moments about which the clocks there are set."""
    found = []
    for day_ms in range(BEGIN_MS, END_MS, DAY_MS):
        if _at(day_ms, zone).utcoffset() != _at(day_ms + DAY_MS, zone).utcoffset():
            found.append(day_ms)
    return found or [BEGIN_MS]


_NEAR = {zone: _near(ZoneInfo(zone)) for zone in ZONES}


@st.composite
def _cron_and_moment(draw: st.DrawFn) -> tuple[Cron, int]:
    cron = draw(_crons)
    if draw(st.booleans()):
        begin = draw(st.sampled_from(_NEAR[cron.zone.key]))
        return cron, begin + draw(st.integers(-DAY_MS, 2 * DAY_MS))
    return cron, draw(st.integers(BEGIN_MS, END_MS))


def _shows(cron: Cron, wall: datetime) -> bool:
    """Whether a clock that shows ``wall`` shows a minute of the expression; by UTC, which is never
    set.
    """
    utc = Cron(cron.expression, ZoneInfo("UTC"))
    at_ms = ms(wall.replace(tzinfo=UTC).isoformat())
    return utc.next_ms(at_ms - 1) == at_ms


@given(_cron_and_moment())
def test_times_grow_and_are_whole_minutes(drawn: tuple[Cron, int]) -> None:
    cron, after_ms = drawn
    times = list(islice(cron.times_from(after_ms), 5))
    assert len(times) == 5
    assert times[0] > after_ms
    assert all(b - a >= MINUTE_MS for a, b in pairwise(times))
    assert all(at_ms % MINUTE_MS == 0 for at_ms in times)


@given(_cron_and_moment())
def test_each_time_is_one_that_the_clock_shows_or_the_end_of_a_gap(
    drawn: tuple[Cron, int],
) -> None:
    cron, after_ms = drawn
    at_ms = cron.next_ms(after_ms)
    assert at_ms is not None
    now, before = _at(at_ms, cron.zone), _at(at_ms - MINUTE_MS, cron.zone)
    if _shows(cron, now.replace(tzinfo=None)):
        return
    gap = (now.utcoffset() or timedelta()) - (before.utcoffset() or timedelta())
    assert cron.is_fixed, "only fixed times are made up for"
    assert gap > timedelta(), "only where the clock was set forward"


@pytest.mark.sized
@settings(max_examples=sized(5, torture=200))  # each looks at 6,000 minutes
@given(_cron_and_moment())
@example((parse_cron("*/30 1 * 10 *", "Europe/Berlin"), ms("2025-10-26T02:15+02:00")))
@example((parse_cron("*/5 0 * * *", "America/Havana"), ms("2026-03-08T00:00-05:00")))
def test_nothing_is_left_out_within_three_days(drawn: tuple[Cron, int]) -> None:
    """Against looking at every minute, which knows no rule but the two of the docstring."""
    cron, after_ms = drawn
    first = after_ms - after_ms % MINUTE_MS + MINUTE_MS
    end = first + 3 * DAY_MS
    expected, shown_before = [], set()
    for at_ms in range(first - DAY_MS, end, MINUTE_MS):
        wall = _at(at_ms, cron.zone).replace(tzinfo=None)
        is_again = cron.is_fixed and wall in shown_before
        shown_before.add(wall)
        gap = _left_out(cron, at_ms)
        fires = (_fires(cron, wall) and not is_again) or (cron.is_fixed and gap)
        if fires and at_ms >= first:
            expected.append(at_ms)
    found = []
    for at_ms in cron.times_from(after_ms):
        if at_ms >= end:
            break
        found.append(at_ms)
    assert found == expected


def _fires(cron: Cron, wall: datetime) -> bool:
    minute, hour, *_ = cron.expression.split()
    if minute.isdigit() and wall.minute != int(minute):  # most, and cheaply
        return False
    if hour.isdigit() and wall.hour != int(hour):
        return False
    return _shows(cron, wall)


def _left_out(cron: Cron, at_ms: int) -> bool:
    """Whether the clock was set forward at that moment over a minute of the expression."""
    now, before = _at(at_ms, cron.zone), _at(at_ms - MINUTE_MS, cron.zone)
    wall = before.replace(tzinfo=None) + timedelta(minutes=1)
    end = now.replace(tzinfo=None)
    while wall < end:
        if _fires(cron, wall):
            return True
        wall += timedelta(minutes=1)
    return False


@given(_cron_and_moment(), st.integers(0, 400 * DAY_MS))
def test_the_last_time_is_the_one_with_none_after_it(
    drawn: tuple[Cron, int], later_ms: int
) -> None:
    cron, after_ms = drawn
    first_ms = cron.next_ms(after_ms)
    assert first_ms is not None
    until_ms = first_ms + later_ms
    last_ms = cron.last_ms(until_ms, first_ms=first_ms)
    assert first_ms <= last_ms <= until_ms
    following = cron.next_ms(last_ms)
    assert following is not None
    assert following > until_ms


def test_each_alias_is_an_expression() -> None:
    for alias, meant in ALIASES.items():
        assert parse_cron(alias) == parse_cron(meant)
