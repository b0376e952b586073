"""The periodic tasks: what they write, and that an engine that is away does not fail them."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

import pytest
from django.utils import timezone
from pytest_django import Settings

from mqservice.celery import QUEUES, SCHEDULE, app
from mqservice.lib.names import MAIN_SHARD
from mqservice.monitoring import ticks
from mqservice.monitoring.heartbeats import TICK
from mqservice.monitoring.models import EngineSample, Heartbeat
from mqservice.monitoring.tasks import (
    checkpoint_engine,
    record_sample,
    record_worker_heartbeat,
    tick,
)
from mqservice.sampling.limits import OFFSET_STEP_MS, SAMPLE_MS
from mqservice.store import StoreClient, blocking_client


def test_checkpoint_reaches_the_engine(db: None, engine: str) -> None:
    checkpoint_engine()
    with blocking_client(MAIN_SHARD) as client:
        assert client.stats().uptime_ms >= 0


def test_checkpoint_is_let_go_while_the_engine_is_unavailable(db: None) -> None:
    checkpoint_engine()


def test_a_tick_is_noted_when_the_engine_has_taken_it(
    db: None, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticks, "_noted_ms", 0)
    tick()
    noted = Heartbeat.objects.get(process=TICK).beaten_at
    tick()  # at once: not written again
    assert Heartbeat.objects.get(process=TICK).beaten_at == noted


def test_a_tick_that_no_engine_takes_is_not_noted(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticks, "_noted_ms", 0)
    tick()
    assert not Heartbeat.objects.filter(process=TICK).exists()


@pytest.mark.parametrize(("tick_ms", "ahead_ms"), [(100, 200), (1_000, 2_000), (2_000, 3_000)])
def test_a_tick_lets_the_engine_deliver_until_one_more_could_get_lost(
    db: None, monkeypatch: pytest.MonkeyPatch, settings: Settings, tick_ms: int, ahead_ms: int
) -> None:
    class Client:
        def __init__(self) -> None:
            self.asked_ms: list[int] = []

        def deliver_due(self, ahead_ms: int = 0) -> None:
            self.asked_ms.append(ahead_ms)

    client = Client()
    settings.MQ_TICK_MS = tick_ms
    monkeypatch.setattr(ticks, "_noted_ms", 0)
    ticks.tick_engine(cast("StoreClient", client))
    assert client.asked_ms == [ahead_ms]


def test_heartbeat_is_one_row_that_moves(db: None) -> None:
    record_worker_heartbeat()
    first = Heartbeat.objects.get(process="worker")
    record_worker_heartbeat()
    second = Heartbeat.objects.get(process="worker")
    assert second.pk == first.pk
    assert second.beaten_at > first.beaten_at


def test_sample_holds_the_counters_of_the_engine(db: None, engine: str) -> None:
    record_sample()
    sample = EngineSample.objects.get()
    assert sample.is_up
    assert sample.put_count is not None
    assert sample.epoch is not None


def test_sample_of_an_engine_that_is_unavailable_knows_nothing(db: None) -> None:
    record_sample()
    sample = EngineSample.objects.get()
    assert not sample.is_up
    assert sample.put_count is None


def test_old_samples_are_dropped(db: None) -> None:
    for age in (timedelta(hours=25), timedelta(hours=23)):
        EngineSample.objects.create(sampled_at=timezone.now() - age, is_up=False)
    record_sample()
    assert EngineSample.objects.count() == 2


def test_each_task_of_the_schedule_exists_and_has_a_limit_and_a_queue() -> None:
    assert app.conf.beat_schedule
    for entry in app.conf.beat_schedule.values():
        app.loader.import_default_modules()
        task = app.tasks[entry["task"]]
        assert task.time_limit is not None
        assert task.soft_time_limit is not None
        assert task.soft_time_limit < task.time_limit
        assert entry["options"]["expires"] <= entry["schedule"]
        route = app.amqp.router.route({}, entry["task"])
        assert route["queue"].name in QUEUES


def test_measurements_are_taken_as_often_as_they_are_dated() -> None:
    assert SCHEDULE["sampling.take_samples"][1] * 1_000 == SAMPLE_MS
    assert SCHEDULE["sampling.save_offset_step"][1] * 1_000 == OFFSET_STEP_MS


def test_each_queue_gets_only_what_is_meant_for_it() -> None:
    queues = app.conf.task_queues
    assert {queue.name for queue in queues} == set(QUEUES)
    assert len({queue.routing_key for queue in queues}) == len(QUEUES)


def test_only_json_is_accepted_and_no_result_is_kept() -> None:
    assert app.conf.accept_content == ["json"]
    assert app.conf.task_ignore_result
    assert app.conf.worker_prefetch_multiplier == 1
    assert str(app.conf.timezone) == "UTC"
