"""How groups are doing, told from generated series of samples, and over REST."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import pytest
from django.test import Client

from mqservice.accounts.models import Namespace
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import HOUR_MS, MINUTE_MS
from mqservice.sampling.group_health import GroupHealth, conditions_of
from mqservice.sampling.limits import SAMPLE_MS
from mqservice.sampling.models import GroupSample
from tests.people import People

NOW_MS = 1_800_000_000_000
RATE = 10  # messages a sample
Series = Callable[[int], dict[str, int | None]]  # of how many samples ago


def flowing(back: int) -> dict[str, int | None]:
    """As much settled as produced; a few messages wait for a moment."""
    return {"lag": 3, "lag_ms": 400, "settled": 9_000 - RATE * back}


def idle(back: int) -> dict[str, int | None]:
    return {"lag": 0, "lag_ms": 0, "settled": 500, "members": 0}


def stuck(back: int) -> dict[str, int | None]:
    return {"lag": 2_000 - RATE * back, "lag_ms": HOUR_MS - SAMPLE_MS * back, "settled": 500}


def stuck_since_four_minutes(back: int) -> dict[str, int | None]:
    settled = 500 - RATE * max(0, back - 24)
    return {"lag": 40, "lag_ms": max(400, (24 - back) * SAMPLE_MS), "settled": settled}


def nothing_to_do_until_just_now(back: int) -> dict[str, int | None]:
    return {"lag": int(back == 0), "lag_ms": 200 if back == 0 else 0, "settled": 500}


def one_long_message(back: int) -> dict[str, int | None]:
    """In flight all the time, with nothing behind it."""
    return {"lag": 1, "lag_ms": HOUR_MS, "settled": 500, "inflight": 1}


def slower_than_producers(back: int) -> dict[str, int | None]:
    settled, lag = 9_000 - 4 * back, 3_000 - 6 * back
    return {"lag": lag, "lag_ms": 10 * MINUTE_MS - 4_000 * back, "settled": settled}


def slower_for_a_moment(back: int) -> dict[str, int | None]:
    """Behind by seconds only."""
    return {"lag": 300 - 6 * back, "lag_ms": 30_000 - 400 * back, "settled": 9_000 - 4 * back}


def catching_up(back: int) -> dict[str, int | None]:
    lag = 50_000 + 500 * back
    return {"lag": lag, "lag_ms": HOUR_MS + 1_000 * back, "settled": 90_000 - 600 * back}


def standing(back: int) -> dict[str, int | None]:
    """An hour behind, as it was before."""
    return {"lag": 50_000, "lag_ms": HOUR_MS, "settled": 90_000 - RATE * back}


def standing_but_young(back: int) -> dict[str, int | None]:
    """Reads in batches, always some two minutes behind."""
    return {"lag": 900, "lag_ms": 2 * MINUTE_MS, "settled": 90_000 - RATE * back}


def waiting_for_retries(back: int) -> dict[str, int | None]:
    return {"lag": 12, "lag_ms": HOUR_MS, "settled": 500, "retry": 12}


def abandoned(back: int) -> dict[str, int | None]:
    return {"lag": 7, "lag_ms": HOUR_MS, "settled": 500, "members": 0}


def moved_back(back: int) -> dict[str, int | None]:
    """To the beginning, a minute ago; the consumers read it all again."""
    if back > 6:
        return {"lag": 3, "lag_ms": 400, "settled": 9_000}
    return {"lag": 9_000, "lag_ms": 24 * HOUR_MS, "settled": 600 - 100 * back}


def not_to_be_told(back: int) -> dict[str, int | None]:
    return {"lag": None, "lag_ms": None, "settled": 500}


def nothing_read(back: int) -> dict[str, int | None]:
    return {"lag": None, "lag_ms": None, "settled": None}


def write_samples(
    namespace: Namespace, group: str, series: Series, now_ms: int, backs: Iterable[int]
) -> None:
    GroupSample.objects.bulk_create(
        GroupSample(
            namespace=namespace,
            group_name=group,
            topic="",
            resolution_ms=SAMPLE_MS,
            at_ms=now_ms - now_ms % SAMPLE_MS - SAMPLE_MS * back,
            known_count=1,
            lag_last=told["lag"],
            lag_ms_max=told["lag_ms"],
            inflight_max=told.get("inflight", 0),
            waiting_retry_last=told.get("retry", 0),
            settled_last=told["settled"],
            member_last=told.get("members", 2),
        )
        for back in backs
        for told in [series(back)]
    )


def make_group(namespace: Namespace, name: str, **settings: object) -> ConsumerGroup:
    group = ConsumerGroup.objects.create(namespace=namespace, name=name, **settings)
    ConsumerGroup.objects.filter(pk=group.pk).update(created_at=datetime(2026, 1, 1, tzinfo=UTC))
    return group


def health(
    people: People, series: Series, backs: Iterable[int] = range(61), **given: object
) -> str:
    make_group(people.acme, "billing", **given)
    write_samples(people.acme, "billing", series, NOW_MS, backs)
    (condition,) = conditions_of(people.acme, NOW_MS)
    return condition.health.value


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        (flowing, "healthy"),
        (idle, "healthy"),
        (stuck, "stalled"),
        (stuck_since_four_minutes, "healthy"),
        (nothing_to_do_until_just_now, "healthy"),
        (one_long_message, "stalled"),
        (slower_than_producers, "falling_behind"),
        (slower_for_a_moment, "healthy"),
        (catching_up, "healthy"),
        (standing, "falling_behind"),
        (standing_but_young, "healthy"),
        (waiting_for_retries, "healthy"),
        (abandoned, "no_members"),
        (moved_back, "healthy"),
        (not_to_be_told, "unknown"),
        (nothing_read, "new"),
    ],
)
def test_health_is_told_from_age_and_trend(people: People, series: Series, expected: str) -> None:
    assert health(people, series) == expected


def test_paused_group_is_paused_whatever_its_samples_say(people: People) -> None:
    assert health(people, stuck, is_paused=True) == "paused"


def test_group_without_a_young_sample_is_unknown(people: People) -> None:
    assert health(people, stuck, range(7, 61)) == "unknown"


@pytest.mark.parametrize("backs", [[0, 31], [2, 36], [0, 60], range(0, 61, 3)])
def test_missing_samples_do_not_hide_a_stalled_group(people: People, backs: list[int]) -> None:
    assert health(people, stuck, backs) == "stalled"


def test_group_is_not_called_stalled_before_it_could_be_known(people: People) -> None:
    assert health(people, stuck, range(29)) == "healthy"


def test_a_message_in_flight_within_a_long_lease_is_being_worked_on(people: People) -> None:
    assert health(people, one_long_message, lease_ms=HOUR_MS) == "healthy"


def test_samples_of_an_earlier_group_of_the_same_name_are_no_trend(people: People) -> None:
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    now_ms = SystemClock().now_ms() + MINUTE_MS
    write_samples(people.acme, "billing", stuck, now_ms, range(61))
    assert [each.health for each in conditions_of(people.acme, now_ms)] == [GroupHealth.HEALTHY]


def test_health_over_rest_is_of_one_namespace_and_can_be_narrowed(
    people: People, api: Callable[[str], Client]
) -> None:
    now_ms = SystemClock().now_ms()
    make_group(people.acme, "billing")
    make_group(people.acme, "mail")
    make_group(people.rival, "theirs")
    for namespace, name, series in (
        (people.acme, "billing", stuck), (people.acme, "mail", flowing),
        (people.rival, "theirs", stuck),
    ):  # fmt: skip
        write_samples(namespace, name, series, now_ms, range(61))
    client = api(people.acme_viewer_key)
    path = f"/v1/ns/{people.acme.name}/health"
    groups = client.get(path).json()["groups"]
    assert [(each["group"], each["health"], each["lag"]) for each in groups] == [
        ("billing", "stalled", 2_000), ("mail", "healthy", 3),
    ]  # fmt: skip
    (stalled,) = client.get(path, {"health": "stalled"}).json()["groups"]
    assert (stalled["group"], stalled["lag_ms"], stalled["members"]) == ("billing", HOUR_MS, 2)
    (one,) = client.get(path, {"group": "mail"}).json()["groups"]
    assert one["health"] == "healthy"
    assert client.get(path, {"group": "theirs"}).json()["code"] == "GROUP_NOT_FOUND"
    assert client.get(path, {"health": "fine"}).status_code == 400
