"""Small frames in, exact rows out."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import TYPE_CHECKING, Any

from analytics.days import Scope
from analytics.jobs import (
    consumer_lag_hourly,
    delivery_latency_daily,
    dlq_daily,
    key_skew_daily,
    storage_growth_daily,
)
from analytics.jobs.frames import Frames
from analytics.schemas import LAG_SAMPLES, MESSAGES, SETTLES, Kind
from tests.analytics.stores import DAY_MS, HOUR_MS, at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = dt.date(2026, 1, 5)
START_MS = at("2026-01-05T00:00+00:00")
SCOPE = Scope(DAY, dt.date(2026, 1, 7))
RETRY = "%RETRY%acme%billing"
Rows = list[dict[str, Any]]  # Any: values of columns
DOWN = "db down for <n> s"  # whatever the number


def frames(
    spark: SparkSession,
    messages: Rows | None = None,
    history: Rows | None = None,
    lag_samples: Rows | None = None,
    settles: Rows | None = None,
) -> Frames:
    """Columns that a test leaves out are null."""

    def frame(rows: Rows | None, schema: Any) -> Any:
        tuples = [tuple(row.get(name) for name in schema.names) for row in rows or ()]
        return spark.createDataFrame(tuples, schema)

    return Frames(
        messages=frame(messages, MESSAGES),
        history=frame(history, MESSAGES),
        lag_samples=frame(lag_samples, LAG_SAMPLES),
        settles=frame(settles, SETTLES),
    )


def stored(queue_offset: int, store_ms: int = START_MS, **more: Any) -> dict[str, Any]:
    """A message as it was produced; Any: values of columns."""
    return {
        "tenant": "acme", "kind": Kind.MESSAGE, "topic": "orders", "log_topic": "acme%orders",
        "queue_id": 0, "queue_offset": queue_offset, "physical_offset": queue_offset * 100,
        "record_bytes": 100, "body_bytes": 10, "born_ms": store_ms - 5, "store_ms": store_ms,
        "reconsume_times": 0, "is_produced": True, **more,
    }  # fmt: skip


def sample(minute: int, lag: int | None, **more: Any) -> dict[str, Any]:
    """Any: values of columns."""
    return {
        "sampled_at_ms": START_MS + minute * 60_000, "tenant": "acme", "group": "billing",
        "topic": "orders", "lag": lag, **more,
    }  # fmt: skip


def test_lag_keeps_unknown_apart_from_nothing(spark: SparkSession) -> None:
    samples = [
        # Going down by 600 a minute.
        *[sample(minute, 3_000 - 600 * minute, lag_ms=minute) for minute in range(3)],
        sample(3, None),
        # Up to date, in the next hour.
        sample(60, 0),
    ]

    rows = consumer_lag_hourly.transform(frames(spark, lag_samples=samples), SCOPE).collect()

    first, second = sorted(rows, key=lambda row: row.hour)
    assert (first.sample_count, first.unknown_count) == (4, 1)
    assert (first.lag_max, first.lag_last, first.lag_ms_max) == (3_000, 1_800, 2)
    assert first.over_threshold_ms == 3 * 60_000
    assert (round(first.trend_per_s, 6), round(first.drain_s, 6)) == (-10.0, 180.0)
    assert (second.sample_count, second.unknown_count, second.lag_max) == (1, 0, 0)
    assert second.drain_s is None


def test_lag_that_was_never_known_is_null(spark: SparkSession) -> None:
    found = frames(spark, lag_samples=[sample(minute, None) for minute in range(3)])
    (row,) = consumer_lag_hourly.transform(found, SCOPE).collect()
    assert (row.sample_count, row.unknown_count) == (3, 3)
    assert (row.lag_max, row.lag_p95, row.lag_last, row.trend_per_s) == (None,) * 4
    assert row.over_threshold_ms == 0


def span(what: str, first: int, end: int, after_s: float, before_s: float, **more: Any) -> Any:
    """Any: values of columns."""
    return {
        "tenant": "acme", "group": "billing", "topic": "orders", "queue_id": 0, "what": what,
        "from_offset": first, "to_offset": end, "after_ms": START_MS + round(after_s * 1_000),
        "before_ms": START_MS + round(before_s * 1_000), **more,
    }  # fmt: skip


def test_latency_is_of_messages_that_were_settled_in_the_range(spark: SparkSession) -> None:
    # Four are settled within ten seconds, one each 2.5 s; the last producer's clock is ahead.
    messages = [stored(1), stored(2), stored(3), stored(4, born_ms=START_MS + 50)]
    # Stored within its span, so that it cannot have been settled when its turn came.
    messages.append(stored(5, START_MS + 19_000))
    # The group has not come that far; nobody's; and one that was settled days later.
    messages += [stored(7), stored(1, queue_id=1), stored(6)]
    settles = [
        span("delivered", 0, 5, 0, 10),
        span("settled", 1, 5, 10, 20),
        span("settled", 5, 6, 10, 20),
        span("settled", 6, 7, 3 * 86_400, 3 * 86_400 + 10),
        # Another group is as fast as can be; it had nothing before.
        span("settled", 1, 5, 0, 0.1, group="audit"),
    ]

    rows = delivery_latency_daily.transform(frames(spark, messages, settles=settles), SCOPE)

    found = {row.group: row for row in rows.collect()}
    assert set(found) == {"billing", "audit"}
    row = found["billing"]
    assert (row.date, row.outcome, row.message_count) == (DAY, "settled", 5)
    assert row.uncertain_ms_max == 10_000
    assert (row.store_ms_p50, row.store_ms_max) == (5, 5)
    # Offsets 1 to 4 of 0 to 5 were delivered after 4, 6, 8 and 10 s; of 5 nobody knows.
    assert (row.wait_ms_p50, row.wait_ms_max) == (6_000, 10_000)
    # Settled after 12.5, 15, 17.5 and 20 s.
    assert (row.settle_ms_p50, row.settle_ms_max) == (9_000, 10_000)
    assert (row.total_ms_p50, row.total_ms_max) == (15_005, 20_000 - 50)
    fast = found["audit"]
    assert (fast.message_count, fast.uncertain_ms_max, fast.total_ms_max) == (4, 100, 80)
    assert (fast.wait_ms_p50, fast.settle_ms_max) == (None, None)


def test_latency_of_what_failed_is_reported_where_it_ended(spark: SparkSession) -> None:
    def moved(kind: str, offset: int, settles: int, at_s: int, log_topic: str, **more: Any) -> Any:
        return stored(
            offset, START_MS + 1_000 * at_s, kind=kind, group="billing", is_produced=False,
            born_ms=START_MS - 5, log_topic=log_topic, origin_message_id=f"M{settles % 10}",
            settles_queue_id=0, settles_queue_offset=settles % 10,
            settles_log_topic="acme%orders" if settles < 10 else RETRY, **more,
        )  # fmt: skip

    # 1 is acked at once, 2 at its second delivery, 3 is given up; all of them pass in their topic.
    messages = [stored(number, message_id=f"M{number}") for number in (1, 2, 3)]
    first = START_MS + 1_000
    messages += [
        moved(Kind.SCHEDULED, 70, 2, 2, "SCHEDULE_TOPIC_XXXX", first_delivered_ms=first),
        moved(Kind.DEAD_LETTER, 0, 3, 4, "%DLQ%acme%billing", first_delivered_ms=first),
    ]
    retry = moved(Kind.RETRY, 0, 2, 30, RETRY, first_delivered_ms=first)
    messages.append({**retry, "settles_log_topic": "SCHEDULE_TOPIC_XXXX"})
    settles = [
        span("settled", 0, 4, 0, 8),
        span("settled", 0, 1, 30, 40, topic="%RETRY%billing"),
        # Another group's retries are none of ours.
        span("settled", 0, 1, 50, 60, topic="%RETRY%audit", group="audit"),
    ]

    rows = delivery_latency_daily.transform(frames(spark, messages, settles=settles), SCOPE)

    found = {row.outcome: row for row in rows.collect()}
    assert set(found) == {"settled", "dead_lettered"}
    dead, settled = found["dead_lettered"], found["settled"]
    assert (dead.message_count, dead.uncertain_ms_max) == (1, 0)
    assert (dead.wait_ms_max, dead.settle_ms_max, dead.total_ms_max) == (1_000, 3_000, 4_005)
    assert (settled.message_count, settled.uncertain_ms_max) == (2, 10_000)
    assert (settled.total_ms_p50, settled.total_ms_max) == (4_005, 40_005)
    assert (settled.wait_ms_max, settled.settle_ms_max) == (1_000, 39_000)
    assert settled.store_ms_max == 5


def test_skew_names_the_frequent_keys_and_the_fullest_queue(spark: SparkSession) -> None:
    messages = [stored(i, message_group="big", keys=["a", "b"]) for i in range(6)]
    messages += [stored(i, message_group=f"small-{i}", queue_id=1) for i in range(2)]
    messages.append(stored(9, message_group="big", is_produced=False))  # a redrive

    rows = key_skew_daily.transform(frames(spark, messages), SCOPE).collect()

    found = {(row.key_kind, row["rank"]): row for row in rows}
    assert set(found) == {
        ("message_group", 1), ("message_group", 2), ("message_group", 3), ("key", 1), ("key", 2),
    }  # fmt: skip
    big = found["message_group", 1]
    assert (big.key, big.message_count, big.share, big.key_count) == ("big", 6, 0.75, 3)
    assert (big.queue_count, big.fullest_queue_share) == (2, 0.75)
    assert (found["key", 1].key, found["key", 2].key) == ("a", "b")


def test_growth_compares_each_day_with_the_one_before(spark: SparkSession) -> None:
    messages = [stored(0), stored(1), stored(2, START_MS + DAY_MS)]
    messages += [stored(0, START_MS + DAY_MS, topic="late", tenant=None)]

    rows = storage_growth_daily.transform(frames(spark, messages), SCOPE).collect()

    found = {(row.topic, row.date.day): row for row in rows}
    assert len(found) == 4
    assert found["orders", 5].stored_bytes == 200
    assert found["orders", 5].growth_ratio is None
    assert (found["orders", 6].stored_bytes_before, found["orders", 6].growth_ratio) == (200, 0.5)
    assert (found["late", 5].record_count, found["late", 6].record_count) == (0, 1)
    assert found["late", 6].growth_ratio is None


def test_growth_of_the_first_day_is_reported_by_the_report_of_the_day_before(
    spark: SparkSession,
) -> None:
    days = {day: [stored(0, START_MS + day * DAY_MS, topic=f"t{day}")] for day in (0, 1)}
    both = stored(1, topic="both"), stored(2, START_MS + DAY_MS, topic="both", record_bytes=300)
    nights = [Scope(DAY + dt.timedelta(days=day), DAY + dt.timedelta(days=day + 1)) for day in days]
    first = storage_growth_daily.transform(frames(spark, days[0] + [both[0]]), nights[0])
    second = dataclasses.replace(frames(spark, days[1] + [both[1]]), growth_before=first)

    rows = storage_growth_daily.transform(second, nights[1]).collect()

    found = {row.topic: (row.stored_bytes, row.stored_bytes_before) for row in rows}
    assert found == {"t0": (0, 100), "t1": (100, 0), "both": (300, 100)}
    assert {row.date for row in rows} == {nights[1].from_date}
    assert {row.topic: row.growth_ratio for row in rows} == {"t0": 0, "t1": None, "both": 3}


def test_a_cause_is_new_once_and_letters_tell_age_keys_and_redrives(spark: SparkSession) -> None:
    def letter(offset: int, day: int, reason: str | None, **more: Any) -> dict[str, Any]:
        stamp = START_MS + day * DAY_MS + HOUR_MS
        return stored(
            offset, stamp, kind=Kind.DEAD_LETTER, group="billing", reason=reason,
            log_topic="%DLQ%acme%billing", is_produced=False, reconsume_times=3,
            first_delivered_ms=stamp - 1_000 * (offset + 1), **more,
        )  # fmt: skip

    messages = [
        letter(0, 0, "db down for 30 s", keys=["k1", "k2"]),
        letter(1, 0, "db down for 31.5 s", keys=["k2"]),
        letter(2, 0, "bad json"),
        letter(3, 1, "db down for 7 s"),
        letter(4, 1, None),
        stored(7, START_MS + DAY_MS, is_produced=False, settles_log_topic="%DLQ%acme%billing",
               settles_queue_id=0, settles_queue_offset=1),
    ]  # fmt: skip
    history = [letter(90, -3, "bad  json\n")]

    rows = dlq_daily.transform(frames(spark, messages, history), SCOPE).collect()

    found = {(row.date.day, row.reason): row for row in rows}
    assert set(found) == {(5, DOWN), (5, "bad json"), (6, DOWN), (6, "")}
    down = found[5, DOWN]
    assert (down.message_count, down.attempts_max, down.redriven_count) == (2, 3, 1)
    assert (down.age_ms_p50, down.age_ms_max) == (1_000, 2_000)
    assert [tuple(pair) for pair in down.top_keys] == [("k2", 2), ("k1", 1)]
    assert down.is_new_reason
    assert not found[5, "bad json"].is_new_reason
    assert not found[6, DOWN].is_new_reason
    assert found[6, ""].is_new_reason
