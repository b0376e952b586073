"""Samples of a real engine, and their histories over REST."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from django.test import Client

from mqservice.alerts.evaluation import evaluate
from mqservice.alerts.models import AlertRule
from mqservice.alerts.values import read_values
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import DAY_MS, HOUR_MS, MINUTE_MS
from mqservice.lib.names import MAIN_SHARD
from mqservice.lib.timestamps import rfc3339
from mqservice.reports.lag_export import write_lag_samples
from mqservice.sampling import samples
from mqservice.sampling.history import rates_of
from mqservice.sampling.limits import SAMPLE_MS
from mqservice.sampling.metrics import namespace_metrics
from mqservice.sampling.models import (
    ConsumerOffsetStep,
    GroupSample,
    StoreSample,
    TopicSample,
)
from mqservice.sampling.samples import take_samples
from mqservice.sampling.tasks import sample
from mqservice.store import (
    GroupRef,
    GroupStats,
    LagIs,
    Nack,
    SettleRequest,
    StoreClient,
    StoreMessage,
    blocking_client,
    encode_record,
    new_message_id,
)
from mqservice.topics.models import Topic
from tests.mqservice.tasks.desk import Desk, numbered, open_desk
from tests.people import People

Api = Callable[[str], Client]


def now_ms() -> int:
    at_ms = SystemClock().now_ms()
    return at_ms - at_ms % SAMPLE_MS


def take(at_ms: int) -> None:
    with blocking_client(MAIN_SHARD) as client:
        take_samples(client, at_ms)


def whole(desk: Desk, topic: str = "") -> GroupSample:
    return GroupSample.objects.get(group_name=desk.group.name, topic=topic)


def test_lag_members_and_dead_letters_are_measured(desk: Desk) -> None:
    desk.give_up(*numbered(3))
    with blocking_client(MAIN_SHARD) as client:
        received = client.receive(desk._receive_request(desk.topic, wait_ms=0))
        assert not received.records
    desk_records(desk, 4)
    take(now_ms())
    on_topic, all_of_it = whole(desk, desk.topic.name), whole(desk)
    assert (on_topic.lag_last, on_topic.settled_last, on_topic.known_count) == (4, 3, 1)
    assert (on_topic.member_last, on_topic.dead_last) == (None, None)
    assert (all_of_it.lag_last, all_of_it.dead_last, all_of_it.member_last) == (4, 3, 1)
    assert all_of_it.lag_ms_max is not None
    topic = TopicSample.objects.get(topic=desk.topic.name)
    assert (topic.stored_last, topic.readable_last) == (7, 7)
    store = StoreSample.objects.get()
    assert store.disk_total_last is not None
    assert 0 < (store.disk_free_last or 0) <= store.disk_total_last


def test_messages_that_wait_for_a_retry_are_sampled_exported_and_fire_alerts(
    desk: Desk, acme: Client, tmp_path: Path
) -> None:
    rules = [
        AlertRule.objects.create(
            namespace=desk.namespace, name=kind, kind=kind, group_name=desk.group.name, threshold=1
        )
        for kind in ("lag", "oldest_age")
    ]
    desk_records(desk, 4)
    with blocking_client(MAIN_SHARD) as client:
        received = client.receive(desk._receive_request(desk.topic, wait_ms=5_000))
        nacks = [
            Nack(
                topic=record.topic, queue_id=record.queue_id, queue_offset=record.queue_offset,
                lease_generation=received.head.lease_generation, delay_ms=DAY_MS,
            )
            for record in received.records
        ]  # fmt: skip
        name = desk.group.engine_name
        client.settle(SettleRequest(group=name, nacks=nacks))
        while client.group_stats(GroupRef(group=name)).topics[0].retry_scheduled_count != 4:
            pass
    at_ms = now_ms() + SAMPLE_MS
    take(at_ms)

    for sampled in (whole(desk, desk.topic.name), whole(desk)):
        assert (sampled.lag_last, sampled.waiting_retry_last, sampled.inflight_max) == (4, 4, 0)
        assert (sampled.lag_ms_max or 0) > 0
    values = read_values(rules, at_ms + 1)
    assert values[rules[0].pk] == 4
    assert (values[rules[1].pk] or 0) >= 1
    evaluate(at_ms + 1)
    states = AlertRule.objects.filter(pk__in=values).values_list("state", flat=True)
    assert list(states) == ["firing", "firing"]
    metrics = namespace_metrics(desk.namespace, at_ms + 1).decode()
    assert f'mq_group_waiting_retry_messages{{group="{desk.group.name}"' in metrics
    # The night's report reads the same number.
    GroupSample.objects.update(resolution_ms=HOUR_MS)
    write_lag_samples(tmp_path / "lag.csv", at_ms - HOUR_MS, at_ms + HOUR_MS)
    with (tmp_path / "lag.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["topic"], row["lag"]) == (desk.topic.name, "4")


@pytest.mark.parametrize("lag_is", [LagIs.EXACT, LagIs.ESTIMATED])
def test_history_and_metrics_say_whether_a_lag_is_estimated(
    lag_is: LagIs, desk: Desk, acme: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk_records(desk, 4)
    with blocking_client(MAIN_SHARD) as client:
        client.receive(desk._receive_request(desk.topic, wait_ms=0))

        def measured(client: StoreClient, groups: list[GroupRef]) -> list[GroupStats]:
            found = [client.group_stats(group) for group in groups]
            return [
                msgspec.structs.replace(
                    stats,
                    topics=[msgspec.structs.replace(each, lag_is=lag_is) for each in stats.topics],
                )
                for stats in found
            ]

        monkeypatch.setattr(type(client), "group_stats_all", measured)
    at_ms = now_ms()
    take(at_ms)
    path = f"/v1/ns/acme/groups/{desk.group.name}/lag/history"
    window = f"from={rfc3339(at_ms)}&to={rfc3339(at_ms + SAMPLE_MS)}"
    for topic in ("", desk.topic.name):
        (point,) = acme.get(f"{path}?topic={topic}&{window}").json()["points"]
        assert (point["lag"], point["lag_is"]) == (4, lag_is)
    metrics = namespace_metrics(desk.namespace, at_ms + 1).decode()
    labels = f'{{group="{desk.group.name}",mq_namespace="acme"}}'
    assert f"mq_group_lag_estimated{labels} {float(lag_is is LagIs.ESTIMATED)}" in metrics


def desk_records(desk: Desk, count: int) -> None:
    with blocking_client(MAIN_SHARD) as client:
        client.put(
            [
                encode_record(
                    StoreMessage(
                        topic=desk.topic.engine_name, queue_id=0, body=b"x", tag=None, keys=[],
                        message_group=None, properties={}, born_timestamp_ms=1,
                        born_host=("127.0.0.1", 1), message_id=new_message_id(),
                    )
                )
                for _ in range(count)
            ]
        )  # fmt: skip


def test_lag_of_a_group_that_has_read_nothing_is_unknown(desk: Desk) -> None:
    take(now_ms())
    row = whole(desk)
    assert row.estimated_count == 0
    assert (row.known_count, row.lag_last, row.lag_ms_max) == (0, None, None)
    assert row.settled_last is None
    assert (row.member_last, row.dead_last) == (0, 0)


def test_what_the_engine_no_longer_has_is_left_out_and_the_others_are_measured(
    desk: Desk,
) -> None:
    ConsumerGroup.objects.create(namespace=desk.namespace, name="a-gone")
    Topic.objects.create(namespace=desk.namespace, name="a-gone")
    desk_records(desk, 4)
    desk.taken()
    take(now_ms())
    assert whole(desk).settled_last == 4
    assert {row.group_name for row in GroupSample.objects.all()} == {desk.group.name}
    assert {row.topic for row in TopicSample.objects.all()} == {desk.topic.name}


def test_a_second_round_for_the_same_moment_writes_nothing(desk: Desk) -> None:
    at_ms = now_ms()
    take(at_ms)
    desk_records(desk, 2)
    take(at_ms + SAMPLE_MS - 1)
    assert TopicSample.objects.get(topic=desk.topic.name).stored_last == 0
    take(at_ms + SAMPLE_MS)
    assert TopicSample.objects.filter(topic=desk.topic.name).count() == 2


def test_there_are_so_many_samples_at_most(
    desk: Desk, people: People, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    open_desk(people.acme)
    monkeypatch.setattr(samples, "SAMPLED_GROUPS_MAX", 1)
    monkeypatch.setattr(samples, "SAMPLED_TOPICS_MAX", 1)
    take(now_ms())
    assert GroupSample.objects.values("group_name").distinct().count() == 1
    assert TopicSample.objects.count() == 1
    assert "More topics or groups than can be sampled" in caplog.text


def test_nothing_is_sampled_while_the_engine_is_unavailable(db: None) -> None:
    sample()
    assert not StoreSample.objects.exists()


def test_a_rate_is_between_neighbours_and_unknown_over_gaps_and_resets() -> None:
    totals = [(0, 5), (10_000, 25), (20_000, 25), (30_000, 3), (40_000, None), (50_000, 9),
              (70_000, 19), (80_000, 20)]  # fmt: skip
    assert rates_of(totals, 10_000) == [None, 2.0, 0.0, None, None, None, None, 0.1]
    assert rates_of([], 10_000) == []


def test_histories_are_read_back_with_rates(desk: Desk, acme: Client) -> None:
    at_ms = now_ms()
    desk.give_up(*numbered(2))
    take(at_ms)
    desk.give_up(*numbered(10))
    take(at_ms + SAMPLE_MS)
    group, topic = desk.group.name, desk.topic.name
    window = f"from={rfc3339(at_ms - MINUTE_MS)}&to={rfc3339(at_ms + MINUTE_MS)}"
    lag = acme.get(f"/v1/ns/acme/groups/{group}/lag/history?topic={topic}&{window}").json()
    assert (lag["group"], lag["topic"], lag["resolution_ms"]) == (group, topic, SAMPLE_MS)
    assert [point["settled_per_s"] for point in lag["points"]] == [None, 1.0]
    assert [point["lag"] for point in lag["points"]] == [0, 0]
    assert lag["points"][0]["at"] == rfc3339(at_ms)
    whole_group = acme.get(f"/v1/ns/acme/groups/{group}/lag/history?{window}").json()
    assert [point["dead_letters"] for point in whole_group["points"]] == [2, 12]
    rate = acme.get(f"/v1/ns/acme/topics/{topic}/rate/history?{window}").json()
    assert [(point["stored"], point["stored_per_s"]) for point in rate["points"]] == [
        (2, None), (12, 1.0),
    ]  # fmt: skip


def test_the_resolution_follows_from_the_span(desk: Desk, acme: Client) -> None:
    path = f"/v1/ns/acme/topics/{desk.topic.name}/rate/history"
    for back_ms, resolution_ms in [
        (HOUR_MS, SAMPLE_MS), (2 * HOUR_MS, MINUTE_MS), (DAY_MS, MINUTE_MS), (2 * DAY_MS, HOUR_MS),
        (80 * DAY_MS, HOUR_MS),
    ]:  # fmt: skip
        at_ms = now_ms()  # a span that ends a sample later than it should is another one
        answer = acme.get(f"{path}?from={rfc3339(at_ms - back_ms)}").json()
        assert answer["resolution_ms"] == resolution_ms, back_ms
    # A short span of long ago is there in its coarse form only.
    long_ago = f"from={rfc3339(at_ms - 3 * DAY_MS)}&to={rfc3339(at_ms - 3 * DAY_MS + HOUR_MS)}"
    assert acme.get(f"{path}?{long_ago}").json()["resolution_ms"] == HOUR_MS


@pytest.mark.parametrize(
    "query",
    ["from=yesterday", "to=5", "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
     "from=2020-01-01T00:00:00Z"],
)  # fmt: skip
def test_a_bad_span_is_refused(desk: Desk, acme: Client, query: str) -> None:
    for path in (f"groups/{desk.group.name}/lag/history", f"topics/{desk.topic.name}/rate/history"):
        response = acme.get(f"/v1/ns/acme/{path}?{query}")
        assert (response.status_code, response.json()["code"]) == (400, "BAD_REQUEST")


def test_what_was_before_a_group_of_the_same_name_is_not_shown(desk: Desk, acme: Client) -> None:
    path = f"/v1/ns/acme/groups/{desk.group.name}/lag/history"
    take(now_ms() - 10 * SAMPLE_MS)
    take(now_ms())
    assert len(acme.get(path + f"?to={rfc3339(now_ms() + MINUTE_MS)}").json()["points"]) == 1


def test_steps_of_a_queue_are_shown_newest_first(desk: Desk, acme: Client) -> None:
    at_ms = now_ms() + HOUR_MS
    for number in range(3):
        ConsumerOffsetStep.objects.create(
            namespace=desk.namespace, group_name=desk.group.name, topic=desk.topic.name,
            queue_id=0, at_ms=at_ms + number, consumer_offset=number, reset_count=0,
        )  # fmt: skip
    path = f"/v1/ns/acme/groups/{desk.group.name}/offsets/history?topic={desk.topic.name}"
    answer = acme.get(f"{path}&limit=2").json()
    assert [step["consumer_offset"] for step in answer["steps"]] == [2, 1]
    assert acme.get(f"{path}&queue=1").json()["steps"] == []
    assert acme.get(f"{path}&queue=-1").status_code == 400


def test_histories_are_nobody_elses(desk: Desk, people: People, api: Api) -> None:
    group, topic = desk.group.name, desk.topic.name
    paths = [
        f"groups/{group}/lag/history", f"groups/{group}/offsets/history?topic={topic}",
        f"topics/{topic}/rate/history",
    ]  # fmt: skip
    for path in paths:
        assert api(people.rival_key).get(f"/v1/ns/acme/{path}").status_code == 404
        assert api(people.rival_key).get(f"/v1/ns/rival/{path}").status_code == 404
        assert api(people.acme_key).get(f"/v1/ns/acme/{path}").status_code == 200
    unknown = api(people.acme_key).get(f"/v1/ns/acme/groups/{group}/lag/history?topic=nothing")
    assert unknown.json()["code"] == "TOPIC_NOT_FOUND"
