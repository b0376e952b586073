"""Metrics of a namespace: the newest sample of each thing, nothing old, unknown or foreign."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from mqservice.accounts.models import Namespace
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import MINUTE_MS
from mqservice.lib.names import MAIN_SHARD
from mqservice.sampling import metrics
from mqservice.sampling.limits import FRESH_MS, SAMPLE_MS
from mqservice.sampling.metrics import NAMES, namespace_metrics
from mqservice.sampling.models import GroupSample, TopicSample
from mqservice.sampling.samples import take_samples
from mqservice.store import blocking_client
from tests.mqservice.tasks.desk import numbered, open_desk
from tests.people import People

Api = Callable[[str], Client]
Labels = tuple[tuple[str, str], ...]
NOW_MS = 1_900_000_000_000
OPERATIONS = Path(__file__).resolve().parents[3] / "docs" / "operations.md"


def read(text: bytes) -> dict[tuple[str, Labels], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def of(namespace: str, **labels: str) -> Labels:
    return tuple(sorted({"mq_namespace": namespace, **labels}.items()))


def group_sample(namespace: Namespace, at_ms: int, **columns: Any) -> None:
    # Any: whatever the columns hold
    given = {"group_name": "billing", "topic": "", "resolution_ms": SAMPLE_MS}
    given["known_count"] = int(columns.get("lag_last") is not None)
    GroupSample.objects.create(namespace=namespace, at_ms=at_ms, **{**given, **columns})


def test_the_newest_sample_of_each_thing_is_reported(people: People) -> None:
    for at_ms, lag in ((NOW_MS - 2 * SAMPLE_MS, 1), (NOW_MS - SAMPLE_MS, 7)):
        group_sample(
            people.acme, at_ms, lag_last=lag, lag_ms_max=1_500, inflight_max=2, member_last=3,
            dead_last=40, estimated_count=1,
        )  # fmt: skip
        group_sample(people.acme, at_ms, topic="orders", lag_last=lag - 1, lag_ms_max=60_000)
        TopicSample.objects.create(
            namespace=people.acme, topic="orders", resolution_ms=SAMPLE_MS, at_ms=at_ms,
            stored_last=100 * lag, readable_last=10,
        )  # fmt: skip
    whole, part = of("acme", group="billing"), of("acme", group="billing", topic="orders")
    assert read(namespace_metrics(people.acme, NOW_MS)) == {
        ("mq_group_lag_messages", whole): 7,
        ("mq_group_oldest_age_seconds", whole): 1.5,
        ("mq_group_inflight_messages", whole): 2,
        ("mq_group_members", whole): 3,
        ("mq_group_dead_letters_total", whole): 40,
        ("mq_group_lag_estimated", whole): 1,
        ("mq_group_topic_lag_messages", part): 6,
        ("mq_group_topic_lag_estimated", part): 0,
        ("mq_group_topic_oldest_age_seconds", part): 60,
        ("mq_topic_messages_total", of("acme", topic="orders")): 700,
        ("mq_topic_readable_messages", of("acme", topic="orders")): 10,
    }


def test_what_is_unknown_old_coarse_or_someone_elses_is_left_out(people: People) -> None:
    group_sample(people.acme, NOW_MS - SAMPLE_MS, lag_last=None, member_last=0)
    group_sample(people.acme, NOW_MS - FRESH_MS, group_name="old", lag_last=1)
    group_sample(people.acme, NOW_MS, group_name="coarse", lag_last=1, resolution_ms=MINUTE_MS)
    group_sample(people.rival, NOW_MS, group_name="secret", lag_last=1)
    found = read(namespace_metrics(people.acme, NOW_MS))
    assert found == {("mq_group_members", of("acme", group="billing")): 0}


def test_an_answer_has_so_many_rows_at_most(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "METRIC_ROWS_MAX", 2)
    for name in ("a", "b", "c"):
        group_sample(people.acme, NOW_MS, group_name=name, lag_last=1)
    told = [name for name, _ in read(namespace_metrics(people.acme, NOW_MS))]
    assert told.count("mq_group_lag_messages") == 2


def test_what_the_sampler_measured_is_what_a_viewer_scrapes(
    people: People, engine: str, api: Api
) -> None:
    desk = open_desk(people.acme)
    desk.give_up(*numbered(3))
    with blocking_client(MAIN_SHARD) as client:
        take_samples(client, SystemClock().now_ms())
    answer = api(people.acme_viewer_key).get("/v1/ns/acme/metrics")
    assert answer.status_code == 200
    assert answer["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = read(answer.content)
    group = of("acme", group=desk.group.name)
    assert found["mq_group_dead_letters_total", group] == 3
    assert found["mq_group_lag_messages", group] == 0
    assert found["mq_topic_messages_total", of("acme", topic=desk.topic.name)] == 3


def test_each_metric_stands_in_the_table_for_people() -> None:
    text = OPERATIONS.read_text()
    assert set(re.findall(r"^\| `(mq_(?:group|topic)_\w+)`", text, re.MULTILINE)) == NAMES
