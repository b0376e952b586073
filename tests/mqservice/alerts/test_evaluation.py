"""Rules over samples: what each kind watches, and that each change is written once."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest
from django.db import connections

from mqservice.alerts.evaluation import CHUNK_RULES, evaluate
from mqservice.alerts.limits import EVENTS_RETAINED_MAX, EVENTS_RETAINED_MS, SAMPLE_MS_MAX
from mqservice.alerts.models import AlertEvent, AlertRule, Notification
from mqservice.alerts.retention import delete_old_events
from mqservice.alerts.settings import AlertKind
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.durations import DAY_MS, MINUTE_MS
from mqservice.sampling.limits import SAMPLE_MS
from mqservice.sampling.models import GroupSample, StoreSample
from tests.mqservice.alerts.conftest import NOW_MS, Measured, Rule
from tests.people import People, create_people

WAIT_S = 60


def states(rule: AlertRule) -> list[tuple[str, int | None]]:
    return list(rule.events.order_by("number").values_list("state", "value"))


def test_a_rule_fires_and_ends_once_each_and_tells_all_who_want_it(
    rule: Rule, measured: Measured
) -> None:
    slow = rule(emails=["a@x.example", "b@x.example"], webhook_url="https://hooks.example/")
    for index, lag in enumerate([99, 100, 500, 20, 99]):
        measured(NOW_MS + index * SAMPLE_MS, lag_last=lag)
        evaluate(NOW_MS + index * SAMPLE_MS)
        evaluate(NOW_MS + index * SAMPLE_MS + 1)
    assert states(slow) == [("firing", 100), ("ok", 20)]
    slow.refresh_from_db()
    assert (slow.state, slow.value, slow.change_count) == ("ok", 99, 2)
    told = Notification.objects.filter(event__number=1).values_list("channel", "target")
    assert sorted(told) == [
        ("email", "a@x.example"), ("email", "b@x.example"), ("webhook", "https://hooks.example/"),
    ]  # fmt: skip
    assert Notification.objects.count() == 6


def test_a_rule_waits_as_long_as_it_says(rule: Rule, measured: Measured) -> None:
    slow = rule(for_ms=2 * SAMPLE_MS)
    for index in range(3):
        measured(NOW_MS + index * SAMPLE_MS, lag_last=100)
        evaluate(NOW_MS + index * SAMPLE_MS)
        slow.refresh_from_db()
        assert slow.state == ("firing" if index == 2 else "ok")
    assert slow.breached_since_ms == NOW_MS


def test_what_nobody_knows_changes_nothing(rule: Rule, measured: Measured) -> None:
    slow = rule()
    evaluate(NOW_MS)  # never measured
    measured(NOW_MS, lag_last=100)
    evaluate(NOW_MS)
    evaluate(NOW_MS + SAMPLE_MS_MAX)  # too old now
    measured(NOW_MS + SAMPLE_MS_MAX, lag_last=None)
    evaluate(NOW_MS + SAMPLE_MS_MAX)
    slow.refresh_from_db()
    assert (slow.state, slow.value) == ("ok", None)
    assert states(slow) == []
    measured(NOW_MS + SAMPLE_MS_MAX + SAMPLE_MS, lag_last=100)
    evaluate(NOW_MS + SAMPLE_MS_MAX + SAMPLE_MS)
    assert states(slow) == [("firing", 100)]


@pytest.mark.parametrize(
    ("kind", "columns", "threshold", "value"),
    [
        (AlertKind.LAG, {"lag_last": 7}, 7, 7),
        (AlertKind.OLDEST_AGE, {"lag_ms_max": 60_000}, 60_000, 60_000),
        (AlertKind.NO_CONSUMER, {"member_last": 0}, 1, 1),
    ],
)
def test_each_kind_watches_its_column(
    rule: Rule,
    measured: Measured,
    kind: AlertKind,
    columns: dict[str, int],
    threshold: int,
    value: int,
) -> None:
    watching = rule(kind=kind, threshold=threshold)
    measured(**columns)
    evaluate(NOW_MS)
    assert states(watching) == [("firing", value)]


def test_a_consumer_that_comes_ends_the_alert(rule: Rule, measured: Measured) -> None:
    watching = rule(kind=AlertKind.NO_CONSUMER, threshold=1)
    measured(member_last=0)
    evaluate(NOW_MS)
    measured(NOW_MS + SAMPLE_MS, member_last=3)
    evaluate(NOW_MS + SAMPLE_MS)
    assert states(watching) == [("firing", 1), ("ok", 0)]


def test_dead_letters_are_counted_over_the_window(rule: Rule, measured: Measured) -> None:
    watching = rule(kind=AlertKind.DLQ_GROWTH, threshold=10, window_ms=5 * MINUTE_MS)
    measured(NOW_MS - 5 * MINUTE_MS - SAMPLE_MS, dead_last=1_000)
    measured(NOW_MS - 5 * MINUTE_MS, dead_last=1_001)
    measured(NOW_MS, dead_last=1_010)
    evaluate(NOW_MS)
    assert states(watching) == []
    measured(NOW_MS + 1_000, dead_last=1_011)
    evaluate(NOW_MS + 1_000)
    assert states(watching) == [("firing", 10)]


def test_a_group_measured_for_less_than_the_window_is_unknown_and_a_young_one_began_at_none(
    rule: Rule, measured: Measured, group: ConsumerGroup
) -> None:
    watching = rule(kind=AlertKind.DLQ_GROWTH, threshold=10)
    measured(NOW_MS, dead_last=1_000)
    evaluate(NOW_MS)
    watching.refresh_from_db()
    assert watching.value is None
    born_ms = NOW_MS - watching.window_ms + 2
    born = datetime.fromtimestamp(born_ms / 1_000, UTC)
    ConsumerGroup.objects.filter(pk=group.pk).update(created_at=born)
    evaluate(NOW_MS + 1)
    assert states(watching) == [("firing", 1_000)]


def test_the_disk_is_watched_in_percent(rule: Rule) -> None:
    watching = rule(kind=AlertKind.DISK, group_name="", threshold=80)
    for index, free in enumerate([21, 20, 30]):
        StoreSample.objects.create(
            broker="b", resolution_ms=SAMPLE_MS, at_ms=NOW_MS + index * SAMPLE_MS_MAX,
            disk_total_last=100, disk_free_last=free,
        )  # fmt: skip
        evaluate(NOW_MS + index * SAMPLE_MS_MAX)
    assert states(watching) == [("firing", 80), ("ok", 70)]


def test_a_topic_of_the_group_is_watched_for_itself(rule: Rule, measured: Measured) -> None:
    one = rule(topic="orders")
    measured(lag_last=5_000)
    measured(topic="orders", lag_last=99)
    measured(topic="other", lag_last=5_000)
    evaluate(NOW_MS)
    assert states(one) == []


def test_a_group_of_the_same_name_elsewhere_is_not_watched(
    rule: Rule, measured: Measured, people: People
) -> None:
    ours = rule()
    ConsumerGroup.objects.create(namespace=people.rival, name="billing")
    measured(namespace=people.rival, lag_last=5_000)
    evaluate(NOW_MS)
    assert states(ours) == []


def test_an_alert_of_a_deleted_group_ends(
    rule: Rule, measured: Measured, group: ConsumerGroup
) -> None:
    slow = rule()
    measured(lag_last=100)
    evaluate(NOW_MS)
    group.delete()
    evaluate(NOW_MS + 1)
    assert states(slow) == [("firing", 100), ("ok", 0)]


def test_a_rule_that_is_switched_off_is_not_checked(rule: Rule, measured: Measured) -> None:
    slow = rule(is_enabled=False)
    measured(lag_last=100)
    evaluate(NOW_MS)
    assert states(slow) == []


def test_a_clock_that_was_set_back_silences_nothing(rule: Rule, measured: Measured) -> None:
    slow = rule(evaluated_ms=NOW_MS + DAY_MS)
    measured(lag_last=100)
    evaluate(NOW_MS)
    assert states(slow) == [("firing", 100)]


def test_more_rules_than_one_transaction_takes(rule: Rule, measured: Measured) -> None:
    measured(lag_last=100)
    for number in range(CHUNK_RULES + 1):
        rule(name=f"slow{number}")
    assert evaluate(NOW_MS) == CHUNK_RULES + 1
    assert evaluate(NOW_MS) == 0


def test_old_events_and_the_oldest_of_too_many_go(rule: Rule) -> None:
    slow = rule(change_count=EVENTS_RETAINED_MAX + 3)
    for number, age_ms in [
        (1, 0),
        (3, 0),
        (4, 0),
        (5, EVENTS_RETAINED_MS + 1),
        (6, EVENTS_RETAINED_MS),
    ]:
        AlertEvent.objects.create(
            rule=slow, number=number, state="ok", at_ms=NOW_MS - age_ms, threshold=1
        )
    delete_old_events(NOW_MS)
    assert list(slow.events.order_by("number").values_list("number", flat=True)) == [4, 6]


@pytest.mark.django_db(transaction=True)
def test_workers_at_once_write_a_change_once() -> None:
    people = create_people()
    group = ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    rules = [
        AlertRule.objects.create(
            namespace=people.acme, name=f"slow{number}", kind="lag", group_name=group.name,
            threshold=1, webhook_url="https://hooks.example/",
        )
        for number in range(20)
    ]  # fmt: skip
    GroupSample.objects.create(
        namespace=people.acme, group_name="billing", topic="", resolution_ms=SAMPLE_MS,
        at_ms=NOW_MS, known_count=1, lag_last=5,
    )  # fmt: skip
    start = threading.Barrier(4)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            start.wait(WAIT_S)
            for look in range(5):
                evaluate(NOW_MS + look * 10 + number)
        except BaseException as exc:
            failures.append(exc)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert failures == []
    assert [states(each) for each in rules] == [[("firing", 5)]] * len(rules)
    assert Notification.objects.count() == len(rules)
