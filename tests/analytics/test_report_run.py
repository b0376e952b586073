"""Days into the lake and reports of them, compared with what the engine counted."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from analytics.dataset import Dataset
from analytics.days import Scope
from analytics.ingest import IngestOptions, ingest, messages_table
from analytics.report_run import JOBS, ReportRun, read_frames, run
from analytics.shards import MAIN_SHARD, Source
from analytics.source import find_extent
from tests.analytics.stores import (
    DAY_MS,
    HOUR_MS,
    LONG,
    ORDERS,
    at,
    counters,
    live_through_failures,
    make_topics,
    open_store,
    put_orders,
)
from tests.storage_engine.doubles import copy_store
from tests.storage_engine.independent_reader import read_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIRST = dt.date(2026, 1, 5)
DAY = dt.timedelta(days=1)
START_MS = at("2026-01-05T22:30+00:00")
LATER_MS = START_MS + 30 * DAY_MS
AGAIN = IngestOptions(again=True)


def source(store_dir: Path) -> Source:
    return Source(store=str(store_dir))


def offsets(spark: SparkSession, lake: Path, *dates: dt.date) -> list[int]:
    rows = (
        messages_table(spark, str(lake), MAIN_SHARD)
        .read(list(dates))
        .select("physical_offset")
        .collect()
    )
    return sorted(row[0] for row in rows)


@pytest.mark.torture
async def test_a_chaotic_store_is_counted_exactly_and_a_second_run_changes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    async with open_store(tmp_path / "s", START_MS) as store:
        make_topics(store)
        await live_through_failures(store, redriven_offset=1)
        store.clock.advance(3 * HOUR_MS)  # over midnight, with empty hours
        await put_orders(store, 20, topic=LONG)
        await live_through_failures(store, redriven_offset=4)
        await store.close()
        counted = counters(store)
    scope = Scope(FIRST, FIRST + 2 * DAY)
    lake, out = str(tmp_path / "lake"), str(tmp_path / "out")
    jobs = "throughput_hourly", "usage_daily", "retry_depth_daily", "dlq_daily"

    def reports(**how: Any) -> dict[str, list[Any]]:
        what = ReportRun(
            scope=scope, lake=lake, out=out, sources=(source(tmp_path / "s"),),
            ingest=IngestOptions(**how), jobs=jobs,
        )  # fmt: skip
        found = run(spark, what, now_ms=LATER_MS)
        assert [day["is_complete"] for day in found.ingested[MAIN_SHARD]] == [True, True]
        assert sum(day["row_count"] for day in found.ingested[MAIN_SHARD]) == len(log)
        return {name: sorted(map(str, report(name).collect())) for name in jobs}

    def report(name: str) -> DataFrame:
        return Dataset(spark, f"{out}/{name}", None).read(scope.dates())

    log = list(read_log(tmp_path / "s"))
    first = reports()
    assert offsets(spark, tmp_path / "lake", *scope.dates()) == [r.physical_offset for r in log]
    throughput = report("throughput_hourly")
    stored = throughput.groupBy("log_topic").agg(F.sum("stored_count")).collect()
    assert dict(map(tuple, stored)) == {name: count for name, count in counted.items() if count}
    by_hour: dict[tuple[str, int], int] = {}
    for record in log:
        key = record.topic, record.store_timestamp_ms // HOUR_MS * HOUR_MS
        by_hour[key] = by_hour.get(key, 0) + 1
    rows = throughput.select("log_topic", F.unix_millis("hour"), "stored_count")
    found: dict[tuple[str, int], int] = {}
    for topic, hour, count in map(tuple, rows.collect()):
        found[topic, hour] = found.get((topic, hour), 0) + count
    assert {key: count for key, count in found.items() if count} == by_hour
    assert {hour for _, hour in found} == {
        at("2026-01-05T00:00+00:00") + hour * HOUR_MS for hour in range(48)
    }
    usage = report("usage_daily")
    billed = usage.groupBy("tenant", "topic").agg(F.sum("message_count")).collect()
    assert {(row[0], row[1]): row[2] for row in billed} == {
        ("acme", "orders"): 20,
        ("globex", LONG.removeprefix("globex%")): 20,
    }
    retried = report("retry_depth_daily")
    assert (
        sorted(map(tuple, retried.drop("date").collect()))
        == [("acme", "billing", "orders", 1, 6)] * 2
    )
    letters = report("dlq_daily").orderBy("date")
    summary = [
        (row.topic, row.reason, row.message_count, row.redriven_count, row.is_new_reason)
        for row in letters.collect()
    ]
    assert summary == [("orders", "db down", 3, 1, True), ("orders", "db down", 3, 1, False)]
    assert reports(again=True) == first


@pytest.mark.torture
async def test_a_day_grows_until_it_is_over_and_keeps_what_retention_deletes(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    async with open_store(tmp_path / "s", START_MS) as store:
        make_topics(store)
        await put_orders(store, 120)  # more than a segment
        await store.store.checkpoint()
        await put_orders(store, 5)  # not checkpointed yet
        (day,) = ingest(spark, str(lake), [FIRST], source(tmp_path / "s"), now_ms=LATER_MS)
        assert (day["row_count"], day["is_complete"]) == (120, False)
        await put_orders(store, 40)
        await store.store.checkpoint()
        expected = [record.physical_offset for record in read_log(tmp_path / "s")]
        copy_store(tmp_path / "s", tmp_path / "cut")
    (head, *_) = sorted((tmp_path / "cut/commitlog").iterdir())
    head.unlink()
    (day,) = ingest(spark, str(lake), [FIRST], source(tmp_path / "cut"), now_ms=LATER_MS)
    assert day["is_complete"]
    assert offsets(spark, lake, FIRST) == expected
    # Who never saw the head of the day knows that something is missing.
    other = str(tmp_path / "other")
    (day,) = ingest(spark, other, [FIRST], source(tmp_path / "cut"), now_ms=LATER_MS)
    assert not day["is_complete"]
    assert 0 < day["row_count"] < len(expected)


async def test_a_damaged_record_is_left_out_and_its_range_is_shown(
    spark: SparkSession, tmp_path: Path
) -> None:
    async with open_store(tmp_path / "s", START_MS) as store:
        make_topics(store)
        await put_orders(store, 100)
    log = list(read_log(tmp_path / "s"))
    victim = log[70]
    name = max(
        path.name
        for path in (tmp_path / "s/commitlog").iterdir()
        if int(path.name) <= victim.physical_offset
    )
    path = tmp_path / "s/commitlog" / name
    content = bytearray(path.read_bytes())
    content[victim.physical_offset - int(name) + 89] ^= 1  # of its body
    path.write_bytes(bytes(content))

    ingest(spark, str(tmp_path / "lake"), [FIRST], source(tmp_path / "s"), now_ms=LATER_MS)

    rows = messages_table(spark, str(tmp_path / "lake"), MAIN_SHARD).read([FIRST])
    damaged = rows.where("kind = 'damaged'").select("physical_offset", "record_bytes").collect()
    assert list(map(tuple, damaged)) == [(victim.physical_offset, victim.record_bytes)]
    assert rows.where("kind = 'message'").count() == 99


@pytest.mark.torture
async def test_a_job_that_dies_before_it_publishes_leaves_the_old_day(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    async with open_store(tmp_path / "s", START_MS) as store:
        make_topics(store)
        await put_orders(store, 10)
    ingest(spark, str(lake), [FIRST], source(tmp_path / "s"), now_ms=LATER_MS)
    async with open_store(tmp_path / "s", START_MS + HOUR_MS) as store:
        await put_orders(store, 5)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Dataset, "_publish", die)
        with pytest.raises(KeyboardInterrupt):
            ingest(spark, str(lake), [FIRST], source(tmp_path / "s"), AGAIN, now_ms=LATER_MS)
    assert len(offsets(spark, lake, FIRST)) == 10
    assert len(list((lake / f"messages/date={FIRST}").iterdir())) == 2
    ingest(spark, str(lake), [FIRST], source(tmp_path / "s"), AGAIN, now_ms=LATER_MS)
    assert len(offsets(spark, lake, FIRST)) == 15
    versions = {path.name for path in (lake / f"messages/date={FIRST}").iterdir()}
    assert len(versions) == 2  # what died is gone; the version before stays for its readers


@pytest.mark.torture
async def test_days_of_a_zone_have_as_many_hours_as_its_clocks_show(
    spark: SparkSession, tmp_path: Path
) -> None:
    async with open_store(tmp_path / "s", at("2026-10-24T23:30+00:00")) as store:
        make_topics(store)
        for _ in range(3):  # 01:30, 02:30 twice in Berlin
            await put_orders(store, 5)
            store.clock.advance(HOUR_MS)
    scope = Scope(dt.date(2026, 10, 25), dt.date(2026, 10, 26), "Europe/Berlin")
    (log,) = sources = (source(tmp_path / "s"),)
    what = ReportRun(scope=scope, lake=str(tmp_path / "l"), out="", sources=sources)
    ingest(spark, what.lake, scope.utc_dates(), log, now_ms=at("2026-11-01T00:00+00:00"))

    rows = JOBS["throughput_hourly"].transform(read_frames(spark, what), scope).collect()

    assert len(rows) == 25
    assert {row.date for row in rows} == {dt.date(2026, 10, 25)}
    assert [row.stored_count for row in sorted(rows, key=lambda row: row.hour)][:4] == [0, 5, 5, 5]
    assert {row.log_topic for row in rows} == {ORDERS}


@pytest.mark.torture
async def test_a_day_has_all_shards_and_names_those_of_which_something_is_missing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The offsets of two stores are alike, and one's day says nothing of another's."""
    end_ms = at("2026-01-06T00:00+00:00")
    counts = {"main": 9, "s2": 5, "s3": 7}
    sources = {"s4": Source(shard="s4", store=None)}
    for shard, count in counts.items():
        async with open_store(tmp_path / shard, START_MS) as store:
            make_topics(store)
            await put_orders(store, count, topic=LONG if shard == "s2" else ORDERS)
        end_offset = find_extent(tmp_path / shard).end_offset
        # The last thing that is known of s3 is of before the day's end.
        as_of_ms = end_ms + (-1 if shard == "s3" else HOUR_MS)
        sources[shard] = Source(
            shard=shard, store=str(tmp_path / shard), end_offset=end_offset, as_of_ms=as_of_ms
        )

    def usage(*shards: Source) -> tuple[dict[str, bool], dict[str, int]]:
        what = ReportRun(
            scope=Scope(FIRST, FIRST + DAY), lake=str(tmp_path / "lake"),
            out=str(tmp_path / "out"), sources=shards, jobs=("usage_daily",),
        )  # fmt: skip
        done = run(spark, what, now_ms=LATER_MS)
        found = Dataset(spark, f"{what.out}/usage_daily", None).read([FIRST]).collect()
        complete = {name: days[0]["is_complete"] for name, days in done.ingested.items()}
        return complete, {row.tenant: row.message_count for row in found}

    complete, messages = usage(*sources.values())
    assert complete == {"main": True, "s2": True, "s3": False, "s4": False}
    assert messages == {"acme": counts["main"] + counts["s3"], "globex": counts["s2"]}
    # What cannot be read any more is what the lake has of it.
    again, messages_again = usage(*[Source(shard=name, store=None) for name in sources])
    assert (again, messages_again) == (complete, messages)
