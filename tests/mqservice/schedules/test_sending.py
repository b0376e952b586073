"""Runs of schedules: sent once, caught up with or left out, refused, tried again, and charged."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_django import Settings

from mqservice.accounts.services import get_or_create_namespace, get_or_create_tenant
from mqservice.lib.names import MAIN_SHARD
from mqservice.lib.timestamps import rfc3339
from mqservice.quotas.models import QuotaRow, Source
from mqservice.quotas.usage import engine_usage
from mqservice.schedules.limits import CHUNK_RUNS, MISSED_MS, PAUSE_MS_MIN, REMEMBERED_MS
from mqservice.schedules.models import Schedule
from mqservice.schedules.quota_charges import Charges
from mqservice.schedules.runs import Run
from mqservice.schedules.sending import ANY_DUE, sweep
from mqservice.store import StoreMessage, TopicRef, blocking_client, encode_record
from mqservice.topics.models import Topic
from mqservice.usage.models import UsageHour
from tests.mqservice.asked import holds
from tests.mqservice.delivery.wait_until import wait_until
from tests.mqservice.schedules.conftest import HOUR_MS, MINUTE_MS, Desk, open_desk
from tests.people import People

NINE, TEN, ELEVEN = (f"2027-01-15T{hour}:00:00.000Z" for hour in ("09", "10", "11"))


def test_a_run_is_sent_at_its_time_and_not_before(desk: Desk) -> None:
    schedule = desk.make(tag="t", keys=["k1", "k2"], properties={"source": "cron"})
    desk.tick(HOUR_MS - 1)
    assert desk.stored() == []
    assert not holds(ANY_DUE, desk.clock.now_ms())
    assert holds(ANY_DUE, desk.clock.now_ms() + 1)
    desk.tick(1)
    [record] = desk.stored()
    assert (record.body, record.tag, record.keys) == (b"tick", "t", ["k1", "k2"])
    assert record.properties["source"] == "cron"
    assert record.properties["mq_schedule"] == "nightly"
    assert desk.planned() == [NINE]
    schedule.refresh_from_db()
    assert rfc3339(schedule.last_ms or 0) == NINE
    assert (schedule.last_message_id, schedule.last_error) == (record.message_id, "")
    assert rfc3339(schedule.next_ms or 0) == TEN
    desk.tick(HOUR_MS)
    assert desk.planned() == [NINE, TEN]


def test_more_than_a_chunk_goes_in_one_sweep(desk: Desk) -> None:
    for number in range(2 * CHUNK_RUNS + 1):
        desk.make(f"s{number}", body=b"%d" % number)
    desk.tick(HOUR_MS)
    assert len({record.body for record in desk.stored()}) == 2 * CHUNK_RUNS + 1
    desk.tick()
    assert len(desk.stored()) == 2 * CHUNK_RUNS + 1


def test_a_sweep_whose_time_is_over_leaves_the_rest_to_the_next_one(desk: Desk) -> None:
    for number in range(CHUNK_RUNS + 1):
        desk.make(f"s{number}")
    desk.clock.advance(HOUR_MS)
    assert sweep(desk.clock, by=desk.charges, turn_ms_max=0) == CHUNK_RUNS
    assert sweep(desk.clock, by=desk.charges, turn_ms_max=0) == 1
    assert len(desk.stored()) == CHUNK_RUNS + 1


def test_what_is_paused_is_not_sent(desk: Desk) -> None:
    schedule = desk.make(is_enabled=False)
    assert schedule.next_ms is None
    desk.tick(HOUR_MS)
    assert desk.stored() == []


def test_of_missed_times_the_latest_is_sent(desk: Desk) -> None:
    schedule = desk.make()
    desk.tick(3 * HOUR_MS + 20 * MINUTE_MS)
    assert desk.planned() == [ELEVEN]
    schedule.refresh_from_db()
    assert rfc3339(schedule.next_ms or 0) == "2027-01-15T12:00:00.000Z"
    desk.tick()
    assert desk.planned() == [ELEVEN]


def test_of_missed_times_none_is_sent_where_none_is_wanted(desk: Desk) -> None:
    schedule = desk.make(catch_up="none")
    desk.tick(3 * HOUR_MS + MISSED_MS)
    assert desk.stored() == []
    schedule.refresh_from_db()
    assert rfc3339(schedule.missed_ms or 0) == ELEVEN
    assert (schedule.last_ms, schedule.last_error) == (None, "")
    desk.tick(HOUR_MS - MISSED_MS)
    assert desk.planned() == ["2027-01-15T12:00:00.000Z"]


def test_less_than_a_minute_late_is_not_missed(desk: Desk) -> None:
    desk.make(catch_up="none")
    desk.tick(HOUR_MS + MISSED_MS - 1)
    assert desk.planned() == [NINE]


def test_every_minute_loses_none_to_a_sweep_that_is_late(desk: Desk) -> None:
    desk.make(cron="* * * * *")
    desk.tick(MINUTE_MS)
    desk.tick(2 * MINUTE_MS - 1)  # 8:02:59.999
    desk.tick(1)
    assert [text[11:16] for text in desk.planned()] == ["08:01", "08:02", "08:03"]


def test_a_topic_that_is_gone_shows_and_is_not_tried_again_and_again(desk: Desk) -> None:
    schedule = desk.make()
    Topic.objects.all().delete()
    desk.tick(HOUR_MS)
    schedule.refresh_from_db()
    assert schedule.last_error.startswith("TOPIC_NOT_FOUND: ticks does not exist")
    assert (rfc3339(schedule.last_ms or 0), schedule.last_message_id) == (NINE, "")
    assert rfc3339(schedule.due_ms or 0) == TEN
    assert schedule.due_ms == schedule.next_ms
    with blocking_client(MAIN_SHARD) as client:
        client.topic_delete(TopicRef(topic="acme%ticks"))
    desk.make_topic()
    desk.tick(HOUR_MS)
    schedule.refresh_from_db()
    assert schedule.last_error == ""
    assert desk.planned() == [TEN]


def test_a_topic_that_takes_no_such_message_any_more_shows(desk: Desk) -> None:
    schedule = desk.make(body=b"x" * 2_000)
    Topic.objects.update(body_bytes_max=1_000)
    desk.tick(HOUR_MS)
    schedule.refresh_from_db()
    assert schedule.last_error.startswith("BODY_TOO_LARGE")
    assert desk.stored() == []


def test_one_that_is_refused_holds_up_no_other(desk: Desk) -> None:
    desk.make("first", topic="nowhere")
    desk.make("second", body=b"second")
    desk.tick(HOUR_MS)
    assert [record.body for record in desk.stored()] == [b"second"]


def test_an_engine_that_is_unavailable_is_asked_again_after_a_growing_pause(
    desk: Desk, settings: Settings
) -> None:
    schedule = desk.make()
    there = settings.MQ_ENGINE_SOCKET
    settings.MQ_ENGINE_SOCKET = "/nowhere/engine.sock"
    pauses = []
    for later_ms in (HOUR_MS, PAUSE_MS_MIN, 2 * PAUSE_MS_MIN):
        desk.tick(later_ms)
        schedule.refresh_from_db()
        assert schedule.last_error.startswith("ENGINE_UNAVAILABLE")
        pauses.append((schedule.due_ms or 0) - desk.clock.now_ms())
    assert pauses == [PAUSE_MS_MIN, 2 * PAUSE_MS_MIN, 4 * PAUSE_MS_MIN]
    settings.MQ_ENGINE_SOCKET = there
    desk.tick(4 * PAUSE_MS_MIN - 1)
    assert desk.stored() == []
    desk.tick(1)
    assert desk.planned() == [NINE]
    schedule.refresh_from_db()
    assert (schedule.last_error, schedule.try_count) == ("", 0)
    assert rfc3339(schedule.next_ms or 0) == TEN


def test_an_engine_that_is_unavailable_is_waited_for_once_in_a_chunk(
    desk: Desk, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        desk.make(name)
    settings.MQ_ENGINE_SOCKET = "/nowhere/engine.sock"
    asked_count = 0
    take = Charges.charge

    def counted(*given: Any) -> None:  # Any: passed on as they come
        nonlocal asked_count
        asked_count += 1
        take(*given)

    monkeypatch.setattr(Charges, "charge", counted)
    desk.tick(HOUR_MS)
    assert asked_count == 1
    errors = set(Schedule.objects.values_list("last_error", flat=True))
    assert [error.partition(":")[0] for error in errors] == ["ENGINE_UNAVAILABLE"]


def test_storage_that_is_full_shows_and_is_tried_again_when_there_is_room(
    engine: str, people: People
) -> None:
    # Of other namespaces the engine may still count what tests before have left in the schedule.
    desk = open_desk(get_or_create_namespace(get_or_create_tenant("vault"), "vault"))
    schedule = desk.make()
    row = QuotaRow.objects.create(
        tenant=desk.namespace.tenant, source=Source.OPERATOR.value, storage_bytes_max=1
    )
    desk.make("other", cron="30 8 * * *")
    desk.tick(HOUR_MS - 30 * MINUTE_MS)  # the first byte is in: now it is full
    tenant_id = desk.namespace.tenant_id
    # The engine repeats its last count for a while.
    wait_until(lambda: engine_usage(tenant_id).stored_bytes > 0)
    desk.tick(HOUR_MS - 30 * MINUTE_MS)
    schedule.refresh_from_db()
    assert schedule.last_error.startswith("QUOTA_EXCEEDED: the tenant stores")
    assert (schedule.due_ms or 0) - desk.clock.now_ms() == PAUSE_MS_MIN
    assert len(desk.stored()) == 1
    row.delete()
    desk.tick(PAUSE_MS_MIN)
    assert [record.properties["mq_schedule"] for record in desk.stored()] == ["other", "nightly"]


def test_a_rate_is_charged(desk: Desk) -> None:
    QuotaRow.objects.create(
        tenant=desk.namespace.tenant, source=Source.OPERATOR.value, messages_in_per_second=1
    )
    schedules = [desk.make("a"), desk.make("b")]
    desk.tick(HOUR_MS)
    errors = []
    for schedule in schedules:
        schedule.refresh_from_db()
        errors.append(schedule.last_error.partition(":")[0])
    assert sorted(errors) == ["", "RATE_LIMITED"]
    desk.tick(PAUSE_MS_MIN)
    assert len(desk.stored()) == 2


def test_what_is_sent_counts_as_used(desk: Desk) -> None:
    desk.make()
    desk.tick(HOUR_MS)
    [row] = UsageHour.objects.filter(topic="ticks")
    assert row.messages_in == 1
    assert row.bytes_in > len(b"tick")


def test_a_late_run_whose_key_the_engine_has_forgotten_is_found_by_its_id(desk: Desk) -> None:
    """As after a machine that lost its power between the put and the commit, and came back late."""
    # Given what an earlier try has stored, without a key that the engine could know
    schedule = desk.make(cron="0 9 * * *")
    assert schedule.next_ms is not None
    message_id = Run(schedule=schedule, planned_ms=schedule.next_ms).message_id
    with blocking_client(MAIN_SHARD) as client:
        client.put(
            [
                encode_record(
                    StoreMessage(
                        topic="acme%ticks", queue_id=0, body=b"tick", tag=None, keys=[],
                        message_group=None, properties={}, born_timestamp_ms=1,
                        born_host=("127.0.0.1", 1), message_id=message_id,
                    )
                )
            ]
        )  # fmt: skip
    # When the run comes so late that no key of it can be relied upon
    desk.tick(HOUR_MS + REMEMBERED_MS)
    # Then nothing is stored besides, and the row knows the message
    assert [record.message_id for record in desk.stored()] == [message_id]
    schedule.refresh_from_db()
    assert (schedule.last_message_id, schedule.last_error) == (message_id, "")


@pytest.mark.parametrize("lateness_ms", [0, REMEMBERED_MS])
def test_a_message_that_was_changed_between_two_tries_is_not_sent_besides(
    desk: Desk, lateness_ms: int
) -> None:
    schedule = desk.make(cron="0 9 * * *")
    planned_ms = schedule.next_ms
    desk.tick(HOUR_MS)
    Schedule.objects.filter(pk=schedule.pk).update(
        next_ms=planned_ms, due_ms=planned_ms, body=b"other"
    )
    desk.tick(lateness_ms)
    assert [record.body for record in desk.stored()] == [b"tick"]
